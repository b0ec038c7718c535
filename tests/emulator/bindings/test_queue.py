"""Batches handed to a scripted handler, on a real database: what is settled, by whom, and that it is settled once."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from emulator.bindings.queue import KEPT_BATCHES, Delivered, Deliveries, RowLedger
from emulator.compose.stored import EMULATOR_MIGRATIONS
from emulator.contexts import BindingCall
from emulator.d1 import Database, FileDriver
from emulator.events import Batch, Ending, EventRefused, HandlerCall, HandlerEnd, Message, NotStarted, OnPicked, Refusal
from emulator.workflow import APPLICATION_ID
from host import sqlite
from host.model.faults import FaultAction, FaultPoints, InjectedFault
from host.model.json import JsonValue
from host.model.time import ControlledClock
from host.ports import BackendUnavailable

Code = Callable[["Shop", str], Awaitable[None]]


class Shop:
    """Deliveries on a file, and a handler whose code a test gives: it gets the shop and the id of its delivery."""

    def __init__(self, file: sqlite.Database) -> None:
        self.file = file
        self.clock = ControlledClock.frozen(1000)
        self.faults = FaultPoints()
        self.ledger = RowLedger(Database(FileDriver(file)))
        self.deliveries = Deliveries(self, self.ledger, self.clock, self.next_id, self.faults)
        self.events: list[JsonValue] = []
        self.end = HandlerEnd(Ending.RETURNED, "v1", None)
        self.refused: Exception | None = None
        self.code: Code | None = None
        self._count = 0

    def next_id(self) -> str:
        self._count += 1
        return f"d-{self._count}"

    async def call_handler(self, call: HandlerCall, on_picked: OnPicked) -> HandlerEnd:
        event = json.loads(call.event_text)
        self.events.append(event)
        if self.refused is not None:
            raise self.refused
        await on_picked("v1")
        if self.code is not None:
            await self.code(self, event[0])
        return self.end

    async def settle(self, *body: JsonValue, version: str = "v1") -> str:
        """`ok`, or the name of the error."""
        call = BindingCall(version, "batch", "batch", "w", None, json.dumps(body))
        reply = json.loads(await self.deliveries.answer(call))
        return str(reply[0] if reply[0] == "ok" else reply[1])

    async def deliver(self, *ids: str, code: Code | None = None, delay_s: int = 30) -> Delivered:
        self.code = code
        messages = tuple(Message(each, each.encode(), 7, 1) for each in ids)
        return await self.deliveries.deliver("w", Batch("batch-1", "orders", messages, delay_s))


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    file = await sqlite.Database.open(
        tmp_path / "e.sqlite", application_id=APPLICATION_ID, migrations=EMULATOR_MIGRATIONS
    )
    opened = Shop(file)
    yield opened
    await opened.deliveries.close()
    await file.close()


def fates(delivered: Delivered) -> list[tuple[str, str, int | None, str] | None]:
    return [
        None if each is None else (name, each.kind.value, each.delay_s, each.way.value)
        for name, each in delivered.messages
    ]


@pytest.mark.req("MW-19")
@pytest.mark.parametrize(
    ("ending", "rest"),
    [
        (Ending.RETURNED, ("acknowledged", None, "return")),
        (Ending.THREW, ("retry", 30, "throw")),
        (Ending.LOST, ("retry", 30, "lost")),
    ],
)
async def test_the_end_of_the_handler_settles_the_rest_and_nothing_else(
    shop: Shop, ending: Ending, rest: tuple[str, int | None, str]
) -> None:
    async def code(shop: Shop, delivery: str) -> None:
        assert await shop.settle("acknowledge", delivery, "a", None) == "ok"
        assert await shop.settle("retry", delivery, "b", 0) == "ok"
        assert await shop.settle("retry", delivery, "c", None) == "ok"

    shop.end = HandlerEnd(ending, "v1", None if ending is Ending.RETURNED else "why")
    delivered = await shop.deliver("a", "b", "c", "d", code=code)
    assert delivered.end == shop.end
    assert fates(delivered) == [
        ("a", "acknowledged", None, "explicit"),
        ("b", "retry", 0, "explicit"),
        ("c", "retry", 30, "explicit"),
        ("d", *rest),
    ]
    assert list(await shop.ledger.of_worker("w")) == [delivered]


@pytest.mark.req("MW-19")
@pytest.mark.parametrize(
    ("verb", "fate"),
    [("acknowledgeAll", ("acknowledged", None, "explicit")), ("retryAll", ("retry", 5, "explicit"))],
)
async def test_the_all_forms_touch_unsettled_messages_only(
    shop: Shop, verb: str, fate: tuple[str, int | None, str]
) -> None:
    async def code(shop: Shop, delivery: str) -> None:
        await shop.settle("acknowledge", delivery, "a", None)
        await shop.settle("retry", delivery, "b", 9)
        delay = 5 if verb == "retryAll" else None
        assert await shop.settle(verb, delivery, None, delay) == "ok"
        assert await shop.settle("retryAll", delivery, None, 8) == "ok"
        assert await shop.settle("acknowledgeAll", delivery, None, None) == "ok"

    delivered = await shop.deliver("a", "b", "c", code=code)
    assert fates(delivered) == [("a", "acknowledged", None, "explicit"), ("b", "retry", 9, "explicit"), ("c", *fate)]


@pytest.mark.req("MW-19")
async def test_a_message_is_settled_once_also_by_two_at_a_time(shop: Shop) -> None:
    answers: list[str] = []

    async def code(shop: Shop, delivery: str) -> None:
        calls = [shop.settle(*each) for each in [("acknowledge", delivery, "a", None), ("retry", delivery, "a", 1)] * 5]
        answers.extend(await asyncio.gather(*calls))

    delivered = await shop.deliver("a", code=code)
    assert answers == ["ok"] + ["already_settled"] * 9
    assert fates(delivered) == [("a", "acknowledged", None, "explicit")]


@pytest.mark.req("MW-19")
async def test_what_is_not_the_handlers_own_is_unknown(shop: Shop) -> None:
    answers: list[str] = []

    async def code(shop: Shop, delivery: str) -> None:
        answers.append(await shop.settle("acknowledge", delivery, "a", None, version="v2"))
        answers.append(await shop.settle("acknowledge", "d-9", "a", None))
        answers.append(await shop.settle("acknowledge", delivery, "z", None))
        answers.append(await shop.settle("retry", delivery, None, 1))
        answers.append(await shop.settle("retry", delivery, "a", 43_201))
        answers.append(await shop.settle("retry", delivery, "a", True))
        answers.append(await shop.settle("forget", delivery, "a", None))

    delivered = await shop.deliver("a", code=code)
    assert answers == ["unknown_batch"] * 2 + ["unknown_message"] * 2 + ["unknown_batch"] * 3
    assert fates(delivered) == [("a", "acknowledged", None, "return")]
    assert await shop.settle("acknowledge", "d-1", "a", None) == "unknown_batch"


@pytest.mark.req("MW-19")
async def test_a_settlement_is_durable_before_it_is_answered(shop: Shop) -> None:
    seen: list[object] = []

    async def code(shop: Shop, delivery: str) -> None:
        await shop.settle("retry", delivery, "a", 3)
        [kept] = await shop.ledger.of_worker("w")
        seen.extend([*fates(kept), kept.end, kept.version_uid])

    await shop.deliver("a", "b", code=code)
    assert seen == [("a", "retry", 3, "explicit"), None, None, "v1"]


@pytest.mark.req("MW-19")
async def test_a_store_that_does_not_answer_is_backend_unavailable(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[str] = []

    async def refuse(*given: object) -> None:
        raise sqlite.DatabaseError("gone")

    async def code(shop: Shop, delivery: str) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(shop.ledger, "settle", refuse)
            answers.append(await shop.settle("acknowledge", delivery, "a", None))

    shop.end = HandlerEnd(Ending.THREW, "v1", "x")
    delivered = await shop.deliver("a", code=code)
    assert answers == ["backend_unavailable"]
    assert fates(delivered) == [("a", "retry", 30, "throw")]


@pytest.mark.req("MW-18")
async def test_what_was_never_started_leaves_nothing(shop: Shop) -> None:
    for error in (NotStarted(Refusal.NO_DEPLOYMENT, None), BackendUnavailable("no gateway")):
        shop.refused = error
        with pytest.raises(type(error)):
            await shop.deliver("a")
    assert not await shop.ledger.of_worker("w")


@pytest.mark.req("MW-19")
async def test_a_version_that_cannot_be_kept_runs_nothing_and_leaves_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []

    async def code(shop: Shop, delivery: str) -> None:
        called.append(delivery)

    async def refuse(*given: object) -> None:
        raise sqlite.DatabaseError("full")

    monkeypatch.setattr(shop.ledger, "pick", refuse)
    with pytest.raises(sqlite.DatabaseError):
        await shop.deliver("a", code=code)
    assert not called
    assert not await shop.ledger.of_worker("w")


@pytest.mark.req("MW-19")
@pytest.mark.parametrize(("point", "called"), [("queue.opened", 0), ("queue.picked", 1), ("queue.handled", 1)])
async def test_a_delivery_that_a_host_left_open_is_ended_by_the_next_and_retried(
    shop: Shop, point: str, called: int
) -> None:
    async def code(shop: Shop, delivery: str) -> None:
        await shop.settle("acknowledge", delivery, "a", None)

    shop.faults.arm(point, action=FaultAction.ERROR)
    with pytest.raises(InjectedFault):
        await shop.deliver("a", "b", code=code)
    assert len(shop.events) == called
    [left] = await shop.ledger.of_worker("w")
    assert left.end is None
    await shop.ledger.end_lost(2000)
    [ended] = await shop.ledger.of_worker("w")
    version = "v1" if called else None
    assert ended.version_uid == version
    assert ended.end == HandlerEnd(Ending.LOST, version, "the host that ran it ended")
    first = ("a", "acknowledged", None, "explicit") if point == "queue.handled" else ("a", "retry", 30, "lost")
    assert fates(ended) == [first, ("b", "retry", 30, "lost")]
    await shop.ledger.end_lost(3000)
    assert list(await shop.ledger.of_worker("w")) == [ended]


@pytest.mark.req("MW-18")
async def test_a_caller_that_goes_away_ends_no_delivery(shop: Shop) -> None:
    entered, going = asyncio.Event(), asyncio.Event()

    async def code(shop: Shop, delivery: str) -> None:
        entered.set()
        await going.wait()

    asking = asyncio.create_task(shop.deliver("a", code=code))
    await entered.wait()
    asking.cancel()
    going.set()
    async with asyncio.timeout(5):
        while (await shop.ledger.of_worker("w"))[0].end is None:
            await asyncio.sleep(0.001)


async def test_only_the_latest_deliveries_are_kept(shop: Shop) -> None:
    for _ in range(KEPT_BATCHES + 3):
        await shop.deliver("a")
    kept = await shop.ledger.of_worker("w")
    assert [each.delivery_id for each in kept] == [f"d-{number}" for number in range(4, KEPT_BATCHES + 4)]
    count = await shop.file.read(lambda transaction: transaction.execute("SELECT count(*) FROM queue_messages")[0][0])
    assert count == KEPT_BATCHES


ONE = Message("a", b"", 0, 1)


@pytest.mark.req("MW-18")
@pytest.mark.parametrize(
    "make",
    [
        lambda: Message("", b"", 0, 1),
        lambda: Message("x" * 257, b"", 0, 1),
        lambda: Message("a", b"", -1, 1),
        lambda: Message("a", b"", 0, 0),
        lambda: Batch("", "q", (ONE,)),
        lambda: Batch("b" * 257, "q", (ONE,)),
        lambda: Batch("b", "", (ONE,)),
        lambda: Batch("b", "q", ()),
        lambda: Batch("b", "q", tuple(Message(str(n), b"", 0, 1) for n in range(101))),
        lambda: Batch("b", "q", (ONE, ONE)),
        lambda: Batch("b", "q", (ONE,), 43_201),
        lambda: Batch("b", "q", (ONE,), -1),
    ],
)
def test_a_batch_beyond_its_limits_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(EventRefused):
        make()


@pytest.mark.req("MW-18")
def test_a_batch_at_its_limits_is_taken() -> None:
    messages = tuple(Message(f"{n:0256}", b"x", 0, 1) for n in range(100))
    assert Batch("b" * 256, "q", messages, 43_200).messages == messages
