"""Sealing and comparing under the host key."""

import pytest

from host.model.private_inputs import PrivateInputs
from host.model.private_keys import KEY_BYTES, Comparison, PrivateKeys, SealBroken

KEYS = PrivateKeys(b"k" * KEY_BYTES)
OTHERS = PrivateKeys(b"o" * KEY_BYTES)


@pytest.mark.req("HA-61")
def test_a_sealed_text_opens_only_whole_in_its_place_and_under_its_key() -> None:
    sealed = KEYS.seal("secret text", "row 1")
    assert KEYS.unseal(sealed, "row 1") == "secret text"
    assert b"secret" not in sealed
    assert KEYS.seal("secret text", "row 1") != sealed
    for keys, data, context in (
        (KEYS, sealed, "row 2"),
        (OTHERS, sealed, "row 1"),
        (KEYS, sealed[:-1] + bytes([sealed[-1] ^ 1]), "row 1"),
        (KEYS, sealed[:20], "row 1"),
        (KEYS, b"", "row 1"),
    ):
        with pytest.raises(SealBroken):
            keys.unseal(data, context)


@pytest.mark.req("HA-51", "HA-64", "HA-65")
def test_comparison_material_tells_equal_from_different_and_knows_its_key() -> None:
    code = KEYS.comparison_code("text", "op-1")
    assert KEYS.compare(code, "text", "op-1") is Comparison.EQUAL
    assert KEYS.compare(code, "texT", "op-1") is Comparison.DIFFERENT
    assert KEYS.compare(code, "text", "op-2") is Comparison.DIFFERENT
    assert KEYS.compare(KEYS.comparison_code("1text", "op-"), "text", "op-1") is Comparison.DIFFERENT
    assert OTHERS.compare(code, "text", "op-1") is Comparison.UNKNOWN
    assert KEYS.compare(None, "text", "op-1") is Comparison.UNKNOWN
    assert [KEYS.can_compare(each) for each in (code, None, OTHERS.comparison_code("text", "op-1"))] == [
        True,
        False,
        False,
    ]


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        PrivateKeys(b"k" * 16)


@pytest.mark.req("HA-61")
def test_private_inputs_never_show_themselves() -> None:
    inputs = PrivateInputs({"TOKEN": "correct horse"})
    assert "horse" not in f"{inputs!r} {inputs}"
    assert PrivateInputs({"b": "2", "a": "1"}).text == PrivateInputs({"a": "1", "b": "2"}).text
