"""Remembers whose contexts must have a process to themselves: they spun, or died with their process. Starts nothing."""

from typing import TypeVar

from emulator.contexts import ContextStart

_MOST_REMEMBERED = 10_000
Who = tuple[str, str, str]
Key = TypeVar("Key")


class Seclusion:
    """Instances by Worker, class and id, and whole codes by digest. What was remembered first is forgotten first, and a
    restart of the host forgets all: that costs those beside a spinner one more cut, which is no death of theirs."""

    def __init__(self, most: int = _MOST_REMEMBERED) -> None:
        self._most = most
        self._always: dict[Who, None] = {}
        self._once: dict[Who, None] = {}
        self._codes: dict[str | None, None] = {}

    def requires(self, start: ContextStart) -> bool:
        """Whether this context may share no process."""
        who = _who(start)
        return who in self._always or who in self._once or start.version.code_digest in self._codes

    def seclude(self, start: ContextStart) -> None:
        """Whatever runs for this instance runs alone from now on."""
        self._remember(self._always, _who(start))

    def seclude_once(self, start: ContextStart) -> None:
        """The instance runs alone until one of its contexts has ended in order: perhaps another one was to blame."""
        self._remember(self._once, _who(start))

    def seclude_code(self, start: ContextStart) -> None:
        """Contexts of this code run alone: to evaluate it keeps a process busy for too long."""
        self._remember(self._codes, start.version.code_digest)

    def release(self, start: ContextStart) -> None:
        """A context of the instance has ended in order."""
        self._once.pop(_who(start), None)

    def _remember(self, known: dict[Key, None], key: Key) -> None:
        known[key] = None
        if len(known) > self._most:
            del known[next(iter(known))]


def _who(start: ContextStart) -> Who:
    return (start.version.worker_uid, start.class_name, start.instance_id)
