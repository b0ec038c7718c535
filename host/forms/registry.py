"""Which Forms a host offers, by their exact URL."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from host.forms.durable_workflow import DurableWorkflow
from host.forms.form import Form
from host.forms.module_worker import ModuleWorker
from host.forms.static_asset_bundle import StaticAssetBundle
from host.forms.worker_bundle import WorkerBundle
from host.forms.worker_deployment import WorkerDeployment
from host.forms.worker_endpoint import WorkerEndpoint
from host.forms.worker_version import WorkerVersion


class FormRegistry:
    """Forms by URL; a URL that is not here is unsupported (HA-24, HA-32)."""

    def __init__(self, forms: Iterable[Form[Any]]) -> None:
        self._by_url: Mapping[str, Form[Any]] = MappingProxyType({form.url: form for form in forms})

    @classmethod
    def built_in(cls) -> "FormRegistry":
        return cls(
            (
                ModuleWorker(),
                WorkerBundle(),
                StaticAssetBundle(),
                WorkerVersion(),
                WorkerDeployment(),
                DurableWorkflow(),
                WorkerEndpoint(),
            )
        )

    def get(self, url: str) -> Form[Any] | None:
        return self._by_url.get(url)

    def near(self, url: str) -> str | None:
        """The URL of a Form that differs in slashes at the end alone, for who forgot one."""
        return next((known for known in self._by_url if known.rstrip("/") == url.rstrip("/")), None)

    def other_version(self, url: str) -> str | None:
        """The URL of the same Form in the version that is here."""
        return next((known for known in self._by_url if _unversioned(known) == _unversioned(url)), None)

    def __iter__(self) -> Iterator[Form[Any]]:
        return iter(self._by_url.values())


def _unversioned(url: str) -> str:
    return url.rstrip("/").rpartition("/")[0]
