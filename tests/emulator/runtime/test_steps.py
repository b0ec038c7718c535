"""The `step` object in a real isolate, against a scripted host: frames, replay, arguments, endings."""

import json

import pytest

from emulator.contexts import StepRecord
from host.model.json import JsonValue
from tests.emulator.runtime.conftest import Answer, Frame, ScriptedHost, durable

pytestmark = pytest.mark.asyncio(loop_scope="session")

POLICY = "{ maxAttempts: 3 }"
POLICY_TEXT = '{"backoff":"constant","initialDelaySeconds":0,"maxAttempts":3,"maxDelaySeconds":43200}'


def silent(frame: Frame) -> Answer:
    """A host that never answers: it is about to stop the context."""
    return None


@pytest.mark.req("DW-30")
async def test_step_has_exactly_its_three_functions_and_cannot_be_changed(shared: ScriptedHost) -> None:
    run = await shared.run(
        "const names = Reflect.ownKeys(step); try { step.do = 1 } catch (e) { names.push(e.name) }"
        "try { step.do.x = 1 } catch (e) { names.push(e.name) }"
        "return { names, proto: String(Object.getPrototypeOf(step)) };"
    )
    assert await run.result() == {
        "names": ["do", "sleep", "waitForEvent", "TypeError", "TypeError"],
        "proto": "null",
    }


@pytest.mark.req("DW-21")
async def test_params_are_absent_when_none_were_given(shared: ScriptedHost) -> None:
    body = "return { keys: Object.keys(event), value: event.params ?? null };"
    assert await (await shared.run(body)).result() == {"keys": ["instanceId"], "value": None}
    given = await shared.run(body, params='{"__proto__":{"a":1}}')
    assert await given.result() == {"keys": ["instanceId", "params"], "value": {"__proto__": {"a": 1}}}


@pytest.mark.req("DW-21", "DW-24")
async def test_modules_are_evaluated_afresh_in_each_context(shared: ScriptedHost) -> None:
    source = (
        "let n = 0; globalThis.seen ??= 0; export class Flow { run() { return { n: ++n, g: ++globalThis.seen }; } }"
    )
    for _ in range(3):
        run = await shared.start(source)
        assert await run.result() == {"n": 1, "g": 1}
        await run.started.stop()


@pytest.mark.req("DW-21")
async def test_run_may_be_inherited_and_need_not_return_a_promise(shared: ScriptedHost) -> None:
    source = "class Base { run(event) { return { id: event.instanceId, own: this.x }; } } export class Flow extends Base { x = 1 }"
    assert await (await shared.start(source)).result() == {"id": "i-1", "own": 1}


@pytest.mark.req("DW-21")
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("throw new Error('at load'); export class Flow {}", "at load"),
        ("export class Flow { constructor() { throw new Error('in new'); } run() {} }", "in new"),
        ("export class Flow { run = 1 }", "run is not a function"),
        (
            "export class Flow { run() { return 1; } }",
            "run returned no document: the document holds no object at its root: wrap the value, as in { value: ... },"
            " or give nothing",
        ),
        (
            "export class Flow { async run() { return { f() {} }; } }",
            "run returned no document: the document holds a function at .f",
        ),
        ("export class Flow { get run() { throw new Error('getter'); } }", "getter"),
        ("export class Flow { run() { throw 'a string'; } }", "a string"),
        ("export class Flow { async run() { throw Symbol('s'); } }", "a thrown value without a message"),
        (
            "export class Flow { async run() { throw { get message() { return 'no' } }; } }",
            "a thrown value without a message",
        ),
        ("export class Flow { async run() { throw new Error('\\ud800x'); } }", "\ufffdx"),
    ],
)
async def test_what_goes_wrong_outside_steps_is_told_as_thrown(shared: ScriptedHost, source: str, message: str) -> None:
    run = await shared.start(source)
    assert await run.end() == ["threw", message, None]


@pytest.mark.req("DW-21", "DW-37")
async def test_undefined_is_no_document(shared: ScriptedHost) -> None:
    run = await shared.run("if (await step.do('a', () => {}) !== undefined) throw 1;")
    assert await run.end() == ["return", None]
    assert run.frames[1] == ["done", 1, "a", 1, None]


