"""Properties: published ones equal what Storm's converter wrote into the JANI files beside them; the rest by hand."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from polvet.errors import InputError, Where
from polvet.jani.read import load_model as load_jani
from polvet.model.automata import ModelType
from polvet.model.expressions import TRUE, Binary, Expression, IntLiteral, Name
from polvet.model.properties import (
    Comparison,
    ExpectedReward,
    Filter,
    Globally,
    Interval,
    Next,
    Optimum,
    PathQuantifier,
    Probability,
    RewardBound,
    StatePredicate,
    SteadyState,
    Until,
)
from polvet.prism import (
    load_prism,
    load_properties,
    parse_property,
    read_prism,
    read_program,
    read_properties,
    vocabulary_of_file,
    vocabulary_of_model,
    vocabulary_of_program,
    with_properties,
)
from polvet.prism.properties import PropertyFile
from tests.prism.conftest import BENCHMARKS, needs_benchmarks, program, program_files

TEXT = """mdp const int K = 4; formula high = x>2;
module m x : [0..3]; b : bool; [a] x<3 -> (x'=x+1); endmodule
label "done" = x=3; label "b" = b;
rewards "cost" true : 1; endrewards
rewards "moves" [a] true : 1; endrewards
rewards "both" true : 1; [a] true : 1; endrewards
"""
MDP = vocabulary_of_program(program(TEXT))
DTMC = vocabulary_of_program(program(TEXT.replace("mdp", "dtmc", 1)))
X3 = Binary("=", Name("x"), IntLiteral(3))
DONE = Name("done")
MIN, MAX, ONLY = Optimum.MIN, Optimum.MAX, Optimum.ONLY


def _props_of(file: Path) -> Path | None:
    """Return the property file of a program: of its own name, or of its family's."""
    own, family = file.with_suffix(".props"), file.with_name(file.name.split(".")[0] + ".props")
    return own if own.is_file() else family if family.is_file() else None


WITH_PROPS = [file for file in program_files() if _props_of(file)]


@needs_benchmarks
@pytest.mark.parametrize("file", WITH_PROPS, ids=lambda file: file.name)
def test_a_published_property_equals_its_translation_by_storm(file: Path) -> None:
    props = _props_of(file)
    assert props is not None
    found = read_properties(props, vocabulary_of_program(read_program(file)))
    assert found.properties
    theirs = load_jani(file.with_suffix(".jani"))
    for ours in found.properties:
        other = theirs.property_named(ours.name)
        assert other is not None
        if ours.name == "some_before":  # there the constant K is already a number
            continue
        # JANI has no word for "there is nothing to choose": Storm writes Pmin for it.
        assert repr(ours.expression).replace("<Optimum.ONLY: 'only'>", "<Optimum.MIN: 'min'>") == repr(other.expression)


@needs_benchmarks
@pytest.mark.parametrize(
    ("name", "formulas"),
    [("dtmc/oscillators/oscillators", {"order_parameter": IntLiteral(0)}), ("mdp/pacman/pacman", {})],
)
def test_published_properties_are_read_over_a_jani_model(name: str, formulas: dict[str, Expression]) -> None:
    props = BENCHMARKS / "qvbs" / f"{name}.props"
    file = sorted(props.parent.glob("*.jani"))[0]
    model = load_jani(file)
    words = vocabulary_of_file(file, model)
    # The formula stood in the program, which is not published.
    found = read_properties(props, replace(words, formulas=formulas))
    assert {one.name for one in found.properties} <= {one.name for one in model.properties}


def _reference_properties() -> list[tuple[str, str]]:
    if not BENCHMARKS.is_dir():
        return []
    entries = json.loads((BENCHMARKS / "reference.json").read_text("utf-8"))
    found = []
    for entry in entries:
        if entry["collection"] == "storm-testfiles" and entry["property"] and not entry["file"].endswith(".jani"):
            text = re.search(r"[PR](min|max|\{|=|<|>).*\]", entry["property"])
            assert text, entry["property"]
            found.append((entry["file"], text.group()))
    return found


@needs_benchmarks
@pytest.mark.parametrize(("file", "text"), _reference_properties())
def test_every_property_of_the_reference_values_is_read(file: str, text: str) -> None:
    one = parse_property(text, vocabulary_of_program(read_program(BENCHMARKS / file)))
    assert one.name == text
    assert isinstance(one.expression, Filter)


def _until(left: object = TRUE, right: object = DONE, *rest: object) -> Until:
    return Until(left, right, *rest)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("Pmax=? [ F x=3 ]", Probability(MAX, _until(TRUE, X3))),
        ('Pmin=? [ F "done" ]', Probability(MIN, _until())),
        ('Pmin=? [ (F "done") ]', Probability(MIN, _until())),
        ('Pmin=? [ x=3 U "done" ]', Probability(MIN, _until(X3))),
        ('Pmin=? [ x=3 W "done" ]', Probability(MIN, Until(X3, DONE, kind="W"))),
        ('Pmin=? [ x=3 R "done" ]', Probability(MIN, Until(X3, DONE, kind="R"))),
        ('Pmax=? [ G "done" ]', Probability(MAX, Globally(DONE))),
        ('Pmax=? [ X "done" ]', Probability(MAX, Next(DONE))),
        ('Pmax=? [ F<=5 "done" ]', Probability(MAX, _until(TRUE, DONE, Interval(upper=IntLiteral(5))))),
        ('Pmax=? [ F<K ("done") ]',
         Probability(MAX, _until(TRUE, DONE, Interval(upper=Name("K"), upper_exclusive=True)))),
        ('Pmax=? [ F=5 "done" ]', Probability(MAX, _until(TRUE, DONE, Interval(IntLiteral(5), IntLiteral(5))))),
        ('Pmax=? [ F>=5 "done" ]', Probability(MAX, _until(TRUE, DONE, Interval(lower=IntLiteral(5))))),
        ('Pmax=? [ F>5 "done" ]', Probability(MAX, _until(TRUE, DONE, Interval(IntLiteral(5), lower_exclusive=True)))),
        ('Pmax=? [ true U[2,K] "done" ]', Probability(MAX, _until(TRUE, DONE, Interval(IntLiteral(2), Name("K"))))),
        ('Pmax=? [ G<=(K+1) "done" ]',
         Probability(MAX, Globally(DONE, Interval(upper=Binary("+", Name("K"), IntLiteral(1)))))),
        ('Pmax=? [ F{"cost"}<=5 "done" ]',
         Probability(MAX, Until(TRUE, DONE, None, None,
                                (RewardBound(Name("cost"), ("exit",), Interval(upper=IntLiteral(5))),)))),
        ('Pmax=? [ F^{rew{"moves"}<=5, steps<=9} "done" ]',
         Probability(MAX, Until(TRUE, DONE, Interval(upper=IntLiteral(9)), None,
                                (RewardBound(Name("moves"), ("steps",), Interval(upper=IntLiteral(5))),)))),
        ("Pmax=? [ F high ]", Probability(MAX, _until(TRUE, Binary(">", Name("x"), IntLiteral(2))))),
        ('P>=1 [ F "done" ]', Comparison("≥", Probability(MIN, _until()), IntLiteral(1))),
        ('P<1 [ F "done" ]', Comparison("<", Probability(MAX, _until()), IntLiteral(1))),
        ('Pmax>1/K [ F "done" ]',
         Comparison(">", Probability(MAX, _until()), Binary("/", IntLiteral(1), Name("K")))),
        ('R{"moves"}min=? [ F "done" ]', ExpectedReward(MIN, Name("moves"), ("steps",), DONE)),
        ('Rmax{"both"}=? [ F "done" ]', ExpectedReward(MAX, Name("both"), ("exit", "steps"), DONE)),
        ("Rmax=? [ C ]", ExpectedReward(MAX, Name("cost"), ("exit",))),
        ("R{2}max=? [ C<=K ]", ExpectedReward(MAX, Name("moves"), ("steps",), step_instant=Name("K"))),
        ("Rmin=? [ I=5 ]", ExpectedReward(MIN, Name("cost"), (), step_instant=IntLiteral(5))),
        ("R<=5 [ C ]", Comparison("≤", ExpectedReward(MAX, Name("cost"), ("exit",)), IntLiteral(5))),
        ("Rmax=? [ S ]", SteadyState(MAX, Name("cost"), ("exit",))),
        ("Smax=? [ b ]", SteadyState(MAX, Name("b"))),
        ("E [ F x=3 ]", PathQuantifier("∃", _until(TRUE, X3))),
        ("A [ G x=3 ]", PathQuantifier("∀", Globally(X3))),
        ('P>=1 [ X "deadlock" ] & x=3',
         Comparison("∧", Comparison("≥", Probability(MIN, Next(StatePredicate("deadlock"))), IntLiteral(1)), X3)),
        ('!P>=1 [ X b ]', Comparison("¬", Comparison("≥", Probability(MIN, Next(Name("b"))), IntLiteral(1)))),
        ('P>=1 [ F P>=1 [ X b ] ]',
         Comparison("≥", Probability(MIN, Until(
             TRUE, Comparison("≥", Probability(MIN, Next(Name("b"))), IntLiteral(1)))), IntLiteral(1))),
        ('"init" => x=0', Comparison("⇒", StatePredicate("initial"), Binary("=", Name("x"), IntLiteral(0)))),
    ],
)  # fmt: skip
def test_a_property_means_this(text: str, values: object) -> None:
    assert parse_property(text, MDP).expression == Filter("values", values, StatePredicate("initial"))


