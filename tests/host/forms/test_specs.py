"""The specs of all Forms: what is read, what is refused, what is equal."""

import json
from typing import Any

import pytest

from host.forms.bundle_manifest import ManifestInvalid, read_asset_manifest, read_module_manifest
from host.forms.durable_workflow import DurableWorkflow
from host.forms.module_worker import ModuleWorker
from host.forms.version_spec import parse_version_spec
from host.forms.worker_bundle import WorkerBundle
from host.forms.worker_deployment import WorkerDeployment
from host.model.errors import CallerError, ErrorCode

DIGEST = "a" * 64
REF: Any = {"resourceUid": "u"}
VERSION: dict[str, Any] = {"worker": REF, "bundle": {"resourceUid": "b"}, "handlers": []}
JAVASCRIPT = "application/javascript+module"
FILE = {"path": "index.js", "url": "https://a.example/i.js", "sha256": DIGEST, "mediaType": JAVASCRIPT}


def assert_refused(read: Any, spec: Any) -> None:
    with pytest.raises(CallerError) as caught:
        read(spec)
    assert caught.value.code is ErrorCode.INVALID_SPEC


def versions(*weights: Any) -> dict[str, Any]:
    entries = [{"workerVersion": {"resourceUid": f"v{index}"}, "weight": each} for index, each in enumerate(weights)]
    return {"worker": REF, "versions": entries}


@pytest.mark.req("MW-01", "DW-01", "WB-01")
def test_small_specs_are_closed() -> None:
    for spec in ({"a": 1}, None):
        assert_refused(ModuleWorker().parse, spec)
    good = {"worker": REF, "className": "C"}
    DurableWorkflow().parse(good)
    for change in (
        {"worker": {**REF, "x": 1}},
        {"className": None},
        {"className": "9"},
        {"className": "a\n"},
        {"x": 1},
    ):
        assert_refused(DurableWorkflow().parse, {**good, **change})
    bundle: Any = {"url": "https://a.example:8443/m", "sha256": DIGEST}
    assert WorkerBundle().parse({"artifact": bundle}) == WorkerBundle().parse({"artifact": dict(bundle)})
    urls = ("http://a.example/", "https://a.example/?", "https://u@a.example/", "https://a.example/" + "x" * 8192)
    changes: list[Any] = [{"sha256": "A" * 64}, {"sha256": "a" * 63}, {"x": 1}, *({"url": url} for url in urls)]
    for change in changes:
        assert_refused(WorkerBundle().parse, {"artifact": {**bundle, **change}})


@pytest.mark.req("WD-01")
def test_weights_are_integers_that_add_up() -> None:
    WorkerDeployment().parse(versions(3333, 3333, 3334))
    for bad in ([3333] * 3, [10001], [0, 10000], ["5000", 5000], [True, 9999], [3333.5, 6666.5], [], [1250] * 9):
        assert_refused(WorkerDeployment().parse, versions(*bad))
    double = versions(5000, 5000)
    double["versions"][1]["workerVersion"] = double["versions"][0]["workerVersion"]
    assert_refused(WorkerDeployment().parse, double)
    turned = versions(4000, 6000)
    turned["versions"].reverse()
    assert WorkerDeployment().parse(turned) == WorkerDeployment().parse(versions(4000, 6000))


@pytest.mark.req("WV-06")
@pytest.mark.parametrize(
    ("change", "is_equal"),
    [
        ({"vars": {}, "kvBindings": [], "requiredSensitiveVars": []}, True),
        ({"vars": {"a": 1}}, False),
        ({"assets": {"bundle": REF, "runWorkerFirst": False, "notFoundHandling": "none"}}, False),
        ({"bundle": {"resourceUid": "c"}}, False),
    ],
)
def test_defaults_are_expanded(change: dict[str, Any], is_equal: bool) -> None:
    assert (parse_version_spec(VERSION) == parse_version_spec({**VERSION, **change})) is is_equal


@pytest.mark.req("WV-06")
def test_sets_have_no_order_and_values_have() -> None:
    def version(handlers: list[str], names: list[str], value: Any) -> Any:
        bindings: list[Any] = [{"name": name, "resource": REF} for name in names]
        declared: list[Any] = list(handlers)
        return parse_version_spec({**VERSION, "handlers": declared, "workflowBindings": bindings, "vars": {"v": value}})

    first = version(["fetch", "queue"], ["A", "B"], [1, {"x": 1, "y": 2}])
    assert first == version(["queue", "fetch"], ["B", "A"], [1, {"y": 2, "x": 1}])
    assert first != version(["queue", "fetch"], ["B", "A"], [{"x": 1, "y": 2}, 1])


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth > 1 else []


@pytest.mark.req("WV-01", "WV-02", "WV-03", "WV-04")
@pytest.mark.parametrize(
    "change",
    [
        {"handlers": ["fetch", "fetch"]},
        {"handlers": ["email"]},
        {"handlers": None},
        {"bundle": None},
        {"unknown": 1},
        {"vars": {"9a": 1}},
        {"vars": {"a": nested(9)}},
        {"vars": {"a": [0] * 65}},
        {"vars": {"a": "x" * 8193}},
        {"vars": {"a": {"9": 1}}},
        {"vars": {"a": 2**53 + 1}},
        {"vars": {f"a{n}": n for n in range(65)}},
        {"vars": {"A": 1}, "workflowBindings": [{"name": "A", "resource": REF}]},
        {"requiredSensitiveVars": ["lower"]},
        {"requiredSensitiveVars": ["A", "A"]},
        {"workflowBindings": [{"name": "a-b", "resource": REF}]},
        {"workflowBindings": [{"name": "A", "resource": {**REF, "x": 1}}]},
        {"workflowBindings": [{"name": f"A{n}", "resource": REF} for n in range(65)]},
        {"assets": {"bundle": REF, "runWorkerFirst": False}},
        {"assets": {"bundle": REF, "runWorkerFirst": True, "notFoundHandling": "none"}},
        {"assets": {"bundle": REF, "runWorkerFirst": False, "notFoundHandling": "404"}},
    ],
)
def test_a_version_that_breaks_a_rule_is_refused(change: dict[str, Any]) -> None:
    assert_refused(parse_version_spec, {**VERSION, **change})


