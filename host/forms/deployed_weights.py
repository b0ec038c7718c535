"""Which Versions a Worker's Deployments select, now and by what is accepted, and what they are proven to have.

Read from rows alone, so that every check stands inside the acceptance transaction (WD-05, WD-09, DW-03).
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from host.forms import urls
from host.forms.form import StateView
from host.model.json import JsonObject, JsonValue
from host.model.operation_states import Action
from host.model.records import Resource
from host.ports import Weight

ANSWERING = ("fetch",)
"""The handlers of a Version that can answer HTTP; verified assets stand for them."""


class Fitness(StrEnum):
    """What is known of a Version against a requirement: unverified is never taken for unfit (DW-03)."""

    FIT = "fit"
    UNFIT = "unfit"
    UNVERIFIED = "unverified"


def weights_in_force(deployment: Resource) -> tuple[Weight, ...]:
    """The weights that the runtime was brought to and not taken from again; none before the first success."""
    return _weights(deployment.facts.get("weights"))


def active_deployment(view: StateView, worker_uid: str) -> Resource | None:
    """The Deployment from which new work is chosen."""
    return next((each for each in _deployments(view, worker_uid) if weights_in_force(each)), None)


def rival_of(view: StateView, worker_uid: str, deployment_uid: str | None) -> Resource | None:
    """Another Deployment that selects for the Worker, or may once its Operation is decided (WD-02)."""
    standing = filter(is_standing, _deployments(view, worker_uid))
    return next((deployment for deployment in standing if deployment.uid != deployment_uid), None)


def is_standing(resource: Resource) -> bool:
    """Whether it has, or may have, an effect: not so once its creation failed without any (WD-02, WE-08)."""
    return resource.unfinished is not None or bool(resource.facts)


def selected_versions(view: StateView, worker_uid: str) -> tuple[str, ...]:
    """Uids in force, and those of every accepted unfinished creation or update; a deletion brings none (DW-03).

    Weights that a failed switch may have left in force count as well.
    """
    uids: dict[str, None] = {}
    for deployment in _deployments(view, worker_uid):
        known = weights_in_force(deployment) + _weights(deployment.facts.get("attempted"))
        uids.update((weight.version_uid, None) for weight in known)
        if deployment.unfinished in (Action.CREATE, Action.UPDATE):
            uids.update((weight.version_uid, None) for weight in _asked(deployment.spec))
    return tuple(uids)


def required_classes(view: StateView, worker_uid: str) -> tuple[str, ...]:
    """The classes of the Worker's Workflows, from acceptance of creation to the end of deletion (WD-05)."""
    names = (workflow.spec.get("className") for workflow in view.referrers(worker_uid, urls.DURABLE_WORKFLOW))
    return tuple(sorted({name for name in names if isinstance(name, str)}))


def required_handlers(view: StateView, worker_uid: str) -> tuple[str, ...]:
    """`fetch` while anything needs an answer to HTTP (WD-05)."""
    return ANSWERING if any(needing_answers(view, worker_uid)) else ()


def needing_answers(view: StateView, worker_uid: str) -> Iterator[Resource]:
    """The Worker's endpoint, and the live Versions of any Worker with a service binding to it (WD-05)."""
    yield from filter(is_standing, view.referrers(worker_uid, urls.WORKER_ENDPOINT))
    target: JsonValue = {"resourceUid": worker_uid}
    for version in view.referrers(worker_uid, urls.WORKER_VERSION):
        bindings = version.spec.get("serviceBindings")
        if isinstance(bindings, list) and any(isinstance(b, dict) and b.get("resource") == target for b in bindings):
            yield version


def fitness(version: Resource | None, classes: Iterable[str] = (), handlers: Iterable[str] = ()) -> Fitness:
    """Whether the Version is proven to export every class and to have every handler.

    Whoever needs `fetch` needs an answer to HTTP: verified assets give one as well (WD-05, MW-20, WE-07).
    """
    exported = None if version is None else version.facts.get("classes")
    declared = None if version is None else version.facts.get("handlers")
    if version is None or not isinstance(exported, list) or not isinstance(declared, list):
        return Fitness.UNVERIFIED
    served = [*declared, *ANSWERING] if "assets" in version.facts else declared
    has_all = all(name in exported for name in classes) and all(name in served for name in handlers)
    return Fitness.FIT if has_all else Fitness.UNFIT


def exported_by(version: Resource) -> str:
    """The proven Workflow classes of a Version, in words."""
    exported = version.facts.get("classes")
    return ", ".join(map(str, exported)) if isinstance(exported, list) and exported else "no Workflow class"


def http_fitness(view: StateView, version_uid: str) -> Fitness:
    """Whether the Version can answer HTTP (WE-07)."""
    return fitness(view.resource(version_uid), handlers=ANSWERING)


def attached_to(view: StateView, deployment: Resource) -> tuple[Resource, ...]:
    """Its Worker, with Workflows and endpoint: their readiness follows from the weights (MW-01, DW-02, WE-06)."""
    uid = deployment.spec.get("worker")
    worker = view.resource(str(uid["resourceUid"])) if isinstance(uid, dict) else None
    if worker is None:
        return ()
    forms = (urls.DURABLE_WORKFLOW, urls.WORKER_ENDPOINT)
    return (worker, *(each for form in forms for each in view.referrers(worker.uid, form)))


def has_losses(view: StateView, deployment: Resource) -> bool:
    """Whether a Version in force has lost its secrets or held bytes: nothing new runs on it (WD-08)."""
    return any(loss_of(view, weight.version_uid) for weight in weights_in_force(deployment))


def loss_of(view: StateView, version_uid: str) -> str | None:
    """What a Version was found to have lost, in words; none of a whole one (WV-08, WV-12)."""
    if view.has_lost_secrets(version_uid):
        return "its secrets"
    return "held bytes of its bundles" if view.lost_files(version_uid) else None


def _deployments(view: StateView, worker_uid: str) -> Sequence[Resource]:
    return view.referrers(worker_uid, urls.WORKER_DEPLOYMENT)


def _weights(value: JsonValue) -> tuple[Weight, ...]:
    """Weights as `{"resourceUid", "weight"}` objects: the form of `observed` and of the private facts."""
    if not isinstance(value, list):
        return ()
    pairs = [(each.get("resourceUid"), each.get("weight")) for each in value if isinstance(each, dict)]
    return tuple(Weight(uid, share) for uid, share in pairs if isinstance(uid, str) and isinstance(share, int))


def _asked(spec: JsonObject) -> tuple[Weight, ...]:
    """Weights of a stored spec, which was parsed when it was accepted."""
    versions = spec.get("versions")
    if not isinstance(versions, list):
        return ()
    entries: list[JsonValue] = [
        {"resourceUid": reference.get("resourceUid"), "weight": each.get("weight")}
        for each in versions
        if isinstance(each, dict) and isinstance(reference := each.get("workerVersion"), dict)
    ]
    return _weights(entries)
