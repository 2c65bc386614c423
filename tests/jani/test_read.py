"""Reading JANI: every benchmark, exact numbers, byte order marks, properties, PlaJA's additions, references."""

import json
import logging
from fractions import Fraction
from pathlib import Path

import pytest

from polvet.errors import InputError, Where
from polvet.jani import load_model, load_properties, parse_model
from polvet.jani.documents import parse_document
from polvet.jani.features import FEATURES, MODEL_TYPES, UNSUPPORTED_FEATURES, UNSUPPORTED_MODEL_TYPES
from polvet.jani.read_properties import read_property_expression
from polvet.model.expressions import TRUE, Binary, IntLiteral, Name, RealLiteral
from polvet.model.properties import (
    AutomatonLocation,
    Comparison,
    Filter,
    Interval,
    Objective,
    Optimum,
    OtherExpression,
    PolicyTask,
    Predicates,
    Probability,
    StateCondition,
    StatePredicate,
    StatesValues,
    Until,
)
from tests.jani.conftest import BENCHMARKS, needs_benchmarks, tiny_document


def read(document, folder=None):
    return parse_model(parse_document(json.dumps(document), Where("m.jani")), Where("m.jani"), folder=folder)


def write(folder: Path, name: str, document) -> Path:
    file = folder / name
    file.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    return file


def benchmark_models():
    entries = json.loads((BENCHMARKS / "models.json").read_text("utf-8-sig")) if BENCHMARKS.is_dir() else []
    return [pytest.param(entry, id=entry["file"]) for entry in entries]


@needs_benchmarks
@pytest.mark.parametrize("entry", benchmark_models())
def test_every_benchmark_has_the_counts_its_collector_counted(entry):
    file = BENCHMARKS / entry["file"]
    if entry["model_type"] in UNSUPPORTED_MODEL_TYPES:
        with pytest.raises(InputError, match=r": type: .* are not supported"):
            load_model(file)
        return
    model = load_model(file)
    assert model.type.value == entry["model_type"]
    assert len(model.automata) == entry["automata"]
    assert len(model.variables) == entry["global_variables"]
    assert sum(len(automaton.variables) for automaton in model.automata) == entry["local_variables"]
    assert sum(len(automaton.locations) for automaton in model.automata) == entry["locations"]
    edges = [edge for automaton in model.automata for edge in automaton.edges]
    assert len(edges) == entry["edges"]
    assert sum(len(edge.destinations) for edge in edges) == entry["destinations"]
    assert sum(edge.action is None for edge in edges) == entry["silent_edges"]
    assert sum(len(edge.assignments) for edge in edges) == entry["edge_level_assignments"]
    assert [constant.name for constant in model.constants if constant.value is None] == entry["open_constants"]
    assert [one.name for one in model.properties] == entry["properties"]
    assert len(model.system.instances) == entry["system_elements"]
    assert len(model.system.synchronisations or ()) == entry["syncs"]
    assert set(entry["features"]) <= set(model.features)


def test_a_byte_order_mark_changes_nothing(tmp_path):
    text = json.dumps(tiny_document())
    plain, marked = tmp_path / "plain.jani", tmp_path / "marked.jani"
    plain.write_bytes(text.encode())
    marked.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert load_model(plain) == load_model(marked)


def test_reals_are_read_exactly():
    document = tiny_document()
    text = json.dumps(document).replace("0.25", "0.1000000000000000055511151231257827")
    model = parse_model(parse_document(text, Where("m.jani")), Where("m.jani"))
    probability = model.automata[0].edges[0].destinations[0].probability
    assert probability == RealLiteral(Fraction(1000000000000000055511151231257827, 10**34))


def test_an_integer_stays_one_and_a_real_whole_number_stays_real():
    assert read_property_expression(1) == IntLiteral(1)
    assert read_property_expression(Fraction(1)) == RealLiteral(Fraction(1))


def test_every_part_knows_its_place():
    model = read(tiny_document())
    edge = model.automata[0].edges[0]
    assert str(edge.where) == "m.jani: automata[0].edges[0]"
    assert (
        str(edge.destinations[0].assignments[1].where) == "m.jani: automata[0].edges[0].destinations[0].assignments[1]"
    )
    assert str(model.variables[2].where) == "m.jani: variables[2]"
    assert str(model.automata[0].variables[0].where) == "m.jani: automata[0].variables[0]"
    assert str(model.functions[0].where) == "m.jani: functions[0]"
    assert str(model.system.synchronisations[1].where) == "m.jani: system.syncs[1]"
    assert str(model.properties[1].where) == "m.jani: properties[1]"


def test_unknown_keys_are_warned_of_and_those_of_other_tools_are_not(caplog):
    document = tiny_document()
    document["x-generator"] = "someone"
    document["comment"] = "a comment"
    document["automata"][0]["edge"] = []
    for edge in document["automata"][0]["edges"]:
        edge["colour"] = "red"
    with caplog.at_level(logging.WARNING):
        read(document)
    assert sorted(record.getMessage() for record in caplog.records) == [
        "m.jani: the key 'colour' of an edge is not JANI and is ignored.",
        "m.jani: the key 'edge' of an automaton is not JANI and is ignored. Did you mean 'edges'?",
    ]


