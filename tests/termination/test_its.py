from __future__ import annotations

import copy
import json
import random
import re

import pytest
import z3

from polvet.check.checker import Rejected, Subjects, check
from polvet.check.its_run import evaluated, find_flaw
from polvet.check.lasso import check_replay
from polvet.cli.app import run
from polvet.errors import InputError, Where
from polvet.policy.finite_memory import load_fmp
from polvet.policy.finite_memory.its import abstract_its, form_name, form_of
from polvet.policy.finite_memory.its_text import parse_its
from polvet.policy.finite_memory.linear import bounds_of, is_infeasible
from polvet.termination.decide import terminates
from polvet.termination.its import its_terminates
from polvet.termination.verdicts import Nonterminating, Terminating
from polvet.verdict import Verdict
from tests.termination.plans import BENCHMARKS

TPDB = sorted((BENCHMARKS / "tpdb-its").glob("*/*.*"))
HEAD = "(GOAL COMPLEXITY)\n(STARTTERM (FUNCTIONSYMBOLS f))\n(VAR A B C)\n(RULES\n"


def koat(*rules):
    return parse_its(HEAD + "\n".join(rules) + "\n)\n", Where("rules.koat"))


@pytest.mark.parametrize("path", TPDB, ids=lambda path: path.name)
def test_the_data_base_s_systems_are_decided_without_contradicting_their_names(path):
    system = parse_its(path.read_text(), Where(str(path)))
    result = its_terminates(system)
    if path.stem.split(".")[0].endswith("nt") or path.name.startswith("non_term"):
        assert result.verdict is not Verdict.TERMINATING
    if path.name == "terminate.koat":
        assert result.verdict is not Verdict.NONTERMINATING
    assert result.verdict is not Verdict.UNKNOWN
    if isinstance(result, Nonterminating):
        assert find_flaw(system, json.loads(json.dumps(result.certificate))) is None


def random_linear(rng, names):
    return {name: rng.randint(-3, 3) for name in rng.sample([*names, ""], rng.randint(1, len(names) + 1))}


def as_z3(expression, symbols):
    return z3.Sum([z3.IntVal(0)] + [c * (symbols[n] if n else 1) for n, c in expression.items()])


def test_elimination_never_says_more_than_z3():
    rng = random.Random(4)
    found = 0
    names = ["x", "y", "z"]
    for _ in range(200):
        rows = [random_linear(rng, names) for _ in range(rng.randint(1, 6))]
        target = random_linear(rng, names)
        solver, symbols = z3.Solver(), {name: z3.Int(name) for name in names}
        solver.add([as_z3(row, symbols) >= 0 for row in rows])
        if is_infeasible(rows):
            found += 1
            assert solver.check() == z3.unsat
            continue
        low, high = bounds_of(target, rows)
        for bound, beyond in ((low, lambda t, b: t < b), (high, lambda t, b: t > b)):
            if bound is not None:
                found += 1
                solver.push()
                solver.add(beyond(as_z3(target, symbols), bound))
                assert solver.check() == z3.unsat
                solver.pop()
    assert found > 100


def test_every_step_of_a_system_is_a_step_of_its_abstraction():
    rng = random.Random(5)
    steps = 0
    for _ in range(60):
        rules = []
        for _ in range(rng.randint(1, 4)):
            terms = [rng.choice(["A", "B", "A - 1", "B + 2", "A + B", "3", "C", "D", "2*A - B"]) for _ in range(3)]
            guard = " && ".join(
                f"{rng.choice(['A', 'B', 'A + B', 'A - B'])} {rng.choice(['>=', '=', '>', '<='])} {rng.randint(-2, 2)}"
                for _ in range(rng.randint(0, 3))
            )
            rules.append(f"f(A,B,C) -> Com_1(f({','.join(terms)}))" + (f" :|: {guard}" if guard else ""))
        system = koat(*rules)
        fmp = abstract_its(system)
        forms = {form_name(f): f for step in system.transitions for row in step.guard for f in [form_of(row)] if f}
        for _ in range(40):
            before = {name: rng.randint(-4, 4) for name in "ABCD"}
            for step in system.transitions:
                if any(evaluated(row, before) < 0 for row in step.guard):
                    continue
                after = {name: evaluated(step.update[name], before) for name in "ABC"}
                old, new = ({n: evaluated(f, v) for n, f in forms.items() if n in {v.name for v in fmp.variables}}
                            for v in (before, after))  # fmt: skip
                steps += 1

                def admits(edge, values):
                    return all(
                        a.holds(values[a.variable]) for atoms in edge.guard for a in atoms if a.variable in values
                    )

                tests = {edge.source: edge for edge in fmp.edges if " to " in edge.source}
                assert any(
                    admits(edge, old)
                    and all(fmp.effect(edge.choices[0], n).allows(new[n] - old[n]) for n in old)
                    and (edge.target not in tests or admits(tests[edge.target], new))
                    for edge in fmp.edges if edge.source == step.source
                )  # fmt: skip
    assert steps > 300


