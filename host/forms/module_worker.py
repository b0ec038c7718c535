"""ModuleWorker 0.3.0: the identity that Versions, Deployments and attachments refer to (MW-01 to MW-03)."""

from dataclasses import dataclass

from host.forms import urls
from host.forms.deployed_weights import active_deployment, has_losses
from host.forms.form import Form, Outcome, Reference, StateView, Task
from host.forms.spec import closed_object
from host.model.json import JsonObject, JsonValue
from host.model.records import Resource
from host.ports import Backend


@dataclass(frozen=True, slots=True)
class ModuleWorkerSpec:
    """`{}`."""


class ModuleWorker(Form[ModuleWorkerSpec]):
    url = urls.MODULE_WORKER

    def parse(self, spec: JsonValue) -> ModuleWorkerSpec:
        closed_object(spec, "spec")
        return ModuleWorkerSpec()

    def references(self, spec: ModuleWorkerSpec) -> tuple[Reference, ...]:
        return ()

    async def apply(self, task: Task[ModuleWorkerSpec], backend: Backend) -> Outcome:
        await backend.workers.register(task.uid, task.name)
        return Outcome()

    async def retire(self, task: Task[ModuleWorkerSpec], backend: Backend) -> None:
        await backend.workers.retire(task.uid)

    def derive(self, view: StateView, resource: Resource, observed: JsonObject) -> JsonObject:
        """Ready says that the selected Deployment accepts new events, not that a request will succeed (MW-01)."""
        deployment = active_deployment(view, resource.uid)
        return {
            "activeDeploymentUid": None if deployment is None else deployment.uid,
            "ready": deployment is not None and not has_losses(view, deployment),
        }
