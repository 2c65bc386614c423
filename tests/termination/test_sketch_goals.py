"""Goals and starts of sketches against a search over signs that reads the rules as this file made them.

Amounts are free, and so are the first values: every finite way through signs is one of some execution. So an execution stops
outside the goal iff a sign pattern does that can be reached.
"""

from __future__ import annotations

import json
import random
from itertools import product

import pytest

import polvet
from polvet.check.checker import Accepted, Subjects, check
from polvet.cli.app import run
from polvet.errors import Where
from polvet.policy.finite_memory import load_fmp
from polvet.policy.finite_memory.features import Features, pattern_of, state_name
from polvet.policy.finite_memory.qnp import build_from_qnp, parse_qnp
from polvet.policy.finite_memory.sketch import read_sketch
from polvet.termination.lasso import name_step

AFTER = {
    "down": lambda old: (False, True) if old else (),
    "up": lambda old: (True,),
    "?": lambda old: (False, True),
    "set": lambda old: (True,),
    "unset": lambda old: (False,),
}


def random_sketch(rng):
    """Return the text, the features (name -> is it a number), and the rules as (condition, changes)."""
    features = {f"n{k}": True for k in range(rng.randint(1, 2))} | {f"H{k}": False for k in range(rng.randint(0, 2))}
    rules = []
    for _ in range(rng.randint(1, 4)):
        wanted = {name: rng.random() < 0.6 for name in features if rng.random() < 0.6}
        changes = {
            name: rng.choice(["down", "down", "up", "?"] if number else ["set", "unset", "?"])
            for name, number in features.items()
            if rng.random() < 0.6
        }
        if changes:
            rules.append((wanted, changes))
    lines = [f"{'numeric' if number else 'boolean'} {name}" for name, number in features.items()]
    for wanted, changes in rules:
        effects = [
            f"!{name}" if change == "unset" else name if change == "set" else f"{name}{'' if change == '?' else '-'}{change}"
            for name, change in changes.items()
        ]  # fmt: skip
        lines.append(f"{said(features, wanted) or 'true'} -> {', '.join(effects)}")
    return "\n".join(lines) + "\n", features, rules


def said(features, wanted):
    return ", ".join(
        (f"{name} > 0" if value else f"{name} = 0") if features[name] else (name if value else f"!{name}")
        for name, value in wanted.items()
    )


def following(features, rules, here):
    """Return the patterns that some rule leads to."""
    known = dict(zip(features, here, strict=True))
    found = []
    for wanted, changes in rules:
        if all(known[name] == value for name, value in wanted.items()):
            ways = [AFTER[changes[name]](known[name]) if name in changes else (known[name],) for name in features]
            found += product(*ways)
    return found


def stops(features, rules, start):
    """Return the reachable patterns in which no rule can be followed."""
    agenda = [p for p in product((False, True), repeat=len(features)) if holds(features, start, p)]
    seen = set(agenda)
    for here in agenda:  # grows while it is read
        agenda += [after for after in dict.fromkeys(following(features, rules, here)) if after not in seen]
        seen.update(agenda)
    return [here for here in seen if not following(features, rules, here)]


def holds(features, wanted, pattern):
    return all(dict(zip(features, pattern, strict=True))[name] == value for name, value in wanted.items())


def walk(rng, fmp, most):
    """Return an execution of the policy that stands for the sketch, as a certificate has it; it may end in a contradiction."""
    first = here = rng.choice(fmp.initial)
    start = values = {variable.name: rng.randint(0, 2) for variable in fmp.variables}
    steps = []
    for _ in range(rng.randint(0, most)):
        ways = [edge for edge in fmp.edges if edge.source == here and edge.is_open(values)]
        if not ways:
            break
        edge = rng.choice(ways)
        amounts = {}
        for name, value in values.items():
            effect = fmp.effect(edge.choices[0], name)
            fitting = [amount for amount in range(-value, 3) if effect.allows(amount)]
            if not fitting:
                return first, start, steps
            amounts[name] = rng.choice(fitting)
        steps.append(name_step(fmp, edge, 0, amounts))
        values = {name: value + amounts[name] for name, value in values.items()}
        here = edge.target
    return first, start, steps


@pytest.mark.parametrize("block", range(8))
def test_goals_of_random_sketches_are_decided_as_the_search_over_signs_says(block, tmp_path):
    words = set()
    for seed in range(25 * block, 25 * block + 25):
        rng = random.Random(seed)
        text, features, rules = random_sketch(rng)
        if not rules:
            continue
        file = tmp_path / "sketch.txt"
        file.write_text(text)
        goal, start = ({name: rng.random() < 0.4 for name in features if rng.random() < p} for p in (0.6, 0.4))
        result = polvet.terminates(
            file, goal=said(features, goal) or "true", start=said(features, start) or None, output=tmp_path / "c.json"
        )
        outside = [here for here in stops(features, rules, start) if not holds(features, goal, here)]
        words.add(result.word)
        assert result.word in ("nonterminating", "goal-missed" if outside else "goal-reaching"), text
        assert result.certificate is not None
        assert polvet.certify(tmp_path / "c.json", file).accepted
        if all(holds(features, goal, here) for here in stops(features, rules, {})):
            rejects_runs_that_stop_elsewhere(rng, file, goal)
    assert len(words) > 1