def verdict_of_run(system, prefix, cycle, *values):
    rows = [dict(zip("ABC", row, strict=False)) for row in values]
    return find_flaw(system, {"prefix": prefix, "cycle": cycle, "values": rows})


def test_a_run_is_not_executed_where_something_nonlinear_was_left_out():
    values = [(0, 0, 0), (0, 0, 0)]
    linear = koat("f(A,B,C) -> Com_1(f(A,B,C)) :|: A >= 0")
    assert verdict_of_run(linear, [], [0], *values) is None
    for rule in ("f(A,B,C) -> Com_1(f(A,B,C)) :|: A >= 0 && A*A >= 1", "f(A,B,C) -> Com_1(f(A*A + 1,B,C)) :|: A >= 0"):
        assert "not linear" in verdict_of_run(koat(rule), [], [0], *values)


def test_a_condition_that_ends_in_a_bracket_counts():
    assert verdict_of_run(koat("f(A,B,C) -> Com_1(f(A,B,C)) :|: A >= (1)"), [], [0], (0, 0, 0), (0, 0, 0)) is not None


def test_parameters_mean_places_whatever_rules_call_them():
    growing = koat("f(A) -> Com_1(g(A - 1)) :|: A >= 1", "g(B) -> Com_1(f(B + 5))")
    assert its_terminates(growing).verdict is Verdict.NONTERMINATING
    swapping = koat("f(A,B) -> Com_1(f(B,A)) :|: A >= 1", "f(B,A) -> Com_1(f(B - 1,A)) :|: A >= 1")
    first, second = swapping.transitions
    assert second.guard == ({"B": 1, "": -1},)
    assert second.update == {"A": {"A": 1, "": -1}, "B": {"B": 1}}
    assert first.update == {"A": {"B": 1}, "B": {"A": 1}}


def test_a_name_that_is_another_rule_s_parameter_is_free():
    (_, step) = koat("f(A,B) -> Com_1(g(A))", "g(A) -> Com_1(g(B)) :|: B >= A").transitions
    assert step.update == {"A": {"B (free)": 1}, "B": None}


def test_no_rule_is_passed_over():
    nested = koat("f(A) -> Com_1(f(((A + (1)) + (A - A)))) :|: A >= 0")
    assert its_terminates(nested).verdict is Verdict.NONTERMINATING
    for rule in ("f(A) -{1}> Com_1(f(A + 1))", "f(A) -> Com_2(f(A + 1))", "f(A) -> Com_1(f(A + 1) g)",
                 "f(A) -> Com_1(f(A, A))", "f(A, A) -> Com_1(f(A, A))", "f(A) -> Com_1(f(A)"):  # fmt: skip
        with pytest.raises(InputError):
            koat("f(A) -> Com_1(f(A - 1)) :|: A >= 1", rule)


def smt(formula, start="true"):
    both = "(pc^0 Loc) (x^0 Int) (y^0 Int)"
    return parse_its(
        f"(declare-sort Loc 0)\n(define-fun init_main ({both}) Bool (cfg_init pc^0 l0 {start}))\n"
        f"(define-fun next_main ({both} (pc^post Loc) (x^post Int) (y^post Int)) Bool\n"
        f"  (cfg_trans2 pc^0 l0 pc^post l0 {formula}))",
        Where("system.smt2"),
    )  # fmt: skip


def test_equal_names_of_what_exists_may_mean_different_values():
    moved = "(exists ((k Int)) (and (>= k 1) (= x^post (+ x^0 k))))", "(exists ((k Int)) (= y^post (+ y^0 k)))"
    system = smt(f"(and (>= y^0 0) {moved[0]} {moved[1]})")
    assert its_terminates(system).verdict is not Verdict.TERMINATING
    (step,) = system.transitions
    names = {name for value in step.update.values() for name in value} - {"x^0", "y^0", ""}
    assert len(names) == 2


def test_what_is_not_read_of_a_formula_is_refused():
    with pytest.raises(InputError):
        smt("(<= 0 x^0 5)")
    with pytest.raises(InputError, match="first values"):
        smt("(<= 0 x^0)", start="(>= x^0 3)")


def test_a_counter_with_a_moving_bound_ends_and_without_progress_it_does_not():
    ending = koat("f(A,B,C) -> Com_1(g(A,B,C))", "g(A,B,C) -> Com_1(g(A + 1,B,C)) :|: B >= A")
    assert isinstance(its_terminates(ending), Terminating)
    for rule in ("g(A,B,C) -> Com_1(g(A + 1,B + 1,C)) :|: B >= A", "g(A,B,C) -> Com_1(g(B,A,C)) :|: A > 2",
                 "g(A,B,C) -> Com_1(g(A + C,B,C)) :|: A >= 0", "g(A,B,C) -> Com_1(g(D,B,C)) :|: A >= 1"):  # fmt: skip
        system = koat("f(A,B,C) -> Com_1(g(A,B,C))", rule)
        result = its_terminates(system)
        assert isinstance(result, Nonterminating), rule
        assert find_flaw(system, result.certificate) is None


