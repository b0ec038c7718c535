"""Bodies that several tests run, and effects that count."""

from collections import Counter
from collections.abc import Awaitable, Callable

from tests.emulator.workflow.isolates import Document, Step

Effect = Callable[[], Awaitable[Document]]


class Effects:
    """Counts effects by name; `failures` says how often one fails before it succeeds."""

    def __init__(self, **failures: int) -> None:
        self.runs: Counter[str] = Counter()
        self._failures = failures

    def of(self, name: str, result: Document = None) -> Effect:
        async def effect() -> Document:
            self.runs[name] += 1
            if self.runs[name] <= self._failures.get(name, 0):
                raise RuntimeError(f"{name} failed {self.runs[name]}")
            return result

        return effect


async def waits_for_go(params: Document, step: Step) -> Document:
    return {"got": (await step.wait("go", "go", 60) or {}).get("n")}


async def never_ends(params: Document, step: Step) -> Document:
    await step.do("endless", _hang)
    return None


async def _hang() -> Document:
    from asyncio import Event

    await Event().wait()
    return None
