"""Says why a Version cannot be selected: what it lacks, and what attached to its Worker needs that (WD-05, HA-23).

Decides nothing: `deployed_weights` does, from the same rows.
"""

from collections.abc import Iterator

from host.forms import urls
from host.forms.deployed_weights import ANSWERING, Fitness, exported_by, fitness, needing_answers
from host.forms.form import StateView
from host.model.records import Resource

_MOST_NEEDS = 3


def lacking(view: StateView, version: Resource, worker_uid: str) -> str:
    """For an unfit Version of the Worker; no names for who may not read them."""
    if not view.may_name(version):
        return "a Version lacks a class or handler that something attached to the Worker needs"
    needs = [*sorted(_classes(view, version, worker_uid)), *sorted(_handlers(view, version, worker_uid))]
    more = f" and {len(needs) - _MOST_NEEDS} more" if len(needs) > _MOST_NEEDS else ""
    words = ", ".join(needs[:_MOST_NEEDS]) + more
    return f"the Version {version.name!r} lacks {words}; it exports {exported_by(version)}"


def _classes(view: StateView, version: Resource, worker_uid: str) -> Iterator[str]:
    for workflow in view.referrers(worker_uid, urls.DURABLE_WORKFLOW):
        name = workflow.spec.get("className")
        if isinstance(name, str) and fitness(version, classes=(name,)) is Fitness.UNFIT:
            yield f"the class {name} for {_word(workflow)}"


def _handlers(view: StateView, version: Resource, worker_uid: str) -> Iterator[str]:
    if fitness(version, handlers=ANSWERING) is Fitness.UNFIT:
        for each in needing_answers(view, worker_uid):
            is_caller = each.form_url == urls.WORKER_VERSION
            yield f"the handler fetch for {'a service binding of ' if is_caller else ''}{_word(each)}"


def _word(resource: Resource) -> str:
    return f"{urls.form_name(resource.form_url)} {resource.name!r}"
