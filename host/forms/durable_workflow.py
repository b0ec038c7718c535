"""DurableWorkflow 0.3.0: one Workflow class of a Worker and its space of instances (DW-01 to DW-09)."""

import re
from dataclasses import asdict, dataclass

from host.forms import urls
from host.forms.deployed_weights import (
    Fitness,
    active_deployment,
    exported_by,
    fitness,
    has_losses,
    selected_versions,
    weights_in_force,
)
from host.forms.form import Form, Outcome, Reference, StateView, Task, named
from host.forms.spec import closed_object, matching, reference
from host.model.errors import CallerError, ErrorCode, dependency_conflict
from host.model.json import JsonObject, JsonValue
from host.model.records import Resource
from host.ports import Backend

_CLASS_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]{0,63}")


@dataclass(frozen=True, slots=True)
class DurableWorkflowSpec:
    worker_uid: str
    class_name: str


class DurableWorkflow(Form[DurableWorkflowSpec]):
    url = urls.DURABLE_WORKFLOW

    def parse(self, spec: JsonValue) -> DurableWorkflowSpec:
        members = closed_object(spec, "spec", required=("worker", "className"))
        return DurableWorkflowSpec(
            worker_uid=reference(members["worker"], "spec.worker"),
            class_name=matching(members["className"], "spec.className", _CLASS_NAME),
        )

    def references(self, spec: DurableWorkflowSpec) -> tuple[Reference, ...]:
        return (Reference("worker", urls.MODULE_WORKER, spec.worker_uid, "spec.worker"),)

    def check_create(self, view: StateView, spec: DurableWorkflowSpec) -> None:
        """Every Version in force or accepted to be must have the class; unverified is not unfit (DW-03)."""
        selected = [view.resource(uid) for uid in selected_versions(view, spec.worker_uid)]
        found = [fitness(version, (spec.class_name,)) for version in selected]
        if Fitness.UNFIT in found:
            raise dependency_conflict(_lacking(view, selected[found.index(Fitness.UNFIT)], spec.class_name))
        if Fitness.UNVERIFIED in found:
            raise CallerError(
                ErrorCode.RESOURCE_BUSY, "a Version that the Worker's Deployment selects is not verified yet"
            )

    async def apply(self, task: Task[DurableWorkflowSpec], backend: Backend) -> Outcome:
        await backend.workflows.open(task.uid, task.spec.worker_uid, task.spec.class_name)
        return Outcome(observed=await self._counts(task.uid, backend), facts={"className": task.spec.class_name})

    async def retire(self, task: Task[DurableWorkflowSpec], backend: Backend) -> None:
        await backend.workflows.retire(task.uid)

    async def observe(self, resource: Resource, backend: Backend) -> JsonObject:
        return await self._counts(resource.uid, backend)

    def derive(self, view: StateView, resource: Resource, observed: JsonObject) -> JsonObject:
        """Ready while an active Deployment exists whose every Version has the class and its secrets (DW-02, WD-08)."""
        spec = self.parse(resource.spec)
        deployment = active_deployment(view, spec.worker_uid)
        is_ready = deployment is not None and not has_losses(view, deployment)
        is_ready = (
            is_ready
            and deployment is not None
            and all(
                fitness(view.resource(weight.version_uid), (spec.class_name,)) is Fitness.FIT
                for weight in weights_in_force(deployment)
            )
        )
        return {"ready": is_ready, **observed}

    async def _counts(self, uid: str, backend: Backend) -> JsonObject:
        counts: JsonObject = {}
        counts.update(asdict(await backend.workflows.counts(uid)))
        return {"instanceCounts": counts}


def _lacking(view: StateView, version: Resource | None, class_name: str) -> str:
    """What a proven Version has in place of the class, for the author who misspelt one of the two (HA-23)."""
    lack = f"the selected Version{named(view, version)} of the Worker does not export the class {class_name}"
    return f"{lack}; it exports {exported_by(version)}" if version is not None and view.may_name(version) else lack
