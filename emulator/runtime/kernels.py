"""The configurations of our kernels: which modules they are made of and what their `env` holds. Starts nothing."""

import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType

from emulator.runtime.config import Binding, Config, Disk, External, KeyPair, Network, Socket, Worker
from emulator.runtime.log_tags import LogTags
from host.model.json import JsonObject

SOURCES = Path(__file__).parent / "js"
CONTROL_SOCKET = "control"
PUBLIC_SOCKET = "public"
SECURE_SOCKET = "secure"
SERVICES_SOCKET = "services"
WARD_SOCKET = "ward"
BENCH_SOCKET = "bench"
SHARED_MODULES = ("kernel_shared.js", "outbound.js", "addresses.js")
SHARED_TEXTS = (
    "arguments",
    "bindings",
    "clock",
    "console",
    "doc",
    "errors",
    "hidden",
    "imp",
    "prim",
    "resolve",
    "service_binding",
    "stacks",
    "turns",
    "workflow_binding",
)
COMPILER_HEAP = "--max-old-space-size=3072"  # the tree of a module of 16 MiB
INSPECTOR_HEAP = "--max-old-space-size=512"
GATEWAY_HEAP = "--max-old-space-size=1024"
RUNNER_TEXTS = ("channel", "failures", "history", "run", "settling", "steps")


class OutboundMode(StrEnum):
    """Where app code's `fetch` may go: public addresses, private ones and this machine too, or nowhere (MW-16)."""

    PUBLIC = "public"
    LOCAL = "local"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class OutboundPolicy:
    """`allow` lists `host` or `host:port` that are reachable in any mode, IPv6 in brackets. `own_ports` and
    `own_addresses` (beyond loopback) are the host's listeners: reachable in none."""

    mode: OutboundMode = OutboundMode.PUBLIC
    allow: tuple[str, ...] = ()
    own_ports: tuple[int, ...] = ()
    own_addresses: tuple[str, ...] = ()

    def to_json(self) -> JsonObject:
        return {
            "mode": self.mode.value,
            "allow": list(self.allow),
            "ownPorts": list(self.own_ports),
            "ownAddresses": list(self.own_addresses),
        }


@dataclass(frozen=True, slots=True)
class KernelSettings:
    """What every kernel is given: where compiled code lies and how app code may fetch. `services` is the unix socket
    on which the gateway takes the service calls of execution contexts; without it those cannot be started. `tags`
    begin the lines that are Workers' own. `files` is where held bytes lie by digest: the gateway serves assets from
    there."""

    code_dir: Path
    outbound: OutboundPolicy = field(default_factory=OutboundPolicy)
    services: Path | None = None
    tags: LogTags = field(default_factory=LogTags)
    files: Path | None = None


@dataclass(frozen=True, slots=True)
class SecureListener:
    """A listening socket on which a gateway speaks TLS, and what it proves itself with."""

    listener: socket.socket
    key_pair: KeyPair


@cache
def source(name: str) -> str:
    """The text of one of our JavaScript files."""
    return (SOURCES / name).read_text("utf-8")


def texts(names: Iterable[str]) -> Mapping[str, str]:
    """JavaScript that a kernel hands to isolates: imported as `<name>.txt`."""
    return {f"{name}.txt": source(f"{name}.js") for name in names}


def kernel_config(
    main: str,
    settings: KernelSettings,
    own_texts: Iterable[str],
    *,
    sockets: Iterable[Socket] = (Socket(CONTROL_SOCKET, "kernel"),),
    own_modules: Iterable[str] = (),
    own_durable_classes: Iterable[str] = (),
    own_services: Mapping[str, Disk | External] = MappingProxyType({}),
    v8_flags: Iterable[str] = (),
) -> Config:
    """A kernel whose main module is `main` and whose Durable Object K holds the host's socket.

    `own_texts` are further sources it hands to isolates, `own_modules` further modules of its own, `own_services`
    further services by the names of their bindings.
    """
    kernel = Worker(
        name="kernel",
        modules={name: source(name) for name in (main, *SHARED_MODULES, *own_modules)},
        texts=texts((*SHARED_TEXTS, *own_texts)),
        bindings=(
            Binding.loader("LOADER"),
            Binding.durable_object("K", "K"),
            Binding.service("CODE", "code"),
            Binding.service("PUBLIC", "public"),
            Binding.service("ANY", "any"),
            Binding.json("POLICY", settings.outbound.to_json()),
            *(Binding.durable_object(name, name) for name in own_durable_classes),
            *(Binding.service(name, service.name) for name, service in own_services.items()),
        ),
        durable_classes=("K", *own_durable_classes),
    )
    outward = (Network("public", ("public",)), Network("any", ("public", "private")))
    services = (kernel, Disk("code", settings.code_dir), *outward, *own_services.values())
    return Config(services, tuple(sockets), tuple(v8_flags))


