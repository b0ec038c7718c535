"""The Host API without HTTP: mutations, reads, lists and the wait for a settlement.

Answers are for one principal; what belongs to another is answered like what does not exist (HA-23).
"""

import asyncio
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from host.engine.acceptance import AFTER_COMMIT, Acceptance, Accepted, Request
from host.engine.admission import Admission
from host.engine.authority import changeable_target, readable_operation, readable_resource
from host.engine.checks import Checks
from host.engine.cursors import Cursors
from host.engine.executor import Executor
from host.engine.keeping import Keeping
from host.engine.limits import EVERYTHING, Capabilities, Limits
from host.engine.losses import Losses, Lost
from host.engine.replenishment import AFTER_REPLENISH, replenish
from host.engine.requests import CreateResource, DeleteResource, Mutation
from host.engine.settlement import settle_by_operator
from host.engine.vault import Vault
from host.engine.waiters import Waiters
from host.forms.registry import FormRegistry
from host.model.errors import (
    CallerError,
    ErrorCode,
    HostApiError,
    HostError,
    RuntimeFault,
    dependency_conflict,
)
from host.model.faults import FaultPoints
from host.model.ids import Ids
from host.model.json import JsonObject
from host.model.operation_states import Effect, Status
from host.model.private_inputs import PrivateInputs
from host.model.private_keys import PrivateKeys
from host.model.records import Operation, Principal, Resource, ResourceFilter, Right
from host.model.room import NO_ROOM
from host.model.time import Clock, RealTime
from host.ports import Backend, BackendError
from host.sqlite import Database, DatabaseBusy, DatabaseFull, Transaction
from host.store.keys import keep_secret
from host.store.operations import find_operation
from host.store.resources import find_resource, list_resources

T = TypeVar("T")

_CURSOR_SECRET = "cursor"  # noqa: S105 - the name of a row


@dataclass(frozen=True, slots=True)
class Page:
    """`next_cursor` is `None` at the end of the walk."""

    items: Sequence[Resource]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Support:
    """What the host can do with a Form (HA-24)."""

    is_supported: bool
    actions: tuple[str, ...]
    takes_private_inputs: bool = False


_NOT_SAID_BY_A_PREVIEW = frozenset(
    {ErrorCode.INVALID_REQUEST, ErrorCode.NOT_FOUND, ErrorCode.GONE, ErrorCode.FORBIDDEN, ErrorCode.UNAUTHENTICATED}
)
"""Refusals that a preview gets like any other request (HA-70)."""