def test_a_markov_chain_has_one_value() -> None:
    assert parse_property('P=? [ F "done" ]', DTMC).expression.values == Probability(ONLY, _until())
    assert parse_property('P>=1 [ F "done" ]', DTMC).expression.values.left == Probability(ONLY, _until())
    assert parse_property("R=? [ C ]", DTMC).expression.values.optimum is ONLY


def test_a_label_named_like_a_variable_is_told_from_it() -> None:
    assert MDP.labels["b"] == "b_label"
    assert parse_property('Pmax=? [ F "b" ]', MDP).expression.values.path.right == Name("b_label")
    assert parse_property("Pmax=? [ F b ]", MDP).expression.values.path.right == Name("b")


@pytest.mark.parametrize(
    ("word", "function"),
    [("min", "min"), ("max", "max"), ("+", "sum"), ("sum", "sum"), ("avg", "avg"), ("count", "count"), ("forall", "∀"),
     ("&", "∀"), ("exists", "∃"), ("|", "∃"), ("state", "values"), ("print", "values")],
)  # fmt: skip
def test_a_filter_names_its_states(word: str, function: str) -> None:
    found = parse_property(f"filter({word}, Pmax=? [ X b ], x=3)", MDP).expression
    assert found == Filter(function, Probability(MAX, Next(Name("b"))), X3)
    assert parse_property(f"filter({word}, b)", MDP).expression == Filter(function, Name("b"), TRUE)