@pytest.mark.req("DW-32")
async def test_a_completed_name_answers_from_the_history_with_a_fresh_copy(shared: ScriptedHost) -> None:
    steps = [StepRecord("a", "succeeded", '{"n":1}'), StepRecord("u", "succeeded", None)]
    run = await shared.run(
        "const first = await step.do('a', () => ({ n: 9 })); first.n = 5; const second = await step.do('a', 'no effect', {});"
        "const u = await step.do('u');  const waited = await step.waitForEvent('a'); const slept = await step.sleep('a', -1);"
        "return { first, second, waited, u: typeof u, slept: typeof slept };",
        steps=steps,
    )
    assert await run.result() == {
        "first": {"n": 5},
        "second": {"n": 1},
        "waited": {"n": 1},
        "u": "undefined",
        "slept": "undefined",
    }
    assert run.verbs() == ["return"]


@pytest.mark.req("DW-32", "DW-38")
async def test_recorded_failures_are_thrown_again(shared: ScriptedHost) -> None:
    steps = [StepRecord("f", "failed", "boom"), StepRecord("t", "timeout", None)]
    run = await shared.run(
        "const seen = []; for (const call of [() => step.do('f'), () => step.waitForEvent('t'), () => step.sleep('f')])"
        "  await call().catch((e) => seen.push(e.name, e.message)); return { seen };",
        steps=steps,
    )
    assert await run.result() == {
        "seen": ["step_failed", "boom", "wait_timeout", "no event in time", "step_failed", "boom"]
    }


@pytest.mark.req("DW-32")
async def test_a_large_result_is_asked_for_each_time(shared: ScriptedHost) -> None:
    def answer(frame: Frame) -> Answer:
        return ("done", '{"big":true}') if frame[0] == "need" else durable(frame)

    run = await shared.run(
        "return { a: await step.do('a'), b: await step.do('a'), c: typeof await step.sleep('a') };",
        steps=[StepRecord("a", "large", None)],
        answer=answer,
    )
    assert await run.result() == {"a": {"big": True}, "b": {"big": True}, "c": "undefined"}
    assert run.frames[:3] == [["need", 1, "a"], ["need", 2, "a"], ["need", 3, "a"]]


@pytest.mark.req("DW-32")
async def test_a_name_completed_in_this_context_is_not_run_again(shared: ScriptedHost) -> None:
    run = await shared.run(
        "let n = 0; await step.do('a', () => ({ n: ++n })); const again = await step.do('a', () => ({ n: ++n }));"
        "return { again, n };"
    )
    assert await run.result() == {"again": {"n": 1}, "n": 1}


@pytest.mark.req("DW-34")
async def test_a_policy_is_durable_before_the_effect_and_told_with_its_defaults(shared: ScriptedHost) -> None:
    run = await shared.run(f"await step.do('a', () => fetch('http://never/'), {POLICY});", answer=silent)
    assert await run.frame("begin") == ["begin", 1, "a", 1, POLICY_TEXT]
    assert len(run.frames) == 1
    await run.started.stop()


@pytest.mark.req("DW-34", "DW-32")
async def test_a_pending_step_goes_on_with_its_stored_attempt(shared: ScriptedHost) -> None:
    run = await shared.run(
        f"return {{ r: await step.do('a', () => ({{ ok: 1 }}), {POLICY}) }};",
        steps=[StepRecord("a", f"pending:do:2:{POLICY_TEXT}", None)],
    )
    assert await run.result() == {"r": {"ok": 1}}
    assert run.frames[:2] == [["begin", 0, "a", 2, None], ["done", 1, "a", 2, '{"ok":1}']]


@pytest.mark.req("DW-34")
@pytest.mark.parametrize(
    ("effect", "message"),
    [
        ("() => { throw new Error('sync') }", "sync"),
        ("async () => { throw new TypeError('async') }", "async"),
        ("() => ({ then(res, rej) { rej('thenable') } })", "thenable"),
        (
            "() => [1]",
            "the document holds no object at its root: wrap the value, as in { value: ... }, or give nothing",
        ),
        ("() => ({ s: 'x'.repeat(1048576) })", "the document is larger than 1048576 bytes"),
    ],
)
async def test_a_failing_effect_is_a_failed_attempt(shared: ScriptedHost, effect: str, message: str) -> None:
    run = await shared.run(f"await step.do('a', {effect});")
    assert await run.end() == ["threw", message, "a"]
    assert run.frames[1] == ["failed", 1, "a", 1, message]


