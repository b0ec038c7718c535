"""Which Versions held up or ended the process they shared: how often in the last minute, and whether that is certain.

A pure ledger over instants of real time; starts and ends nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

WINDOW_S = 60.0
"""So long a suspect is served by a process of its own, and so far back its incidents count."""
CONVICTED_AFTER = 3


@dataclass(slots=True)
class _Record:
    incidents: list[float] = field(default_factory=list)
    is_convicted: bool = False


class Offenders:
    """Every suspect of an incident is set apart at once: alone in a process it cannot be taken for another one. When
    its third incident within a minute happens there, it stays apart until it is forgotten."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def note(self, version_uid: str, now_s: float, is_alone: bool) -> bool:
        """The Version may have been the cause of an incident, and was when it was alone in its process; whether it is
        apart for good by now."""
        record = self._records.setdefault(version_uid, _Record())
        record.incidents = [at for at in record.incidents if now_s - at < WINDOW_S] + [now_s]
        if is_alone and len(record.incidents) >= CONVICTED_AFTER:
            record.is_convicted = True
        return record.is_convicted

    def apart(self, now_s: float) -> frozenset[str]:
        """The Versions to serve by a process of their own."""
        return frozenset(uid for uid, record in self._records.items() if _is_apart(record, now_s))

    def next_release_s(self, now_s: float) -> float | None:
        """When the next one may be among the others again."""
        waiting = [r.incidents[-1] + WINDOW_S for r in self._records.values() if not r.is_convicted]
        return min((at for at in waiting if at > now_s), default=None)

    def forget(self, version_uids: Iterable[str]) -> None:
        """They were deployed anew or take no new requests."""
        for uid in version_uids:
            self._records.pop(uid, None)


def _is_apart(record: _Record, now_s: float) -> bool:
    return record.is_convicted or now_s - record.incidents[-1] < WINDOW_S
