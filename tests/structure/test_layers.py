"""Imports go one way, and nowhere in a circle."""

from collections.abc import Iterator, Mapping

from tests.structure.sources import PACKAGES, Import, imports_of, read_modules

STORES = {"host.model", "host.sqlite"}
LAYERS: Mapping[str, set[str]] = {
    "host.model": set(),
    "host.sqlite": {"host.model"},
    "host.ports": {"host.model"},
    "host.forms": {"host.model", "host.ports"},
    "host.store": {"host.model", "host.sqlite", "host.forms"},
    "host.engine": STORES | {"host.ports", "host.forms", "host.store"},
    "host.http": {"host.model", "host.forms", "host.engine"},
    "emulator.d1": STORES,
    "emulator.catalog": STORES | {"host.ports", "emulator.d1"},
    "emulator.artifacts": STORES | {"host.ports"},
    "emulator.runstore": STORES | {"emulator.d1"},
    "emulator.contexts": {"host.model", "host.ports", "emulator.catalog"},
    "emulator.events": set(),
    "emulator.workflow": STORES
    | {"host.ports", "emulator.d1", "emulator.runstore", "emulator.catalog", "emulator.contexts"},
    "emulator.runtime": {"host.model", "host.ports", "emulator.catalog", "emulator.contexts", "emulator.events"},
    "emulator.bindings": STORES
    | {"host.ports", "emulator.d1", "emulator.catalog", "emulator.contexts", "emulator.events", "emulator.workflow"},
    "emulator.front": set(),
    "emulator.management": {"host.model", "host.ports", "emulator.artifacts", "emulator.events", "emulator.workflow"},
    "emulator.compose": {"host", "emulator"},
    "emulator.client": set(),
    "emulator.demo": {"emulator.client"},
    "emulator.cli": {"host.model", "emulator.artifacts", "emulator.compose", "emulator.runtime"},
}
"""Layer -> the layers it may import besides itself. `emulator.compose` wires all but the edges."""
EDGES = {"emulator.client", "emulator.demo", "emulator.cli"}
FREE = {"emulator"}
"""The package roots hold a version and a docstring; anyone may import them."""

ALL = read_modules(*PACKAGES)
KNOWN = frozenset(module.name for module in ALL)


def layer_of(name: str) -> str | None:
    """The layer that a module belongs to; None for the package roots."""
    found = ".".join(name.split(".")[:2])
    return found if "." in found else None


def may_import(layer: str | None, target: str) -> bool:
    """Whether a module of `layer` may import the module `target`; a package root (None) imports nothing."""
    wanted = layer_of(target)
    if layer is None:
        return False
    if wanted is None:
        return target in FREE
    if wanted == layer or wanted in LAYERS[layer]:
        return True
    return layer == "emulator.compose" and wanted not in EDGES


def test_every_module_belongs_to_a_layer() -> None:
    layers = {layer_of(module.name) for module in ALL} - {None}
    assert not layers - set(LAYERS)


def test_a_module_imports_only_what_its_layer_may() -> None:
    breaches = [
        f"{found.importer.path}:{found.line} imports {found.target}"
        for found in all_imports()
        if not may_import(layer_of(found.importer.name), found.target)
    ]
    assert not breaches, "\n".join(breaches)


def test_the_layers_themselves_form_no_circle() -> None:
    graph = {layer: {target for target in allowed if target in LAYERS} for layer, allowed in LAYERS.items()}
    assert not list(circles(graph))


def test_no_modules_import_each_other_in_a_circle_when_loaded() -> None:
    graph: dict[str, set[str]] = {module.name: set() for module in ALL}
    for found in all_imports():
        if found.at_load and found.target in KNOWN and found.target != found.importer.name:
            graph[found.importer.name].add(found.target)
    assert not [" -> ".join(circle) for circle in circles(graph)]


def test_every_imported_module_of_ours_exists() -> None:
    unknown = [f"{found.importer.path}:{found.line} {found.target}" for found in all_imports() if not is_known(found)]
    assert not unknown


def all_imports() -> Iterator[Import]:
    """Every import of a module of ours by a module of ours."""
    for module in ALL:
        yield from imports_of(module, KNOWN)


def is_known(found: Import) -> bool:
    """Whether the import names a module that exists."""
    return found.target in KNOWN


def circles(graph: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """One circle per way back that a depth-first walk meets."""
    finished: set[str] = set()

    def walk(name: str, trail: list[str]) -> Iterator[list[str]]:
        if name in trail:
            yield [*trail[trail.index(name) :], name]
            return
        if name in finished:
            return
        for target in sorted(graph.get(name, ())):
            yield from walk(target, [*trail, name])
        finished.add(name)

    for name in sorted(graph):
        yield from walk(name, [])


def test_a_circle_is_found() -> None:
    assert list(circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == [["a", "b", "c", "a"]]
