"""The Host API without HTTP: mutations, reads, lists and the wait for a settlement.

Answers are for one principal; what belongs to another is answered like what does not exist (HA-23).
"""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from host.engine.acceptance import AFTER_COMMIT, Acceptance, Accepted, Request
from host.engine.cursors import Cursors
from host.engine.executor import Executor
from host.engine.limits import Limits
from host.engine.requests import DeleteResource, Mutation, fingerprint
from host.engine.waiters import Waiters
from host.forms.registry import FormRegistry
from host.model.errors import (
    CallerError,
    ErrorCode,
    HostApiError,
    HostError,
    RuntimeFault,
    dependency_conflict,
    not_found,
)
from host.model.faults import FaultPoints
from host.model.ids import Ids
from host.model.records import Operation, Principal, Resource, ResourceFilter
from host.model.time import Clock, RealTime
from host.ports import Backend, BackendError
from host.sqlite import Database, DatabaseBusy, Transaction
from host.store.keys import keep_secret
from host.store.operations import find_operation
from host.store.resources import find_resource, is_deleted, list_resources

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
        forms: FormRegistry,
        cursors: Cursors,
    ) -> None:
        self.limits = limits
        self._database = database
        self._clock = clock
        self._real_time = real_time
        self._ids = ids
        self._backend = backend
        self._faults = faults
        self._forms = forms
        self._cursors = cursors
        self._waiters = Waiters()
        self._acceptance = Acceptance(forms, faults)
        self._executor = Executor(database, clock, real_time, backend, forms, faults, limits, self._waiters)
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
        forms: FormRegistry | None = None,
    ) -> "Engine":
        """`database` is open at `host.store.schema.MIGRATIONS`; its owner closes it after the engine."""
        fresh = secrets.token_bytes(32)
        secret = await database.write(lambda tx: keep_secret(tx, _CURSOR_SECRET, fresh))
        forms = forms or FormRegistry.built_in()
        return cls(database, clock, real_time, ids, backend, faults, limits, forms, Cursors(secret))

    async def start(self) -> None:
        """Take up every unfinished Operation of an earlier host."""
        await self._executor.recover()

    async def close(self) -> None:
        await asyncio.gather(*self._accepting, return_exceptions=True)
        await self._executor.close()

    def support(self, form_url: str) -> Support:
        form = self._forms.get(form_url)
        return Support(False, ()) if form is None else Support(True, ("create", "read", "update", "delete"))

    async def mutate(self, principal: Principal, key: str, mutation: Mutation) -> Operation:
        """Accept the mutation, or find the Operation that the key stands for. Raises `HostApiError`.

        An acceptance goes on when the caller leaves: its Operation is scheduled in any case.
        """
        task = asyncio.create_task(self._accept(principal, key, mutation))
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)
        return await asyncio.shield(task)

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

        def look(tx: Transaction) -> tuple[Resource | None, bool]:
            return find_resource(tx, principal.id, uid), is_deleted(tx, principal.id, uid)

        found, was_deleted = await self._database.read(look)
        if found is not None:
            return found
        if was_deleted:
            raise CallerError(ErrorCode.GONE, "the Resource was deleted")
        raise not_found("Resource")

    async def operation(self, principal: Principal, operation_id: str) -> Operation:
        """Raises `not_found` (HA-43)."""
        found = await self._database.read(lambda tx: find_operation(tx, operation_id))
        if found is None or found.owner != principal.id:
            raise not_found("Operation")
        return found

    async def resources(
        self, principal: Principal, where: ResourceFilter, limit: int | None, cursor: str | None
    ) -> Page:
        """One page of a walk in order of uid; `limit` is within bounds already (HA-34)."""
        owner = principal.id
        after = "" if cursor is None else self._cursors.read(owner, where, cursor)
        size = limit or self.limits.max_page_size
        found = await self._database.read(lambda tx: list_resources(tx, owner, where, after, size + 1))
        items = found[:size]
        is_last = len(found) <= size
        return Page(items, None if is_last else self._cursors.write(owner, where, items[-1].uid))

    async def _accept(self, principal: Principal, key: str, mutation: Mutation) -> Operation:
        now = self._clock.now_ms()
        request = Request(
            owner=principal.id,
            key=key,
            fingerprint=fingerprint(mutation),
            mutation=mutation,
            operation_id=self._ids.fresh("op"),
            fresh_uid=self._ids.fresh("r"),
            at_ms=now,
            retain_until_ms=now + self.limits.replay_window_s * 1000,
            hindrance=await self._hindrance(principal, mutation),
        )
        accepted = await self._commit(request)
        try:
            if not accepted.is_replay:
                self._faults.reach(AFTER_COMMIT)
        finally:
            if not accepted.operation.status.is_terminal:
                self._executor.schedule(accepted.operation.id)
        return accepted.operation

    async def _commit(self, request: Request) -> Accepted:
        try:
            return await self._database.write(lambda tx: self._acceptance.accept(tx, request))
        except DatabaseBusy as error:
            raise HostError(
                ErrorCode.TEMPORARILY_UNAVAILABLE, "the control database is busy", log=str(error)
            ) from error

    async def _hindrance(self, principal: Principal, mutation: Mutation) -> HostApiError | None:
        """Asked before the transaction, answered inside it: the key and the rows come first (HA-52)."""
        if not isinstance(mutation, DeleteResource):
            return None
        found = await self._database.read(lambda tx: find_resource(tx, principal.id, mutation.uid))
        form = None if found is None else self._forms.get(found.form_url)
        if found is None or form is None:
            return None
        try:
            reason = await form.hindrance(found, self._backend)
        except BackendError as error:
            return RuntimeFault(ErrorCode.TEMPORARILY_UNAVAILABLE, "the runtime does not answer", log=str(error))
        return None if reason is None else dependency_conflict(reason)

    async def _operation(self, operation_id: str) -> Operation:
        found = await self._database.read(lambda tx: find_operation(tx, operation_id))
        assert found is not None, "an accepted Operation is kept"
        return found
