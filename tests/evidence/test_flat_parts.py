"""Parts of flat texts one by one: what is left out, what is refused by name, how large a text may get, what starts look like."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import polvet
from polvet.errors import InputError, Where
from polvet.evidence import flat_world
from polvet.evidence.checker.policies import Chooser
from polvet.evidence.checker.world import ModelFault, World
from polvet.evidence.flat_text import Terms, word
from polvet.evidence.flatten import flatten
from polvet.model.build import ModelBuilder
from polvet.model.expressions import Binary, IntLiteral, Name
from polvet.model.instantiate import instantiate
from polvet.model.restrict import restrict
from polvet.model.task import Task
from polvet.policy.binding import fit, fit_function
from polvet.policy.rules import rules_from_json
from polvet.policy.trees import TreeEnsemble, make_tree
from polvet.prism.translate import translate
from tests.evidence.law import check_law
from tests.prism.conftest import program


def counter():
    """A builder's model that counts to 3."""
    m = ModelBuilder("counter")
    x = m.int("x", 0, 3, initial=0)
    return m, x


def prism(text: str) -> Task:
    return Task(instantiate(translate(program(text))))


@pytest.mark.parametrize("name", ["-", "*", "at(a)", 'a "b"', "error", "7", "1e5", "", "é", "null", "(", "a\nb"])
def test_a_name_is_read_as_it_is_meant(name):
    text = f"(flat 1)(variable {word(name)} 0 1)(operator {word(name)} {word(name)} (branch 1))(fail 0)(goal 0)(starts (1))"
    world = World(f"{text}(meaning (choice policy) (environment adversarial) (bounds error) (errors all))")
    assert world.names == [name]
    assert [label for label, _ in world.moves((1,))] == [name]
    assert world.moves((0,)) == []


def test_expressions_that_share_their_parts_do_not_blow_up():
    terms, sum_ = Terms(["x"]), Binary("+", Name("x"), IntLiteral(1))
    for _ in range(60):
        sum_ = Binary("-", sum_, sum_)
    defined, lines = terms.lines([["(fail ", terms.of(sum_), ")"]])
    assert len("".join((*defined, *lines))) < 3000
    text = "\n".join(["(flat 1)", "(variable x 0 1)", *defined, *lines, "(goal 0)", "(start (x 0 1))"])
    assert World(text + "(meaning (choice policy) (environment adversarial) (bounds error) (errors all))").names == [
        "x"
    ]


def test_variables_set_aside_are_left_out_with_their_errors():
    m, x = counter()
    cost = m.int("cost", 0, 5, initial=0)
    m.edge("up", guard=x < 3, to={"x": x + 1, "cost": cost + 4})
    task = m.task(fail="x == 3")
    with pytest.raises(ModelFault):
        World(flatten(task)).moves((1, 4))
    text = flatten(task, aside=["cost"])
    assert "cost" not in text.replace("(errors aside cost)", "")
    assert World(text).moves((1,)) == [("up", [(1, (2,))])]
    assert flatten(restrict(task, ["x"])).replace("(errors all)", "(errors aside cost)") == text
    fitted = fit_function(task, lambda state: "up")
    with pytest.raises(InputError, match="'cost' is left out, yet the policy reads it"):
        flatten(task, fitted, aside=["cost"], states=[(0, 0)])


def test_a_function_answers_in_the_given_states():
    m, x = counter()
    for label in ("up", "down"):
        m.edge(label, guard=x < 3, to={"x": x + 1} if label == "up" else {"x": 0})
    task = m.task(fail="x == 3")
    fitted = fit_function(task, lambda state: "up" if state["x"] == 1 else "down")
    with pytest.raises(InputError, match="Python function"):
        flatten(task, fitted)
    chooser = Chooser(World(flatten(task, fitted, states=[(2,), (1,), (1,)])))
    assert [chooser.choose((k,), {"up", "down"})[0] for k in (1, 2)] == [["up"], ["down"]]
    with pytest.raises(ModelFault):
        chooser.choose((0,), {"up", "down"})


def test_a_transient_variable_stays_where_its_assignment_may_go_wrong():
    def model(value):
        m, x = counter()
        m.transient("r", 0)
        m.edge("up", guard=x < 3, to={"x": x + 1, "r": value(x)})
        return m.task(fail="x == 3")

    assert "scratch" not in flatten(model(lambda x: x * 2 - 7))
    kept = model(lambda x: 1 / (x - 1))
    assert "scratch" in flatten(kept)
    check_law(kept, kernel=False)  # which leaves such assignments out where nobody asks for the reward
    with pytest.raises(ModelFault):
        World(flatten(kept)).moves((1,))


def test_edges_that_exclude_each_other_are_not_joined():
    modules = [
        f"module m{k}\n y{k} : [0..1];\n" + "".join(f"[a] g={v} -> (y{k}'={v % 2});\n" for v in range(9)) + "endmodule"
        for k in range(3)
    ]
    task = prism("\n".join(["mdp", "global g : [0..8];", *modules]))
    assert flatten(task).count("(operator a") == 9  # and not 729
    check_law(task)


def test_an_error_of_a_guard_is_not_lost_where_edges_exclude_each_other():
    text = """mdp global g : [0..3] init 1;
    module one x : [0..1]; [a] g=1 -> (x'=0); [a] g=2 -> (x'=1); endmodule
    module two y : [0..1]; [a] mod(5, g-1)=0 & g=3 -> (y'=0); endmodule"""
    task = prism(text)
    check_law(task)
    with pytest.raises(ModelFault):
        World(flatten(task)).moves((1, 0, 0))


