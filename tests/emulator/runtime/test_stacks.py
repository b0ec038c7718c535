"""Where uncaught errors came from, as the log tells it, on real workerd: the app's frames as its author wrote them."""

import re
from dataclasses import replace

import pytest

from emulator.runtime.app_log import AppLine, AppLog
from tests.emulator.runtime.gateways import Ingress, handler
from tests.emulator.runtime.test_app_log import lines

MAIN = """import { deep } from "./lib/deep.js"; const late = () => import("./lib/late.js");
export default {
  async fetch(request, env, ctx) {
    console.log("begun");
    if (request.url.endsWith("/late")) { const { default: go } = await late(); return go(); }
    await null;
    return deep(request);
  },
};
"""
FILES: dict[str, str | bytes] = {
    "main.js": MAIN,
    "lib/deep.js": "\nclass Shop {\n  order() { return JSON.parse('{'); }\n}\nexport const deep = () => new Shop().order();\n",
    "lib/late.js": "export default function late() {\n  throw new TypeError('too late');\n}\n",
}


async def told(ingress: Ingress, said: AppLog, count: int = 1, path: str = "/") -> list[AppLine]:
    """The lines that one request gave, of which it is answered with a 500 that tells nothing."""
    before = len(said.recent())
    answer = await ingress.client.get(path)
    assert (answer.status_code, answer.text) == (500, "Internal Server Error\n")
    return (await lines(said, before + count))[before:]


@pytest.mark.req("MW-14")
async def test_an_uncaught_error_tells_where_in_the_bundle_it_came_from(ingress: Ingress, said: AppLog) -> None:
    await ingress.serve((await ingress.version("v1", FILES), 10000))
    _, deep = await told(ingress, said, 2)
    assert deep.message.partition("\n")[0].startswith("uncaught in fetch: SyntaxError: Expected property name")
    assert deep.message.split("\n")[1:] == [
        "    at JSON.parse (<anonymous>)",
        "    at Shop.order (lib/deep.js:3:25)",
        "    at deep (lib/deep.js:5:38)",
        "    at Object.fetch (main.js:7:12)",
    ]
    _, late = await told(ingress, said, 2, "/late")
    assert late.message.split("\n") == [
        "uncaught in fetch: TypeError: too late",
        "    at late (lib/late.js:2:9)",
        "    at Object.fetch (main.js:5:87)",
    ]


@pytest.mark.req("MW-11", "MW-14")
async def test_a_module_with_dynamic_imports_keeps_the_columns_of_its_first_line(
    ingress: Ingress, said: AppLog
) -> None:
    source = (
        "const e = new Error('one line'); export default { async fetch() { await import('./a.js'); throw e; } }; // end"
    )
    await ingress.serve((await ingress.version("v1", {"main.js": source, "a.js": "export {};"}), 10000))
    (line,) = await told(ingress, said)
    assert line.message == "uncaught in fetch: Error: one line\n    at main.js:1:11"


@pytest.mark.req("MW-14")
async def test_console_shows_an_error_with_its_frames(ingress: Ingress, said: AppLog) -> None:
    await ingress.serve_handler("\nconsole.warn('so:', new RangeError('big'));\nreturn new Response('ok');")
    assert await ingress.text() == "ok"
    (line,) = await lines(said, 1)
    assert line.message == "so: RangeError: big\n    at Object.fetch (main.js:2:21)"


@pytest.mark.req("MW-14")
async def test_console_shows_an_error_of_an_app_that_lets_nobody_ask_for_stacks(ingress: Ingress, said: AppLog) -> None:
    body = "Object.freeze(Error); console.log(new RangeError('big'), new (class Own extends Error {})('small'));"
    await ingress.serve_handler(body + "return new Response('ok');")
    assert await ingress.text() == "ok"
    (line,) = await lines(said, 1)
    assert line.message == "RangeError: big Error: small"


@pytest.mark.req("MW-14")
async def test_every_way_out_of_a_handler_tells_its_frames(ingress: Ingress, said: AppLog) -> None:
    body = (
        "ctx.waitUntil((async function waited() { throw new Error('1') })()); (async function loose() { throw new Error('2') })();"
        "queueMicrotask(function queued() { throw new Error('3') }); await scheduler.wait(1);"
        "return (function own() { throw new Error('4') })();"
    )
    await ingress.serve_handler(body)
    found = await told(ingress, said, 4)
    frames = {line.message.partition("\n")[0]: line.message.split("\n")[1] for line in found}
    assert {head: re.sub(r":1:\d+\)", "", frame) for head, frame in frames.items()} == {
        "uncaught in waitUntil: Error: 1": "    at waited (main.js",
        "unhandled rejection: Error: 2": "    at loose (main.js",
        "uncaught: Error: 3": "    at queued (main.js",
        "uncaught in fetch: Error: 4": "    at own (main.js",
    }
    assert "host/" not in "".join(line.message for line in found)


