"""WorkerDeployment 0.4.0: which Versions get new work, switched whole (WD-01 to WD-11)."""

from dataclasses import dataclass, field

from host.forms import urls
from host.forms.deployed_weights import (
    Fitness,
    attached_to,
    fitness,
    has_losses,
    loss_of,
    required_classes,
    required_handlers,
    rival_of,
)
from host.forms.form import ApplyFailed, Form, Outcome, Reference, StateView, Task, named, unusable
from host.forms.lacks import lacking
from host.forms.spec import array, check_distinct, closed_object, integer, reference
from host.model.errors import FailureCode, dependency_conflict, invalid_spec
from host.model.json import JsonObject, JsonValue
from host.model.operation_states import Effect
from host.model.records import Resource
from host.ports import Backend, BackendError, BackendUnavailable, Weight

_WHOLE = 10000
_MOST_VERSIONS = 8


@dataclass(frozen=True, slots=True)
class WorkerDeploymentSpec:
    """`weights` are in order of Version uid: they compare as a set (WD-01). `entries`: the uids as they were given."""

    worker_uid: str
    weights: tuple[Weight, ...]
    entries: tuple[str, ...] = field(compare=False)

    def version_reference(self, version_uid: str) -> Reference:
        where = f"spec.versions[{self.entries.index(version_uid)}].workerVersion"
        return Reference("version", urls.WORKER_VERSION, version_uid, where)


def _weight(value: JsonValue, where: str) -> Weight:
    members = closed_object(value, where, required=("workerVersion", "weight"))
    return Weight(
        reference(members["workerVersion"], f"{where}.workerVersion"),
        integer(members["weight"], f"{where}.weight", 1, _WHOLE),
    )


def _in_force(weights: JsonValue) -> JsonObject:
    return {"ready": True, "active": True, "selectedVersions": weights}


class WorkerDeployment(Form[WorkerDeploymentSpec]):
    url = urls.WORKER_DEPLOYMENT
    keeps_place = True

    def parse(self, spec: JsonValue) -> WorkerDeploymentSpec:
        members = closed_object(spec, "spec", required=("worker", "versions"))
        worker_uid = reference(members["worker"], "spec.worker")
        weights = array(members["versions"], "spec.versions", 1, _MOST_VERSIONS, _weight)
        entries = tuple(weight.version_uid for weight in weights)
        check_distinct(entries, "spec.versions")
        total = sum(weight.weight for weight in weights)
        if total != _WHOLE:
            raise invalid_spec(f"the weights of spec.versions add up to {total}, not to {_WHOLE}")
        return WorkerDeploymentSpec(worker_uid, tuple(sorted(weights, key=lambda each: each.version_uid)), entries)

    def references(self, spec: WorkerDeploymentSpec) -> tuple[Reference, ...]:
        versions = (spec.version_reference(uid) for uid in spec.entries)
        return (Reference("worker", urls.MODULE_WORKER, spec.worker_uid, "spec.worker"), *versions)

    def check_create(self, view: StateView, spec: WorkerDeploymentSpec) -> None:
        self._check(view, None, spec)

    def check_update(
        self, view: StateView, resource: Resource, old: WorkerDeploymentSpec, new: WorkerDeploymentSpec
    ) -> None:
        if old.worker_uid != new.worker_uid:
            raise invalid_spec("spec.worker cannot be changed: create a new Deployment")
        self._check(view, resource.uid, new)

    def check_apply(self, view: StateView, resource: Resource, spec: WorkerDeploymentSpec) -> None:
        """What was unverified at acceptance is decided now; unfit weights are never activated (WD-05, WD-09)."""
        classes = required_classes(view, spec.worker_uid)
        handlers = required_handlers(view, spec.worker_uid)
        found = {fitness(view.resource(weight.version_uid), classes, handlers) for weight in spec.weights}
        for weight in spec.weights:
            if lost := loss_of(view, weight.version_uid):
                raise ApplyFailed(FailureCode.DEPENDENCY_UNFIT, f"a Version has lost {lost}", Effect.NONE)
        if found != {Fitness.FIT}:
            raise ApplyFailed(
                FailureCode.DEPENDENCY_UNFIT,
                "a Version is not verified, or lacks a class or handler that something attached to the Worker needs",
                Effect.NONE,
            )

    async def apply(self, task: Task[WorkerDeploymentSpec], backend: Backend) -> Outcome:
        weights: JsonValue = [
            {"resourceUid": weight.version_uid, "weight": weight.weight} for weight in task.spec.weights
        ]
        try:
            await backend.deployments.activate(task.uid, task.spec.worker_uid, task.spec.weights)
        except BackendUnavailable:
            raise
        except BackendError as error:
            # The switch is whole or not at all, but which of the two is not proven: keep both in the facts.
            facts: JsonObject = {**task.facts, "attempted": weights}
            raise ApplyFailed(FailureCode.BACKEND_FAILED, str(error), Effect.PARTIAL, facts) from error
        return Outcome(observed=_in_force(weights), facts={"weights": weights})

    async def retire(self, task: Task[WorkerDeploymentSpec], backend: Backend) -> None:
        await backend.deployments.retire(task.uid, task.spec.worker_uid)

    def check_delete(self, view: StateView, resource: Resource) -> None:
        """Nothing attached blocks it (WD-07)."""

    def affected(self, view: StateView, resource: Resource) -> tuple[Resource, ...]:
        return attached_to(view, resource)

    async def observe(self, resource: Resource, backend: Backend) -> JsonObject:
        return _in_force(resource.facts["weights"]) if "weights" in resource.facts else {}

    def derive(self, view: StateView, resource: Resource, observed: JsonObject) -> JsonObject:
        """Not ready while a Version in force has lost its secrets or held bytes (WD-05, WD-08)."""
        if has_losses(view, resource):
            return {**observed, "ready": False}
        return observed

    def _check(self, view: StateView, uid: str | None, spec: WorkerDeploymentSpec) -> None:
        rival = rival_of(view, spec.worker_uid, uid)
        if rival is not None:
            raise dependency_conflict(f"the Worker has another Deployment{named(view, rival)}")
        for weight in spec.weights:
            entry = spec.version_reference(weight.version_uid)
            version = view.resource(weight.version_uid)
            if version is None or version.form_url != entry.form_url:
                raise unusable(entry)
            if version.spec.get("worker") != {"resourceUid": spec.worker_uid}:
                raise dependency_conflict(f"{entry.where}: the Version{named(view, version)} belongs to another Worker")
            self._check_version(view, version, spec.worker_uid)

    def _check_version(self, view: StateView, version: Resource, worker_uid: str) -> None:
        """An unverified Version is waited for while its own Operation is unfinished (WD-02)."""
        if lost := loss_of(view, version.uid):
            raise dependency_conflict(
                f"the Version{named(view, version)} has lost {lost}: restore them, or create a new one and select that"
            )
        match fitness(version, required_classes(view, worker_uid), required_handlers(view, worker_uid)):
            case Fitness.UNFIT:
                raise dependency_conflict(lacking(view, version, worker_uid))
            case Fitness.UNVERIFIED if version.unfinished is None:
                raise dependency_conflict(f"the Version{named(view, version)} could not be verified")
            case _:
                pass
