"""Runs a group of units of work in one commit; once a member fails, each in a savepoint of its own.

Owns what happens when a member fails or ends the transaction itself; knows nothing of queues or threads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from host.sqlite.confinement import ConfinedConnection
from host.sqlite.errors import ConstraintFailed, DatabaseError, translated
from host.sqlite.transaction import Transaction

Work: TypeAlias = Callable[[Transaction], Any]
IsCalledAway: TypeAlias = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Done:
    """The unit's value; its writes are durable."""

    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """The unit raised; none of its writes stands."""

    error: BaseException


Result: TypeAlias = Done | Failed


def run_group(
    connection: ConfinedConnection, works: Sequence[Work], is_called_away: IsCalledAway = lambda: False
) -> list[Result]:
    """Run `works` in order, in one commit. A result stands only when the commit has returned.

    As soon as it `is_called_away` it commits what it has: the results are then those of the first works, one at least.

    Savepoints cost as much as a small member, so the first attempt makes none: a member that raises undoes the whole
    group, and all run again, each in a savepoint. A member that ends the transaction (`OR ROLLBACK`) undoes what ran
    before it, and one that breaks a deferred constraint lets nobody commit: then every member runs again in a commit of
    its own. None is acknowledged twice and none is lost. A unit of work may therefore run more than once and must have
    no effect outside the database. One that raises an error whose `is_for_good` is true is not run again.
    """
    if len(works) > 1:
        for run_members in (_run_bare, _run_in_savepoints):
            try:
                return _run_together(connection, works, run_members, is_called_away)
            except _RaisedForGood as failure:
                works = [*works]
                works[failure.index] = _raising(failure.error)
            except (_NotTogether, ConstraintFailed):  # the latter by the commit: a deferred constraint of some member
                continue
            except DatabaseError as error:
                return [Failed(error) for _ in works]
    return [_run_alone(connection, work) for work in works]


class _NotTogether(Exception):
    """A member failed where nothing keeps it apart, or left no transaction behind."""


class _RaisedForGood(Exception):
    """The member at `index` raised what no second run would change."""

    def __init__(self, index: int, error: Exception) -> None:
        super().__init__(index)
        self.index = index
        self.error = error


def _raising(error: Exception) -> Work:
    """In place of a member that has had its turn."""

    def raise_again(transaction: Transaction) -> Any:
        raise error

    return raise_again


RunMembers: TypeAlias = Callable[[ConfinedConnection, Sequence[Work], IsCalledAway], list[Result]]


def _run_together(
    connection: ConfinedConnection, works: Sequence[Work], run_members: RunMembers, is_called_away: IsCalledAway
) -> list[Result]:
    with translated():
        connection.control("BEGIN IMMEDIATE")
    try:
        results = run_members(connection, works, is_called_away)
        with translated():
            connection.control("COMMIT")
    except BaseException:
        _roll_back(connection)
        raise
    return results


def _run_bare(connection: ConfinedConnection, works: Sequence[Work], is_called_away: IsCalledAway) -> list[Result]:
    transaction = Transaction(connection)
    results: list[Result] = []
    for index, work in enumerate(works):
        try:
            results.append(Done(work(transaction)))
        except Exception as error:
            if index == 0 or getattr(error, "is_for_good", False):  # the first saw nothing that may be undone
                raise _RaisedForGood(index, error) from error
            raise _NotTogether from error
        if not connection.in_transaction:
            raise _NotTogether
        if is_called_away():
            break
    return results


def _run_in_savepoints(
    connection: ConfinedConnection, works: Sequence[Work], is_called_away: IsCalledAway
) -> list[Result]:
    results: list[Result] = []
    for work in works:
        results.append(_run_member(connection, work))
        if is_called_away():
            break
    return results


def _run_member(connection: ConfinedConnection, work: Work) -> Result:
    with translated():
        connection.control("SAVEPOINT member")
    try:
        result: Result = Done(work(Transaction(connection)))
    except Exception as error:
        if not connection.in_transaction:
            raise _NotTogether from error
        with translated():
            connection.control("ROLLBACK TO member")
        result = Failed(error)
    if not connection.in_transaction:
        raise _NotTogether
    with translated():
        connection.control("RELEASE member")
    return result


def _run_alone(connection: ConfinedConnection, work: Work) -> Result:
    try:
        with translated():
            connection.control("BEGIN IMMEDIATE")
        value = work(Transaction(connection))
        with translated():
            connection.control("COMMIT")
    except Exception as error:
        _roll_back(connection)
        return Failed(error)
    return Done(value)


def run_read(connection: ConfinedConnection, work: Work) -> Any:
    """Run `work` on one snapshot of the committed state."""
    with translated():
        connection.control("BEGIN")
    try:
        return work(Transaction(connection))
    finally:
        _roll_back(connection)


def _roll_back(connection: ConfinedConnection) -> None:
    if connection.in_transaction:
        with translated():
            connection.control("ROLLBACK")