def test_too_many_joined_edges_are_refused_by_their_number(monkeypatch):
    monkeypatch.setattr(flat_world, "MOST_WRITTEN", 20)
    modules = [f"module m{k}\n y{k} : [0..4];\n" + f"[a] y{k}<3 -> (y{k}'=1);\n" * 3 + "endmodule" for k in range(3)]
    with pytest.raises(InputError, match="more than 20 branches"):
        flatten(prism("\n".join(["mdp", *modules])))


def lines_of(task, head):
    return [line for line in flatten(task).splitlines() if line.startswith(head)]


def test_starts_are_ranges_conditions_or_a_list():
    m = ModelBuilder("starts")
    x = m.int("x", 0, 9)
    m.int("y", 0, 9)
    m.bool("b")
    m.edge("up", guard=x < 9, to={"x": x + 1})
    shown = {
        "x >= 2 && x < 5 && y == 1 && !b": "(start (y 1 1) (b 0 0) (x 2 4))",
        "x + y == 3 && b": "(start (b 1 1) (x 0 9) (y 0 9 (= (+ x y) 3)))",
        "(x == 1 && y == 2 && b) || (x == 11 && y == 0 && b) || (x == 3 && y == 0 && !b)": "(starts",
        "(x == 1 && y == 2 && b) || (x == 4 && y == 1 && y == 2 && b)": "(starts",
    }
    for start, line in shown.items():
        task = m.task(fail="x == 9", start=start)
        assert lines_of(task, "(start") == [line]
        check_law(task)
        expected = set(product(range(10), range(10), (0, 1)))
        holds = compile(start.replace("&&", "and").replace("||", "or").replace("!b", "not b"), "start", "eval")
        assert set(World(flatten(task)).starts()) == {
            state for state in expected if eval(holds, dict(zip(("x", "y", "b"), state, strict=True)))
        }


def test_rules_over_atoms_are_written_and_over_computed_reals_refused():
    m, x = counter()
    v = m.real("v", 0, 1, initial=0)
    m.edge("up", guard=x < 3, to={"x": x + 1, "v": v})
    task = m.task(fail="x == 3")
    whole = rules_from_json({"format": "rules/1", "rules": [{"when": "x >= 1 && v < 0.5", "action": "up"}]}, Where("r"))
    assert "(rule (and (<= 1 x) (< v 0.5)) up)" in flatten(task, fit(task, whole)).replace("\n", " ")
    renamed = polvet.policy.rules.Rules(("x + v",), ("up",), whole.rules)
    with pytest.raises(InputError):
        flatten(task, fit(task, renamed))


def test_probabilities_without_exact_values_are_multiplied_and_summed_as_the_doubles_they_are():
    share = "pow(x/4, 0.5)"
    modules = [
        f"module m{k}\n y{k} : [0..1];\n [a] true -> {share} : (y{k}'=1) + 1-{share} : (y{k}'=0);\nendmodule"
        for k in range(2)
    ]
    task = prism("\n".join(["mdp", "global x : [1..3] init 2;", *modules]))
    assert "(exact (pow" in flatten(task)
    check_law(task)


def test_thresholds_and_inputs_may_be_infinite():
    m = ModelBuilder("far")
    m.real("v", initial=0)
    for label in ("a", "b"):
        m.edge(label, to={})
    task = m.task(fail="false")
    rows = [0.0, 1e30, 3e38, 1e39, -1e39, -3e38]
    for comparison, threshold in product(("<", "<="), (np.inf, -np.inf)):
        tree = make_tree(0, [0, -1, -1], [threshold, 0, 0], [1, -1, -1], [2, -1, -1], [0, 1, -1], None, 2)
        fitted = fit(task, TreeEnsemble(("v",), ("a", "b"), (tree,), (0.0, 0.0), comparison, "float64"))
        chooser = Chooser(World(flatten(task, fitted)))
        assert [chooser.choose((v,), {"a", "b"})[0][0] for v in rows] == [fitted.choose((v,), ["a", "b"]) for v in rows]


@pytest.mark.parametrize(
    ("avoid", "words"),
    [
        ("", "(avoid) (environment adversarial)"),
        ("loop", "(avoid loop) (environment fair)"),
        ("delay,deadlock", "(avoid deadlock loop) (environment adversarial)"),
    ],
)
def test_the_meaning_says_which_environment_the_end_of_runs_counts_on(avoid, words):
    m, x = counter()
    m.edge("up", guard=x < 3, to={"x": x + 1})
    text = polvet.load(m, fail="x == 3", avoid=avoid).flat()
    assert words in text
    assert "(choice policy)" in text


def test_nobody_chooses_in_a_markov_chain():
    task = prism("dtmc module m x : [0..1]; [a] x=0 -> 1/4 : (x'=1) + 3/4 : (x'=0); [b] x=0 -> (x'=1); endmodule")
    assert "(choice chance)" in flatten(task)
    ((label, outcomes),) = World(flatten(task)).moves((0,))
    assert label is None
    assert sum(weight for weight, after in outcomes if after == (1,)) * 8 == 5 * sum(weight for weight, _ in outcomes)
    check_law(task)
