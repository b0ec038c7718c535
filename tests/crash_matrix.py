"""Kills the Host API at every fault point of every change of every Form, starts it again, asks again: a matrix.

`python -m tests.crash_matrix [--small]`. A cell is `ok` when the host died there and ended with one Operation, one
uid and the right outcome; `-` when the change does not pass that point; anything else fails the run.
"""

import shutil
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from host.engine import acceptance, executor
from host.engine.replenishment import AFTER_REPLENISH, BEFORE_REPLENISH
from host.model.faults import registered
from tests.host.api import VERSIONS, Api, Json
from tests.host.crash.lives import ACTIONS, KEY, REPLENISH, change, fork, prepare, target, waiting

RECOVERY = executor.AFTER_RECONCILING
POINTS = tuple(name for name in registered() if name.startswith("host."))
"""Every point of the Host API."""
CARRYING_OUT = {executor.AFTER_TAKE, executor.AFTER_BACKEND, executor.AFTER_SETTLE, RECOVERY}
ACCEPTING = {acceptance.BEFORE_COMMIT, acceptance.AFTER_COMMIT}
REPLENISHING = {BEFORE_REPLENISH, AFTER_REPLENISH}
CHANGES = (*((form, action) for form in VERSIONS for action in ACTIONS), ("WorkerVersion", REPLENISH))
"""Every change of every Form, and the private inputs given again to an Operation that waits for them (HA-62)."""


def passed_by(action: str) -> set[str]:
    """Points that the action does not get around."""
    return CARRYING_OUT | (REPLENISHING if action == REPLENISH else ACCEPTING)


class Matrix:
    """Works in a directory: a prepared state for each Form and action, copied for each cell."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[tuple[str, str], dict[str, str]] = {}

    def cell(self, form: str, action: str, point: str) -> str:
        """What became of one case: `ok`, `-`, or what is wrong."""
        place = self._directory / "case"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self._prepared(form, action), place)
        work = partial(change, form=form, action=action, known=self._known[form, action])
        first = executor.AFTER_TAKE if point == RECOVERY else point
        ended, _ = fork(place, first, work)
        if ended == 0 and point not in passed_by(action):
            return "-"
        if ended != -signal.SIGKILL:
            return f"ended with {ended}"
        if point == RECOVERY and fork(place, RECOVERY, work)[0] != -signal.SIGKILL:
            return "did not die in recovery"
        before = _operations(place)
        ended, operation = fork(place, None, work)
        return f"ended with {ended}" if ended else self._judge(place, form, action, before, operation)

    def _judge(self, place: Path, form: str, action: str, before: list[tuple[str, str]], operation: Json) -> str:
        after = _operations(place)
        if len(after) != 1 or (before and before != after) or after != [(operation["id"], operation["resourceUid"])]:
            return f"operations {before} became {after}"
        if (operation["status"], operation["effect"]) != ("succeeded", "complete"):
            return f"{operation['status']}, {operation['effect']}"
        if operation["generation"] != (1 if action in ("create", REPLENISH) else 2):
            return f"generation {operation['generation']}"
        sql = "SELECT generation, observed_generation, phase FROM resources WHERE uid = ?"
        found = _rows(place, sql, operation["resourceUid"])
        expected = [] if action == "delete" else [(operation["generation"], operation["generation"], "idle")]
        if found != expected:
            return f"the Resource is {found}"
        count = _rows(place, "SELECT count(*) FROM resources WHERE form_url LIKE ?", f"%/{form}/%")
        wanted = self._count(form, action)
        return "ok" if count == [(wanted,)] else f"{count} Resources of the Form, not {wanted}"

    def _prepared(self, form: str, action: str) -> Path:
        place = self._directory / f"{form}-{action}"
        if not place.exists():
            place.mkdir()

            async def work(api: Api) -> Json:
                known = await prepare(api)
                if action == REPLENISH:
                    known["operation"] = await waiting(api, form, known)
                elif action != "create":
                    known["target"] = await target(api, form, known)
                return dict(known)

            ended, known = fork(place, None, work)
            assert ended == 0, f"{form} could not be prepared for {action}"
            self._known[form, action] = known
        return place

    def _count(self, form: str, action: str) -> int:
        """Resources of the Form there must be in the end."""
        place = self._prepared(form, action)
        ((before,),) = _rows(place, "SELECT count(*) FROM resources WHERE form_url LIKE ?", f"%/{form}/%")
        return int(before) + {"create": 1, "update": 0, "delete": -1, REPLENISH: 0}[action]


def _operations(place: Path) -> list[tuple[str, str]]:
    """The Operations of the change's key, and their uids."""
    sql = (
        "SELECT o.id, o.resource_uid FROM operations o JOIN idempotency_keys k ON k.operation_id = o.id WHERE k.key = ?"
    )
    return [(str(identifier), str(uid)) for identifier, uid in _rows(place, sql, KEY)]


def _rows(place: Path, sql: str, value: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(place / "control.sqlite")
    try:
        return list(connection.execute(sql, (value,)))
    finally:
        connection.close()


def cases(is_small: bool) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Form, action and points; the small form takes one point for each Form and action, all of them in turn."""
    chosen = sorted(CARRYING_OUT | ACCEPTING)
    for number, (form, action) in enumerate(CHANGES):
        few = tuple(sorted(REPLENISHING)) if action == REPLENISH else (chosen[number % len(chosen)],)
        yield form, action, few if is_small else POINTS


def main(is_small: bool) -> int:
    """Print the matrix; 0 when every cell is right."""
    width = max(map(len, POINTS))
    wrong = died = 0
    with tempfile.TemporaryDirectory(prefix="crash-matrix-") as name:
        matrix = Matrix(Path(name))
        for form, action, points in cases(is_small):
            print(f"\n{form} {action}", flush=True)
            for point in points:
                found = matrix.cell(form, action, point)
                wrong += found not in ("ok", "-")
                died += found == "ok"
                print(f"  {point:<{width}}  {found}", flush=True)
    print(f"\n{died} kills survived, {wrong} wrong")
    return 1 if wrong or not died else 0


if __name__ == "__main__":
    sys.exit(main("--small" in sys.argv[1:]))
