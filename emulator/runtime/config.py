"""workerd configurations as values, rendered to Cap'n Proto text. Knows the file format, not what a kernel does."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from host.model.json import JsonValue

COMPATIBILITY_DATE = "2026-01-01"
_BETWEEN_KERNELS = 'style = proxy, cfBlobHeader = "takohost-cf"'
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r", "\t": r"\t"})


@dataclass(frozen=True, slots=True)
class Binding:
    """One entry of a worker's `env`; `value` is the rest of the Cap'n Proto struct, as text."""

    name: str
    value: str

    @classmethod
    def loader(cls, name: str) -> "Binding":
        return cls(name, "workerLoader = ()")

    @classmethod
    def service(cls, name: str, service: str) -> "Binding":
        return cls(name, f"service = {quote(service)}")

    @classmethod
    def json(cls, name: str, value: JsonValue) -> "Binding":
        return cls(name, f"json = {quote(json.dumps(value))}")

    @classmethod
    def durable_object(cls, name: str, class_name: str) -> "Binding":
        return cls(name, f"durableObjectNamespace = {quote(class_name)}")


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker of the configuration itself. `modules` are ES modules by name, the first one is the main module; `texts`
    are importable strings. Objects of `durable_classes` live in memory and are never
    evicted."""

    name: str
    modules: Mapping[str, str]
    texts: Mapping[str, str]
    bindings: Sequence[Binding]
    durable_classes: Sequence[str] = ()

    def render(self) -> str:
        modules = [f"(name = {quote(name)}, esModule = {quote(source)})" for name, source in self.modules.items()]
        modules += [f"(name = {quote(name)}, text = {quote(text)})" for name, text in self.texts.items()]
        bindings = [f"(name = {quote(binding.name)}, {binding.value})" for binding in self.bindings]
        parts = [
            f"modules = {_list(modules)}",
            f"bindings = {_list(bindings)}",
            f"compatibilityDate = {quote(COMPATIBILITY_DATE)}",
            'compatibilityFlags = ["experimental"]',
        ]
        if self.durable_classes:
            keys = [quote(name) for name in self.durable_classes]
            spaces = [f"(className = {key}, uniqueKey = {key}, preventEviction = true)" for key in keys]
            parts.append(f"durableObjectNamespaces = {_list(spaces)}, durableObjectStorage = (inMemory = void)")
        return f"(name = {quote(self.name)}, worker = ({', '.join(parts)}))"


@dataclass(frozen=True, slots=True)
class Disk:
    """A directory served read-only, dot files included in what is hidden."""

    name: str
    path: Path

    def render(self) -> str:
        return f"(name = {quote(self.name)}, disk = (path = {quote(str(self.path))}))"


@dataclass(frozen=True, slots=True)
class Network:
    """A way out to the addresses of the `allow` classes, such as `public` or `private`; TLS with the usual roots."""

    name: str
    allow: Sequence[str]

    def render(self) -> str:
        allow = _list([quote(kind) for kind in self.allow])
        return f"(name = {quote(self.name)}, network = (allow = {allow}, tlsOptions = (trustBrowserCas = true)))"


@dataclass(frozen=True, slots=True)
class External:
    """Another process that speaks HTTP on a unix socket and is told whole URLs, and the `cf` objects of requests."""

    name: str
    path: Path

    def render(self) -> str:
        address = quote(f"unix:{self.path}")
        return f"(name = {quote(self.name)}, external = (address = {address}, http = ({_BETWEEN_KERNELS})))"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """What a server proves itself with, as PEM text; the key is shown nowhere but in the file for the process."""

    certificates: str
    private_key: str = field(repr=False)

    def render(self) -> str:
        keypair = f"privateKey = {quote(self.private_key)}, certificateChain = {quote(self.certificates)}"
        return f"(keypair = ({keypair}), minVersion = tls1Dot2)"


@dataclass(frozen=True, slots=True)
class Socket:
    """A listening socket, given to the process as a descriptor under this name; `whole_urls` as a proxy gets them,
    with the `cf` objects.

    With a `key_pair` the process itself speaks TLS on it.
    """

    name: str
    service: str
    entrypoint: str | None = None
    whole_urls: bool = False
    key_pair: KeyPair | None = None

    def render(self) -> str:
        target = f"name = {quote(self.service)}"
        if self.entrypoint is not None:
            target += f", entrypoint = {quote(self.entrypoint)}"
        style = _BETWEEN_KERNELS if self.whole_urls else ""
        http = f"http = ({style})"
        if self.key_pair is not None:
            http = f"https = (options = ({style}), tlsOptions = {self.key_pair.render()})"
        return f"(name = {quote(self.name)}, {http}, service = ({target}))"


@dataclass(frozen=True, slots=True)
class Config:
    """A whole configuration. `v8_flags` are passed to V8 as they are."""

    services: Sequence[Worker | Disk | Network | External]
    sockets: Sequence[Socket]
    v8_flags: Sequence[str] = ()

    def render(self) -> str:
        """The text of a `.capnp` file whose constant is `config`."""
        parts = {
            "services": [service.render() for service in self.services],
            "sockets": [socket.render() for socket in self.sockets],
            "v8Flags": [quote(flag) for flag in self.v8_flags],
        }
        fields = ",\n".join(f"{name} = {_list(values)}" for name, values in parts.items())
        return f'using Workerd = import "/workerd/workerd.capnp";\nconst config :Workerd.Config = (\n{fields}\n);\n'


def quote(text: str) -> str:
    """A Cap'n Proto text literal."""
    return f'"{text.translate(_ESCAPES)}"'


def _list(items: Sequence[str]) -> str:
    return f"[{', '.join(items)}]"
