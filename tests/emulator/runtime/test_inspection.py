"""What inspection says of exports, and that it never runs what it looks at, on real workerd (MW-10, DW-20)."""

from pathlib import Path

import pytest

from emulator.runtime.locate import Runtime
from emulator.runtime.process import Launcher
from emulator.runtime.workbench import Deadlines
from host.ports import CodeRejected
from tests.emulator.runtime.bundles import Bundler

DEFAULT = "export default {};"
TAMPER = (
    "Reflect.getOwnPropertyDescriptor = () => ({ value() {} }); Reflect.ownKeys = () => ['Fake'];"
    "Array.prototype.push = () => {}; Object.prototype.get = () => 1; Object.prototype.toJSON = () => 'x';"
    "Array.prototype.toJSON = () => ['Fake']; String.prototype.toJSON = () => 'x'; globalThis.Response = class {};"
    'JSON.stringify = () => \'{"handlers":["fetch"],"classes":["Fake"]}\';'
)
NEVER = "throw new Error('ran')"

CLASSES = [
    ("a class with run", "export class Flow { run() {} }", True),
    (
        "a throwing constructor is not run",
        f"export class Flow {{ constructor() {{ {NEVER} }} run() {{ {NEVER} }} }}",
        True,
    ),
    ("run is inherited", "class A { run() {} } class B extends A {} export class Flow extends B {}", True),
    ("a function with a prototype", "export function Flow() {} Flow.prototype.run = () => {};", True),
    ("a bound class has no prototype", "class A { run() {} } export const Flow = A.bind(null);", False),
    ("a proxied class", "class A { run() {} } export const Flow = new Proxy(A, {});", True),
    ("run is an accessor", f"export class Flow {{ get run() {{ {NEVER} }} }}", False),
    (
        "an accessor hides an inherited run",
        f"class A {{ run() {{}} }} export class Flow extends A {{ get run() {{ {NEVER} }} }}",
        False,
    ),
    ("run is no function", "export class Flow {} Flow.prototype.run = 1;", False),
    ("run is on instances only", "export class Flow { run = () => {} }", False),
    ("run is static", "export class Flow { static run() {} }", False),
    ("an arrow function", "export const Flow = () => {}; Flow.prototype = { run() {} };", False),
    ("an async function", "export async function Flow() {}", False),
    ("a method", "export const { Flow } = { Flow() {} };", False),
    ("an object", "export const Flow = { prototype: { run() {} } };", False),
    ("undefined", "export let Flow;", False),
    (
        "the prototype is an accessor",
        "export const Flow = new Proxy(class {}, { getOwnPropertyDescriptor() { return undefined; } });",
        False,
    ),
    (
        "a trap that throws",
        f"export const Flow = new Proxy(class {{ run() {{}} }}, {{ getOwnPropertyDescriptor() {{ {NEVER} }} }});",
        False,
    ),
    (
        "a prototype chain without end",
        "const next = () => new Proxy({}, { getPrototypeOf: next, getOwnPropertyDescriptor: () => undefined });"
        "export function Flow() {} Flow.prototype = next();",
        False,
    ),
    ("an exported name of another class", "class A { run() {} } export { A as Flow };", True),
    ("re-exported from another module", "export { Flow } from './flow.js';", True),
]


@pytest.mark.req("DW-20")
async def test_a_workflow_class_is_constructible_and_has_a_callable_run(bundler: Bundler) -> None:
    files: dict[str, str | bytes] = {"flow.js": "export class Flow { run() {} }"}
    lines = [DEFAULT]
    for number, (_, source, _) in enumerate(CLASSES):
        files[f"case{number}.js"] = source
        lines.append(f"export {{ Flow as Flow{number} }} from './case{number}.js';")
    found = (await bundler.verify({"main.js": "\n".join(lines), **files})).classes
    for number, (case, _, is_class) in enumerate(CLASSES):
        assert (f"Flow{number}" in found) == is_class, case


@pytest.mark.req("DW-20", "MW-10")
async def test_tampering_with_built_ins_changes_no_report(bundler: Bundler) -> None:
    source = TAMPER + "export class Flow { run() {} } export class Plain {} export default { queue() {} };"
    report = await bundler.verify({"main.js": source})
    assert (report.handlers, report.classes) == (("queue",), ("Flow",))