def runner_config(settings: KernelSettings, heap_mib: int) -> Config:
    """A runner: its JavaScript heap ends the process beyond `heap_mib`."""
    flags = (f"--max-old-space-size={heap_mib}",)
    return kernel_config(
        "kernel_runner.js",
        settings,
        RUNNER_TEXTS,
        own_modules=("services.js", "passage.js"),
        own_services=_services_of(settings),
        v8_flags=flags,
    )


def gateway_config(settings: KernelSettings, key_pair: KeyPair | None = None, wards: Sequence[Path] = ()) -> Config:
    """A gateway: app traffic on its socket `public` and, with a key pair, over TLS on `secure`; the host on `control`,
    contexts on `services` if there is one. The processes for single Versions listen at the unix sockets `wards`, by
    their number in the table."""
    sockets = [Socket(PUBLIC_SOCKET, "kernel")]
    if settings.services is not None:
        sockets.append(Socket(SERVICES_SOCKET, "kernel", "Services", whole_urls=True))
    if key_pair is not None:
        sockets.append(Socket(SECURE_SOCKET, "kernel", key_pair=key_pair))
    outside = {
        f"{name}{number}": External(f"{name.lower()}{number}", path)
        for name in ("WARD", "UPGRADES")  # the engine keeps connections by service: see passOn in ward.js
        for number, path in enumerate(wards)
    }
    return _gateway_kernel(settings, sockets, outside)


def ward_config(settings: KernelSettings) -> Config:
    """A ward: what the gateway passes on comes in on its socket `ward`; its own service calls go to the gateway."""
    return _gateway_kernel(settings, (Socket(WARD_SOCKET, "kernel", "Ward", whole_urls=True),), _services_of(settings))


def _gateway_kernel(settings: KernelSettings, sockets: Sequence[Socket], outside: Mapping[str, External]) -> Config:
    files = {} if settings.files is None else {"FILES": Disk("files", settings.files)}
    return kernel_config(
        "kernel_gateway.js",
        settings,
        ("events", "http"),
        sockets=(*sockets, Socket(CONTROL_SOCKET, "kernel", "Control")),
        own_modules=(
            "routes.js",
            "gateway_version.js",
            "assets.js",
            "handler_calls.js",
            "nesting.js",
            "passage.js",
            "ward.js",
            "services.js",
            "streams.js",
        ),
        own_durable_classes=("V", "Assets"),
        own_services={**files, **outside},
        v8_flags=(GATEWAY_HEAP,),
    )


def _services_of(settings: KernelSettings) -> Mapping[str, External]:
    return {} if settings.services is None else {"GATEWAY": External("gateway", settings.services)}


def compiler_config(parser: Path) -> Config:
    """A worker that parses and rewrites modules, without any binding or way out."""
    modules = {name: source(name) for name in ("compile.js", "rewrite.js", "resolve.js", "prim.js")}
    modules["meriyah.mjs"] = parser.read_text("utf-8")
    return Config((Worker("compiler", modules, {}, ()),), (Socket(BENCH_SOCKET, "compiler"),), (COMPILER_HEAP,))


def inspector_config(code_dir: Path) -> Config:
    """A kernel that looks at the exports of compiled code, which has no binding and no way out either."""
    inspector = Worker(
        name="inspector",
        modules={name: source(name) for name in ("kernel_inspect.js", *SHARED_MODULES)},
        texts=texts((*SHARED_TEXTS, "inspect")),
        bindings=(Binding.loader("LOADER"), Binding.service("CODE", "code")),
    )
    return Config((inspector, Disk("code", code_dir)), (Socket(BENCH_SOCKET, "inspector"),), (INSPECTOR_HEAP,))
