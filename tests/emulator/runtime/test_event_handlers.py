"""`scheduled` and `queue` handlers on real workerd: what they are given, how they end, and what counts as running."""

import asyncio
import json
from collections import Counter
from dataclasses import replace

import pytest

from emulator.contexts import BindingCall
from emulator.events import Ending, Handler, HandlerCall, HandlerEnd, NotStarted, Refusal
from emulator.runtime.app_log import AppLog
from emulator.runtime.routes import GatewayRoute, RoutedVersion, RouteTable
from host.model.json import JsonValue
from host.ports import BackendUnavailable, BindingRecord, VersionRecord
from tests.emulator.runtime.gateways import DEADLINE_S, Ingress
from tests.emulator.runtime.test_app_log import first_line, lines

CRON = "*/5 * * * *"
AT_MS = 1_800_000_000_123
MESSAGES: list[JsonValue] = [["a", 7, "AAH/", 1], ["b", 8, "", 3]]


def source(scheduled: str = "", queue: str = "", before: str = "let seen = null;", fetch: str = "") -> str:
    """A module with all three handlers; `fetch` answers with `seen` unless told otherwise."""
    return (
        f"{before} export default {{ async fetch(request, env, ctx) {{ {fetch or 'return Response.json(seen);'} }},"
        f"async scheduled(event, env, ctx) {{ {scheduled} }}, async queue(batch, env, ctx) {{ {queue} }} }};"
    )


async def version(ingress: Ingress, uid: str, text: str, *handlers: str) -> VersionRecord:
    return replace(await ingress.version(uid, text), handlers=handlers or ("fetch", "scheduled", "queue"))


async def serve(ingress: Ingress, text: str, *handlers: str) -> None:
    await ingress.serve((await version(ingress, "v1", text, *handlers), 10000))


async def unnoted(version_uid: str) -> None:
    pass


async def schedule(ingress: Ingress, worker_uid: str = "app") -> HandlerEnd:
    call = HandlerCall(worker_uid, Handler.SCHEDULED, json.dumps([AT_MS, CRON]))
    return await asyncio.wait_for(ingress.gateway.call_handler(call, unnoted), DEADLINE_S)


async def deliver(ingress: Ingress, messages: list[JsonValue] = MESSAGES) -> HandlerEnd:
    call = HandlerCall("app", Handler.QUEUE, json.dumps(["d-1", "batch-1", "orders", messages]))
    return await asyncio.wait_for(ingress.gateway.call_handler(call, unnoted), DEADLINE_S)


async def executing(ingress: Ingress, uid: str = "v1") -> None:
    """Return once something runs on the Version."""
    async with asyncio.timeout(DEADLINE_S):
        while not await ingress.gateway.is_executing(uid):
            await asyncio.sleep(0.002)


@pytest.mark.req("MW-17", "MW-15", "MW-14")
async def test_scheduled_is_given_time_and_expression_env_and_ctx(ingress: Ingress) -> None:
    body = (
        "seen = [event, Reflect.ownKeys(event), typeof this.fetch, arguments.length, Object.keys(env),"
        "Reflect.ownKeys(ctx), Object.isFrozen(ctx)]; return 'ignored';"
    )
    one = replace(
        await version(ingress, "v1", source(body)), vars={"X": 1}, bindings=(BindingRecord("F", "workflow", "w"),)
    )
    await ingress.serve((one, 10000))
    assert await schedule(ingress) == HandlerEnd(Ending.RETURNED, "v1", None)
    event = {"scheduledTime": AT_MS, "cron": CRON}
    keys: list[JsonValue] = ["scheduledTime", "cron"]
    assert await ingress.json() == [event, keys, "function", 3, ["X", "F"], ["waitUntil"], True]


@pytest.mark.req("MW-17")
@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("throw new RangeError('late');", "RangeError: late"),
        ("await null; throw 'text';", "text"),
        ("return Promise.reject({ get message() { throw 1 } });", "Error: no message"),
        ("await new Promise((_, no) => no(undefined));", "a thrown undefined"),
    ],
)
async def test_an_uncaught_error_is_a_recorded_failure_and_one_line(
    ingress: Ingress, said: AppLog, body: str, error: str
) -> None:
    await serve(ingress, source(body, body))
    for end, name in ((await schedule(ingress), "scheduled"), (await deliver(ingress), "queue")):
        assert end == HandlerEnd(Ending.THREW, "v1", error)
        line = (await lines(said, 1 if name == "scheduled" else 2))[-1]
        assert (line.worker_uid, line.version_uid, line.level) == ("app", "v1", "error")
        assert first_line(line) == f"uncaught in {name}: {error}"
    assert len(said.recent()) == 2
    assert await ingress.json() is None


