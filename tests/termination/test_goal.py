from __future__ import annotations

import json
import random
from itertools import product

import pytest

from polvet.check.checker import Rejected, Subjects, check
from polvet.check.goal import check_missing_run, is_stopped, parts_of
from polvet.cli.app import run
from polvet.errors import InputError, Where
from polvet.policy.finite_memory import Atom, Builder, dump_fmp
from polvet.policy.finite_memory.goal import parse_goal
from polvet.termination.decide import terminates
from polvet.termination.goal import Missed, Reaching, Undecided, check_goal
from polvet.termination.verdicts import Terminating
from tests.termination.test_guards import random_guarded_plan


def emptying():
    """Return x carried to y one by one, then done."""
    return Builder("work").edge("work", "work", x=-1, y=1, guard="x >= 1").edge("work", "done", guard="x == 0").build()


@pytest.mark.parametrize(
    ("goal", "kind"),
    [
        ("state == done", Reaching), ("state == done && x == 0", Reaching), ("state == done && x <= 0", Reaching),
        ("x >= 0", Reaching), ("state == work", Missed), ("state != work", Reaching), ("y >= 1", Missed),
        ("state == done && y >= 0 || x == 7", Reaching), ("x == 7 or x == 0", Reaching), ("x == 7 or y == 0", Missed),
        ("state == done and y >= 0 or x == 7", Reaching),
    ],
)  # fmt: skip
def test_goals_of_a_small_plan(goal, kind):
    fmp = emptying()
    assert isinstance(check_goal(fmp, parse_goal(goal, fmp)), kind)


def test_no_part_of_a_goal_is_left_out():
    fmp = emptying()
    assert len(parse_goal("x == 7 or x == 0 || y == 1", fmp).cases) == 3
    assert [len(case.atoms) for case in parse_goal("x == 7 and x == 0 && y == 1", fmp).cases] == [3]


def stops_by_search(fmp, limit=800):
    """Yield stopping configurations met from small starts, by brute force; effects are between -2 and 2."""
    variables = fmp.variables
    agenda = [(state, point) for state in fmp.initial for point in product(range(3), repeat=len(variables))
              if all(v.admits(value) for v, value in zip(variables, point, strict=True))]  # fmt: skip
    seen = set(agenda)
    for state, point in agenda:
        values = {v.name: value for v, value in zip(variables, point, strict=True)}
        moved = False
        for edge in fmp.edges:
            if edge.source != state or not edge.is_open(values):
                continue
            for choice in edge.choices:
                for amounts in product(range(-2, 3), repeat=len(variables)):
                    after = tuple(a + b for a, b in zip(point, amounts, strict=True))
                    if all(fmp.effect(choice, v.name).allows(d) and v.admits(value)
                           for v, d, value in zip(variables, amounts, after, strict=True)):  # fmt: skip
                        moved = True
                        if (edge.target, after) not in seen and len(seen) < limit:
                            seen.add((edge.target, after))
                            agenda.append((edge.target, after))
        assert is_stopped(fmp, state, values) == (not moved)
        if not moved:
            yield state, values


@pytest.mark.slow
def test_random_plans_never_stop_outside_a_goal_that_is_said_to_be_reached():
    rng = random.Random(8)
    kinds = {Reaching: 0, Missed: 0, Undecided: 0}
    for _ in range(60):
        fmp = random_guarded_plan(rng)
        variable = rng.choice(fmp.variables).name
        state = rng.choice(fmp.control_states)
        text = rng.choice([f"{variable} {rng.choice(['>=', '<=', '!='])} {rng.randint(0, 2)}", f"state == {state}",
                           f"state == {state} || {variable} <= 1"])  # fmt: skip
        goal = parse_goal(text, fmp)
        found = check_goal(fmp, goal)
        kinds[type(found)] += 1
        if isinstance(found, Missed):
            assert check_missing_run(fmp, json.loads(json.dumps(found.certificate))) is None
        for state, values in stops_by_search(fmp):
            if not goal.holds(state, values):
                assert not isinstance(found, Reaching)
    assert kinds[Reaching] > 5
    assert kinds[Missed] > 5


def test_parts_of_a_box_hold_exactly_the_points_that_satisfy_the_clauses():
    rng = random.Random(9)
    for _ in range(300):
        clauses = [
            tuple(
                Atom(rng.choice("xy"), rng.choice([">=", "<=", "==", "!=", "<", ">"]), rng.randint(0, 3))
                for _ in range(rng.randint(0, 3))
            )
            for _ in range(rng.randint(0, 5))
        ]
        expected = {
            (x, y)
            for x, y in product(range(4), repeat=2)
            if all(any(atom.holds({"x": x, "y": y}[atom.variable]) for atom in clause) for clause in clauses)
        }
        for apart in (True, False):
            parts = list(parts_of(clauses, {"x": (0, 3), "y": (0, 3)}, apart=apart))
            inside = [product(*(range(part[name][0], part[name][1] + 1) for name in "xy")) for part in parts]
            assert set().union(*inside) == expected


def test_the_command_line_tells_reached_and_missed_goals_apart(tmp_path, capsys):
    file, certificate = tmp_path / "plan.json", tmp_path / "certificate.json"
    file.write_text(json.dumps(dump_fmp(emptying())))
    for goal, code, verdict in (("state == done", 0, "goal-reaching"), ("y >= 1", 10, "goal-missed"),
                                ("state == done && x == 0", 0, "goal-reaching")):  # fmt: skip
        assert run(["terminates", str(file), "--goal", goal, "-o", str(certificate), "--json"]) == code
        assert json.loads(capsys.readouterr().out)["verdict"] == verdict
        assert run(["certify", str(certificate), "--task", str(file)]) == 0
        capsys.readouterr()
        tampered = json.loads(certificate.read_text()) | {"goal": "state == work" if code == 0 else "x >= 0"}
        (tmp_path / "tampered.json").write_text(json.dumps(tampered))
        assert run(["certify", str(tmp_path / "tampered.json"), "--task", str(file)]) == 10
        capsys.readouterr()
    assert run(["terminates", str(file), "--goal", "state == nowhere"]) == 30
    assert run(["terminates", str(file), "--goal", "z == 1"]) == 30


def test_a_goal_with_unknown_names_is_an_input_error():
    for text in ("state == nowhere", "z >= 1", "x ~ 3", ""):
        if text:
            with pytest.raises(InputError):
                parse_goal(text, emptying())
    assert isinstance(terminates(emptying()), Terminating)


def test_where_an_abstraction_goes_on_the_system_may_stop(tmp_path):
    system = tmp_path / "system.koat"
    head = "(GOAL COMPLEXITY)\n(STARTTERM (FUNCTIONSYMBOLS f))\n(VAR A)\n(RULES\n"
    system.write_text(head + "f(A) -> Com_1(g(A)) :|: A*A >= 10\n)\n")  # stops in f with A = 0
    claim = {"kind": "goal-reaching", "components": [], "goal": "state == g", "reach": {}}
    assert isinstance(check(claim, Subjects(system), Where("claim")), Rejected)
