"""A small graph of Resources deleted in every order: exactly the refusals that the rules give, and none has an effect.

A refusal changes nothing, so all orders are walked once every deletion was tried in every state that a graph can be in.
"""

import random
from collections.abc import Iterator

import pytest

from tests.host.api import Api, deployment_spec, ref

BLOCKED_BY: dict[str, frozenset[str]] = {
    "shop": frozenset({"shop-a", "shop-b", "shop-live", "order", "till-v"}),
    "shop-bundle": frozenset({"shop-a", "shop-b"}),
    "shop-a": frozenset({"shop-live"}),
    "shop-b": frozenset(),
    "shop-live": frozenset(),
    "order": frozenset({"shop-a", "till-v"}),
    "till": frozenset({"till-v", "till-live"}),
    "till-bundle": frozenset({"till-v"}),
    "till-v": frozenset({"till-live"}),
    "till-live": frozenset(),
}
"""The rules as a pure model: who is not deleted while which others live (MW-01, WB-08, WV-09, WV-18, WD-07, DW-06).

Worker `shop` has the Versions a and b of one bundle, of which the Deployment selects a, and the Workflow `order`, which a
binds. Worker `till` has a Version that binds both the Worker `shop` and its Workflow, and a Deployment of it.
"""
State = frozenset[str]
WHOLE: State = frozenset(BLOCKED_BY)


def deletable(state: State) -> list[str]:
    return sorted(name for name in state if not BLOCKED_BY[name] & state)


def states() -> Iterator[tuple[State, tuple[str, ...]]]:
    """Every state a graph can be in, with a shortest way there."""
    ways: dict[State, tuple[str, ...]] = {WHOLE: ()}
    queue = [WHOLE]
    for state in queue:
        for name in deletable(state):
            if state - {name} not in ways:
                ways[state - {name}] = (*ways[state], name)
                queue.append(state - {name})
    yield from ways.items()


def longest_ways() -> list[tuple[str, ...]]:
    """Whole orders that between them pass through every state."""
    left = {state for state, _ in states()}
    chance, orders = random.Random(6), []
    while left:
        state, order = WHOLE, []
        left.discard(state)
        while state:
            fresh = [name for name in deletable(state) if state - {name} in left]
            name = chance.choice(fresh or deletable(state))
            order.append(name)
            state = state - {name}
            left.discard(state)
        orders.append(tuple(order))
    return orders


async def build(api: Api, suffix: str) -> dict[str, str]:
    """The whole graph under names of its own; uids by the model's names."""
    uids: dict[str, str] = {}

    async def make(name: str, form: str, spec: dict[str, object]) -> None:
        uids[name] = await api.made(form, f"{name}-{suffix}", spec)

    for worker, classes in (("shop", ["Order"]), ("till", [])):
        await make(worker, "ModuleWorker", {})
        artifact = api.backend.store_bundle(["fetch"], classes, worker + suffix)
        await make(f"{worker}-bundle", "WorkerBundle", {"artifact": artifact})
    await make("order", "DurableWorkflow", {"worker": ref(uids["shop"]), "className": "Order"})
    bound = [{"name": "ORDER", "resource": ref(uids["order"])}]
    shop = {"worker": ref(uids["shop"]), "bundle": ref(uids["shop-bundle"]), "handlers": ["fetch"]}
    await make("shop-a", "WorkerVersion", {**shop, "workflowBindings": bound})
    await make("shop-b", "WorkerVersion", dict(shop))
    await make("shop-live", "WorkerDeployment", deployment_spec(uids["shop"], (uids["shop-a"], 10000)))
    till = {"worker": ref(uids["till"]), "bundle": ref(uids["till-bundle"]), "handlers": ["fetch"]}
    service = [{"name": "SHOP", "resource": ref(uids["shop"])}]
    await make("till-v", "WorkerVersion", {**till, "workflowBindings": bound, "serviceBindings": service})
    await make("till-live", "WorkerDeployment", deployment_spec(uids["till"], (uids["till-v"], 10000)))
    return uids


@pytest.mark.req("MW-01", "WB-08", "WV-09", "WV-18", "WD-07", "DW-06")
async def test_every_deletion_in_every_state_is_refused_or_done_as_the_rules_say(api: Api) -> None:
    tried: set[tuple[State, str]] = set()
    for number, order in enumerate(longest_ways()):
        uids = await build(api, str(number))
        state = WHOLE
        for chosen in order:
            for name in sorted(state - set(deletable(state))):
                if (state, name) not in tried:
                    await refuse(api, uids, state, name)
                    tried.add((state, name))
            answer = await api.delete(uids[chosen], 1)
            assert answer.status_code in (200, 202), (state, chosen, answer.text)
            assert (await api.settled(answer.json()["id"]))["status"] == "succeeded"
            state = state - {chosen}
            assert await living(api, uids) == state
    assert tried == {(state, name) for state, _ in states() for name in state - set(deletable(state))}


async def refuse(api: Api, uids: dict[str, str], state: State, name: str) -> None:
    calls = len(api.backend.calls)
    answer = await api.delete(uids[name], 1)
    assert (answer.status_code, answer.json()["code"]) == (409, "dependency_conflict"), (state, name, answer.text)
    assert {call for call, _ in api.backend.calls[calls:]} <= {"versions.is_executing"}
    assert (await api.resource(uids[name]))["generation"] == 1


async def living(api: Api, uids: dict[str, str]) -> State:
    return frozenset([name for name, uid in uids.items() if (await api.get(f"/resources/{uid}")).status_code == 200])


def test_the_model_knows_a_few_orders_by_heart() -> None:
    assert deletable(WHOLE) == ["shop-b", "shop-live", "till-live"]
    assert deletable(WHOLE - {"shop-live", "till-live"}) == ["shop-a", "shop-b", "till-v"]
    assert deletable(frozenset({"shop", "order"})) == ["order"]
    assert frozenset() in dict(states())
