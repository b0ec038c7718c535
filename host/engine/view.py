"""What a Form sees of the rows, inside the transaction that decides: one principal, one Space."""

from collections.abc import Collection, Sequence

from host.forms.form import Reference
from host.model.operation_states import Action
from host.model.records import Resource
from host.sqlite import Transaction
from host.store.losses import has_lost_secrets, lost_files_of
from host.store.resources import find_referrers, find_resource


class SpaceView:
    """A `StateView` on a running transaction. `may_read`: somebody asks who may read what is in the Space (HA-23)."""

    def __init__(self, tx: Transaction, owner: str, space: str, may_read: bool = False) -> None:
        self._tx = tx
        self._owner = owner
        self._space = space
        self._may_read = may_read

    def resource(self, uid: str) -> Resource | None:
        found = find_resource(self._tx, self._owner, uid)
        return found if found is not None and found.space == self._space else None

    def referrers(self, uid: str, form_url: str | None = None) -> Sequence[Resource]:
        return find_referrers(self._tx, self._owner, uid, form_url)

    def may_name(self, resource: Resource) -> bool:
        return self._may_read and (resource.owner, resource.space) == (self._owner, self._space)

    def has_lost_secrets(self, version_uid: str) -> bool:
        return has_lost_secrets(self._tx, version_uid)

    def lost_files(self, version_uid: str) -> Collection[str]:
        return lost_files_of(self._tx, version_uid)

    def is_usable(self, reference: Reference) -> bool:
        """Whether the target exists for this caller, here, under exactly that Form, and is not being deleted (HA-32).

        A target that no Operation has ever verified, nor is about to, cannot be used either.
        """
        target = self.resource(reference.uid)
        if target is None or target.form_url != reference.form_url or target.unfinished is Action.DELETE:
            return False
        return target.observed_generation > 0 or target.unfinished is not None
