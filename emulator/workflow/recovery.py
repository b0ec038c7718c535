"""Start-up: owners of an earlier host are fenced, their ends proven and recorded, half-done intents completed.

No instance is settled for having been silent: it is replayed (RS-21). Runs before anything is admitted or claimed, so
it never takes a new instance for a lost one.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from emulator.contexts import StopEvidence
from emulator.d1 import Statement
from emulator.runstore.address import RunAddress
from emulator.workflow import context_rows, due, parking, transitions
from emulator.workflow.executions import Executions
from emulator.workflow.surroundings import FENCED, RECOVERED, Surroundings, logger
from host.model.time import timestamp

_LOOK_AGAIN_S = 0.2


@dataclass(frozen=True, slots=True)
class LostContext:
    """A context that an earlier host did not see stop; `pid` is None when no process was recorded for it."""

    context_id: str
    pid: int | None
    process_started: str


class Orphan:
    """A process of an earlier host that is still there: its instance waits until it is proven gone (DW-39)."""

    def __init__(self, surroundings: Surroundings, address: RunAddress, lost: Sequence[LostContext]) -> None:
        self.address = address
        self.context_id = self.version_uid = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._around = surroundings
        self._lost = lost
        self.ending = asyncio.create_task(self._end(), name=f"orphan of {address.run_id!r}")

    def end(self, ending: str) -> Awaitable[None]:
        """It is being ended in any case: this waits."""
        return asyncio.shield(self.ended)

    async def _end(self) -> None:
        try:
            proofs = [(context, await self._prove(context)) for context in self._lost]
            await self._around.insist(ends_of(self._around, self.address, proofs))
        finally:
            if not self.ended.done():
                self.ended.set_result(None)

    async def _prove(self, lost: LostContext) -> StopEvidence | None:
        while lost.pid is not None and is_acting(self._around, lost):
            try:
                return await self._around.runners.end_lost(lost.pid, lost.process_started)
            except Exception as error:
                logger.warning("process %d of an earlier host cannot be ended: %s", lost.pid, error)
                await self._around.real_time.sleep_s(_LOOK_AGAIN_S)
        return proof_of_absence(self._around, lost)


def is_acting(surroundings: Surroundings, lost: LostContext) -> bool:
    """Whether the very process that held the context still lives."""
    return lost.pid is not None and surroundings.is_alive(lost.pid, lost.process_started)


def proof_of_absence(surroundings: Surroundings, lost: LostContext) -> StopEvidence | None:
    """Evidence for a process that was looked for and not found; none when no process was ever recorded."""
    if lost.pid is None:
        return None
    at = timestamp(surroundings.clock.now_ms())
    return StopEvidence(lost.pid, lost.process_started, "lost_host", None, at)


def ends_of(
    surroundings: Surroundings, address: RunAddress, proofs: Sequence[tuple[LostContext, StopEvidence | None]]
) -> list[Statement]:
    """Record that these contexts act no more, and publish what their instance was to become."""
    at = timestamp(surroundings.clock.now_ms())
    return [
        *(context_rows.record_stop(lost.context_id, proof, at, "host lost") for lost, proof in proofs),
        *parking.publication(surroundings, address),
    ]


async def recover(surroundings: Surroundings, executions: Executions) -> None:
    """Bring what an earlier host left into a state from which it goes on."""
    now_ms = surroundings.clock.now_ms()
    await surroundings.insist([transitions.fence_lost(surroundings.ids(), now_ms)])
    surroundings.faults.reach(FENCED)
    lost, fenced = await _left_behind(surroundings)
    writes = []
    for address in {**dict.fromkeys(fenced), **lost}:
        contexts = lost.get(address, [])
        if any(is_acting(surroundings, context) for context in contexts):
            logger.warning("instance %r waits for a process of an earlier host to end", address.run_id)
            executions.add(Orphan(surroundings, address, contexts))
        else:
            proofs = [(context, proof_of_absence(surroundings, context)) for context in contexts]
            writes.append(surroundings.insist(ends_of(surroundings, address, proofs)))
    await asyncio.gather(*writes)
    surroundings.faults.reach(RECOVERED)
    await _compare_due(surroundings)


async def _left_behind(
    surroundings: Surroundings,
) -> tuple[dict[RunAddress, list[LostContext]], list[RunAddress]]:
    """Contexts without stop evidence by instance, and the instances that carry an intent."""
    contexts, fenced = await surroundings.database.query([context_rows.select_unproven(), transitions.select_fenced()])
    lost: defaultdict[RunAddress, list[LostContext]] = defaultdict(list)
    for context_id, workflow_id, run_id, pid, started in contexts.rows:
        assert pid is None or isinstance(pid, int)
        context = LostContext(str(context_id), pid, str(started or ""))
        lost[RunAddress(str(workflow_id), str(run_id))].append(context)
    return lost, [RunAddress(str(workflow_id), str(run_id)) for workflow_id, run_id in fenced.rows]


async def _compare_due(surroundings: Surroundings) -> None:
    """The index is derived: a difference is a defect of ours, told in the log and mended."""
    [differences] = await surroundings.database.query([due.select_differences()])
    for _, run_id, stored, derived in differences.rows:
        logger.error("due index: instance %r has %s, its history says %s", run_id, stored, derived)
    if differences.rows:
        await surroundings.insist(due.rebuild())