def test_a_file_brings_constants_labels_formulas_and_properties_that_name_each_other() -> None:
    text = """// a comment
        const int T; const double p = 0.5;
        label "near" = x>=T; formula far = x<T;
        "one": Pmax=? [ F "near" & !far ];
        "two": P>=p [ F "near" ]
        "three": "two" & x=3;
        Pmin=? [ F far ]"""
    found = load_properties(text, MDP)
    assert [constant.name for constant in found.constants] == ["T", "p"]
    assert [one.name for one in found.properties] == ["one", "two", "three", "#4"]
    by_name = {one.name: one.expression.values for one in found.properties}
    assert by_name["three"] == Comparison("∧", by_name["two"], X3)
    near, far = (Binary(sign, Name("x"), Name("T")) for sign in ("≥", "<"))
    assert repr(by_name["one"].path.right.left) == repr(near)
    assert by_name["#4"].path.right == far
    model = with_properties(load_prism(TEXT), found)
    assert model.constant("T") is not None
    assert model.property_named("three") is not None


def test_a_property_name_that_the_model_has_is_refused() -> None:
    found = load_properties('"one": Pmax=? [ X b ];', MDP)
    model = with_properties(load_prism(TEXT), found)
    with pytest.raises(InputError, match="already has a property 'one'"):
        with_properties(model, found)
    assert with_properties(model, PropertyFile()) == model


def test_transient_variables_of_a_model_are_labels_and_rewards() -> None:
    words = vocabulary_of_model(load_prism(TEXT))
    assert words.type is ModelType.MDP
    assert set(words.labels) == {"done", "b_label"}
    assert parse_property('Rmax=? [ F "done" ]', words).expression.values.reward == Name("cost")


def test_conditions_of_other_origin_may_use_formulas_and_labels() -> None:
    resolved = MDP.resolved(Binary("∧", Name("high"), Name('"done"')))
    assert resolved == Binary("∧", Binary(">", Name("x"), IntLiteral(2)), DONE)


