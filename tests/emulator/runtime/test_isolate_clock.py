"""Contract time inside an isolate: everything that yields a time on a controlled clock, nothing touched otherwise."""

import json
import time

import pytest

from host.model.json import JsonValue
from tests.emulator.runtime.conftest import NOW_MS, Answer, Frame, ScriptedHost, durable

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.req("DW-41")]

PROBE = r"""
const fixed = new Date(Date.UTC(2001, 1, 3)); const f = new Intl.DateTimeFormat("en-CA", { timeZone: "UTC" });
const text = (p) => p.map((x) => x.value).join("");
export const probe = () => ({
  now: Date.now(), made: new Date().getTime(), called: new Date(Date()).getTime(), fixed: fixed.toISOString(),
  parsed: new Date("2001-02-03T00:00:00Z").getTime() === fixed.getTime(), parts: new Date(2001, 1, 3).getFullYear(),
  made2: new fixed.constructor().getTime(), sub: new (class extends Date {})().getTime(), is: fixed instanceof Date,
  name: Date.name, length: Date.length, own: Reflect.ownKeys(Date).sort().join(),
  format: f.format(), bound: [undefined].map(f.format)[0], formatOf: f.format(fixed), formatParts: text(f.formatToParts()),
  file: new File([], "x").lastModified, fileOf: new File([], "x", { lastModified: 5, type: "a/b" }).lastModified,
  performance: performance.now() + performance.timeOrigin,
  temporal: typeof Temporal === "undefined" ? "none" : String(Temporal.Now.instant().epochMilliseconds),
});
"""
FLOW = 'import { probe } from "/app/probe.js"; const top = probe(); export class Flow { run(e, step) { '


def code(body: str) -> dict[str, str]:
    return {"main.js": FLOW + body + " } }", "probe.js": PROBE}


async def test_every_source_of_time_gives_contract_time(shared: ScriptedHost) -> None:
    run = await shared.start(code("return { top, inside: probe() };"), now_ms=NOW_MS)
    result = await run.result()
    await run.started.stop()
    assert isinstance(result, dict)
    for found in (result["top"], result["inside"]):
        assert isinstance(found, dict)
        temporal = found.pop("temporal")
        assert temporal in ("none", str(NOW_MS))
        assert found == {
            "now": NOW_MS,
            "made": NOW_MS,
            "called": NOW_MS,
            "made2": NOW_MS,
            "sub": NOW_MS,
            "is": True,
            "fixed": "2001-02-03T00:00:00.000Z",
            "parsed": True,
            "parts": 2001,
            "name": "Date",
            "length": 7,
            "own": "UTC,length,name,now,parse,prototype",
            "format": "2027-01-15",
            "bound": "2027-01-15",
            "formatOf": "2001-02-03",
            "formatParts": "2027-01-15",
            "file": NOW_MS,
            "fileOf": 5,
            "performance": NOW_MS,
        }


async def test_now_moves_with_each_reply(shared: ScriptedHost) -> None:
    later: dict[JsonValue, int] = {"a": NOW_MS + 5000, "b": NOW_MS + 3_600_000}

    def answer(frame: Frame) -> Answer:
        if frame[0] != "done":
            return durable(frame)
        reply = ["reply", frame[1], "done", frame[4], later[frame[2]]]
        run.started.send(json.dumps(reply))
        return None

    run = await shared.run(
        "const seen = [Date.now()]; const p = performance.now(); for (const n of ['a', 'b']) { await step.do(n, () => {});"
        " seen.push(Date.now()); } return { seen, passed: performance.now() - p };",
        now_ms=NOW_MS,
        answer=answer,
    )
    assert await run.result() == {"seen": [NOW_MS, later["a"], later["b"]], "passed": 3_600_000}
    await run.started.stop()


async def test_nothing_is_replaced_on_the_system_clock(shared: ScriptedHost) -> None:
    run = await shared.run(
        "const native = (f) => Function.prototype.toString.call(f).includes('[native code]');"
        "return { all: [Date, Date.now, File, performance.now, Intl.DateTimeFormat.prototype.formatToParts].map(native) };"
    )
    assert await run.result() == {"all": [True] * 5}
    await run.started.stop()


# A function or accessor that is not known to yield a time, and does, would show a number near the system's time.
SWEEP = r"""
const found = []; const near = (x) => typeof x === "number" && (Math.abs(x - REAL) < 6e5 || Math.abs(x * 1000 - REAL) < 6e5);
const scan = (object, path, depth) => { for (const key of Reflect.ownKeys(object)) {
  const d = Reflect.getOwnPropertyDescriptor(object, key), name = path + "." + String(key); let value = d.value;
  if (d.get) { try { value = Reflect.apply(d.get, object, []) } catch { continue } }
  if (near(value)) found.push(name);
  if (typeof value === "function" && value.length === 0 && !/^[A-Z]/.test(String(key)) && !skip.has(String(key)))
    { try { if (near(Number(value.call(object)))) found.push(name + "()"); } catch {} }
  if (value !== null && (typeof value === "object" || typeof value === "function") && depth < 3 && !seen.has(value))
    { seen.add(value); scan(value, name, depth + 1); } } };
const seen = new Set([globalThis]); const skip = new Set(["close", "send", "abort", "gc", "reload", "terminate"]);
"""


async def test_no_other_global_tells_the_system_time(shared: ScriptedHost) -> None:
    run = await shared.run(
        "const REAL = event.params.now;" + SWEEP + "scan(globalThis, 'global', 0);"
        "const e = new Event('x'); if (near(e.timeStamp)) found.push('Event.timeStamp'); return { found };",
        now_ms=NOW_MS + 10**9,
        params='{"now":' + str(time.time_ns() // 10**6) + "}",
    )
    assert await run.result() == {"found": []}
    await run.started.stop()
