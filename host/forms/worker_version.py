"""WorkerVersion 0.5.0: an immutable snapshot of code, environment and bindings (WV-01 to WV-18)."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from host.forms import urls
from host.forms.deployed_weights import Fitness, attached_to, fitness, loss_of, selected_versions, weights_in_force
from host.forms.form import ApplyFailed, Form, Outcome, Reference, StateView, Task
from host.forms.spec import all_shown
from host.forms.unbuilt import BUILT_BINDINGS
from host.forms.version_assets import check_assets, check_bytes, find_assets
from host.forms.version_spec import BINDING_FORMS, WorkerVersionSpec, parse_version_spec
from host.forms.worker_bundle import graph_of
from host.model.errors import CallerError, ErrorCode, FailureCode, dependency_conflict, invalid_spec
from host.model.faults import register
from host.model.json import JsonObject, JsonValue
from host.model.operation_states import Effect
from host.model.private_inputs import PrivateInputs
from host.model.records import Resource
from host.ports import AssetsRecord, Backend, BindingRecord, CodeRejected, CodeReport, VersionRecord

AFTER_VERIFY = register("host.version.after_verify", "code and assets are proven, the runtime has no Version yet")


class WorkerVersion(Form[WorkerVersionSpec]):
    url = urls.WORKER_VERSION
    defines_private_inputs = True

    def parse(self, spec: JsonValue) -> WorkerVersionSpec:
        return parse_version_spec(spec)

    def references(self, spec: WorkerVersionSpec) -> tuple[Reference, ...]:
        found = [Reference("worker", urls.MODULE_WORKER, spec.worker_uid, "spec.worker")]
        if spec.bundle_uid is not None:
            found.append(Reference("bundle", urls.WORKER_BUNDLE, spec.bundle_uid, "spec.bundle"))
        if spec.assets is not None:
            uid = spec.assets.bundle_uid
            found.append(Reference("assets", urls.STATIC_ASSET_BUNDLE, uid, "spec.assets.bundle"))
        for binding in spec.bindings:
            form_url = BINDING_FORMS[binding.kind]
            found.append(Reference(binding.kind, form_url, binding.target_uid, f"spec.{binding.kind} {binding.name!r}"))
        return tuple(found)

    def check_create(self, view: StateView, spec: WorkerVersionSpec) -> None:
        """Weights in force or accepted that cannot answer a service call refuse the binding (WD-05, WD-09)."""
        check_assets(view, spec.assets)
        targets = {binding.target_uid for binding in spec.bindings if binding.kind == "serviceBindings"}
        selected = (uid for target in sorted(targets) for uid in selected_versions(view, target))
        found = {fitness(view.resource(uid), handlers=("fetch",)) for uid in selected}
        if Fitness.UNFIT in found:
            raise dependency_conflict("spec.serviceBindings: a selected Version of the Worker answers no HTTP")
        if Fitness.UNVERIFIED in found:
            raise CallerError(
                ErrorCode.RESOURCE_BUSY, "a Version that the bound Worker's Deployment selects is not verified yet"
            )

    def check_offered(self, spec: WorkerVersionSpec) -> None:
        for binding in spec.bindings:
            if binding.kind not in BUILT_BINDINGS:
                raise dependency_conflict(f"spec.{binding.kind}: this host has not built this kind of binding yet")

    def needs_private_inputs(self, spec: WorkerVersionSpec) -> bool:
        return bool(spec.sensitive_names)

    def check_private_inputs(self, spec: WorkerVersionSpec, inputs: PrivateInputs | None, is_new: bool) -> None:
        """Exactly the sensitive names, each with a non-empty string; an update may leave all of them out (WV-07)."""
        if inputs is None and (not is_new or not spec.sensitive_names):
            return
        if inputs is None or inputs.names != spec.sensitive_names:
            raise invalid_spec(_wrong_names(spec.sensitive_names, () if inputs is None else inputs.names))
        if not all(inputs.values.values()):
            raise invalid_spec("privateInputs has an empty value")

    async def hindrance(self, resource: Resource, backend: Backend) -> str | None:
        """A running invocation holds its Version; a parked Workflow instance does not (WV-09)."""
        if await backend.versions.is_executing(resource.uid):
            return "an invocation still runs on this Version"
        return None

    async def apply(self, task: Task[WorkerVersionSpec], backend: Backend) -> Outcome:
        await check_bytes(task, backend.artifacts)
        report = None if task.spec.bundle_uid is None else await self._verify_code(task, task.spec.bundle_uid, backend)
        assets = find_assets(task)
        task.reach(AFTER_VERIFY)
        await backend.versions.install(_record(task, report, assets))
        return Outcome(observed=_observation(report is not None), facts=_facts(report, assets))

    def affected(self, view: StateView, resource: Resource) -> tuple[Resource, ...]:
        """The Deployments that have it in force, and whose readiness follows from theirs (WD-08, WE-06)."""
        found: dict[str, Resource] = {}
        for deployment in view.referrers(resource.uid, urls.WORKER_DEPLOYMENT):
            if any(weight.version_uid == resource.uid for weight in weights_in_force(deployment)):
                found |= {each.uid: each for each in (deployment, *attached_to(view, deployment))}
        return tuple(found.values())

    async def observe(self, resource: Resource, backend: Backend) -> JsonObject:
        return _observation("bundle" in resource.spec)

    def derive(self, view: StateView, resource: Resource, observed: JsonObject) -> JsonObject:
        """What was proven stays so; without its secrets or its held bytes a Version is not ready (WV-08, WV-12).

        Of a bundle that is not whole nothing is said: `bundleVerified` is never false.
        """
        told = {**observed, "ready": loss_of(view, resource.uid) is None}
        if "bundle" in view.lost_files(resource.uid):
            told.pop("bundleVerified", None)
        return told

    async def retire(self, task: Task[WorkerVersionSpec], backend: Backend) -> None:
        await backend.versions.remove(task.uid)

    async def _verify_code(self, task: Task[WorkerVersionSpec], bundle_uid: str, backend: Backend) -> CodeReport:
        """The proven exports, when they are the declared ones (MW-10)."""
        bundle = task.related.get(bundle_uid)
        graph = None if bundle is None else graph_of(bundle.facts)
        if graph is None:
            raise ApplyFailed(FailureCode.DEPENDENCY_UNFIT, "the bundle could not be verified", Effect.NONE)
        try:
            report = await backend.code.verify(graph)
        except CodeRejected as error:
            raise ApplyFailed(FailureCode.CODE_REJECTED, str(error), Effect.NONE) from error
        report = replace(report, handlers=tuple(sorted(report.handlers)))
        if report.handlers != task.spec.handlers:
            message = (
                f"spec.handlers declares [{', '.join(task.spec.handlers)}],"
                f" the default export has [{', '.join(report.handlers)}]"
            )
            raise ApplyFailed(FailureCode.CODE_REJECTED, message, Effect.NONE)
        return report


def _wrong_names(required: Collection[str], given: Collection[str]) -> str:
    """Which names differ; never a value (HA-61)."""
    missing, unknown = set(required) - set(given), set(given) - set(required)
    found = [
        *([f"{all_shown(missing)} missing"] if missing else ()),
        *([f"{all_shown(unknown)} unknown"] if unknown else ()),
    ]
    return f"privateInputs has to have exactly the names of spec.requiredSensitiveVars: {'; '.join(found)}"


def _observation(has_bundle: bool) -> JsonObject:
    """Nothing is said of a bundle that the Version does not have (WV-08)."""
    bundle: JsonObject = {"bundleVerified": True} if has_bundle else {}
    return {"ready": True, "resolvedBindings": True, **bundle}


def _facts(report: CodeReport | None, assets: AssetsRecord | None) -> JsonObject:
    """`assets` and `codeDigest` are there only for what the Version has."""
    served: JsonObject = {} if assets is None else {"assets": assets.manifest_sha256}
    if report is None:
        return {"handlers": [], "classes": [], **served}
    return {
        "codeDigest": report.code_digest,
        "handlers": list(report.handlers),
        "classes": list(report.classes),
        **served,
    }


def _record(task: Task[WorkerVersionSpec], report: CodeReport | None, assets: AssetsRecord | None) -> VersionRecord:
    return VersionRecord(
        version_uid=task.uid,
        worker_uid=task.spec.worker_uid,
        code_digest=None if report is None else report.code_digest,
        vars=task.spec.vars,
        bindings=tuple(
            BindingRecord(binding.name, BUILT_BINDINGS[binding.kind], binding.target_uid)
            for binding in task.spec.bindings
        ),
        handlers=() if report is None else report.handlers,
        classes=() if report is None else report.classes,
        secrets=_secrets(task),
        assets=assets,
    )


def _secrets(task: Task[WorkerVersionSpec]) -> Mapping[str, str] | None:
    """`None` when the names are declared and the values are not at hand: the runtime's own are kept (WV-07)."""
    if not task.spec.sensitive_names:
        return {}
    return None if task.inputs is None else task.inputs.values