@pytest.mark.req("MW-10")
async def test_a_handler_that_is_not_declared_is_never_started(ingress: Ingress) -> None:
    await serve(ingress, source("seen = 's';", "seen = 'q';"), "fetch", "scheduled")
    with pytest.raises(NotStarted) as told:
        await deliver(ingress)
    assert (told.value.refusal, told.value.version_uid) == (Refusal.HANDLER_NOT_DECLARED, "v1")
    assert await ingress.json() is None
    assert (await schedule(ingress)).ending is Ending.RETURNED
    assert await ingress.json() == "s"


@pytest.mark.req("MW-10")
async def test_a_handler_put_there_later_is_not_the_exported_one(ingress: Ingress) -> None:
    text = source(
        "seen = 'exported';", fetch="self.main.scheduled = () => { seen = 'later'; }; return Response.json(seen);"
    )
    await serve(ingress, text.replace("export default", "export default self.main ="))
    await ingress.json()
    await schedule(ingress)
    assert await ingress.json() == "exported"


@pytest.mark.req("WD-03", "WD-08")
async def test_without_a_version_to_run_it_no_handler_is_started(ingress: Ingress) -> None:
    one = await version(ingress, "v1", source())
    lost = GatewayRoute("lost", "lost", (RoutedVersion(replace(one, secrets=None), 10000),))
    await ingress.publish(RouteTable((GatewayRoute("empty", "empty"), lost)))
    for worker, refusal, uid in (
        ("nobody", Refusal.UNKNOWN_WORKER, None),
        ("empty", Refusal.NO_DEPLOYMENT, None),
        ("lost", Refusal.SECRETS_LOST, "v1"),
    ):
        with pytest.raises(NotStarted) as told:
            await schedule(ingress, worker)
        assert (told.value.refusal, told.value.version_uid) == (refusal, uid)


@pytest.mark.req("WD-03")
async def test_each_call_picks_a_version_by_the_weights_in_force(ingress: Ingress) -> None:
    a, b = await version(ingress, "a", source()), await version(ingress, "b", source())
    await ingress.serve((a, 5000), (b, 5000))
    shares = Counter([(await schedule(ingress)).version_uid for _ in range(60)])
    assert set(shares) == {"a", "b"}
    assert min(shares.values()) >= 10
    await ingress.serve((b, 10000))
    assert {(await schedule(ingress)).version_uid for _ in range(20)} == {"b"}


@pytest.mark.req("MW-18", "MW-19")
async def test_a_batch_has_exactly_its_members_and_fresh_bytes(ingress: Ingress) -> None:
    body = (
        "const [first, second] = batch.messages; first.body[0] = 9;"
        "seen = { keys: Reflect.ownKeys(batch), batchId: batch.batchId, queue: batch.queue, frozen: Object.isFrozen(batch),"
        "list: Array.isArray(batch.messages), messages: batch.messages.map((m) => [Reflect.ownKeys(m), m.id, m.timestampMillis,"
        "m.attempts, m.body.constructor === Uint8Array, [...m.body]]), own: first.body.buffer !== second.body.buffer };"
    )
    await serve(ingress, source(queue=body))
    assert (await deliver(ingress)).ending is Ending.RETURNED
    members: list[JsonValue] = ["id", "timestampMillis", "body", "attempts"]
    seen = await ingress.json()
    assert seen == {
        "keys": ["batchId", "queue", "messages", "acknowledge", "retry", "acknowledgeAll", "retryAll"],
        "batchId": "batch-1",
        "queue": "orders",
        "frozen": True,
        "list": True,
        "messages": [[members, "a", 7, 1, True, [9, 1, 255]], [members, "b", 8, 3, True, []]],
        "own": True,
    }
    await deliver(ingress)
    assert await ingress.json() == seen


@pytest.mark.req("MW-19")
async def test_settlements_go_to_the_host_as_they_were_made(ingress: Ingress) -> None:
    body = (
        "await batch.acknowledge('a'); await batch.retry('b', 43200); await batch.retry('b', -0); await batch.retry('b');"
        "await batch.acknowledgeAll(); await batch.retryAll(5); const { retryAll } = batch; await retryAll();"
    )
    await serve(ingress, source(queue=body))
    ingress.calls.reply = lambda call: ["ok"]
    assert (await deliver(ingress)).ending is Ending.RETURNED
    assert [(call.kind, call.version_uid, call.target_uid) for call in ingress.calls.calls] == [
        ("batch", "v1", "app")
    ] * 7
    assert [json.loads(call.body) for call in ingress.calls.calls] == [
        ["acknowledge", "d-1", "a", None],
        ["retry", "d-1", "b", 43200],
        ["retry", "d-1", "b", 0],
        ["retry", "d-1", "b", None],
        ["acknowledgeAll", "d-1", None, None],
        ["retryAll", "d-1", None, 5],
        ["retryAll", "d-1", None, None],
    ]


