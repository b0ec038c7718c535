"""Contract time goes forwards only, by the system or by hand."""

import asyncio

import pytest

from host.model.time import LATEST_MS, ClockMode, ClockRefused, ClockState, ControlledClock, timestamp


class _System:
    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


@pytest.mark.req("HA-05")
@pytest.mark.parametrize(
    ("at_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_764_535_200_123, "2025-11-30T20:40:00.123Z"),
        (LATEST_MS, "9999-12-31T23:59:59.999Z"),
        (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
    ],
)
def test_a_timestamp_is_what_to_iso_string_gives(at_ms: int, text: str) -> None:
    assert timestamp(at_ms) == text


def test_a_system_clock_set_back_by_hand_never_shows_an_earlier_instant() -> None:
    system = _System(5_000)
    clock = ControlledClock(system_ms=system)
    assert clock.now_ms() == 5_000
    system.now_ms = 1_000
    assert clock.now_ms() == 5_000
    assert not clock.is_controlled


def test_a_frozen_clock_stands_until_it_is_moved_and_runs_on_when_thawed() -> None:
    system = _System(5_000)
    clock = ControlledClock(system_ms=system)
    clock.freeze()
    system.now_ms = 9_000
    assert clock.now_ms() == 5_000
    clock.move_to(6_500)
    assert clock.now_ms() == 6_500
    clock.thaw()
    system.now_ms = 9_100
    assert clock.now_ms() == 6_600
    assert clock.state.mode is ClockMode.ADVANCED


def test_moving_a_running_clock_keeps_it_running() -> None:
    system = _System(1_000)
    clock = ControlledClock(system_ms=system)
    clock.move_to(61_000)
    system.now_ms = 1_250
    assert clock.now_ms() == 61_250
    assert clock.is_controlled


@pytest.mark.parametrize("target", [999, LATEST_MS + 1])
def test_a_clock_refuses_to_go_back_or_beyond_the_last_year(target: int) -> None:
    clock = ControlledClock.frozen(1_000)
    with pytest.raises(ClockRefused):
        clock.move_to(target)
    assert clock.now_ms() == 1_000


def test_a_change_is_saved_before_it_is_shown() -> None:
    shown: list[tuple[ClockState, int]] = []
    clock = ControlledClock(
        ClockState(ClockMode.FROZEN, 1_000), save=lambda state: shown.append((state, clock.now_ms()))
    )
    clock.move_to(2_000)
    assert shown == [(ClockState(ClockMode.FROZEN, 2_000), 1_000)]


def test_a_change_that_cannot_be_saved_does_not_happen() -> None:
    def full_disk(state: ClockState) -> None:
        raise OSError(f"no room for {state}")

    clock = ControlledClock(ClockState(ClockMode.FROZEN, 1_000), save=full_disk)
    with pytest.raises(OSError, match="no room"):
        clock.move_to(2_000)
    assert clock.now_ms() == 1_000


async def test_sleepers_wake_when_a_frozen_clock_reaches_their_instant() -> None:
    clock = ControlledClock.frozen(0)
    early = asyncio.create_task(clock.sleep_until(1_000))
    late = asyncio.create_task(clock.sleep_until(31_536_000_000))
    await asyncio.sleep(0)
    clock.move_to(1_000)
    await asyncio.wait_for(early, 5)
    assert not late.done()
    clock.move_to(31_536_000_000)
    await asyncio.wait_for(late, 5)


async def test_a_sleep_until_the_past_returns_at_once() -> None:
    await asyncio.wait_for(ControlledClock.frozen(500).sleep_until(499), 5)


async def test_freezing_holds_a_sleeper_that_the_system_clock_would_have_woken() -> None:
    system = _System(0)
    clock = ControlledClock(system_ms=system)
    sleeper = asyncio.create_task(clock.sleep_until(1))
    await asyncio.sleep(0)
    clock.freeze()
    system.now_ms = 10_000
    await asyncio.sleep(0.005)
    assert not sleeper.done()
    clock.thaw()
    system.now_ms = 20_000
    await asyncio.wait_for(sleeper, 5)
