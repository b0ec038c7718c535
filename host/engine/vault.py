"""Private inputs inside transactions: sealed while an Operation needs them, compared as long as it is kept.

The value and what compares it lie in rows of their own, so that the one can expire without the other (HA-64).
"""

from host.model.json import decode_object
from host.model.operation_states import Action
from host.model.private_inputs import InputReason, PrivateInputs
from host.model.private_keys import Comparison, PrivateKeys, SealBroken
from host.model.records import Operation
from host.sqlite import Transaction
from host.store.private import (
    KeptValue,
    drop_comparison,
    drop_value,
    find_comparison,
    find_value,
    keep_comparison,
    keep_value,
)


class Vault:
    """Speaks for one host key; a value is kept for at most `value_s` seconds of contract time."""

    def __init__(self, keys: PrivateKeys, value_s: int) -> None:
        self._keys = keys
        self._value_ms = value_s * 1000

    def keep(self, tx: Transaction, operation_id: str, uid: str, inputs: PrivateInputs | None, at_ms: int) -> None:
        """Note an accepted request's inputs: for its Operation, and as those of the Resource (WV-07)."""
        if inputs is None or not inputs.values:
            return
        self.keep_value(tx, operation_id, inputs, at_ms)
        for subject in (operation_id, uid):
            keep_comparison(tx, subject, self._keys.comparison_code(inputs.text, subject))

    def keep_value(self, tx: Transaction, operation_id: str, inputs: PrivateInputs, at_ms: int) -> None:
        sealed = self._keys.seal(inputs.text, operation_id)
        keep_value(tx, operation_id, KeptValue(sealed, at_ms + self._value_ms))

    def compare(self, tx: Transaction, subject: str, inputs: PrivateInputs) -> Comparison:
        """With what was kept for the Operation id or uid; an empty map has no value to compare."""
        if not inputs.values:
            return Comparison.EQUAL
        return self._keys.compare(find_comparison(tx, subject), inputs.text, subject)

    def can_compare(self, tx: Transaction, operation_id: str) -> bool:
        """Whether a replenishment could be told right or wrong (HA-63)."""
        return self._keys.can_compare(find_comparison(tx, operation_id))

    def read(self, tx: Transaction, operation: Operation, at_ms: int) -> PrivateInputs | InputReason | None:
        """The Operation's inputs, or why they are not at hand; `None` when the request had none."""
        if not operation.input_names or operation.action is Action.DELETE:
            return None
        kept = find_value(tx, operation.id)
        if kept is None:
            return InputReason.UNAVAILABLE
        if kept.sealed is None or kept.expires_at_ms <= at_ms:
            return InputReason.EXPIRED
        try:
            members = decode_object(self._keys.unseal(kept.sealed, operation.id))
        except SealBroken:
            return InputReason.UNAVAILABLE
        return PrivateInputs({name: str(value) for name, value in members.items()})


def forget_value(tx: Transaction, operation_id: str) -> None:
    """The Operation is decided: nobody needs the value any more."""
    drop_value(tx, operation_id)


def forget_resource(tx: Transaction, uid: str) -> None:
    """The Resource is deleted: nothing is left to compare an update with."""
    drop_comparison(tx, uid)