def test_a_model_without_syncs_differs_from_one_without_any_synchronisation():
    document = tiny_document()
    del document["system"]["syncs"]
    assert read(document).system.synchronisations is None
    document["system"]["syncs"] = []
    assert read(document).system.synchronisations == ()


def test_storms_unary_minus_is_a_subtraction_from_zero():
    assert read_property_expression({"op": "-", "exp": "x"}) == Binary("-", IntLiteral(0), Name("x"))


def test_let_without_variables_is_its_expression():
    assert read_property_expression({"op": "let", "variables": [], "expression": "x"}) == Name("x")


def test_used_features_are_declared_even_if_the_file_forgot_them():
    document = tiny_document()
    del document["features"]
    assert read(document).features == ("arrays", "derived-operators", "functions")


@pytest.mark.parametrize("name", UNSUPPORTED_FEATURES)
def test_an_unsupported_feature_is_refused_by_name_and_place(name):
    document = tiny_document() | {"features": ["arrays", name]}
    with pytest.raises(InputError, match=rf"^m.jani: features\[1\]: the feature '{name}' is not supported"):
        read(document)


@pytest.mark.parametrize("name", UNSUPPORTED_MODEL_TYPES)
def test_an_unsupported_model_type_is_refused_by_name_and_place(name):
    with pytest.raises(InputError, match=r"^m.jani: type: .* are not supported. Only discrete time is run"):
        read(tiny_document() | {"type": name})


def test_every_feature_and_model_type_is_either_supported_or_not():
    assert not set(FEATURES) & set(UNSUPPORTED_FEATURES)
    assert not set(MODEL_TYPES) & set(UNSUPPORTED_MODEL_TYPES)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda m: m["variables"][0].update(type="clock"), "variables[0].type: clocks are not supported"),
        (lambda m: m["variables"][0].update(type="continuous"), "variables[0].type: continuous variables are not"),
        (
            lambda m: m["variables"][0].update(type={"kind": "datatype", "ref": "d"}),
            "variables[0].type.kind: user-defined data types are not supported",
        ),
        (
            lambda m: m["variables"][0].update(type={"kind": "array", "base": {"kind": "option", "base": "int"}}),
            "variables[0].type.base.kind: option types are not supported",
        ),
        (
            lambda m: m["variables"][0].update({"initial-value": {"op": "der", "var": "x"}}),
            "variables[0].initial-value.op: the derivative `der`",
        ),
        (
            lambda m: m["automata"][0]["edges"][0]["guard"]["exp"].update(
                left={"op": "nondet", "var": "z", "exp": True}
            ),
            "automata[0].edges[0].guard.exp.left.op: nondeterministic selection",
        ),
        (
            lambda m: m["automata"][0]["edges"][0]["guard"]["exp"].update(
                right={"distribution": "Uniform", "args": [0, 1]}
            ),
            "automata[0].edges[0].guard.exp.right.distribution: sampling from a distribution ('Uniform')",
        ),
        (
            lambda m: m["automata"][0]["edges"][1].update(rate={"exp": 2}),
            "automata[0].edges[1].rate: exponential rates are not supported",
        ),
        (
            lambda m: m["automata"][0]["locations"][0].update({"time-progress": {"exp": True}}),
            "automata[0].locations[0].time-progress: time progress conditions (clocks) are not supported",
        ),
        (lambda m: m.update(datatypes=[{"name": "d"}]), "datatypes: user-defined data types are not supported"),
        (lambda m: m["automata"][0]["edges"][0].update(priority=1), "edges[0].priority: priorities of edges are not"),
    ],
)
def test_what_is_not_supported_is_refused_by_name_and_place(change, place):
    document = tiny_document()
    change(document)
    with pytest.raises(InputError) as caught:
        read(document)
    assert place in str(caught.value)
    assert caught.value.hint


def test_eventually_is_until_true():
    eventually = {"op": "Pmin", "exp": {"op": "F", "exp": "b", "step-bounds": {"upper": 5, "upper-exclusive": True}}}
    until = {**eventually, "exp": {**eventually["exp"], "op": "U", "left": True, "right": "b"}}
    del until["exp"]["exp"]
    expected = Probability(
        Optimum.MIN, Until(TRUE, Name("b"), Interval(upper=IntLiteral(5), upper_exclusive=True))
    )  # fmt: skip
    assert read_property_expression(eventually) == read_property_expression(until) == expected


