"""What Workers print, on real workerd: whose it is, that nothing forges or leaks, and how much is kept."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from emulator.runtime.app_log import AppLine, AppLog
from emulator.runtime.kernels import KernelSettings
from emulator.runtime.pool import PoolSettings, RunnerPool
from emulator.runtime.process import Launcher
from host.model.time import ControlledClock, RealTime
from tests.emulator.runtime.conftest import NOW_MS, NoCalls, ScriptedHost
from tests.emulator.runtime.gateways import Ingress, handler

SECRET = 'word "of"\nhonour'


async def lines(log: AppLog, count: int) -> list[AppLine]:
    """The first lines once there are so many."""
    found: list[AppLine] = []
    async with asyncio.timeout(20):
        async for line in log.follow():
            assert isinstance(line, AppLine)
            found.append(line)
            if len(found) == count:
                break
    return found


def first_line(line: AppLine) -> str:
    """What was thrown, without where."""
    return line.message.partition("\n")[0]


@pytest.mark.req("MW-16", "MW-14")
async def test_a_handlers_words_and_errors_name_worker_and_version(ingress: Ingress, said: AppLog) -> None:
    body = (
        "console.log('one', 2, { a: [null] }, undefined); console.warn('two\\nlines'); console.assert(true, 'no');"
        "ctx.waitUntil(Promise.reject(new Error('later'))); Promise.reject(new TypeError('loose')); throw new RangeError('big');"
    )
    await ingress.serve_handler(body)
    assert (await ingress.client.get("/")).status_code == 500
    found = await lines(said, 5)
    assert {(line.worker_uid, line.version_uid, line.instance_id, line.context_id) for line in found} == {
        ("app", "v1", None, None)
    }
    assert [(line.level, line.message) for line in found][:2] == [
        ("log", 'one 2 {"a":[null]} undefined'),
        ("warn", "two\nlines"),
    ]
    assert {(line.level, first_line(line)) for line in found[2:]} == {
        ("error", "uncaught in waitUntil: Error: later"),
        ("error", "unhandled rejection: TypeError: loose"),
        ("error", "uncaught in fetch: RangeError: big"),
    }


@pytest.mark.req("MW-15", "HA-61")
async def test_no_line_has_the_value_of_a_secret(ingress: Ingress, said: AppLog, tmp_path: Path) -> None:
    body = (
        "console.log(env.KEY, 'x' + env.KEY + 'y', { deep: [env.KEY] }, JSON.stringify(JSON.stringify(env.KEY)).length);"
        "Promise.reject(env.KEY); console.log('a'.repeat(8190) + env.KEY);"
        "throw new Error('it was ' + env.KEY + ' and ' + env.SHORT);"
    )
    version = await ingress.version("v1", handler(body))
    secret = replace(version, secrets={"KEY": SECRET, "SHORT": "honour"})
    await ingress.serve((secret, 10000))
    await ingress.client.get("/")
    text = json.dumps([line.to_json() for line in await lines(said, 4)])
    assert "honour" not in text
    assert "word" not in text
    assert text.count("[secret]") >= 6
    assert "honour" not in (tmp_path / "log" / "workerd.log").read_text()


@pytest.mark.req("MW-15")
async def test_no_app_can_print_a_line_of_another(ingress: Ingress, said: AppLog) -> None:
    body = (
        "Array.prototype.toJSON = () => 'forged'; String.prototype.toJSON = () => 'forged';"
        'console.log(\'\\n\' + \'x\'.repeat(3) + \' ["other","v9",null,null,"log","forged"]\\n\');'
        "return new Response(String(Object.values(env)));"
    )
    await ingress.serve_handler(body)
    assert said.tags.of("app", "v1") not in await ingress.text()
    (line,) = await lines(said, 1)
    assert (line.worker_uid, line.message.startswith("\nxxx")) == ("app", True)


@pytest.mark.req("MW-15")
async def test_an_app_that_learns_the_tag_of_its_lines_still_speaks_for_itself_alone(
    ingress: Ingress, said: AppLog
) -> None:
    body = (
        "const { pop } = Array.prototype; let learnt = ''; Array.prototype.pop = function () {"
        " for (let i = 0; i < this.length; i++) if (typeof this[i] === 'string') learnt += this[i];"
        " return Reflect.apply(pop, this, []); }; console.log('bait'); Array.prototype.pop = pop;"
        "const tag = learnt.slice(0, learnt.indexOf(' ['));"
        'const line = tag + \' ["other","v9",null,null,"log","forged"]\'; queueMicrotask(() => { throw line; });'
        "reportError(line); reportError(new Error('\\n' + line + '\\n')); setTimeout(() => { throw '\\n' + line; });"
        "await new Promise((resolve) => setTimeout(resolve, 20)); console.log('end'); return new Response(tag);"
    )
    await ingress.serve_handler(body)
    assert await ingress.text() == said.tags.of("app", "v1")  # it is learnt: else there is nothing to see here
    found = await lines(said, 2)
    assert {line.worker_uid for line in found} == {"app"}
    assert "forged" not in [line.message for line in found]


# Within reach of code that tampers with what the engine prints by: the text that it prints.
RAW = """
const iterate = Array.prototype[Symbol.iterator];
function raw(textOf) {
  Array.prototype[Symbol.iterator] = function () {
    const isLine = typeof this[0] === "string" && this[0].includes(' ["');
    return Reflect.apply(iterate, isLine ? [textOf(this[0])] : this, []);
  };
  console.log("own"); Array.prototype[Symbol.iterator] = iterate;
}
"""
FORGERIES = {
    "a raw line": "raw(() => 'x\\n[other] error: forged\\n\\x1b[2K[other] error: forged\\n    forged');",
    "a level": "raw((line) => line.replace('\"log\"', '\"log: a\\\\n[other] error: forged\"'));",
    "an error of printing": (
        "const e = new Error('y'); e.stack = 'z\\n[other] error: forged\\n'; raw(() => { throw e; });"
    ),
}


@pytest.mark.req("MW-15")
@pytest.mark.parametrize("way", list(FORGERIES))
async def test_no_line_of_the_file_looks_like_a_line_of_somebody_else(
    ingress: Ingress, said: AppLog, tmp_path: Path, way: str
) -> None:
    await ingress.serve_handler(
        f"{RAW} try {{ {FORGERIES[way]} }} catch {{}} console.log('end'); return new Response();"
    )
    await ingress.text()
    await ingress.close()
    assert [each.message for each in said.recent()] == ["end"]
    shown = (tmp_path / "log" / "workerd.log").read_text()
    found = [text for text in shown.split("\n") if text and not text.startswith("| ")]
    assert found == ["[v1] log: end"]
    assert "\x1b" not in shown


@pytest.mark.req("MW-15")
async def test_no_app_can_print_a_line_of_the_host(ingress: Ingress, said: AppLog) -> None:
    raw = "raw((line) => line.replace('own', 'takohost: raw'));"
    await ingress.serve_handler(f"{RAW} console.error('takohost: said'); {raw} return new Response();")
    await ingress.text()
    assert [each.message for each in await lines(said, 2)] == ["(app) takohost: said", "(app) takohost: raw"]


@pytest.mark.req("MW-16")
async def test_a_contexts_words_name_instance_and_context(launcher: Launcher, said: AppLog, tmp_path: Path) -> None:
    calls = NoCalls()
    kernel = KernelSettings(tmp_path / "code", tags=said.tags)
    kernel.code_dir.mkdir()
    pool = RunnerPool(launcher, kernel, PoolSettings(1), calls, ControlledClock.frozen(NOW_MS), RealTime())
    await pool.open()
    run = await ScriptedHost(pool, kernel.code_dir, calls).run("console.info('here'); throw new Error('there')")
    assert (await asyncio.wait_for(run.ended, 20)) == ["threw", "there", None]
    found = await lines(said, 2)
    await pool.close()
    assert [(each.worker_uid, each.version_uid, each.instance_id, each.context_id) for each in found] == 2 * [
        ("worker-1", "version-1", "i-1", "c1")
    ]
    assert [(each.level, first_line(each)) for each in found] == [
        ("info", "here"),
        ("error", "uncaught in run: Error: there"),
    ]
    assert re.fullmatch(r"\n    at Flow\.run \(main\.js:1:\d+\)", found[1].message.removeprefix(first_line(found[1])))


ESCAPES = {
    "one argument and the next": "console.log('word', 'of', 'honour', 'word of honour');",
    "a stack": "const e = new Error('it was ' + env.KEY); console.log(e.stack); console.log(e);",
    "the edge of an error": "throw new Error('x'.repeat(490) + env.KEY);",
    "the edge of a line": "console.log('x'.repeat(8187) + env.KEY);",
    "the edge of what is read": "console.log(env.KEY.repeat(40), (env.KEY + 'x').repeat(80000));",
    "JSON": "console.log(JSON.stringify({ key: env.KEY }), { key: env.KEY });",
    "a microtask": "queueMicrotask(() => { throw new Error(env.KEY); }); await scheduler.wait(1);",
    "reportError": "reportError(new Error(env.KEY));",
    "a stream": "return new Response(new ReadableStream({ pull() { throw new Error(env.KEY); } }));",
    "a named error": "const e = new Error('m'); e.name = env.KEY; throw e;",
}


@pytest.mark.req("MW-15", "HA-61")
@pytest.mark.parametrize("way", list(ESCAPES))
async def test_a_secret_escapes_to_the_log_in_no_way(ingress: Ingress, said: AppLog, tmp_path: Path, way: str) -> None:
    body = f"console.log('begun'); {ESCAPES[way]} return new Response('ended');"
    version = await ingress.version("v1", handler(body))
    await ingress.serve((replace(version, secrets={"KEY": "word of honour"}), 10000))
    with contextlib.suppress(httpx.RemoteProtocolError):
        await ingress.client.get("/")
    await ingress.close()
    shown = (tmp_path / "log" / "workerd.log").read_text()
    assert "begun" in shown
    for text in (shown, *(each.message for each in said.recent())):
        assert "word o" not in text and "honour" not in text, text


@pytest.mark.req("MW-14")
async def test_errors_beside_the_handler_are_told_once_each(ingress: Ingress, said: AppLog) -> None:
    body = (
        "queueMicrotask(() => { throw new RangeError('micro'); }); await scheduler.wait(1); reportError('reported');"
        "const late = Promise.reject(new Error('caught in time')); await null; await null; late.catch(() => {});"
        "return new Promise((_, no) => no(new Error('returned')));"
    )
    await ingress.serve_handler(body)
    assert (await ingress.client.get("/")).status_code == 500
    await ingress.close()
    assert sorted(map(first_line, said.recent())) == [
        "uncaught in fetch: Error: returned",
        "uncaught: RangeError: micro",
        "uncaught: reported",
    ]


@pytest.mark.req("HA-61")
async def test_what_workerd_says_of_an_error_is_kept_without_the_errors_text() -> None:
    """App code may put whatever looks like workerd's own words into its error: only a tag ends what is withheld."""
    log = AppLog(lambda: NOW_MS)
    tap = log.tap()
    said = f'{log.tags.of("w", "v", None, None)} ["w","v",null,null,"warn","said"]\n'
    text = (
        "workerd/io/b.c++:2: info: plain\n"
        "workerd/io/a.c++:1: error: Uncaught exception: workerd/jsg/value.h:2: failed: remote.jsg.Error: word\n"
        f"stack: word\nx.c++:1: word\n{said}plain\n"
        f"x/c.h:3: error: jsg.DOMException(Foo_1 word): word\n{said}plain\n"
    )
    hidden = "(the text of app code is not shown)"
    assert (tap.pass_on(text.encode()) + tap.end()).decode() == (
        "| workerd/io/b.c++:2: info: plain\n"
        f"| workerd/io/a.c++:1: error: Uncaught exception: workerd/jsg/value.h:2: failed: remote.jsg.{hidden}\n"
        f"| {hidden}\n| {hidden}\n[v] warn: said\n| plain\n"
        f"| x/c.h:3: error: jsg.{hidden}\n[v] warn: said\n| plain\n"
    )