@pytest.mark.req("MW-19")
async def test_wrong_arguments_reach_nobody_and_the_hosts_names_reach_the_code(ingress: Ingress) -> None:
    body = (
        "const names = []; const note = (e) => names.push(e instanceof Error ? e.name : 'no Error');"
        "for (const wrong of [undefined, 1, null, {}, Symbol('a')]) await batch.acknowledge(wrong).catch(note);"
        "for (const wrong of [-1, 43201, 1.5, '1', null, NaN, 1n, {}]) {"
        "  await batch.retry('a', wrong).catch(note); await batch.retryAll(wrong).catch(note); }"
        "for (let i = 0; i < 4; i++) await batch.acknowledge('a').catch(note); seen = names;"
    )
    names = ["unknown_batch", "unknown_message", "already_settled", "backend_unavailable"]
    await serve(ingress, source(queue=body))
    ingress.calls.reply = lambda call: ["error", names[len(ingress.calls.calls) - 1], "so"]
    await deliver(ingress)
    assert await ingress.json() == ["TypeError"] * 21 + names
    assert len(ingress.calls.calls) == 4


@pytest.mark.req("MW-19")
async def test_a_batch_kept_beyond_its_handler_is_unknown(ingress: Ingress) -> None:
    keep = "kept = batch; ctx.waitUntil(scheduler.wait(1).then(() => batch.acknowledgeAll()).catch((e) => { seen = e.name; }));"
    fetch = (
        "const names = [seen]; for (const name of ['acknowledge', 'retry', 'acknowledgeAll', 'retryAll'])"
        "await kept[name]('a').catch((e) => names.push(e.name)); return Response.json(names);"
    )
    await serve(ingress, source(queue=keep, before="let kept, seen;", fetch=fetch))
    await deliver(ingress)
    async with asyncio.timeout(DEADLINE_S):
        while await ingress.gateway.is_executing("v1"):
            await asyncio.sleep(0.002)
    assert await ingress.json() == ["unknown_batch"] * 4 + ["TypeError"]
    assert ingress.calls.calls == []


@pytest.mark.req("MW-19")
async def test_settlements_under_way_at_the_end_of_the_handler_are_waited_for(ingress: Ingress) -> None:
    answered: list[str] = []

    class Slow:
        async def answer(self, call: BindingCall) -> str:
            await asyncio.sleep(0.02)
            answered.append(call.body)
            return '["ok"]'

    ingress.calls.answer = Slow().answer  # type: ignore[method-assign]
    await serve(ingress, source(queue="batch.retry('a'); batch.acknowledge('b'); throw new Error('x');"))
    assert (await deliver(ingress)).ending is Ending.THREW
    assert len(answered) == 2


@pytest.mark.req("MW-14", "MW-17", "MW-18")
async def test_ctx_lives_until_what_it_was_given_settles_and_no_longer(ingress: Ingress, said: AppLog) -> None:
    body = (
        "kept = ctx; ctx.waitUntil(scheduler.wait(5).then(() => { ctx.waitUntil(Promise.reject(new Error('lost')));"
        "seen = 'went on'; }));"
    )
    fetch = "try { kept.waitUntil(1); return Response.json([seen, 'live']); } catch (e) { return Response.json([seen, e.name]); }"
    for call in (schedule, deliver):
        await serve(ingress, source(body, body, "let kept, seen;", fetch))
        assert (await call(ingress)).ending is Ending.RETURNED
        async with asyncio.timeout(DEADLINE_S):
            while await ingress.gateway.is_executing("v1"):
                await asyncio.sleep(0.002)
        assert await ingress.json() == ["went on", "context_expired"]
    assert {first_line(each) for each in await lines(said, 2)} == {"uncaught in waitUntil: Error: lost"}


@pytest.mark.req("WV-09", "WD-07", "WD-04")
async def test_a_running_handler_counts_as_executing_and_is_cut_by_the_retirement(ingress: Ingress) -> None:
    hang = "await new Promise((go) => setTimeout(go, 600000));"
    one = await version(ingress, "v1", source(hang, hang))
    await ingress.serve((one, 10000))
    for call in (schedule, deliver):
        running = asyncio.create_task(call(ingress))
        await executing(ingress)
        assert not running.done()
        await ingress.publish(RouteTable((GatewayRoute("app", "app"),)))
        assert (await ingress.gateway.retire("v1")).kind == "ack"
        end = await running
        assert (end.ending, end.version_uid) == (Ending.LOST, "v1")
        assert not await ingress.gateway.is_executing("v1")
        await ingress.serve((one, 10000))