def rejects_runs_that_stop_elsewhere(rng, file, goal):
    """No execution of the sketch stops outside the goal, but the policy that stands for it may, in contradictions."""
    fmp, known = load_fmp(file), read_sketch(file.read_text(), Where("s")).features
    inside = [s for s in fmp.control_states if holds(known.names, goal, pattern_of(known, s))]
    text = " || ".join(f"state == {state}" for state in inside) or "n0 < 0"
    for _ in range(8):
        first, values, steps = walk(rng, fmp, 4)
        claim = {
            "kind": "goal-missed",
            "goal": text,
            "initial_state": first,
            "initial_valuation": values,
            "steps": steps,
        }
        assert not isinstance(check(claim, Subjects(file), Where("certificate")), Accepted)


@pytest.fixture
def falling(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.txt").write_text("numeric n\nn > 0 -> n-down\n")
    (tmp_path / "p.qnp").write_text("p\n1 n 1\n1 n 1\n1 n 0\n1\nfall\n1 n 1\n1 n 0\n")
    (tmp_path / "p.txt").write_text("n > 0 -> fall\n")
    return tmp_path


@pytest.mark.parametrize("plan", [["s.txt"], ["p.qnp", "p.txt"]])
def test_a_number_that_contradicts_its_control_state_is_no_stop(plan, falling):
    """The policy of the rules stops in n>0 with n = 0, where no execution of the rules comes."""
    task, policy = falling / plan[0], falling / plan[1] if len(plan) > 1 else None
    fmp = load_fmp(task, policy=policy)
    stay = next(edge.id for edge in fmp.edges if edge.source == edge.target)
    claim = {
        "kind": "goal-missed", "goal": "state == n=0", "initial_state": "n>0", "initial_valuation": {"n": 1},
        "steps": [{"edge": stay, "effects": {"n": -1}}],
    }  # fmt: skip
    assert not isinstance(check(claim, Subjects(task, policy), Where("c")), Accepted)
    late = {**claim, "start": "state == n>0 && n == 0", "initial_state": "(start)", "initial_valuation": {"n": 0}}
    late["steps"] = [{"edge": "start 0: n>0"}]
    assert not isinstance(check(late, Subjects(task, policy), Where("c")), Accepted)


def test_a_goal_of_a_sketch_that_names_control_states_is_not_missed_in_a_contradiction(falling):
    result = polvet.terminates("s.txt", goal="state == n=0", output="c.json")
    assert result.word == "goal-reaching"
    assert polvet.certify("c.json", "s.txt").accepted


def test_what_is_accepted_names_the_goal_that_is_missed(falling):
    assert polvet.terminates("s.txt", goal="n > 0", output="c.json").word == "goal-missed"
    answer = check(json.loads((falling / "c.json").read_text()), Subjects(falling / "s.txt"), Where("c"))
    assert isinstance(answer, Accepted)
    assert "stops outside state == n>0 && n >= 1" in answer.claim


def test_executions_of_a_sketch_with_memory_begin_in_its_first_memory_state(falling):
    (falling / "m.txt").write_text(
        "(:extended_sketch (:memory_states (m0 m1)) (:initial_memory_state m0) (:registers ) (:booleans )"
        ' (:numericals (n "n_count(c_primitive(at,0))")) (:concepts )'
        " (:load_rule (:conditions (:memory m0) (:c_n_gt n)) (:effects (:memory m1) (:e_n_bot n) (:load (r0 W)))))"
        .replace("(:registers )", "(:registers (r0))").replace("(:concepts )", '(:concepts (W "c_primitive(at,0)"))')
    )  # fmt: skip
    result = polvet.terminates("m.txt", goal="n = 0", halting=True)
    assert {edge.target for edge in result.source[0].edges if edge.source == "(start)"} == {
        state for state in result.source[0].control_states if state.startswith("m0:")
    }


@pytest.mark.parametrize("flag", ["!p", "a:b", "a,b", "p", "!!p", ":", "n>0", "!n,=0"])
def test_features_are_read_from_control_states_whatever_their_names_are(flag, falling):
    features = Features(("n", flag, "m"), frozenset({"n", "m"}))
    for memory in ("", "m", "m:!"):
        for pattern in product((False, True), repeat=3):
            assert pattern_of(features, state_name(features, memory, pattern)) == pattern
    # The only rule leaves the flag up, where the goal wants it down.
    text = f"p\n2 n 1 {flag} 0\n2 n 1 {flag} 0\n2 n 0 {flag} 0\n1\nfall\n1 n 1\n2 n 0 {flag} 1\n"
    (falling / "w.qnp").write_text(text)
    result = polvet.terminates("w.qnp", policy="p.txt", output="c.json")
    assert result.more["dead_ends"] == [f"n=0,{flag}"]
    claim = {**json.loads((falling / "c.json").read_text()), "kind": "solves", "claim": "solves"}
    assert not isinstance(check(claim, Subjects(falling / "w.qnp", falling / "p.txt"), Where("c")), Accepted)


def test_a_rule_that_would_lower_a_number_at_zero_gives_way_to_the_next(falling, capsys):
    (falling / "w.qnp").write_text("w\n2 n 1 p 0\n2 n 0 p 0\n2 n 1 p 1\n2\ndrop\n0\n1 n 0\nflip\n0\n1 p 0\n")
    (falling / "w.txt").write_text("true -> drop\ntrue -> flip\n")
    assert run(["terminates", "w.qnp", "--policy", "w.txt"]) == 10  # it flips for ever
    problem = parse_qnp((falling / "w.qnp").read_text(), Where("w"))
    plan = build_from_qnp(problem, (falling / "w.txt").read_text(), Where("w"))
    assert [edge.choices[0].action for edge in plan.edges] == ["flip"]