LOOP = "() { touched = true; for (;;); }"
HOSTILE = {
    "a getter for the stack": f"Object.defineProperty(e, 'stack', {{ get{LOOP} }}); throw e;",
    "a getter for the name": f"Object.defineProperty(Object.getPrototypeOf(e), 'name', {{ get{LOOP} }}); throw e;",
    "a getter for the message": f"Object.defineProperty(e, 'message', {{ get{LOOP} }}); throw e;",
    "prepareStackTrace": f"Error.prepareStackTrace = function {LOOP}; throw e;",
    "prepareStackTrace for good": f"Object.defineProperty(Error, 'prepareStackTrace', {{ get{LOOP} }}); throw e;",
    "an inherited prepareStackTrace": f"Object.defineProperty(Object.prototype, 'prepareStackTrace', {{ get{LOOP} }}); throw e;",
    "frozen": f"Object.freeze(Error); Object.defineProperty(Function.prototype, 'prepareStackTrace', {{ get{LOOP} }}); throw e;",
    "call sites": (
        f"Error.prepareStackTrace = (_, sites) => {{ Reflect.defineProperty(Object.getPrototypeOf(sites[0]), 'toString',"
        f" {{ value: function {LOOP} }}); }};"
        "new Error('to get at them').stack; delete Error.prepareStackTrace; throw e;"
    ),
    "a toString": f"Error.prototype.toString = function {LOOP}; String.prototype.indexOf = function {LOOP}; throw e;",
    "a method name": f"({{ get constructor{LOOP}, get [Symbol.toStringTag]{LOOP}, f() {{ throw e }} }}).f();",
}


RULED_OUT = ("prepareStackTrace for good", "frozen")


@pytest.mark.req("MW-14")
@pytest.mark.parametrize("way", list(HOSTILE))
async def test_no_code_of_the_app_runs_when_its_error_is_told(ingress: Ingress, said: AppLog, way: str) -> None:
    body = (
        "if (request.url.endsWith('/touched')) return new Response(String(touched));"
        f"const e = new (class Own extends Error {{}})('m'); {HOSTILE[way]}"
    )
    await ingress.serve_handler(body, "let touched = false;")
    (line,) = await told(ingress, said)
    assert line.message.startswith("uncaught in fetch: Error: ")
    assert ("\n    at " in line.message) == (way not in RULED_OUT)
    assert await ingress.text("/touched") == "false"


@pytest.mark.req("MW-14")
async def test_no_function_of_the_hosts_is_met_by_a_trap(ingress: Ingress, said: AppLog) -> None:
    body = (
        "const met = []; const look = { get: () => () => { met.push(typeof Error.prepareStackTrace); } };"
        "const e = new Error('m'); Object.setPrototypeOf(e, new Proxy({}, new Proxy({}, look)));"
        "ctx.waitUntil(Promise.reject(e)); await scheduler.wait(2); console.log(met.length > 0, [...new Set(met)]); throw 1;"
    )
    await ingress.serve_handler(body)
    assert 'true ["undefined"]' in [line.message for line in await told(ingress, said, 3)]


@pytest.mark.req("MW-14")
async def test_nothing_is_inherited_into_what_is_put_back(ingress: Ingress) -> None:
    body = (
        "if (request.url.endsWith('/seen')) return new Response(seen);"
        "Error.prepareStackTrace = undefined; const e = new Error('m');"
        "Object.defineProperty(Object.prototype, 'get', { get() { seen += new Error().stack; }, configurable: true });"
        "setTimeout(() => { delete Object.prototype.get; }); throw e;"
    )
    await ingress.serve_handler(body, "let seen = '';")
    assert (await ingress.client.get("/")).status_code == 500
    assert "stacks.js" not in await ingress.text("/seen")


@pytest.mark.req("MW-14")
async def test_of_a_proxy_no_stack_is_asked_for(ingress: Ingress, said: AppLog) -> None:
    body = (
        "const seen = []; const note = { get: (_, trap) => (target, key) => { seen.push(trap + ' ' + String(key)); } };"
        "const e = new Proxy(new Error('m'), new Proxy({}, note)); console.log(seen.length);"
        "ctx.waitUntil(Promise.reject(e)); await scheduler.wait(2); console.log(seen.join());"
        "throw { name: 'Fake', message: 'm', stack: 'Fake: m\\n    at nowhere (a.js:1:1)' };"
    )
    await ingress.serve_handler(body)
    messages = [line.message for line in await told(ingress, said, 4)]
    assert "stack" not in "".join(messages[:3])
    assert messages[3] == "uncaught in fetch: Fake: m"


