"""Reads a fixture directory (see fixtures/README.md) into values. Knows neither host nor counter."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.demo.errors import FixtureBroken

MEDIA_TYPES = {
    ".js": "application/javascript+module",
    ".mjs": "application/javascript+module",
    ".txt": "text/plain",
    ".html": "text/plain",
    ".wasm": "application/wasm",
}
OTHER_MEDIA_TYPE = "application/octet-stream"
_REQUEST = {"method": str, "path": str, "instance": str}
_SHAPE: dict[str, Any] = {
    "worker": str,
    "workflow": {"name": str, "className": str, "binding": str},
    "counterVar": str,
    "vars": dict,
    "versions": [{"name": str, "directory": str, "entrypoint": str, "weight": int}],
    "refusals": [{"instance": str, "effect": str, "times": int}],
    "requests": [_REQUEST],
    "events": [{**_REQUEST, "when": str}],
    "kill": {"instance": str, "when": str},
}
_KINDS: dict[type, str] = {dict: "an object", list: "a list", str: "a string", int: "a whole number"}


@dataclass(frozen=True, slots=True)
class ModuleSource:
    """One file of a version: path in the bundle, media type, bytes."""

    path: str
    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class FixtureVersion:
    name: str
    entrypoint: str
    weight: int
    modules: tuple[ModuleSource, ...]


@dataclass(frozen=True, slots=True)
class FixtureRequest:
    """A request to the Worker about one instance; `when` says what must have happened before it is sent."""

    method: str
    path: str
    body: Any
    instance: str
    when: str


@dataclass(frozen=True, slots=True)
class KillMoment:
    """The host is killed while this instance has this status, in this step when one is named."""

    instance: str
    when: str
    step: str | None


@dataclass(frozen=True, slots=True)
class Fixture:
    worker: str
    workflow: str
    class_name: str
    binding: str
    counter_var: str
    vars: dict[str, Any]
    versions: tuple[FixtureVersion, ...]
    refusals: list[dict[str, Any]]
    requests: tuple[FixtureRequest, ...]
    events: tuple[FixtureRequest, ...]
    kill: KillMoment

    def instances(self) -> tuple[str, ...]:
        """Ids of the instances that the requests start, in order."""
        return tuple(request.instance for request in self.requests)


def load_fixture(folder: Path) -> Fixture:
    """Read `fixture.json` and the module files. Raises `FixtureBroken` naming the file or field."""
    file = folder / "fixture.json"
    try:
        document = json.loads(file.read_bytes())
        _check(document, _SHAPE, "")
        return _fixture(document, folder)
    except OSError as error:
        raise FixtureBroken(f"cannot read {error.filename}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise FixtureBroken(f"{file} is not JSON: {error}") from error
    except KeyError as error:
        raise FixtureBroken(f"{file}: field {error} is missing") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise FixtureBroken(f"{file}: {error}") from error


def _check(value: Any, shape: Any, where: str) -> None:
    """Raise `ValueError` that names the first field of a wrong type; what is missing is found later."""
    kind: type[Any] = shape if isinstance(shape, type) else type(shape)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{where or 'the document'} must be {_KINDS[kind]}, not {json.dumps(value)[:40]}")
    if isinstance(shape, dict):
        for name in shape.keys() & value.keys():
            _check(value[name], shape[name], f"{where}.{name}" if where else name)
    elif isinstance(shape, list):
        for number, item in enumerate(value):
            _check(item, shape[0], f"{where}[{number}]")


def _fixture(document: dict[str, Any], folder: Path) -> Fixture:
    workflow = document["workflow"]
    fixture = Fixture(
        worker=str(document["worker"]),
        workflow=str(workflow["name"]),
        class_name=str(workflow["className"]),
        binding=str(workflow["binding"]),
        counter_var=str(document["counterVar"]),
        vars=dict(document.get("vars", {})),
        versions=tuple(_version(version, folder) for version in document["versions"]),
        refusals=list(document.get("refusals", [])),
        requests=tuple(_request(request, "started") for request in document["requests"]),
        events=tuple(_request(event, str(event["when"])) for event in document.get("events", [])),
        kill=_kill(document["kill"]),
    )
    known = fixture.instances()
    named = [*(event.instance for event in fixture.events), fixture.kill.instance]
    for instance in named:
        if instance not in known:
            raise ValueError(f"instance {instance!r} is started by no request")
    if not known:
        raise ValueError("requests must start at least one instance")
    return fixture


def _request(document: dict[str, Any], when: str) -> FixtureRequest:
    if when not in ("started", "waiting", "sleeping", "restarted"):
        raise ValueError(f"when is waiting, sleeping or restarted, not {when!r}")
    return FixtureRequest(
        method=str(document["method"]),
        path=str(document["path"]),
        body=document.get("body"),
        instance=str(document["instance"]),
        when=when,
    )


def _kill(document: dict[str, Any]) -> KillMoment:
    when = str(document["when"])
    if when not in ("sleeping", "waiting", "running"):
        raise ValueError(f"kill.when is sleeping, waiting or running, not {when!r}")
    step = document.get("step")
    return KillMoment(str(document["instance"]), when, None if step is None else str(step))


def _version(document: dict[str, Any], folder: Path) -> FixtureVersion:
    root = folder / str(document["directory"])
    if not root.is_dir():
        raise ValueError(f"version directory {root} does not exist")
    modules = tuple(
        ModuleSource(
            path=file.relative_to(root).as_posix(),
            media_type=MEDIA_TYPES.get(file.suffix, OTHER_MEDIA_TYPE),
            content=file.read_bytes(),
        )
        for file in sorted(root.rglob("*"))
        if file.is_file()
    )
    entrypoint = str(document["entrypoint"])
    if entrypoint not in {module.path for module in modules}:
        raise ValueError(f"{root} has no entrypoint {entrypoint}")
    return FixtureVersion(str(document["name"]), entrypoint, int(document["weight"]), modules)