@pytest.mark.req("DW-34")
async def test_an_effect_is_called_with_no_arguments_and_no_this(shared: ScriptedHost) -> None:
    run = await shared.run(
        "return await step.do('a', function () { return { n: arguments.length, t: typeof this }; });"
    )
    assert await run.result() == {"n": 0, "t": "undefined"}


@pytest.mark.req("DW-35")
async def test_a_sleep_of_zero_goes_on_and_a_longer_one_never_settles(shared: ScriptedHost) -> None:
    run = await shared.run("await step.sleep('z', 0); await step.sleep('s', 31536000);")
    assert await run.frame("sleep") == ["sleep", 1, "z", 0]
    assert await run.frame("sleep", nth=2) == ["sleep", 2, "s", 31536000]
    await run.started.stop()


@pytest.mark.req("DW-36")
async def test_a_wait_gives_the_payload_or_undefined_or_a_timeout(shared: ScriptedHost) -> None:
    replies: dict[JsonValue, Answer] = {"p": ("done", '{"paid":true}'), "u": ("done", None), "t": ("timeout", None)}

    def answer(frame: Frame) -> Answer:
        return replies[frame[2]] if frame[0] == "wait" else durable(frame)

    run = await shared.run(
        "const o = { type: 'go', timeoutSeconds: 60 }; const p = await step.waitForEvent('p', o);"
        "const u = await step.waitForEvent('u', o); let t; try { await step.waitForEvent('t', o) } catch (e) { t = e }"
        "return { p, u: typeof u, t: t.name, again: await step.waitForEvent('t').catch((e) => e.name) };",
        answer=answer,
    )
    assert await run.result() == {"p": {"paid": True}, "u": "undefined", "t": "wait_timeout", "again": "wait_timeout"}
    assert run.frames[0] == ["wait", 1, "p", "go", 60]


@pytest.mark.req("DW-36", "DW-38")
async def test_an_uncaught_timeout_is_an_ordinary_throw(shared: ScriptedHost) -> None:
    run = await shared.run("await step.waitForEvent('t');", steps=[StepRecord("t", "timeout", None)])
    assert await run.end() == ["threw", "no event in time", None]


OVERLAPS = [
    "try { await step.do('o', () => step.do('i', probe)) } catch { probe() } finally { probe() }",
    "try { await Promise.all([step.do('a', probe), step.do('b', probe)]) } catch { probe() } finally { probe() }",
    "try { await Promise.all([step.do('old', probe), step.do('older', probe)]) } catch { probe() } finally { probe() }",
    "try { await Promise.race([step.sleep('s', 9), step.do('a', probe)]) } finally { probe() }",
    "step.do('a', probe); return {};",
    "step.do('old', probe); return {};",
    "step.do('a', probe); throw new Error('x');",
    "try { await step.sleep('kept', 1) } finally { probe() }",
]


@pytest.mark.req("DW-31")
@pytest.mark.parametrize("body", OVERLAPS)
async def test_overlap_and_other_kinds_end_the_run_before_any_more_app_code(shared: ScriptedHost, body: str) -> None:
    """subtle-points, Workflows 5"""
    steps = [
        StepRecord("old", "succeeded", None),
        StepRecord("older", "succeeded", None),
        StepRecord("kept", "pending:do:1:", None),
    ]
    source = (
        "export class Flow { constructor(env) {} async run(event, step) {"
        "const probe = () => { console.log('probe'); step.do('probe' + Math.random(), () => {}); fetch('http://probe/'); };"
        + body
        + "} }"
    )
    run = await shared.start(source, steps=steps[: 3 if "kept" in body else 2])
    frame = await run.end()
    assert frame[0] == "mismatch"
    assert [verb for verb in run.verbs() if verb not in ("begin", "sleep")] == ["mismatch"]
    await run.started.stop()
    assert run.verbs()[-1] == "mismatch"


@pytest.mark.req("DW-31")
@pytest.mark.parametrize("body", ["return {};", "throw new Error('x');", "return Promise.reject(1);"])
async def test_a_run_that_settles_while_a_step_of_an_earlier_context_is_pending_mismatches(
    shared: ScriptedHost, body: str
) -> None:
    """subtle-points, Workflows 5"""
    run = await shared.run(body, steps=[StepRecord("s", 'pending:sleep:1:{"seconds":9}', None)])
    assert await run.end() == ["mismatch", "run settled while a step was not settled"]