@pytest.mark.req("WV-02", "WV-04")
def test_a_version_at_the_limits_is_read() -> None:
    most = {f"a{n}": n for n in range(62)}
    parse_version_spec({**VERSION, "vars": {**most, "deep": nested(8), "long": "\U0001f600" * 8192}})
    static: dict[str, Any] = {"bundle": REF, "runWorkerFirst": False, "notFoundHandling": "single_page_application"}
    parse_version_spec({"worker": REF, "handlers": [], "assets": static})
    assert_refused(parse_version_spec, {"worker": REF, "handlers": []})
    assert_refused(parse_version_spec, {"worker": REF, "handlers": [], "assets": static, "vars": {"a": 1}})


def manifest(*files: dict[str, Any], entrypoint: str = "index.js", **more: Any) -> bytes:
    return json.dumps({"entrypoint": entrypoint, "files": list(files), **more}).encode()


@pytest.mark.req("WB-02", "WB-03", "WB-04")
@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"\xff",
        manifest(FILE).replace(b'"entrypoint"', b'"entrypoint":"index.js","entrypoint"'),
        manifest(FILE, x=1),
        manifest(),
        manifest(FILE, FILE),
        manifest(FILE, entrypoint="other.js"),
        manifest({**FILE, "mediaType": "text/plain"}),
        manifest({**FILE, "mediaType": "text/html"}),
        manifest({**FILE, "sha256": "A" * 64}),
        manifest({**FILE, "url": "https://a.example/x?y"}),
        manifest({**FILE, "extra": 1}),
        *(
            manifest({**FILE, "path": path}, entrypoint=path)
            for path in ("", "/a", "a/", "a//b", "./a", "a/..", "a\\b", "a?b", "a#b", "a\x00", "a\x7f", "\u00e9" * 513)
        ),
    ],
)
def test_a_manifest_that_breaks_a_rule_is_invalid(data: bytes) -> None:
    with pytest.raises(ManifestInvalid):
        read_module_manifest(data)


@pytest.mark.req("WB-02", "WB-03")
def test_a_manifest_keeps_its_order_and_case() -> None:
    paths = ["index.js", "Index.js", "a b/%20.js", "\u00e9" * 512]
    found = read_module_manifest(manifest(*({**FILE, "path": path} for path in paths)))
    assert [file.path for file in found.files] == paths
    assert len(read_module_manifest(manifest(FILE, *({**FILE, "path": f"{n}"} for n in range(511)))).files) == 512


TYPES = ("text/css", "image/svg+xml", "application/x.y-z", "!#$%&'*+-.^_`|~09Az/a", "a/b")
NO_TYPES = (
    "",
    "text",
    "text/",
    "/css",
    "text/css;charset=utf-8",
    "text/css ",
    "te xt/css",
    "text//css",
    "t\u00e9xt/css",
    1,
)


def assets(*files: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"files": list(files), **more}).encode()


@pytest.mark.req("SA-04")
def test_an_asset_has_any_media_type_without_parameters() -> None:
    for media_type in TYPES:
        (file,) = read_asset_manifest(assets({**FILE, "mediaType": media_type})).files
        assert file.media_type == media_type
    for wrong in NO_TYPES:
        with pytest.raises(ManifestInvalid):
            read_asset_manifest(assets({**FILE, "mediaType": wrong}))


@pytest.mark.req("SA-02", "SA-03")
@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"\xff",
        b"{}",
        assets(FILE).replace(b'"files"', b'"files":[],"files"'),
        assets(FILE, entrypoint="index.js"),
        assets(FILE, x=1),
        assets(),
        assets(FILE, FILE),
        assets(*({**FILE, "path": f"{n}"} for n in range(513))),
        assets({**FILE, "sha256": "A" * 64}),
        assets({**FILE, "url": "https://a.example/x?y"}),
        assets({**FILE, "extra": 1}),
        assets({name: value for name, value in FILE.items() if name != "mediaType"}),
        *(
            assets({**FILE, "path": path})
            for path in ("", "/a", "a/", "a//b", "./a", "a/..", "a\\b", "a?b", "a#b", "a\x00", "a\x7f", "\u00e9" * 513)
        ),
    ],
)
def test_an_asset_manifest_that_breaks_a_rule_is_invalid(data: bytes) -> None:
    with pytest.raises(ManifestInvalid):
        read_asset_manifest(data)


@pytest.mark.req("SA-02", "SA-03")
def test_an_asset_manifest_keeps_its_order_and_case() -> None:
    paths = ["b", "B", "a b/%20.css", "\u00e9" * 512, *(f"{n}" for n in range(508))]
    found = read_asset_manifest(assets(*({**FILE, "path": path} for path in paths)))
    assert [file.path for file in found.files] == paths
    assert found.entrypoint is None
