"""The builder: what it makes runs like the same thing written by hand, and mistakes name their place."""

from dataclasses import replace
from fractions import Fraction as F

import pytest

from polvet.errors import InputError, Where
from polvet.jani import parse_model
from polvet.jani.features import declared_features
from polvet.jani.write import write_model
from polvet.kernel.compiled import Compiled
from polvet.model.build import ModelBuilder
from polvet.model.infix import dump_expression, parse_expression
from polvet.model.semantics import Semantics
from polvet.model.terms import Term, every, expression_of, function, greatest, least, some, total, when


def walk() -> ModelBuilder:
    m = ModelBuilder("walk")
    x = m.int("x", 0, 9, initial=0)
    m.edge("go", guard="x < 9", to=[(F(9, 10), {"x": "x + 1"}), (F(1, 10), {})])
    m.edge("back", guard=(x > 0) & (x < 9), to={x: x - 1})
    return m


def test_texts_and_terms_build_the_same_expressions() -> None:
    x, y = Term.of("x"), Term.of("y")
    for term, text in (
        (x + 1 < 2 * y, "x + 1 < 2 * y"),
        ((x >= 3) & ~(y == 0), "x >= 3 && !(y == 0)"),
        (1 - x % 2, "1 - x % 2"),
        (abs(-x) ** 2 / y, "pow(abs(-x), 2) / y"),
        (x[y + 1][0] != 0.25, "x[y + 1][0] != 0.25"),
        (when(x > y, x, y), "x > y ? x : y"),
        ((x == 1).implies(y == 2), "x == 1 => y == 2"),
        (every("x == 1", "y == 2", "x < y"), "x == 1 && y == 2 && x < y"),
        (some(x == 1, False, y == 2), "x == 1 || y == 2"),
        (function("floor", x / 2), "floor(x / 2)"),
        (least(x, greatest(y, 1)), "min(x, max(y, 1))"),
        (2**x + (3 / y) + (5 % x) + (True & (x == 1) | False).implies(False), None),
    ):
        if text is not None:
            assert term.expression == parse_expression(text)
    assert total(*(f"x{i}" for i in range(500))).expression is not None
    assert every().expression == parse_expression("true")
    assert some().expression == parse_expression("false")


def test_decimals_mean_what_they_say() -> None:
    assert expression_of(0.1) == parse_expression("0.1")
    assert dump_expression(expression_of(F(1, 3))) == "1 / 3"
    with pytest.raises(InputError, match="finite"):
        expression_of(float("nan"))


def test_a_term_is_not_a_truth_value() -> None:
    x = Term.of("x")
    with pytest.raises(InputError, match="not known before"):
        bool(1 < x < 3)
    with pytest.raises(InputError, match="length"):
        list(x)


def test_built_models_run_as_the_interpreter_says() -> None:
    network = walk().network()
    semantics = Semantics(network)
    assert len(Compiled(network).explore()) == 10
    go, back = semantics.moves((4,))
    assert {(one.state[0], one.probability) for one in go.outcomes} == {(5, F(9, 10)), (4, F(1, 10))}
    assert [one.state for one in back.outcomes] == [(3,)]
    assert semantics.applicable((9,)) == ()


def test_built_models_survive_writing_and_reading() -> None:
    m = walk()
    m.constant("K", 3)
    m.constant("p", None, type="real")
    m.array("a", [1, 2, 3], 0, 9)
    m.transient("cost")
    m.function("next", {"i": "int"}, "i + K")
    m.edge("use", guard="a[x % 3] < 9 && next(x) < 8", to=[("p", {"a[x % 3]": "a[x % 3] + 1"}), ("1 - p", {})],
           assign={"cost": 2})  # fmt: skip
    m.reach("fail", "x == 7")
    m.cost("spent", "cost", "x == 9")
    m.note("description", "everything at once")
    m.restrict_initial("x == 0")
    model = m.build()
    assert parse_model(write_model(model), Where("again")) == replace(model, features=declared_features(model))
    assert len(Compiled(m.network({"p": F(1, 3)})).explore()) > 10


def test_labels_shared_by_automata_move_them_together() -> None:
    m = ModelBuilder("two")
    for name in ("left", "right"):
        one = m.automaton(name)
        one.location("idle")
        one.location("busy")
        one.edge("start", at="idle", go="busy")
        one.edge(f"stop_{name}", at="busy", go="idle")
    assert len(Compiled(m.network()).explore()) == 4
    m.synchronise("start", left="start")
    m.synchronise("start", right="start")
    m.synchronise("stop", left="stop_left", right="stop_right")
    network = m.network()
    assert network.labels == ("start", "stop")
    assert len(Compiled(network).explore()) == 4


def test_local_variables_and_several_initial_locations() -> None:
    m = ModelBuilder("local")
    one = m.automaton("one")
    one.location("a", initial=True)
    one.location("b", initial=True)
    n = one.int("n", 0, 2)
    one.restrict_initial(n > 0)
    one.edge("down", at="b", go="a", guard=n > 0, to={n: n - 1})
    network = m.network()
    assert {variable.name for variable in network.variables} == {"n", "one.location"}
    assert len(list(Semantics(network).initial_states())) == 4


def test_tasks_hold_resolved_conditions() -> None:
    task = walk().task(start="x <= 3", fail="x == 7", goal=Term.of("x") == 9)
    assert task.fail == parse_expression("x == 7")
    assert task.start is not None


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda m: m.int("x", 0, 1), "declared twice"),
        (lambda m: m.int("", 0, 1), "empty"),
        (lambda m: m.edge("a", guard="x <"), "walk: automata"),
        (lambda m: m.edge("a", to=[(0.5, {})]), "not a distribution"),
        (lambda m: m.edge("a", to=[(F(-1), {}), (F(2), {})]), "not a distribution"),
        (lambda m: m.edge("a", to=[]), "nowhere"),
        (lambda m: m.edge("a", to=["x"]), "no outcome"),
        (lambda m: m.edge("a", to={"x + 1": 2}), "cannot be assigned"),
        (lambda m: m.edge("a", to={"x": object()}), "no expression"),
        (lambda m: m.edge("a", to={"y": 1}), "no variable or constant 'y'"),
        (lambda m: m.edge("a", guard="x"), "not a bool"),
        (lambda m: m.automaton("other").edge("a", at="nowhere"), "no location 'nowhere'"),
        (lambda m: m.automaton("walk"), "declared twice"),
        (lambda m: m.synchronise("a", wolk="go"), "Did you mean 'walk'"),
        (lambda m: m.synchronise("a", walk="goo"), "Did you mean 'go'"),
        (lambda m: m.constant("c", "1 + 1"), "type of constant"),
        (lambda m: m.array("v", [1], 0, 3, of="boole"), "no type 'boole'"),
        (lambda m: m.array("v", [True], 0, 3, of="bool"), "no numbers"),
        (lambda m: m.function("f", {}, "1") or m.function("f", {}, "2"), "declared twice"),
    ],
)
def test_mistakes_name_their_place(spoil, message) -> None:  # type: ignore[no-untyped-def]
    m = walk()

    def spoiled() -> None:
        spoil(m)
        m.network()

    with pytest.raises(InputError, match=message):
        spoiled()


def test_an_unknown_type_and_an_empty_model_are_refused() -> None:
    with pytest.raises(InputError, match="no model type"):
        ModelBuilder("m", type="pomdp")
    with pytest.raises(InputError, match="no edges"):
        ModelBuilder("m").build()
    two = ModelBuilder("m").automaton("a")
    two.location("one")
    two.location("two")
    with pytest.raises(InputError, match="does not say at which location"):
        two.edge("go")
