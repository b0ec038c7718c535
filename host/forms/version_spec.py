"""The spec of WorkerVersion 0.5.0 in normal form: its `==` is the Form's equality (WV-01 to WV-04, WV-06)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from host.forms import urls
from host.forms.spec import array, boolean, check_distinct, closed_object, matching, one_of, reference
from host.model.errors import invalid_spec
from host.model.json import JsonObject, JsonValue, canonical_text, decode_object, is_exact_double

BINDING_FORMS: Mapping[str, str] = {
    "kvBindings": urls.EDGE_KV_NAMESPACE,
    "sqliteBindings": urls.SQLITE_DATABASE,
    "bucketBindings": urls.OBJECT_BUCKET,
    "queueProducerBindings": urls.AT_LEAST_ONCE_QUEUE,
    "serviceBindings": urls.MODULE_WORKER,
    "actorBindings": urls.ACTOR_NAMESPACE,
    "workflowBindings": urls.DURABLE_WORKFLOW,
}
HANDLERS = ("fetch", "scheduled", "queue")
SINGLE_PAGE = "single_page_application"

_VAR = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")
_BINDING = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]{0,63}")
_SENSITIVE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_OPTIONAL = ("bundle", "vars", "requiredSensitiveVars", *BINDING_FORMS, "assets")
_MOST = 64
_LONGEST_STRING = 8192
_DEEPEST = 8


@dataclass(frozen=True, slots=True, order=True)
class Binding:
    """`kind` is the name of the spec's array."""

    name: str
    kind: str
    target_uid: str


@dataclass(frozen=True, slots=True)
class Assets:
    bundle_uid: str
    runs_worker_first: bool
    not_found_handling: str


@dataclass(frozen=True, slots=True)
class WorkerVersionSpec:
    """Defaults expanded, sets in order of name, `vars_text` the canonical text of the vars."""

    worker_uid: str
    bundle_uid: str | None
    handlers: tuple[str, ...]
    vars_text: str
    sensitive_names: tuple[str, ...]
    bindings: tuple[Binding, ...]
    assets: Assets | None

    @property
    def vars(self) -> JsonObject:
        return decode_object(self.vars_text)


def parse_version_spec(value: JsonValue) -> WorkerVersionSpec:
    """Raises `CallerError` with `invalid_spec`."""
    members = closed_object(value, "spec", required=("worker", "handlers"), optional=_OPTIONAL)
    spec = WorkerVersionSpec(
        worker_uid=reference(members["worker"], "spec.worker"),
        bundle_uid=reference(members["bundle"], "spec.bundle") if "bundle" in members else None,
        handlers=_handlers(members["handlers"]),
        vars_text=canonical_text(_vars(members.get("vars", {}))),
        sensitive_names=_sensitive_names(members.get("requiredSensitiveVars", [])),
        bindings=_bindings(members),
        assets=_assets(members["assets"]) if "assets" in members else None,
    )
    _check_names(spec)
    _check_shape(spec)
    return spec


def _handlers(value: JsonValue) -> tuple[str, ...]:
    names = array(value, "spec.handlers", 0, len(HANDLERS), lambda each, where: one_of(each, where, HANDLERS))
    check_distinct(names, "spec.handlers")
    return tuple(sorted(names))


def _sensitive_names(value: JsonValue) -> tuple[str, ...]:
    names = array(value, "spec.requiredSensitiveVars", 0, _MOST, lambda each, where: matching(each, where, _SENSITIVE))
    return tuple(sorted(names))


def _vars(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict) or len(value) > _MOST:
        raise invalid_spec(f"spec.vars is not an object of at most {_MOST} members")
    for name, each in value.items():
        matching(name, "a name in spec.vars", _VAR)
        _check_var(each, "a value in spec.vars", 1)
    return value


def _check_var(value: JsonValue, where: str, depth: int) -> None:
    """WV-04; an integer that JavaScript would round is refused instead of changed on its way to the Worker."""
    match value:
        case str() if len(value) > _LONGEST_STRING:
            raise invalid_spec(f"{where} has a string of more than {_LONGEST_STRING} characters")
        case bool() | None:
            return
        case int() if not is_exact_double(value):
            raise invalid_spec(f"{where} has an integer that no JavaScript number equals")
        case list() | dict() if depth > _DEEPEST:
            raise invalid_spec(f"{where} has more than {_DEEPEST} containers inside each other")
        case list() | dict() if len(value) > _MOST:
            raise invalid_spec(f"{where} has a container of more than {_MOST} entries")
        case list():
            for item in value:
                _check_var(item, where, depth + 1)
        case dict():
            for name, item in value.items():
                matching(name, f"a name in {where}", _VAR)
                _check_var(item, where, depth + 1)
        case _:
            return


def _bindings(members: JsonObject) -> tuple[Binding, ...]:
    found: list[Binding] = []
    for kind in BINDING_FORMS:

        def read(value: JsonValue, where: str, kind: str = kind) -> Binding:
            entry = closed_object(value, where, required=("name", "resource"))
            name = matching(entry["name"], f"{where}.name", _BINDING)
            return Binding(name, kind, reference(entry["resource"], f"{where}.resource"))

        found += array(members.get(kind, []), f"spec.{kind}", 0, _MOST, read)
    return tuple(sorted(found))


def _assets(value: JsonValue) -> Assets:
    members = closed_object(value, "spec.assets", required=("bundle", "runWorkerFirst", "notFoundHandling"))
    return Assets(
        bundle_uid=reference(members["bundle"], "spec.assets.bundle"),
        runs_worker_first=boolean(members["runWorkerFirst"], "spec.assets.runWorkerFirst"),
        not_found_handling=one_of(members["notFoundHandling"], "spec.assets.notFoundHandling", ("none", SINGLE_PAGE)),
    )


def _check_names(spec: WorkerVersionSpec) -> None:
    """One namespace across vars, sensitive names and all bindings (WV-03)."""
    check_distinct(
        [*spec.vars, *spec.sensitive_names, *(binding.name for binding in spec.bindings)],
        "spec's vars, sensitive names and bindings together",
    )


def _check_shape(spec: WorkerVersionSpec) -> None:
    """WV-02."""
    if spec.assets is not None and spec.assets.runs_worker_first and "fetch" not in spec.handlers:
        raise invalid_spec("spec.assets.runWorkerFirst needs a declared fetch handler")
    if spec.bundle_uid is not None:
        return
    if spec.assets is None:
        raise invalid_spec("spec has neither bundle nor assets")
    if spec.handlers or spec.vars or spec.sensitive_names or spec.bindings:
        raise invalid_spec("without a bundle spec has no handlers, vars, sensitive names or bindings")