@pytest.mark.parametrize(
    ("text", "column", "what", "hint"),
    [
        ("", 0, "has 0 properties", "Write one property"),
        ("Pmax=? [ F b ]; Pmin=? [ F b ]", 0, "has 2 properties", "Write one property"),
        ("P=? [ F b ]", 1, "P=? has no single value on an mdp", "Ask for Pmin=? or Pmax=?"),
        ("Pmax [ F b ]", 6, "a bound after Pmax", "Write Pmax=?"),
        ("Pmax= [ F b ]", 7, "'?' after Pmax=", "Pmax=?"),
        ("Pmax=? F b", 8, "'[' before the path formula", "in brackets"),
        ("Pmax=? [ F b", 13, "the text ends where ']'", "Close the bracket"),
        ("Pmax=? [ b ]", 12, "a path operator", "Write F, G or X"),
        ("Pmax=? [ F G b ]", 12, "'G' stands inside a condition", "Write one of"),
        ("Pmax=? [ F b U b ]", 14, "nested path formulas (LTL)", "Write one of"),
        ("Pmax=? [ F y=3 ]", 12, "no constant, variable or formula 'y'", "polvet info"),
        ("Pmax=? [ F hihg ]", 12, "formula 'hihg'", "Did you mean 'high'?"),
        ('Pmax=? [ F "don" ]', 12, 'no label "don"', "Did you mean 'done'?"),
        ('R{"cots"}max=? [ C ]', 3, 'no rewards "cots"', "Did you mean 'cost'?"),
        ("R{4}max=? [ C ]", 3, "no such reward structure", "from 1 to 3"),
        ("Rmax=? [ G b ]", 10, "'G' is no reward property", "F, C, C<=k, I=k or S"),
        ("Rmax=? [ F<=3 b ]", 11, "a bound on F inside R", "C<=k"),
        ("Rmax=? [ I<=3 ]", 11, "'=' after I", "[ I=k ]"),
        ("Pmax=? [ F<=Pmax=? [ X b ] b ]", 13, "a bound is a number", "Write a number"),
        ("Pmax=? [ F Rmax=? [ C ] ]", 12, "a condition on states", "Write a condition"),
        ("Pmax=? [ F^{cost<=3} b ]", 13, "'cost' is no kind of bound", "rew"),
        ("Pmax=? [ F b {x=3} ]", 14, "old filters", "Write filter"),
        ("filter(mn, b)", 8, "no filter 'mn'", "Did you mean 'min'?"),
        ("multi(Pmax=? [ F b ])", 1, "multi-objective", "Ask for P, R or S"),
        ("<<1>> Pmax=? [ F b ]", 1, "games", "Only mdp and dtmc"),
        ("Pmax=? [ F b ] Pmax=? [ F b ]", 16, "the end of the property", "Put ;"),
        ("P>=1 [ F " * 300, 451, "nests deeper", "Split it up"),
        ("1 + (Pmax=? [ X b ] ? 1 : 2)", 21, "the condition of '?'", "over variables"),
        ("min(Pmax=? [ X b ], 2)", 5, "not a property", "numbers and variables"),
        ("const int K = 3; Pmax=? [ X b ]", 11, "'K' is taken", "another name"),
        ('"a": b; "a": b;', 9, 'the property "a" stands twice', "another name"),
    ],
)  # fmt: skip
def test_a_bad_property_is_refused_with_place_and_next_step(text: str, column: int, what: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_property(text, MDP, Where("--property"))
    assert str(caught.value).startswith(f"--property:1:{column}: " if column else "--property: ")
    assert what in caught.value.what
    assert hint in (caught.value.hint or "")


def test_a_model_without_rewards_says_so() -> None:
    words = vocabulary_of_program(program("mdp module m b : bool; endmodule"))
    with pytest.raises(InputError, match="no rewards"):
        parse_property("Rmax=? [ C ]", words)


def test_properties_that_double_each_other_end_at_a_limit() -> None:
    text = '"p0": b;' + "".join(f'"p{i}": "p{i - 1}" & P>=1 [ X "p{i - 1}" ];' for i in range(1, 60))
    with pytest.raises(InputError, match="over 1000000 nodes"):
        load_properties(text, MDP)


@needs_benchmarks
def test_the_formulas_of_a_program_are_words_of_its_properties() -> None:
    file = BENCHMARKS / "qvbs" / "mdp" / "csma" / "csma.3-2.prism"
    one = parse_property("Pmin=? [ F min_backoff_after_success<K ]", vocabulary_of_file(file, read_prism(file)))
    assert one.expression.values.path.right.operator == "<"