@pytest.mark.req("DW-33")
async def test_one_name_more_than_1024_ends_the_run(shared: ScriptedHost) -> None:
    steps = [StepRecord(f"s{n}", "succeeded", None) for n in range(1024)]
    run = await shared.run(
        "await step.do('s5'); try { await step.do('new', () => {}) } finally { step.do('x') }", steps=steps
    )
    assert await run.end() == ["limit"]
    assert run.verbs() == ["limit"]


@pytest.mark.req("DW-38")
async def test_no_step_call_throws_synchronously(shared: ScriptedHost) -> None:
    run = await shared.run(
        "const calls = [step.do(), step.sleep(), step.waitForEvent()]; const n = [];"
        "for (const c of calls) await c.catch((e) => n.push(e.name)); return { n };"
    )
    assert await run.result() == {"n": ["TypeError", "TypeError", "TypeError"]}


@pytest.mark.req("DW-38")
async def test_a_host_error_has_an_own_read_only_hidden_name(shared: ScriptedHost) -> None:
    """subtle-points, Workflows 7"""
    run = await shared.run(
        "const e = await step.do('f').catch((e) => e); const out = { name: e.name, keys: Object.keys(e), error: e instanceof Error };"
        "try { e.name = 'a' } catch (x) { out.set = x.name }"
        "try { Object.defineProperty(e, 'name', { value: 'a' }) } catch (x) { out.define = x.name }"
        "try { delete e.name } catch (x) { out.remove = x.name } e.more = 1;"
        "return { ...out, after: e.name, own: Object.hasOwn(e, 'name'), more: e.more };",
        steps=[StepRecord("f", "failed", "boom")],
    )
    assert await run.result() == {
        "name": "step_failed",
        "keys": [],
        "error": True,
        "set": "TypeError",
        "define": "TypeError",
        "remove": "TypeError",
        "after": "step_failed",
        "own": True,
        "more": 1,
    }


@pytest.mark.req("DW-38")
@pytest.mark.parametrize(
    ("thrown", "step"),
    [
        ("e", "f"),
        ("Object.assign(e, { a: 1 })", "f"),
        ("new Error('boom', { cause: e })", None),
        ("Object.assign(new Error('boom'), { name: 'step_failed' })", None),
        ("Object.create(e)", None),
        ("structuredClone(e)", None),
        ("new Proxy(e, {})", None),
    ],
)
async def test_only_the_genuine_object_ends_as_step_failed(shared: ScriptedHost, thrown: str, step: str | None) -> None:
    """subtle-points, Workflows 7"""
    run = await shared.run(
        "let e; try { await step.do('f') } catch (x) { e = x } await step.do('a', () => {}); await step.do('b', () => {});"
        f"throw {thrown};",
        steps=[StepRecord("f", "failed", "boom")],
    )
    assert await run.end() == ["threw", "boom", step]


@pytest.mark.req("DW-42")
async def test_a_step_kept_beyond_its_run_does_nothing(shared: ScriptedHost) -> None:
    run = await shared.run("setTimeout(() => step.do('late', () => {}), 1); return {};")
    await run.result()
    await run.started.stop()
    assert run.verbs() == ["return"]


@pytest.mark.req("DW-22")
async def test_env_holds_the_declared_environment_only(shared: ScriptedHost) -> None:
    run = await shared.run(
        "return { keys: Reflect.ownKeys(this.env), v: this.env.V };", variables={"V": {"a": [1]}, "W": None}
    )
    assert json.loads(json.dumps(await run.result())) == {"keys": ["V", "W"], "v": {"a": [1]}}


@pytest.mark.req("DW-32", "DW-35")
async def test_a_history_that_is_sent_in_parts_is_replayed_to_the_character(shared: ScriptedHost) -> None:
    texts = ["é😀\u2028" * 200_000, "x" * 1_000_000, '"\\' * 200_000]
    steps = [
        StepRecord(f"s{n}", "succeeded", json.dumps({"t": text}, ensure_ascii=False)) for n, text in enumerate(texts)
    ]
    body = """
        const never = () => { throw new Error("ran"); }, found = [];
        for (let n = 0; n < 3; n++) { const { t } = await step.do("s" + n, never); found.push(t.length, t.slice(-3)); }
        return { found };
    """
    run = await shared.run(body, steps=steps)
    lengths = [len(text.encode("utf-16-le")) // 2 for text in texts]
    ends = [text.encode("utf-16-le")[-6:].decode("utf-16-le") for text in texts]
    assert await run.result() == {"found": [each for pair in zip(lengths, ends, strict=True) for each in pair]}
