"""Writing JANI: read again, it is the same model, for every benchmark and for random models."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polvet.errors import InputError, Where
from polvet.files import depth_of
from polvet.jani import dump_model, load_model, load_properties, parse_model
from polvet.jani.documents import exact_real, parse_document
from polvet.jani.text import decimal_text
from polvet.jani.write import dump_properties
from polvet.jani.write_expressions import write_expression
from polvet.model.expressions import Binary, Expression, IntLiteral, Name, RealLiteral, Select
from tests.jani.conftest import BENCHMARKS, needs_benchmarks, tiny_document
from tests.jani.strategies import decimals, models


def parse(text):
    return parse_model(parse_document(text, Where("again")), Where("again"), check=False)


LARGE = 300_000  # bytes; larger files are left to the full test run


def benchmark_files():
    return [
        pytest.param(
            file, id=str(file.relative_to(BENCHMARKS)), marks=[pytest.mark.slow] * (file.stat().st_size > LARGE)
        )
        for file in sorted(BENCHMARKS.rglob("*.jani"))
    ]


@needs_benchmarks
@pytest.mark.parametrize("file", benchmark_files())
def test_every_benchmark_is_read_written_and_read_as_the_same(file, tmp_path):
    if file.name == "dpm.jani":
        pytest.skip("a Markov automaton")
    if '"automata"' in file.read_text("utf-8-sig"):
        model = load_model(file, check=False)
        text = dump_model(model)
        again = parse(text)
        assert again == model
        assert dump_model(again) == text
    else:
        properties = load_properties(file)
        copy = tmp_path / "copy.jani"
        copy.write_text(dump_properties(properties), encoding="utf-8")
        if isinstance(json.loads(file.read_text("utf-8-sig")), list):
            # A bare list of predicates is no property expression and is written as it stood.
            copy.write_text(json.dumps(json.loads(copy.read_text())["properties"][0]["expression"]), encoding="utf-8")
            assert load_properties(copy)[0].expression == properties[0].expression
        else:
            assert load_properties(copy) == properties


@given(models)
@settings(max_examples=300, deadline=None)
def test_every_model_is_written_and_read_as_the_same(model):
    text = dump_model(model)
    assert parse(text) == model
    assert text == dump_model(parse(text))


@given(decimals)
def test_decimals_are_written_exactly(value):
    text = decimal_text(value)
    assert exact_real(text) == value
    assert "." in text


@given(st.fractions())
def test_other_fractions_are_written_as_a_division_of_the_same_value(value):
    match write_expression(RealLiteral(value)):
        case Fraction() as same:
            assert same == value
        case {"op": "/", "left": left, "right": right}:
            assert Fraction(left, right) == value


def test_the_text_is_stable_and_readable():
    text = dump_model(parse_model(parse_document(json.dumps(tiny_document()), Where("m")), Where("m")))
    lines = text.splitlines()
    assert lines[:4] == ["{", '  "jani-version": 1,', '  "name": "tiny",', '  "type": "mdp",']
    assert '          "guard": {"exp": {"op": "<", "left": "x", "right": "N"}},' in lines
    assert max(map(len, lines)) <= 140
    assert json.loads(text)["features"] == ["arrays", "derived-operators", "functions"]


def test_a_chain_too_long_to_be_read_again_is_refused():
    chain: Expression = Name("x")
    for _ in range(250):
        chain = Binary("+", chain, IntLiteral(1))
    model = parse(json.dumps(tiny_document()))
    with pytest.raises(InputError, match="nests more than 200 deep"):
        dump_model(replace(model, restrict_initial=chain))


def test_an_integer_too_long_to_be_read_again_is_refused():
    assert write_expression(IntLiteral(10**399)) == 10**399
    with pytest.raises(InputError, match="more than 400 digits"):
        write_expression(IntLiteral(10**400))


def test_what_jani_cannot_say_is_refused():
    with pytest.raises(InputError, match=r"JANI has no expression 'Select'.*before it is instantiated"):
        write_expression(Select((Name("i"),), (1,), (Name("a"),)))


DEEP = {
    "¬": lambda inner: {"op": "¬", "exp": inner},
    "∧ to the left": lambda inner: {"op": "∧", "left": inner, "right": "b"},
    "⇒ to the right": lambda inner: {"op": "⇒", "left": "b", "right": inner},
    "ite": lambda inner: {"op": "ite", "if": "b", "then": "b", "else": inner},
    "call": lambda inner: {"op": "call", "function": "same", "args": [inner]},
    "aa of av": lambda inner: {"op": "aa", "exp": {"op": "av", "elements": [inner]}, "index": 0},
    "aa of ac": lambda inner: {"op": "aa", "exp": {"op": "ac", "var": "i", "length": 1, "exp": inner}, "index": 0},
    "nested probabilities": lambda inner: {
        "op": "≥", "left": {"op": "Pmax", "exp": {"op": "F", "exp": inner}}, "right": 1
    },
}  # fmt: skip


@pytest.mark.parametrize("name", DEEP)
def test_documents_as_deep_as_the_limit_are_read_checked_compared_and_written(name):
    document = tiny_document()
    parameters = [{"name": "p", "type": "bool"}]
    document["functions"].append({"name": "same", "type": "bool", "parameters": parameters, "body": "p"})

    def nested(levels):
        inner = "b"
        for _ in range(levels):
            inner = DEEP[name](inner)
        document["properties"] = [{"name": "deep", "expression": inner}]
        return json.dumps(document)

    shallow, deeper = depth_of(nested(20)), depth_of(nested(21))
    levels = 20 + (200 - shallow) // (deeper - shallow)
    text = nested(levels)
    model = parse_model(parse_document(text, Where("m")), Where("m"))
    assert parse(dump_model(model)) == model
    with pytest.raises(InputError, match="nests more than 200 deep"):
        parse_document(nested(levels + 1), Where("m"))