class Engine:
    """Open with `Engine.open`, then `start`; `close` leaves unfinished Operations to the next start."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        real_time: RealTime,
        ids: Ids,
        backend: Backend,
        faults: FaultPoints,
        limits: Limits,
        capabilities: Capabilities,
        forms: FormRegistry,
        vault: Vault,
        cursors: Cursors,
    ) -> None:
        self.limits = limits
        self.capabilities = capabilities
        self._database = database
        self._clock = clock
        self._real_time = real_time
        self._ids = ids
        self._backend = backend
        self._faults = faults
        self._forms = forms
        self._cursors = cursors
        self._vault = vault
        self._waiters = Waiters()
        self._checks = Checks(forms, capabilities, vault)
        self._admission = Admission(limits)
        self._acceptance = Acceptance(self._checks, self._admission, vault, faults)
        self._losses = Losses(database, clock, backend, forms, faults)
        self._executor = Executor(
            database, clock, real_time, backend, forms, faults, limits, vault, self._losses, self._waiters
        )
        self._keeping = Keeping(database, clock, limits)
        self._accepting: set[asyncio.Task[Operation]] = set()

    @classmethod
    async def open(
        cls,
        database: Database,
        clock: Clock,
        real_time: RealTime,
        ids: Ids,
        backend: Backend,
        faults: FaultPoints,
        limits: Limits,
        keys: PrivateKeys,
        capabilities: Capabilities = EVERYTHING,
        forms: FormRegistry | None = None,
    ) -> "Engine":
        """`database` is open at `host.store.schema.MIGRATIONS`; its owner closes it after the engine."""
        fresh = secrets.token_bytes(32)
        secret = await database.write(lambda tx: keep_secret(tx, _CURSOR_SECRET, fresh))
        forms = forms or FormRegistry.built_in()
        vault, cursors = Vault(keys, limits.private_value_s), Cursors(secret, limits.cursor_window_s)
        return cls(database, clock, real_time, ids, backend, faults, limits, capabilities, forms, vault, cursors)

    async def start(self) -> Lost:
        """Find out what was lost meanwhile, then take up every unfinished Operation of an earlier host.

        Returns what Versions are without (WV-12, WB-11).
        """
        lost = await self._losses.look()
        await self._losses.catch_up()
        await self._executor.recover()
        self._keeping.start()
        return lost

    async def look_for_losses(self) -> Lost:
        """Find out what is lost now, and show it; reads every held file's size, and whole those that were met lost."""
        return await self._losses.look()

    def stop_accepting(self) -> None:
        """Refuse new mutations from now on; replays and reads are answered until `close` (HA-14)."""
        self._admission.close()

    async def close(self) -> None:
        self.stop_accepting()
        await self._keeping.close()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        await self._executor.close()

    def support(self, form_url: str) -> Support:
        form = self._forms.get(form_url)
        if form is None:
            return Support(False, ())
        takes_private_inputs = form.defines_private_inputs and self.capabilities.private_inputs
        return Support(True, ("create", "read", "update", "delete"), takes_private_inputs)

    async def sweep(self) -> None:
        """Forget now what is past its retention (HA-54); it happens by itself as time goes on."""
        await self._keeping.sweep()

    async def mutate(self, principal: Principal, key: str, mutation: Mutation) -> Operation:
        """Accept the mutation, or find the Operation that the key stands for. Raises `HostApiError`.

        An acceptance goes on when the caller leaves: its Operation is scheduled in any case.
        """
        task = asyncio.create_task(self._accept(principal, key, mutation))
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)
        return await asyncio.shield(task)

    async def preview(self, principal: Principal, mutation: Mutation) -> HostApiError | None:
        """What the mutation would be refused with; reads and leaves nothing behind (HA-70, HA-71).

        Raises `HostApiError` for what no preview says: a target that is not there, missing authority.
        """

        def check(tx: Transaction) -> None:
            target = changeable_target(tx, principal, mutation)
            self._checks.plan(tx, principal, mutation, target, hindrance)

        hindrance = await self._hindrance(principal, mutation)
        try:
            await self._read(check)
        except CallerError as error:
            if error.code in _NOT_SAID_BY_A_PREVIEW:
                raise
            return error
        return None

    async def replenish(self, principal: Principal, operation_id: str, inputs: PrivateInputs) -> Operation:
        """Give an Operation the private inputs of its request again (HA-62). Raises `HostApiError`."""
        task = asyncio.create_task(self._replenish(principal, operation_id, inputs))
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)
        return await asyncio.shield(task)

    async def settle(self, operation_id: str, effect: Effect, message: str) -> Operation | None:
        """End a reconciling Operation as an operator says (HA-46); `None` when there is none that reconciles now.

        `effect` is none or partial, `message` is shown to the caller. Raises `IllegalTransition`.
        """
        now = self._clock.now_ms()
        until = self.limits.retained_until(now)
        settled = await self._database.write(
            lambda tx: settle_by_operator(tx, operation_id, effect, message, self._forms, now, until)
        )
        await self._losses.catch_up()
        return settled

    async def wait_for_settlement(self, operation: Operation) -> Operation:
        """The Operation as it stands when it has settled, or after `limits.settle_wait_s` of real time."""
        if operation.status.is_terminal:
            return operation
        with self._waiters.watching(operation.id) as settled:
            current = await self._operation(operation.id)
            if not current.status.is_terminal:
                pause = asyncio.ensure_future(self._real_time.sleep_s(self.limits.settle_wait_s))
                try:
                    await asyncio.wait((settled, pause), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    pause.cancel()
        return await self._operation(operation.id)

    async def resource(self, principal: Principal, uid: str) -> Resource:
        """Raises `not_found`, or `gone` for one that this principal deleted (HA-33)."""
        return await self._read(lambda tx: readable_resource(tx, principal, uid))

    async def operation(self, principal: Principal, operation_id: str) -> Operation:
        """Raises `not_found` (HA-43)."""
        return await self._read(lambda tx: readable_operation(tx, principal, operation_id))

    async def resources(
        self, principal: Principal, where: ResourceFilter, limit: int | None, cursor: str | None
    ) -> Page:
        """One page of a walk in order of uid; `limit` is within bounds already (HA-34)."""
        owner, now = principal.id, self._clock.now_ms()
        after = "" if cursor is None else self._cursors.read(owner, where, cursor, now)
        size = limit or self.limits.max_page_size

        def look(tx: Transaction) -> list[Resource]:
            """A walk per Space for a principal that may read only some; then the first of them all."""
            parts = [list_resources(tx, owner, part, after, size + 1) for part in readable_parts(principal, where)]
            return sorted((each for part in parts for each in part), key=lambda each: each.uid)

        found = await self._read(look)
        items = found[:size]
        is_last = len(found) <= size
        return Page(items, None if is_last else self._cursors.write(owner, where, items[-1].uid, now))

    async def _accept(self, principal: Principal, key: str, mutation: Mutation) -> Operation:
        now = self._clock.now_ms()
        fresh_uid = self._ids.fresh("r")
        request = Request(
            principal=principal,
            key=key,
            fingerprint=mutation.fingerprint,
            mutation=mutation,
            operation_id=self._ids.fresh("op"),
            fresh_uid=fresh_uid,
            at_ms=now,
            retain_until_ms=self.limits.retained_until(now),
            hindrance=await self._hindrance(principal, mutation),
            fresh_output=self._fresh_output(mutation, fresh_uid),
        )
        accepted: Accepted = await self._commit(lambda tx: self._acceptance.accept(tx, request))
        try:
            if not accepted.is_replay:
                self._faults.reach(AFTER_COMMIT)
        finally:
            if not accepted.operation.status.is_terminal:
                self._executor.schedule(accepted.operation.id)
        return accepted.operation

    def _fresh_output(self, mutation: Mutation, fresh_uid: str) -> JsonObject:
        """Made like the uid, before the transaction; it counts for nothing unless a create is accepted."""
        if not isinstance(mutation, CreateResource):
            return {}
        form = self._forms.get(mutation.form_url)
        return {} if form is None else form.assign(fresh_uid, mutation.name, self._backend)

    async def _replenish(self, principal: Principal, operation_id: str, inputs: PrivateInputs) -> Operation:
        now = self._clock.now_ms()
        operation = await self._commit(
            lambda tx: replenish(tx, principal, operation_id, inputs, self._vault, now, self._faults)
        )
        try:
            self._faults.reach(AFTER_REPLENISH)
        finally:
            if operation.status is Status.QUEUED:
                self._executor.schedule(operation.id)
        return operation

    async def _commit(self, work: Callable[[Transaction], T]) -> T:
        with _worth_a_retry():
            return await self._database.write(work)

    async def _read(self, work: Callable[[Transaction], T]) -> T:
        with _worth_a_retry():
            return await self._database.read(work)

    async def _hindrance(self, principal: Principal, mutation: Mutation) -> HostApiError | None:
        """Asked before the transaction, answered inside it: the key and the rows come first (HA-52)."""
        if not isinstance(mutation, DeleteResource):
            return None
        found = await self._read(lambda tx: find_resource(tx, principal.id, mutation.uid))
        form = None if found is None else self._forms.get(found.form_url)
        if found is None or form is None:
            return None
        try:
            reason = await form.hindrance(found, self._backend)
        except BackendError as error:
            return RuntimeFault(ErrorCode.TEMPORARILY_UNAVAILABLE, "the runtime does not answer", log=str(error))
        return None if reason is None else dependency_conflict(reason)

    async def _operation(self, operation_id: str) -> Operation:
        found = await self._read(lambda tx: find_operation(tx, operation_id))
        assert found is not None, "an accepted Operation is kept"
        return found


@contextmanager
def _worth_a_retry() -> Iterator[None]:
    """Another process that keeps the database to itself is no failure of this host, nor is a full disk (HA-14)."""
    try:
        yield
    except DatabaseBusy as error:
        detail = "the control database is busy"
        raise HostError(ErrorCode.TEMPORARILY_UNAVAILABLE, detail, log=str(error)) from error
    except DatabaseFull as error:
        detail = f"{NO_ROOM}: send the same request with the same key once there is room"
        raise HostError(ErrorCode.TEMPORARILY_UNAVAILABLE, detail, log=str(error)) from error


def readable_parts(principal: Principal, where: ResourceFilter) -> list[ResourceFilter]:
    """The filters of the walks that together show what the principal may read of `where` (HA-23)."""
    if Right.READ not in principal.rights:
        return []
    if principal.spaces is None:
        return [where]
    wanted = principal.spaces if where.space is None else principal.spaces & {where.space}
    return [replace(where, space=space) for space in sorted(wanted)]
