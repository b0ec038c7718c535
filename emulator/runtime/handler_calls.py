"""A call of a `scheduled` or `queue` handler in one gateway process: sent, followed to its end, read with care.

Knows neither queues nor triggers; the process says what its isolate said, which app code may have had a hand in.
"""

import json

from emulator.events import Ending, HandlerCall, HandlerEnd, NotStarted, OnPicked, Refusal
from emulator.runtime.gateway_process import GatewayEnded, GatewayProcess

_LONGEST_ERROR = 1000


async def call_handler(process: GatewayProcess, call: HandlerCall, on_picked: OnPicked) -> HandlerEnd:
    """The end of the call. Raises `NotStarted`, and what `on_picked` raises.

    A process that ends takes the call with it: it is not made again, as nobody knows how far it got (WD-03).
    """
    picked: list[str] = []

    async def note(version_uid: str) -> None:
        picked.append(version_uid)
        await on_picked(version_uid)

    try:
        told = await process.call_handler(call.worker_uid, call.handler, call.event_text, note)
    except GatewayEnded:
        return HandlerEnd(Ending.LOST, picked[0] if picked else None, "the process that ran it ended")
    return _read(told, picked[0] if picked else None)


def _read(told: str, version_uid: str | None) -> HandlerEnd:
    """`["returned"]`, `["threw", error]`, `["lost", why]`, or `["refused", why, version]` from the kernel."""
    try:
        end = json.loads(told)
    except ValueError:
        end = None
    match end:
        case ["returned"]:
            return HandlerEnd(Ending.RETURNED, version_uid, None)
        case ["threw", str(error)]:
            return HandlerEnd(Ending.THREW, version_uid, error[:_LONGEST_ERROR])
        case ["lost", str(why)]:
            return HandlerEnd(Ending.LOST, version_uid, why[:_LONGEST_ERROR])
        case ["refused", str(why), None | str() as uid] if version_uid is None:
            raise NotStarted(Refusal(why), uid)
        case _:
            return HandlerEnd(Ending.LOST, version_uid, "the isolate gave no readable end")