def test_a_threshold_over_a_probability_is_a_comparison():
    document = {
        "op": "filter",
        "fun": "∀",
        "values": {"op": "≥", "left": {"op": "Pmin", "exp": {"op": "F", "exp": "b"}}, "right": Fraction(1, 2)},
        "states": {"op": "initial"},
    }
    comparison = Comparison("≥", Probability(Optimum.MIN, Until(TRUE, Name("b"))), RealLiteral(Fraction(1, 2)))
    assert read_property_expression(document) == Filter("∀", comparison, StatePredicate("initial"))


def test_an_unknown_property_is_kept_as_text():
    kept = read_property_expression({"op": "Multi", "properties": [Fraction(1, 4), 1]})
    assert kept == OtherExpression("Multi", '{"op": "Multi", "properties": [0.25, 1]}')


def test_an_unknown_operator_inside_a_path_is_an_error():
    document = tiny_document()
    document["properties"][0]["expression"]["values"]["exp"]["right"]["op"] = "=="
    with pytest.raises(
        InputError, match=r"properties\[0\].expression.values.exp.right.op: no operator '=='.*JANI writes '='"
    ):
        read(document)


@needs_benchmarks
def test_lone_conditions_and_objectives_are_properties_named_after_their_file():
    folder = BENCHMARKS / "jani-env"
    (safe,) = load_properties(folder / "inverted_pendulum" / "safe.jani")
    assert safe.name == "safe"
    assert isinstance(safe.expression, StateCondition)
    (objective,) = load_properties(folder / "linetrack" / "goal.jani")
    assert isinstance(objective.expression, Objective)
    assert objective.expression.goal_reward is not None
    (start,) = load_properties(folder / "bouncing_ball" / "start.jani")
    assert isinstance(start.expression, StatesValues)
    document = json.loads((folder / "bouncing_ball" / "start.jani").read_text("utf-8-sig"))
    assert len(start.expression.states) == len(document["values"])


@needs_benchmarks
def test_references_give_what_stands_in_the_files_they_name():
    folder = BENCHMARKS / "jani-env" / "inverted_pendulum"
    (task,) = (one.expression for one in load_properties(folder / "property.jani"))
    assert isinstance(task, PolicyTask)
    assert task.start == load_properties(folder / "start.jani")[0].expression
    assert task.reach == load_properties(folder / "safe.jani")[0].expression
    assert task.objective == load_properties(folder / "objective.jani")[0].expression


def test_a_list_of_predicates_is_read_and_may_be_referred_to(tmp_path):
    (tmp_path / "sub").mkdir()
    write(tmp_path, "sub/predicates.jani", ["b", {"op": "≤", "left": 1, "right": "x"}])
    expected = Predicates((Name("b"), Binary("≤", IntLiteral(1), Name("x"))))
    assert load_properties(tmp_path / "sub" / "predicates.jani")[0].expression == expected
    document = tiny_document()
    document["properties"][1]["expression"]["predicates"] = {"file": "sub/predicates.jani"}
    task = load_model(write(tmp_path, "m.jani", document)).properties[1].expression
    assert isinstance(task, PolicyTask)
    assert task.predicates == expected
    assert task.reach == StateCondition(Name("b"), (AutomatonLocation("A", "l", 0),))


def _refer(folder: Path, name: str):
    document = tiny_document()
    document["properties"][1]["expression"]["start"] = {"file": name}
    return load_model(write(folder, "m.jani", document))


@pytest.mark.parametrize("name", ["../out.jani", "sub/../../out.jani", "link.jani", "linked/out.jani"])
def test_no_reference_leaves_the_folder(tmp_path, name):
    folder = tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    write(tmp_path, "out.jani", {"op": "state-condition", "exp": True})
    (folder / "link.jani").symlink_to(tmp_path / "out.jani")
    (folder / "linked").symlink_to(tmp_path)
    with pytest.raises(
        InputError, match=r"properties\[1\].expression.start.file: .* outside the folder .*copy the file"
    ):
        _refer(folder, name)


def test_an_absolute_reference_is_refused_and_a_winding_one_inside_is_not(tmp_path):
    folder = tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    outside = write(tmp_path, "out.jani", {"op": "state-condition", "exp": True})
    write(folder, "start.jani", {"op": "state-condition", "exp": "b"})
    with pytest.raises(InputError, match="outside the folder"):
        _refer(folder, str(outside))
    assert _refer(folder, "sub/../start.jani").properties[1].expression.start == StateCondition(Name("b"))


def test_faults_in_a_referred_file_name_that_file(tmp_path):
    write(tmp_path, "start.jani", {"op": "state-condition", "exp": {"op": "=", "left": "x"}})
    with pytest.raises(InputError, match=r"start.jani: exp: the key 'right' is missing"):
        _refer(tmp_path, "start.jani")
    with pytest.raises(InputError, match=r"m.jani: properties\[1\].expression.start.file: 'no.jani': no such file"):
        _refer(tmp_path, "no.jani")


def test_without_a_folder_no_reference_is_followed():
    document = tiny_document()
    document["properties"][1]["expression"]["start"] = {"file": "start.jani"}
    with pytest.raises(InputError, match="references to files are not followed here"):
        read(document)
