"""WorkerEndpoint 0.3.0: one assigned https address for a Worker, the same for the life of its uid (WE-01 to WE-14).

Knows no port and no certificate: names are made and routed by `host.ports.EndpointPort`.
"""

from dataclasses import dataclass

from host.forms import urls
from host.forms.deployed_weights import (
    Fitness,
    active_deployment,
    has_losses,
    http_fitness,
    is_standing,
    selected_versions,
    weights_in_force,
)
from host.forms.form import ApplyFailed, Form, Outcome, Reference, StateView, Task, named
from host.forms.spec import closed_object, reference
from host.model.errors import CallerError, ErrorCode, FailureCode, dependency_conflict, invalid_spec
from host.model.faults import register
from host.model.json import JsonObject, JsonValue
from host.model.operation_states import Effect
from host.model.records import Resource
from host.ports import Backend, BackendError, BackendUnavailable, EndpointReport

AFTER_ATTACH = register("host.endpoint.after_attach", "the route of an endpoint is durable, nothing is confirmed yet")


@dataclass(frozen=True, slots=True)
class WorkerEndpointSpec:
    worker_uid: str


class WorkerEndpoint(Form[WorkerEndpointSpec]):
    url = urls.WORKER_ENDPOINT
    keeps_place = True

    def parse(self, spec: JsonValue) -> WorkerEndpointSpec:
        members = closed_object(spec, "spec", required=("worker",))
        return WorkerEndpointSpec(reference(members["worker"], "spec.worker"))

    def references(self, spec: WorkerEndpointSpec) -> tuple[Reference, ...]:
        return (Reference("worker", urls.MODULE_WORKER, spec.worker_uid, "spec.worker"),)

    def assign(self, uid: str, name: str, backend: Backend) -> JsonObject:
        """No port: the address outlives every process that listens for it (WE-04, WE-05)."""
        hostname = backend.endpoints.hostname(uid, name)
        return {"hostname": hostname, "url": f"https://{hostname}/"}

    def check_create(self, view: StateView, spec: WorkerEndpointSpec) -> None:
        self._check(view, None, spec)

    def check_update(
        self, view: StateView, resource: Resource, old: WorkerEndpointSpec, new: WorkerEndpointSpec
    ) -> None:
        if old != new:
            raise invalid_spec("spec.worker cannot be changed: create a new endpoint")
        self._check(view, resource.uid, new)

    async def apply(self, task: Task[WorkerEndpointSpec], backend: Backend) -> Outcome:
        """Success is a name, TLS and a route that were seen to work; the application is not called (WE-09)."""
        worker_uid, hostname = task.spec.worker_uid, _hostname(task.output)
        try:
            await backend.endpoints.attach(task.uid, worker_uid, hostname)
        except BackendUnavailable:
            raise
        except BackendError as error:
            # The route may be there or not: it keeps its place until somebody repairs or deletes it (WE-08, WE-12).
            facts: JsonObject = {**task.facts, "attempted": True}
            raise ApplyFailed(FailureCode.BACKEND_FAILED, str(error), Effect.PARTIAL, facts) from error
        task.reach(AFTER_ATTACH)
        report = await backend.endpoints.probe(worker_uid, hostname)
        if not (report.is_tls_ready and report.is_routed):
            raise BackendUnavailable("the address is set up, but it could not be confirmed yet that it works")
        return Outcome(_observed(report), task.output, {"attached": True})

    async def retire(self, task: Task[WorkerEndpointSpec], backend: Backend) -> None:
        await backend.endpoints.detach(task.uid)

    async def observe(self, resource: Resource, backend: Backend) -> JsonObject:
        worker_uid = self.parse(resource.spec).worker_uid
        return _observed(await backend.endpoints.probe(worker_uid, _hostname(resource.output)))

    def derive(self, view: StateView, resource: Resource, observed: JsonObject) -> JsonObject:
        """Without a Deployment whose every Version can answer the route is not ready, whatever a look said (WE-06)."""
        if _can_be_served(view, self.parse(resource.spec).worker_uid):
            return observed
        return {**observed, "activeDeploymentRouteReady": False}

    def _check(self, view: StateView, uid: str | None, spec: WorkerEndpointSpec) -> None:
        others = [each for each in view.referrers(spec.worker_uid, self.url) if each.uid != uid and is_standing(each)]
        if others:
            raise dependency_conflict(f"the Worker has another endpoint{named(view, others[0])}")
        if active_deployment(view, spec.worker_uid) is None:
            raise dependency_conflict("the Worker has no active Deployment")
        found = {http_fitness(view, version_uid) for version_uid in selected_versions(view, spec.worker_uid)}
        if Fitness.UNFIT in found:
            raise dependency_conflict("a selected Version of the Worker cannot answer HTTP")
        if Fitness.UNVERIFIED in found:
            raise CallerError(
                ErrorCode.RESOURCE_BUSY, "a Version that the Worker's Deployment selects is not verified yet"
            )


def _can_be_served(view: StateView, worker_uid: str) -> bool:
    """A Version without its secrets answers nothing, however fit its code is (WD-08)."""
    deployment = active_deployment(view, worker_uid)
    if deployment is None or has_losses(view, deployment):
        return False
    return all(http_fitness(view, weight.version_uid) is Fitness.FIT for weight in weights_in_force(deployment))


def _observed(report: EndpointReport) -> JsonObject:
    """What was confirmed, no more (WE-06).

    Whether there is a Deployment is for the rows to say: a look that found none is older than rows that have one.
    """
    route = report.is_routed and (report.is_served or None)
    found = {"tlsReady": report.is_tls_ready, "activeDeploymentRouteReady": route}
    return {name: is_ready for name, is_ready in found.items() if is_ready is not None}


def _hostname(output: JsonObject) -> str:
    """The address of the acceptance, never a new one (WE-05)."""
    hostname = output["hostname"]
    assert isinstance(hostname, str)
    return hostname