def test_tampered_runs_are_rejected():
    system = koat("f(A,B,C) -> Com_1(g(A,B,C))", "g(A,B,C) -> Com_1(g(A + C,B,C)) :|: A >= 0")
    result = its_terminates(system)
    assert isinstance(result, Nonterminating)
    good = json.loads(json.dumps(result.certificate))
    for change in (lambda c: c["values"].pop(), lambda c: c["values"][1].update(A=-5), lambda c: c.update(cycle=[]),
                   lambda c: c.update(cycle=[0]), lambda c: c.update(prefix=[]), lambda c: c["values"][-1].update(A=99),
                   lambda c: c.update(cycle=[7])):  # fmt: skip
        bad = copy.deepcopy(good)
        change(bad)
        assert find_flaw(system, bad) is not None


def test_the_command_line_decides_and_certifies_transition_systems(tmp_path, capsys):
    for name, rule, code in (
        ("end", "g(A) -> Com_1(g(A - 1)) :|: A >= 1", 0),
        ("run", "g(A) -> Com_1(g(A)) :|: A >= 1", 10),
    ):
        path, certificate = str(tmp_path / f"{name}.koat"), str(tmp_path / "certificate.json")
        (tmp_path / f"{name}.koat").write_text(HEAD + f"f(A) -> Com_1(g(A))\n{rule}\n)")
        assert run(["terminates", path, "-o", certificate]) == code
        assert run(["certify", certificate, "--task", path]) == 0
    assert "accepted" in capsys.readouterr().out


def test_a_run_of_the_abstraction_is_no_evidence_about_the_system(tmp_path):
    # A takes over the falling B, so the system ends; to the abstraction the new A is any value.
    path = tmp_path / "x.koat"
    path.write_text(HEAD + "f(A,B) -> Com_1(g(A,B))\ng(A,B) -> Com_1(g(B,B - 1)) :|: A >= 1\n)")
    abstract = load_fmp(path)
    result = terminates(abstract)
    assert isinstance(result, Nonterminating)
    assert check_replay(abstract, result.certificate) is None
    refused = check(dict(result.certificate), Subjects(path), Where("c"))
    assert isinstance(refused, Rejected)
    assert "abstraction" in refused.reason
    assert its_terminates(parse_its(path.read_text(), Where("x"))).verdict is not Verdict.NONTERMINATING


def test_what_cannot_be_read_is_an_input_error(tmp_path):
    for text in (
        "(GOAL X)",
        HEAD + "f(A) -> g(A)\n)",
        HEAD + "f(A) -> Com_1(f(A)) :|: A\n)",
        "(declare-sort Loc 0)",
        "(declare-sort",
    ):
        with pytest.raises(InputError):
            parse_its(text, Where("x"))
    file = tmp_path / "x.koat"
    file.write_text(HEAD + "f(A) -> Com_1(f(A +))\n)")
    with pytest.raises(InputError, match=":5"):
        load_fmp(file)


FORMS = """(declare-sort Loc 0) (define-fun init_main ((pc^0 Loc) (x^0 Int) (y^0 Int)) Bool (cfg_init pc^0 l0 true))
(define-fun next_main ((pc^0 Loc) (x^0 Int) (y^0 Int) (pc^post Loc) (x^post Int) (y^post Int)) Bool
(or (cfg_trans2 pc^0 l0 pc^post l1 (exists ((k Int)) (and (<= 1 x^0) (= x^post (+ x^0 (- 1))) (= y^post (* 2 y^0)))))
(cfg_trans2 pc^0 l1 pc^post l0 (or (and (= x^post x^0) (= y^post k)) (< x^0 y^0)))))"""
WORDS = ["(", ")", "()", "(())", "and", "or", "exists", "true", "Int", "-", "=", "9" * 5_000, "cfg_trans2", "(x Int)"]


def test_a_damaged_system_is_read_or_refused(tmp_path):
    """Words and whole forms are left out, doubled and put in each other's place."""
    rng, words = random.Random(0), re.findall(r"[()]|[^\s()]+", FORMS)
    closing = {}
    stack = []
    for place, word in enumerate(words):
        if word == "(":
            stack.append(place)
        elif word == ")":
            closing[stack.pop()] = place
    refused = 0
    for _ in range(3_000):
        first = rng.randrange(len(words))
        last = closing.get(first, first) if words[first] != ")" else first
        instead = rng.choice(
            [[], [rng.choice(WORDS)], words[first : last + 1] * 2, ["(", *words[first : last + 1], ")"]]
        )
        try:
            text = " ".join([*words[:first], *instead, *words[last + 1 :]]).replace("( ", "(")
            parse_its(text, Where("x.smt2"))
        except InputError:
            refused += 1
    assert 300 < refused < 3_000
    for deep in ("(" * 100_000 + ")" * 100_000, "(declare-sort" + " (or" * 5_000 + ")" * 5_001):
        with pytest.raises(InputError):
            parse_its(FORMS + deep, Where("x.smt2"))
    with pytest.raises(InputError, match="is no term"):
        koat("f(A) -> Com_1(f(" + "+".join("A" * 50_000) + "))")
