"""Records as JSON: what is written is read back, what has another shape is refused by the name of its key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polvet.errors import InputError, Where
from polvet.records.shape import later, record_from_json, record_to_json


class Colour(Enum):
    RED, BLUE = "red", "blue"


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    weight: float
    colour: Colour


@dataclass(frozen=True, slots=True)
class Whole:
    count: int
    good: bool
    parts: tuple[Part, ...]
    interval: tuple[float, float]
    ends: Mapping[str, int]
    reason: str | None
    anything: Any
    proof: str | None = None
    length: float | None = later()


PARTS = st.builds(
    Part, st.text(), st.floats(allow_nan=False, allow_infinity=False) | st.integers(), st.sampled_from(Colour)
)
WHOLES = st.builds(
    Whole, st.integers(), st.booleans(), st.lists(PARTS, max_size=3).map(tuple), st.tuples(st.integers(), st.just(0.5)),
    st.dictionaries(st.text(), st.integers()), st.none() | st.text(), st.none() | st.integers(),
    st.none() | st.text(), st.none() | st.just(2.5),
)  # fmt: skip
GOOD = Whole(3, True, (Part("a", 1, Colour.RED),), (0.0, 1.0), {"goal": 2}, None, None)


@given(WHOLES)
def test_a_record_is_read_back_as_it_was_written(whole):
    document = json.loads(json.dumps(record_to_json(whole)))
    assert record_from_json(Whole, document, Where("file")) == whole


def test_an_optional_field_is_left_out_and_a_later_one_is_written():
    document = record_to_json(GOOD)
    assert "proof" not in document
    assert document["length"] is None
    assert document["reason"] is None
    del document["length"]  # as a version before it wrote
    assert record_from_json(Whole, {**document, "unheard": 1}, Where("file")) == GOOD


@pytest.mark.parametrize(("key", "value", "says"), [
    ("count", True, "count: is not an integer"), ("count", 1.0, "count: is not an integer"),
    ("good", 1, "good: is not true or false"), ("parts", {}, "parts: is no list"),
    ("parts", [3], r"parts\[0\]: is no object"), ("parts", [{"name": "a"}], "the key 'weight' is missing"),
    ("parts", [{"name": "a", "weight": "1", "colour": "red"}], r"parts\[0\].weight: is not a number"),
    ("parts", [{"name": "a", "weight": 1, "colour": "grey"}], "colour: is none of red, blue"),
    ("parts", [{"name": "a", "weight": 1, "colour": []}], "colour: is none of red, blue"),
    ("interval", [1.0], "interval: has 1 entries, not 2"), ("ends", {"goal": None}, "ends.goal: is not an integer"),
    ("ends", [], "ends: is no object"), ("reason", 3, "reason: is not a text"),
])  # fmt: skip
def test_a_value_of_another_shape_is_refused_by_its_place(key, value, says):
    with pytest.raises(InputError, match=says):
        record_from_json(Whole, {**record_to_json(GOOD), key: value}, Where("file"))


def test_a_missing_key_and_a_document_that_is_no_object_are_refused():
    document = record_to_json(GOOD)
    del document["reason"]
    with pytest.raises(InputError, match="the key 'reason' is missing"):
        record_from_json(Whole, document, Where("file"))
    with pytest.raises(InputError, match="is no object"):
        record_from_json(Whole, [1], Where("file"))