HANDLERS = [
    ("export default { fetch() {}, scheduled: () => {}, queue: class {} };", ("fetch", "scheduled", "queue")),
    ("export default { queue() {}, fetch: 1, email() {} };", ("queue",)),
    (f"export default {{ get fetch() {{ {NEVER} }} }};", ()),
    ("export default Object.create(null, { fetch: { value() {} } });", ("fetch",)),
    ("export default { __proto__: null, scheduled() {} };", ("scheduled",)),
    ("export { d as default }; const d = { fetch() {} };", ("fetch",)),
    ("export { default } from './other.js';", ("fetch",)),
]


@pytest.mark.req("MW-10")
@pytest.mark.parametrize(("source", "handlers"), HANDLERS)
async def test_handlers_are_callable_own_properties(bundler: Bundler, source: str, handlers: tuple[str, ...]) -> None:
    files = {"main.js": source, "other.js": "export default { fetch() {} };"}
    assert (await bundler.verify(files)).handlers == handlers


NOT_PLAIN = [
    "",
    "export default null;",
    "export default [];",
    "export default class { static fetch() {} }",
    "class A { fetch() {} } export default new A();",
    "export default Object.create({ fetch() {} });",
    "export default new Proxy({}, { getPrototypeOf() { throw 1; } });",
]


@pytest.mark.req("MW-10")
@pytest.mark.parametrize("source", NOT_PLAIN)
async def test_a_default_export_that_is_no_plain_object_is_rejected(bundler: Bundler, source: str) -> None:
    with pytest.raises(CodeRejected, match="the default export of the main module is not a plain object"):
        await bundler.verify({"main.js": source})


EVALUATION = [
    ("throw new TypeError('at the top');", "TypeError: at the top"),
    ("throw 'text';", "text"),
    ("throw undefined;", "a thrown undefined"),
    ("throw { get message() { throw 1; } };", "Error: no message"),
    ("import { missing } from './other.js';", "SyntaxError: The requested module '/other.js' does not provide"),
    ("await import('./nothing.js');", 'module_not_found: no module "./nothing.js" in the bundle'),
    (
        "await import('node:fs');",
        'evaluated: module_not_found: no module "node:fs" in the bundle; there are no packages and no built-in modules',
    ),
    ("await new Promise(() => {});", "the main module could not be evaluated"),
    ("setTimeout(() => {});", "Error: Disallowed operation called within global scope"),
    ("import './throws.js';", "RangeError: deep"),
]


@pytest.mark.req("MW-12")
@pytest.mark.parametrize(("source", "reason"), EVALUATION)
async def test_a_failing_evaluation_is_a_rejection_with_its_reason(bundler: Bundler, source: str, reason: str) -> None:
    files = {
        "main.js": source + DEFAULT,
        "other.js": "export const x = 1;",
        "throws.js": "throw new RangeError('deep');",
    }
    with pytest.raises(CodeRejected) as caught:
        await bundler.verify(files)
    assert reason in str(caught.value)


@pytest.mark.req("MW-12")
async def test_a_module_that_is_only_imported_later_is_not_evaluated(bundler: Bundler) -> None:
    source = "export default { fetch: () => import('./later.js') };"
    report = await bundler.verify({"main.js": source, "later.js": NEVER})
    assert report.handlers == ("fetch",)


HOSTILE = [
    "for (;;);",
    "const spin = () => Promise.resolve().then(spin); await spin();",
    "export const Flow = new Proxy(class {}, { getOwnPropertyDescriptor() { for (;;); } });",
    "Object.defineProperty(Object.prototype, 'then', { get() { for (;;); } });",
]


@pytest.mark.req("MW-12", "DW-20")
@pytest.mark.parametrize("source", HOSTILE)
async def test_code_that_never_ends_is_killed_at_the_deadline(
    launcher: Launcher, runtime: Runtime, tmp_path: Path, source: str
) -> None:
    bundler = Bundler(launcher, runtime.parser, tmp_path, Deadlines(inspect_s=1.0))
    with pytest.raises(CodeRejected, match="did not finish evaluating within 1 s"):
        await bundler.verify({"main.js": source + DEFAULT})


@pytest.mark.req("MW-12")
async def test_code_that_eats_memory_ends_its_own_process_only(bundler: Bundler) -> None:
    source = "const hog = []; for (;;) hog.push(new Array(1e6).fill(hog.length));"
    with pytest.raises(CodeRejected, match=r"ended the runtime|could not be evaluated|did not finish"):
        await bundler.verify({"main.js": source + DEFAULT})
    assert (await bundler.verify({"main.js": DEFAULT})).handlers == ()