def test_no_line_of_a_message_looks_like_a_line_of_somebody_else() -> None:
    forged = AppLine(NOW_MS, None, "w", "v", None, None, "log", "a\n[other] error: forged\r\x1b[2J\x9b")
    assert forged.shown() == "[v] log: a\n    [other] error: forged\\x0d\\x1b[2J\\x9b"


def line(number: int) -> AppLine:
    return AppLine(NOW_MS, None, "w", "v", None, None, "log", str(number))


async def messages(log: AppLog) -> AsyncIterator[str]:
    async for each in log.follow():
        yield f"missed {each}" if isinstance(each, int) else each.message


async def test_the_log_is_bounded_and_a_slow_follower_is_told_what_it_missed() -> None:
    log = AppLog(lambda: NOW_MS, kept=3)
    log.tell(line(0))
    following = messages(log)
    assert await anext(following) == "0"
    for number in range(1, 6):
        log.tell(line(number))
    assert [each.message for each in log.recent()] == ["3", "4", "5"]
    log.close()
    assert [each async for each in following] == ["missed 2", "3", "4", "5"]


async def test_lines_are_whole_whatever_the_reads_are() -> None:
    log = AppLog(lambda: NOW_MS)
    tag = log.tags.of("w", "v", "i")
    text = f'plain\n{tag} ["w","v","i",null,"warn","said"]\n{tag} [1]\n{tag} ["cut\nrest'.encode()
    tap = log.tap()
    shown = b"".join(tap.pass_on(text[at : at + 7]) for at in range(0, len(text), 7)) + tap.end()
    assert [(each.instance_id, each.level, each.message) for each in log.recent()] == [("i", "warn", "said")]
    assert shown.decode() == f"| plain\n[v 'i'] warn: said\n| {tag} [1]\n| {tag} [\"cut\n| rest"


@pytest.mark.req("MW-15")
def test_a_tag_stands_for_one_place_only() -> None:
    log = AppLog(lambda: NOW_MS)
    tag = log.tags.of("w", "v", "i", "c")
    assert log.read(f'{tag} ["w","v","i","c","log","own"]'.encode()) == AppLine(
        NOW_MS, None, "w", "v", "i", "c", "log", "own"
    )
    for place in ("x", "v", "i", "c"), ("w", "x", "i", "c"), ("w", "v", "x", "c"), ("w", "v", "i", None):
        assert log.read(f"{tag} {json.dumps([*place, 'log', 'forged'])}".encode()) is None
    for broken in (
        '["w","v","i","c","log",1]',
        '["w","v","i","c","log: a\\n[x] error","m"]',
        '["w","v"]',
        "[" * 100_000,
        '["w","v",{},"c","log","x"]',
        "",
    ):
        assert log.read(f"{tag} {broken}".encode()) is None
