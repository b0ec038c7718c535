"""Hypothesis strategies for the schemas of the OpenAPI document, and a judge of values against them.

Only the keywords that the document uses; another one fails the test that meets it, so that none is passed over.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

Schema = Mapping[str, Any]
ANNOTATIONS = {"description"}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


class Document:
    """An OpenAPI document and its references."""

    def __init__(self, document: Any) -> None:
        self.root = document
        self._made: dict[str, st.SearchStrategy[Any]] = {}

    def resolved(self, schema: Schema) -> Schema:
        """The schema itself, references followed."""
        while "$ref" in schema:
            found = self.root
            for part in schema["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            schema = found
        return schema

    def values(self, schema: Schema) -> st.SearchStrategy[Any]:
        """Values that fit; made once for each schema, since making them is slow."""
        key = json.dumps(schema, sort_keys=True)
        if key not in self._made:
            self._made[key] = self._make(self.resolved(schema))
        return self._made[key]

    def _make(self, schema: Schema) -> st.SearchStrategy[Any]:
        if "const" in schema:
            return st.just(schema["const"])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        if "oneOf" in schema:
            return st.one_of([self.values(each) for each in schema["oneOf"]])
        match schema["type"]:
            case "string":
                return st.from_regex(_ascii(schema["pattern"])) if "pattern" in schema else st.text(max_size=40)
            case "integer":
                return st.integers(schema.get("minimum", 0), schema.get("maximum", 2**53 - 1))
            case "boolean":
                return st.booleans()
            case "array":
                return st.lists(self.values(schema["items"]), max_size=3)
            case "object":
                return self._objects(schema)
            case other:
                raise AssertionError(f"no strategy for {other}")

    def _objects(self, schema: Schema) -> st.SearchStrategy[Any]:
        properties = schema.get("properties", {})
        required = set(schema.get("required", ()))
        if not properties:
            extra = schema.get("additionalProperties")
            values = JSON if extra is None else self.values(extra)
            return st.dictionaries(st.text(max_size=8), values, max_size=4)
        return st.fixed_dictionaries(
            {name: self.values(each) for name, each in properties.items() if name in required},
            optional={name: self.values(each) for name, each in properties.items() if name not in required},
        )

    def faults(self, schema: Schema, value: Any, place: str = "$") -> list[str]:
        """Where the value does not fit, in words."""
        found: list[str] = []
        schema = self.resolved(schema)
        for keyword, wanted in schema.items():
            if keyword not in ANNOTATIONS:
                found += self._judge(keyword, wanted, schema, value, place)
        return found

    def _judge(self, keyword: str, wanted: Any, schema: Schema, value: Any, place: str) -> list[str]:
        match keyword:
            case "type":
                kinds = wanted if isinstance(wanted, list) else [wanted]
                return [] if any(_is_a(value, kind) for kind in kinds) else [f"{place} is no {wanted}"]
            case "const":
                return [] if value == wanted else [f"{place} is not {wanted!r}"]
            case "enum":
                return [] if value in wanted else [f"{place} is none of {wanted}"]
            case "pattern":
                return [] if re.search(wanted, value) else [f"{place} is not like {wanted}"]
            case "minimum":
                return [] if value >= wanted else [f"{place} is below {wanted}"]
            case "maximum":
                return [] if value <= wanted else [f"{place} is above {wanted}"]
            case "maxItems":
                return [] if len(value) <= wanted else [f"{place} is too long"]
            case "items":
                return [each for at, item in enumerate(value) for each in self.faults(wanted, item, f"{place}[{at}]")]
            case _:
                return self._judge_compound(keyword, wanted, schema, value, place)

    def _judge_compound(self, keyword: str, wanted: Any, schema: Schema, value: Any, place: str) -> list[str]:
        match keyword:
            case "required":
                return [f"{place} lacks {name}" for name in wanted if name not in value]
            case "properties":
                named = [(name, each) for name, each in wanted.items() if name in value]
                return [fault for name, each in named for fault in self.faults(each, value[name], f"{place}.{name}")]
            case "additionalProperties":
                extra = [name for name in value if name not in schema.get("properties", {})]
                if wanted is False:
                    return [f"{place} has {name}" for name in extra]
                return [fault for name in extra for fault in self.faults(wanted, value[name], f"{place}.{name}")]
            case "allOf":
                return [fault for each in wanted for fault in self.faults(each, value, place)]
            case "anyOf" | "oneOf":
                fitting = [each for each in wanted if not self.faults(each, value, place)]
                return [] if fitting else [f"{place} fits nothing"]
            case other:
                raise AssertionError(f"the document uses {other}, which is not judged here")


def _is_a(value: Any, kind: str) -> bool:
    types: Mapping[str, tuple[type, ...]] = {
        "object": (dict,),
        "array": (list,),
        "string": (str,),
        "integer": (int,),
        "boolean": (bool,),
        "null": (type(None),),
    }
    return isinstance(value, types[kind]) and (kind != "integer" or not isinstance(value, bool))


def _ascii(pattern: str) -> "re.Pattern[str]":
    """`$` also matches before a line feed, which no value of ours may have."""
    return re.compile(pattern.removesuffix("$") + r"\Z", re.ASCII)