@pytest.mark.req("MW-14")
async def test_an_apps_own_stack_traces_are_left_as_they_were(ingress: Ingress, said: AppLog) -> None:
    body = (
        "if (request.url.endsWith('/own')) return new Response(new Error('m').stack);"
        "Error.prepareStackTrace = (error, sites) => 'own ' + error.message + sites.length; throw new Error('told');"
    )
    await ingress.serve_handler(body)
    (line,) = await told(ingress, said)
    assert "at Object.fetch (main.js:1:" in line.message
    assert (await ingress.text("/own")).startswith("own m")


@pytest.mark.req("MW-15", "HA-61")
@pytest.mark.parametrize("value", ["word of honour", "word\n    at of\nhonour", "fetch", "ain.js:1"])
async def test_no_frame_has_the_value_of_a_secret(ingress: Ingress, said: AppLog, value: str) -> None:
    body = (
        "const { [env.KEY]: named } = { [env.KEY]() { throw new Error(('x'.repeat(480) + '\\n    at ' + env.KEY).repeat(2)); } };"
        "const e = new Error('m'); e.stack = 'Error: m\\n    at ' + env.KEY + ' (main.js:1:1)'; console.log(e); named();"
    )
    version = await ingress.version("v1", handler(body))
    await ingress.serve((replace(version, secrets={"KEY": value}), 10000))
    for line in await told(ingress, said, 2):
        assert "[secret]" in line.message
        assert value not in line.message.removeprefix("uncaught in fetch")
        assert "honour" not in line.message


@pytest.mark.req("MW-14")
async def test_what_is_told_of_a_stack_is_bounded(ingress: Ingress, said: AppLog) -> None:
    body = (
        "Error.stackTraceLimit = 1e6; const name = 'n'.repeat(3000);"
        "const { [name]: dive } = { [name](depth) { if (depth === 0) throw new Error('deep'); dive(depth - 1); } }; dive(2000);"
    )
    await ingress.serve_handler(body)
    (line,) = await told(ingress, said)
    first, *frames = line.message.split("\n")
    assert (first, len(frames)) == ("uncaught in fetch: Error: deep", 1)


@pytest.mark.req("MW-14")
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("undefined", "undefined"),
        ("null", "null"),
        ("'text'", "a string"),
        ("404", "a number"),
        ("() => new Response('x')", "a function"),
        ("{ status: 200, headers: new Headers(), body: null }", "an object of another kind"),
        ("Object.create(new Response('x'))", "an object of another kind"),
        ("new Proxy(new Response('x'), {})", "an object of another kind"),
        ("new Proxy(new Response('x'), { getPrototypeOf() { for (;;); } })", "an object of another kind"),
        ("new Request('https://a.example/')", "an object of another kind"),
    ],
)
async def test_what_a_handler_gave_instead_of_a_response_is_named(
    ingress: Ingress, said: AppLog, given: str, named: str
) -> None:
    source = f"export default {{ fetch() {{ return ({given}); }} }};"
    await ingress.serve((await ingress.version("v1", source), 10000))
    (line,) = await told(ingress, said)
    assert line.message == f"uncaught in fetch: TypeError: the fetch handler returned {named} instead of a Response"


@pytest.mark.req("MW-14")
async def test_a_response_whose_body_was_used_is_named(ingress: Ingress, said: AppLog) -> None:
    await ingress.serve_handler("const r = new Response('x'); await r.text(); return r;")
    (line,) = await told(ingress, said)
    assert line.message == "uncaught in fetch: TypeError: the fetch handler returned a Response whose body was used"


@pytest.mark.req("MW-14")
async def test_an_error_response_is_told_as_the_handlers_failure(ingress: Ingress, said: AppLog) -> None:
    await ingress.serve_handler("return Response.error();")
    (line,) = await told(ingress, said)
    words = "the fetch handler returned Response.error(), which cannot be sent"
    assert line.message == f"uncaught in fetch: TypeError: {words}"


@pytest.mark.req("MW-14")
async def test_a_response_of_an_own_class_is_one(ingress: Ingress) -> None:
    await ingress.serve_handler("return new (class Page extends Response {})('own');")
    assert await ingress.text() == "own"


@pytest.mark.req("MW-14")
async def test_a_web_socket_that_nobody_asked_for_is_told(ingress: Ingress, said: AppLog) -> None:
    await ingress.serve_handler(
        "const [a, b] = Object.values(new WebSocketPair()); b.accept(); return new Response(null, { status: 101, webSocket: a });"
    )
    (line,) = await told(ingress, said)
    why = "returned a WebSocket (status 101) for a request that does not ask for one"
    assert line.message == f"uncaught in fetch: TypeError: the fetch handler {why}"
