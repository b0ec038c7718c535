"""Runs a group of units of work in one commit, each in a savepoint of its own.

Owns what happens when a member fails or ends the transaction itself; knows nothing of queues or threads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from host.sqlite.confinement import ConfinedConnection
from host.sqlite.errors import DatabaseError, translated
from host.sqlite.transaction import Transaction

Work: TypeAlias = Callable[[Transaction], Any]


@dataclass(frozen=True, slots=True)
class Done:
    """The unit's value; its writes are durable."""

    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """The unit raised; none of its writes stands."""

    error: BaseException


Result: TypeAlias = Done | Failed


def run_group(connection: ConfinedConnection, works: Sequence[Work]) -> list[Result]:
    """Run `works` in order, in one commit. A result stands only when the commit has returned.

    A member that ends the transaction (`OR ROLLBACK`) undoes what ran before it, so then every member runs again
    in a commit of its own: none is acknowledged twice and none is lost. A unit of work may therefore run twice and
    must have no effect outside the database.
    """
    if len(works) == 1:
        return [_run_alone(connection, works[0])]
    try:
        results = _run_together(connection, works)
    except _TransactionEnded:
        return [_run_alone(connection, work) for work in works]
    except DatabaseError as error:
        return [Failed(error) for _ in works]
    return results


class _TransactionEnded(Exception):
    """A member left no transaction behind."""


def _run_together(connection: ConfinedConnection, works: Sequence[Work]) -> list[Result]:
    with translated():
        connection.control("BEGIN IMMEDIATE")
    try:
        results = [_run_member(connection, work) for work in works]
        with translated():
            connection.control("COMMIT")
    except BaseException:
        _roll_back(connection)
        raise
    return results


def _run_member(connection: ConfinedConnection, work: Work) -> Result:
    with translated():
        connection.control("SAVEPOINT member")
    try:
        result: Result = Done(work(Transaction(connection)))
    except Exception as error:
        if not connection.in_transaction:
            raise _TransactionEnded from error
        with translated():
            connection.control("ROLLBACK TO member")
        result = Failed(error)
    if not connection.in_transaction:
        raise _TransactionEnded
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
