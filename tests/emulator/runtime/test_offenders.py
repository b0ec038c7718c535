"""The ledger of Versions that hold up others: pure, on given instants. And which Versions a table deploys anew."""

import pytest

from emulator.runtime.offenders import CONVICTED_AFTER, WINDOW_S, Offenders
from emulator.runtime.routes import GatewayRoute, RoutedVersion, RouteTable
from host.ports import VersionRecord


@pytest.mark.req("MW-14")
def test_a_suspect_is_apart_for_a_minute_after_its_last_incident() -> None:
    ledger = Offenders()
    assert not ledger.note("a", 100.0, is_alone=False)
    assert not ledger.note("b", 130.0, is_alone=True)
    assert ledger.apart(159.9) == {"a", "b"}
    assert ledger.apart(160.0) == {"b"}
    assert ledger.next_release_s(100.0) == 160.0
    assert ledger.next_release_s(160.0) == 190.0
    assert ledger.next_release_s(190.0) is None


@pytest.mark.req("MW-14")
def test_three_incidents_within_a_minute_are_for_good_and_over_a_longer_time_are_not() -> None:
    ledger = Offenders()
    assert [ledger.note("slow", at, True) for at in (0.0, 59.0, 61.0, 121.0)] == [False] * 4
    assert [ledger.note("near", at, False) for at in (0.0, 1.0, 2.0, 3.0)] == [False] * 4
    assert [ledger.note("bad", at, at > 0) for at in (0.0, 30.0, 59.9)] == [False, False, True]
    assert CONVICTED_AFTER == 3
    assert ledger.apart(1e9) == {"bad"}
    assert ledger.next_release_s(121.0) == 121.0 + WINDOW_S
    ledger.forget(["bad", "nobody"])
    assert ledger.apart(1e9) == frozenset()
    assert not ledger.note("bad", 1e9, True)


def table(**workers: dict[str, int]) -> RouteTable:
    """Workers with the weights of their Versions."""
    return RouteTable(
        tuple(
            GatewayRoute(
                uid, uid, tuple(RoutedVersion(VersionRecord(v, uid, "0", {}, ()), w) for v, w in shares.items())
            )
            for uid, shares in workers.items()
        )
    )


@pytest.mark.req("WD-04")
def test_versions_of_a_worker_with_other_weights_are_deployed_anew() -> None:
    before = table(x={"a": 6000, "b": 4000}, y={"c": 10000})
    assert before.redeployed_in(before) == set()
    assert before.redeployed_in(table(x={"b": 4000, "a": 6000}, y={"c": 10000}, z={})) == set()
    assert before.redeployed_in(table(x={"a": 10000}, y={"c": 10000})) == {"a", "b"}
    assert before.redeployed_in(table(x={"a": 6000, "b": 4000}, y={})) == {"c"}
    assert before.redeployed_in(table()) == {"a", "b", "c"}
