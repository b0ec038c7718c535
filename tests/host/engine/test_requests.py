"""When two requests are one intent (HA-51)."""

import pytest

from host.engine.requests import CreateResource, DeleteResource, UpdateResource
from host.http.envelopes import read_create
from host.model.json import decode_object


def update(spec: str, uid: str = "u", generation: int = 1) -> str:
    body = decode_object(f'{{"spec":{spec}}}')
    return UpdateResource(uid, generation, {}, body).fingerprint


@pytest.mark.req("HA-51")
@pytest.mark.parametrize(
    ("first", "second", "is_equal"),
    [
        ('{"a":1,"b":2}', '{ "b" : 2.0, "a" : 1e0 }', True),
        ('{"a":"\\u0061"}', '{"a":"a"}', True),
        ('{"a":0}', '{"a":-0.0}', True),
        ('{"a":1.50}', '{"a":15e-1}', True),
        ('{"a":9007199254740993}', '{"a":9007199254740992}', False),
        ('{"a":9007199254740993.0}', '{"a":9007199254740993}', True),
        ('{"a":0.1}', '{"a":0.1000000000000000055}', False),
        ('{"a":1e-400}', '{"a":0}', False),
        ('{"a":[1,2]}', '{"a":[2,1]}', False),
        ('{"a":null}', "{}", False),
        ('{"a":true}', '{"a":1}', False),
        ('{"\\u00e9":1}', '{"e\\u0301":1}', False),
    ],
)
def test_bodies_compare_by_their_value(first: str, second: str, is_equal: bool) -> None:
    assert (update(first) == update(second)) is is_equal


@pytest.mark.req("HA-51", "HA-52")
def test_path_generation_and_method_take_part() -> None:
    prints = {
        update("{}"),
        update("{}", uid="v"),
        update("{}", generation=2),
        DeleteResource("u", 1).fingerprint,
        DeleteResource("u", 2).fingerprint,
    }
    assert len(prints) == 5


@pytest.mark.req("HA-61", "HA-51")
def test_a_fingerprint_holds_the_names_of_private_inputs_and_nothing_of_their_values() -> None:
    def envelope(inputs: str) -> CreateResource:
        text = f'{{"form":"https://a.b/","space":"s","name":"n","spec":{{}},"privateInputs":{inputs}}}'
        return read_create(decode_object(text))

    one, other = envelope('{"A":"correct horse"}'), envelope('{"A":"other"}')
    assert "horse" not in repr(one)
    assert one.fingerprint == other.fingerprint
    prints = {envelope(inputs).fingerprint for inputs in ('{"A":"1"}', '{"B":"1"}', '{"A":"1","B":"2"}', "{}")}
    assert len(prints) == 4
