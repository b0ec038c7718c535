"""What is not built of Forms that this host advertises (HA-28): the list that refusals, documents and tests go by."""

from dataclasses import dataclass

from host.forms import urls
from host.forms.version_spec import BINDING_FORMS

BUILT_BINDINGS = {"serviceBindings": "service", "workflowBindings": "workflow"}
"""Kinds of binding that work: member of the spec -> kind of the runtime's record."""


@dataclass(frozen=True, slots=True)
class Unbuilt:
    """`name` is short and stays; `what` is a sentence for people; `ids` are the requirements that are not met."""

    name: str
    form_url: str
    what: str
    ids: tuple[str, ...]


def _binding(member: str) -> Unbuilt:
    form = BINDING_FORMS[member].split("/")[-3]
    what = f"`spec.{member}` is refused with 409 dependency_conflict: the Form {form} is not built."
    return Unbuilt(member, urls.WORKER_VERSION, what, ("WV-11",))


UNBUILT = (
    *(_binding(member) for member in BINDING_FORMS if member not in BUILT_BINDINGS),
    Unbuilt(
        "scheduled",
        urls.WORKER_VERSION,
        "A `scheduled` handler is called by hand, through the management listener: no Form triggers it yet.",
        ("MW-17",),
    ),
    Unbuilt(
        "queue",
        urls.WORKER_VERSION,
        "A `queue` handler is called by hand, through the management listener: no Form feeds it yet.",
        ("MW-18", "MW-19"),
    ),
)
