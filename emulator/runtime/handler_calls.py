"""A call of a `scheduled` or `queue` handler in one gateway process: sent, followed to its end, read with care.

Knows neither queues nor triggers; the process says what its isolate said, which app code may have had a hand in.
"""

import json
from dataclasses import dataclass

from emulator.events import Ending, HandlerCall, HandlerEnd, NotStarted, OnPicked, Refusal
from emulator.runtime.gateway_process import GatewayEnded, GatewayProcess
from host.model.json import JsonValue

_LONGEST_ERROR = 1000
_GONE = "the process that ran it ended"


@dataclass(frozen=True, slots=True)
class Apart:
    """The weights gave a Version that is served by a process of its own; nothing of it has run."""

    version_uid: str


async def call_handler(process: GatewayProcess, call: HandlerCall, on_picked: OnPicked) -> HandlerEnd | Apart:
    """The end of the call in the process that picks. Raises `NotStarted`, and what `on_picked` raises.

    A process that ends takes the call with it: it is not made again, as nobody knows how far it got (WD-03).
    """
    picked: list[str] = []

    async def note(version_uid: str) -> None:
        picked.append(version_uid)
        await on_picked(version_uid)

    try:
        told = await process.call_handler(call.worker_uid, call.handler, call.event_text, note)
    except GatewayEnded:
        return HandlerEnd(Ending.LOST, picked[0] if picked else None, _GONE)
    match _json(told):
        case ["apart", str(uid)] if not picked:
            return Apart(uid)
        case end:
            return _read(end, picked[0] if picked else None)


async def run_handler(process: GatewayProcess, call: HandlerCall, version_uid: str) -> HandlerEnd:
    """The end of the call in the process that serves the Version which was picked for it."""
    try:
        told = await process.run_handler(version_uid, call.handler, call.event_text)
    except GatewayEnded:
        return HandlerEnd(Ending.LOST, version_uid, _GONE)
    return _read(_json(told), version_uid)


def _json(told: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(told)
    except ValueError:
        return None
    return value


def _read(end: JsonValue, version_uid: str | None) -> HandlerEnd:
    """`["returned"]`, `["threw", error]`, `["lost", why]`, or `["refused", why, version, declared]` from the kernel."""
    match end:
        case ["returned"]:
            return HandlerEnd(Ending.RETURNED, version_uid, None)
        case ["threw", str(error)]:
            return HandlerEnd(Ending.THREW, version_uid, error[:_LONGEST_ERROR])
        case ["lost", str(why)]:
            return HandlerEnd(Ending.LOST, version_uid, why[:_LONGEST_ERROR])
        case ["refused", str(why), None | str() as uid, [*declared]] if version_uid is None:
            raise NotStarted(Refusal(why), uid, tuple(map(str, declared)))
        case _:
            return HandlerEnd(Ending.LOST, version_uid, "the isolate gave no readable end")