@pytest.mark.req("MW-17", "WD-03")
async def test_a_call_ends_with_its_process_and_is_not_made_again(ingress: Ingress) -> None:
    await serve(ingress, source("seen = (seen ?? 0) + 1; await new Promise((go) => setTimeout(go, 600000));"))
    running = asyncio.create_task(schedule(ingress))
    await executing(ingress)
    assert ingress.gateway._post.process is not None
    ingress.gateway._post.process.kill()
    assert await running == HandlerEnd(Ending.LOST, "v1", "the process that ran it ended")
    assert await ingress.json() is None


@pytest.mark.req("WD-03")
async def test_a_drain_lets_handlers_end_and_starts_none(ingress: Ingress) -> None:
    await serve(ingress, source("await scheduler.wait(50);"))
    running = asyncio.create_task(schedule(ingress))
    await executing(ingress)
    await asyncio.wait_for(ingress.gateway.drain(), DEADLINE_S)
    assert (await running).ending is Ending.RETURNED
    with pytest.raises(BackendUnavailable):
        await schedule(ingress)


@pytest.mark.req("MW-17")
async def test_handlers_go_by_the_controlled_clock(ingress: Ingress) -> None:
    await serve(ingress, source("seen = Date.now();", "seen = new Date().getTime();"))
    ingress.clock.freeze()
    ingress.clock.move_to(AT_MS + 5_000_000_000)
    await ingress.gateway.follow_clock()
    for call in (schedule, deliver):
        await call(ingress)
        assert await ingress.json() == AT_MS + 5_000_000_000


@pytest.mark.req("MW-15", "HA-61")
async def test_what_a_handler_threw_is_told_without_the_value_of_a_secret(ingress: Ingress, said: AppLog) -> None:
    one = await version(ingress, "v1", source("throw new Error('key ' + env.KEY + ' refused');"))
    await ingress.serve((replace(one, secrets={"KEY": "word of honour"}), 10000))
    assert (await schedule(ingress)).error == "Error: key [secret] refused"
    assert "honour" not in json.dumps([each.to_json() for each in await lines(said, 1)])


@pytest.mark.req("MW-15", "HA-61")
async def test_what_tampering_lets_escape_from_an_isolate_is_not_told(ingress: Ingress, said: AppLog) -> None:
    tampering = "Promise.prototype.then = function () { throw new Error('leaked ' + env.KEY); };"
    one = await version(ingress, "v1", source(tampering))
    await ingress.serve((replace(one, secrets={"KEY": "word of honour"}), 10000))
    assert "honour" not in str(await schedule(ingress))
    assert "honour" not in json.dumps([each.to_json() for each in said.recent()])


HOSTILE = """
let seen = null;
const stolen = [];
const apply = Reflect.apply;
const indexOf = String.prototype.indexOf;
const note = (what, value) => {
  const found = typeof value === "string" ? apply(indexOf, value, ["d-1"]) >= 0 || apply(indexOf, value, ["/call/"]) >= 0
    : value !== null && typeof value === "object" && value !== globalThis && typeof value.fetch === "function";
  if (found) stolen[stolen.length] = what;
};
for (const proto of [Array.prototype, Object.prototype, Promise.prototype, Request.prototype, Response.prototype,
  String.prototype, Uint8Array.prototype, Object.getPrototypeOf(Uint8Array.prototype), Map.prototype]) {
  for (const key of Reflect.ownKeys(proto)) {
    const own = Object.getOwnPropertyDescriptor(proto, key);
    if (typeof own.value !== "function" || key === "constructor" || !own.configurable) continue;
    const native = own.value;
    Object.defineProperty(proto, key, { ...own, value(...given) {
      note(key, this); for (let i = 0; i < given.length; i++) note(key, given[i]);
      return apply(native, this, given);
    } });
  }
}
JSON.parse = JSON.stringify = () => { throw new Error("patched"); };
Uint8Array.fromBase64 = () => { throw new Error("patched"); };
Object.prototype.toJSON = function () { return "forged"; };
"""


@pytest.mark.req("MW-15", "MW-18", "MW-19")
async def test_code_that_tampers_with_every_prototype_gets_no_handle_on_its_batch(ingress: Ingress) -> None:
    body = "await batch.retry('a', 1); await batch.acknowledgeAll(); seen = batch.messages[0].body.length;"
    await serve(
        ingress,
        source(queue=body, before=HOSTILE, fetch="return new Response(seen + '|' + stolen.length + stolen[0]);"),
    )
    ingress.calls.reply = lambda call: ["ok"]
    assert (await deliver(ingress)).ending is Ending.RETURNED
    assert [json.loads(call.body)[0] for call in ingress.calls.calls] == ["retry", "acknowledgeAll"]
    assert await ingress.text() == "3|0undefined"
