"""Risk as a verdict: equal to all that the environment can do on random worlds, in fractions and in doubles, with certificates."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import polvet
from polvet.budget import Budget
from polvet.check import bulk
from polvet.check.checker import Accepted, Rejected, check
from polvet.cli.app import run
from polvet.domains import generate
from polvet.errors import InputError, Where
from polvet.jani.write import dump_model
from polvet.model.build import ModelBuilder
from polvet.model.task import PolicyReading
from polvet.policy.binding import fit, load_fitted
from polvet.policy.compiled import compile_policy
from polvet.policy.networks import network_of
from polvet.safety.bound import parse_risk
from polvet.sources import load_task
from polvet.verdict import Verdict
from polvet.verify import risk_bound
from polvet.verify.probability import find_risk
from polvet.verify.risk_bound import judge_risk
from tests.attack.permissive import HAIRS
from tests.attack.risk_bound import ruled_world
from tests.verify.oracle import random_policy

WORLDS = 50


def ruled(world):
    return compile_policy(load_fitted(world.task, world.subjects.policy))


def worlds(folder, count=WORLDS, seed=0):
    """Yield random worlds with bounds around what is true, each with its policy ready to run."""
    found = 0
    while found < count:
        rng = random.Random(seed)
        seed += 1
        if (world := ruled_world(rng, folder)) is None:
            continue
        found += 1
        worst = world.worst
        bounds = {worst, worst * (1 - rng.choice(HAIRS)), worst + (1 - worst) / 3, Fraction(1, 20)}
        yield world, ruled(world), sorted(bound for bound in bounds if 0 < bound < 1)


def judged(world, certificate):
    """Return what the checker says: the same whether states are checked one by one or in bulk."""
    found = []
    for few in (bulk.FEW, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bulk, "FEW", few)
            found.append(check(json.loads(json.dumps(certificate)), world.subjects, Where("certificate")))
    assert type(found[0]) is type(found[1])
    assert not isinstance(found[0], Accepted) or found[0] == found[1]
    return found[0]


def compared(world, bound, most):
    """Return the verdict about a bound on the risk, which is that of all environments, and whose certificate is accepted."""
    found = judge_risk(bound, most)
    assert found.lower == found.upper == world.worst
    assert found.verdict is (Verdict.SAFE if world.worst <= most else Verdict.UNSAFE)
    assert isinstance(judged(world, found.certificate), Accepted)
    return found.verdict


def test_the_verdict_is_that_of_all_environments_and_its_certificate_is_accepted(tmp_path):
    seen = set()
    for world, bound, bounds in worlds(tmp_path):
        for most in bounds:
            seen.add((compared(world, bound, most), world.worst == most))
    assert {(Verdict.SAFE, True), (Verdict.SAFE, False), (Verdict.UNSAFE, False)} <= seen


def test_doubles_say_the_same_or_that_they_cannot_tell(tmp_path, monkeypatch):
    monkeypatch.setattr(risk_bound, "FEW_STATES", 0)
    monkeypatch.setattr(risk_bound, "EXACT_STATES", 0)
    decided = certified = 0
    for world, bound, bounds in worlds(tmp_path):
        for most in bounds:
            found = judge_risk(bound, most)
            assert found.method in ("explicit", "abstraction")
            assert found.lower <= world.worst <= found.upper
            if found.verdict is Verdict.UNKNOWN:
                assert abs(world.worst - most) <= Fraction(1, 10**9) * max(world.worst, most)
                continue
            assert found.verdict is (Verdict.SAFE if world.worst <= most else Verdict.UNSAFE)
            decided += 1
            if found.certificate is not None:
                assert isinstance(judged(world, found.certificate), Accepted)
                certified += 1
    assert certified > 0.7 * decided > WORLDS / 2


def test_mutated_certificates_are_rejected(tmp_path):
    mutants = 0
    for world, bound, bounds in worlds(tmp_path, 30, seed=900):
        for most in bounds:
            found = judge_risk(bound, most)
            for certificate in mutated(world, found):
                assert isinstance(judged(world, certificate), Rejected), (certificate, found)
                mutants += 1
    assert mutants > 300


def mutated(world, found):
    """Certificates with one thing wrong."""
    given = found.certificate
    yield {**given, "policy_sha256": "0" * 64}
    yield {**given, "task_sha256": "0" * 64}
    values = [Fraction(text) for text in given["values"]]
    below = found.verdict is Verdict.SAFE
    for k, value in enumerate(values):
        hair = Fraction(1, 10**30)
        wrong = value * (1 - hair) if below else value + (1 - value) * hair
        if wrong != value:  # the values are exact: nothing else holds
            yield {**given, "values": [*map(str, values[:k]), str(wrong), *map(str, values[k + 1 :])]}
    if below:
        if world.worst:
            yield {**given, "bound": str(world.worst * (1 - Fraction(1, 10**30)))}
        listed = world.reached()
        for state in listed:
            rest = [other for other in listed if other != state]
            yield world.claim("risk-bound", given["bound"], world.true, rest)
        yield {**given, "kind": "risk-exceeds", "ranks": [1] * len(values), "start": 0}
    else:
        yield {**given, "bound": str(world.worst)}
        yield {**given, "ranks": given["ranks"][:-1]}
        yield {**given, "start": len(values)}
        yield {**given, "kept": ["s"]}
        yield {**given, "kind": "risk-bound"}


def test_a_certificate_is_about_one_policy(tmp_path):
    task, policies = slippery(tmp_path)
    words = [str(task), str(policies["fast"]), "--max-risk", "0.2", "-o", str(tmp_path / "made.json")]
    assert run(["verify", *words]) == 0
    certify = ["certify", str(tmp_path / "made.json"), "--task", str(task), "--policy"]
    assert run([*certify, str(policies["fast"])]) == 0
    assert run([*certify, str(policies["slow"])]) == 10


def slippery(folder):
    """Ice on which `fast` may slide into x = 4, in two ways where x = 2; `slow` never does."""
    (folder / "ice.prism").write_text(
        "mdp\nmodule ice\n  x : [0..4] init 1;\n  turns : [0..1000000] init 0;\n"
        "  [slow] x>0 & x<3 -> 0.9 : (x'=x+1) & (turns'=mod(turns+1,7)) + 0.1 : true;\n"
        "  [fast] x>0 & x<3 -> 0.95 : (x'=3) + 0.05 : (x'=4) & (turns'=mod(turns+1,7));\n"
        "  [fast] x=2 -> 0.9 : (x'=1) & (turns'=mod(turns+1,7)) + 0.1 : (x'=4);\nendmodule\n"
    )
    (folder / "ice.toml").write_text('model = "ice.prism"\nstart = "(x=1|x=2) & turns=0"\nfail = "x=4"\ngoal = "x=3"\n')
    policies = {}
    for name in ("fast", "slow"):
        policies[name] = folder / f"{name}.json"
        rules = [{"when": "true", "action": name}]
        policies[name].write_text(json.dumps({"format": "rules/1", "rules": rules}))
    return folder / "ice.toml", policies


@pytest.mark.parametrize(
    ("policy", "most", "code", "kind", "risk"),
    [
        ("fast", "0.145", 0, "risk-bound", "29/200"),
        ("fast", "29/200", 0, "risk-bound", "29/200"),
        ("fast", "0.1449999999999999999999", 10, "risk-exceeds", "29/200"),
        ("slow", "1e-9", 0, "risk-bound", "0"),
    ],
)
def test_the_command_line_says_and_certifies_it(policy, most, code, kind, risk, tmp_path, capsys):
    task, policies = slippery(tmp_path)
    made = tmp_path / "made.json"
    words = ["verify", str(task), str(policies[policy]), "--max-risk", most, "-o", str(made), "--json"]
    assert run(words) == code
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"] == ("safe" if code == 0 else "unsafe")
    assert answer["checked"] is True
    assert answer["figures"]["risk"] == risk
    certificate = json.loads(made.read_text())
    assert certificate["kind"] == kind
    assert certificate.get("kept") == (["x"] if kind == "risk-bound" else None)  # `turns` matters to nobody
    capsys.readouterr()
    assert run(["certify", str(made), "--task", str(task), "--policy", str(policies[policy]), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["about"]["bound"] == str(Fraction(most))
    assert run(words[:-3]) == code
    text = capsys.readouterr().out
    assert f"fails with probability {float(Fraction(risk)):.6g} at worst, at most" in text


@pytest.mark.parametrize("most", ["0", "1", "1.5", "-0.1", "five", "nan", ""])
def test_a_bound_that_is_no_probability_is_refused(most, tmp_path, capsys):
    task, policies = slippery(tmp_path)
    for command in ("verify", "gate"):
        assert run([command, str(task), str(policies["slow"]), "--max-risk", most]) == 30
        assert "Give a number above 0 and below 1" in capsys.readouterr().err


def test_what_else_is_asked_for_is_refused_beside_it(tmp_path, capsys):
    task, policies = slippery(tmp_path)
    for more in (["--avoid", "stuck"], ["--method", "ic3"]):
        assert run(["verify", str(task), str(policies["slow"]), "--max-risk", "0.5", *more]) == 30
        assert "Leave" in capsys.readouterr().err


def test_numbers_in_python_are_read_as_they_are_written():
    assert parse_risk(0.05, Where("max_risk")) == Fraction(1, 20)
    with pytest.raises(InputError, match="no bound"):
        parse_risk(1.0, Where("max_risk"))


def tied_task():
    """The policy's scores of `a` and `b` agree up to rounding where x = 0; `b` fails half the time, `a` in a tenth."""
    m = ModelBuilder("tied")
    x = m.int("x", 0, 2, initial=0)
    m.edge("a", guard=x == 0, to=[(Fraction(1, 10), {x: 2}), (Fraction(9, 10), {x: 1})])
    m.edge("b", guard=x == 0, to=[(Fraction(1, 2), {x: 2}), (Fraction(1, 2), {x: 1})])
    task = replace(m.task(fail=x == 2, goal=x == 1), reading=PolicyReading("filtered"))
    layers = [([[0.0], [0.0]], [0.1, 0.1]), ([[0.1, 0.2], [0.2, 0.1]], [0.3, 0.3])]
    return fit(task, network_of(layers, ["x"], ["a", "b"]))


def test_every_order_of_evaluation_keeps_the_bound_or_it_is_unknown():
    bound = compile_policy(tied_task())
    for most, verdict in (
        ("0.6", Verdict.SAFE),
        ("0.5", Verdict.SAFE),
        ("0.3", Verdict.UNKNOWN),
        ("0.05", Verdict.UNKNOWN),
    ):
        found = judge_risk(bound, Fraction(most))
        assert found.verdict is verdict
        assert found.upper == Fraction(1, 2)
        assert verdict is Verdict.SAFE or found.reason == "near-tie in 1 state"


def test_what_does_not_fit_is_bounded_by_an_abstraction_or_left_open(tmp_path):
    task, _ = slippery(tmp_path)
    bound = compile_policy(fit(load_task(task), network_of([([[0.0]], [0.0])], ["x"], ["fast"])))
    for most, verdict in ((Fraction(1, 5), Verdict.SAFE), (Fraction(1, 50), Verdict.UNKNOWN)):
        found = judge_risk(bound, most, budget=Budget(states=1))
        assert found.verdict is verdict
        assert found.certificate is None
        assert found.method == ("abstraction" if verdict is Verdict.SAFE else "explicit")


def test_thousands_of_states_are_judged_in_doubles_and_certified(tmp_path):
    """A walk over a strip of thousands of places, in which each step fails with a thousandth."""
    m = ModelBuilder("walk")
    x, y = m.int("x", 0, 150, initial=75), m.int("y", 0, 40, initial=0)
    bad = m.bool("bad", initial=False)
    m.edge("go", guard=(x > 0) & (x < 150) & (y < 40), to=[
        (Fraction(1, 2), {x: x + 1, y: y + 1}), (Fraction(499, 1000), {x: x - 1}), (Fraction(1, 1000), {bad: True}),
    ])  # fmt: skip
    (tmp_path / "walk.jani").write_text(dump_model(m.build()))
    (tmp_path / "walk.toml").write_text('model = "walk.jani"\nfail = "bad"\ngoal = "y = 40"\n')
    policy = tmp_path / "go.json"
    policy.write_text(json.dumps({"format": "rules/1", "rules": [{"when": "true", "action": "go"}]}))
    bound = compile_policy(load_fitted(load_task(tmp_path / "walk.toml"), policy))
    risk = judge_risk(bound, Fraction(1, 2))
    assert risk.method == "explicit"
    assert risk.states > risk_bound.FEW_STATES
    for most, code in ((risk.upper * Fraction(1001, 1000), 0), (risk.lower * Fraction(999, 1000), 10)):
        made = tmp_path / "made.json"
        words = [str(tmp_path / "walk.toml"), str(policy)]
        assert run(["verify", *words, "--max-risk", f"{float(most):.9f}", "-o", str(made)]) == code
        assert run(["certify", str(made), "--task", words[0], "--policy", words[1]]) == 0


def test_a_domain_with_ice_is_judged_as_its_risk_says():
    task = generate("one-way-line", n=2, p=5, icy=True, park=True, ice="1,2,4").task()
    names = [variable.name for variable in task.network.variables]
    for seed in range(4):
        policy = random_policy("trees", np.random.default_rng(seed), names, list(task.network.labels))
        bound = compile_policy(fit(task, policy))
        risk = find_risk(bound)
        found = judge_risk(bound, Fraction(1, 10))
        assert risk.lower <= found.upper
        assert found.lower <= risk.upper


def test_the_gate_holds_policies_to_the_bound(tmp_path, capsys):
    task, policies = slippery(tmp_path)
    for most, code in (("0.145", 0), ("0.14", 10)):
        assert run(["gate", str(task), str(policies["fast"]), "--max-risk", most, "--json"]) == code
        answer = json.loads(capsys.readouterr().out)
        assert answer["checked"] is True
        assert answer["figures"]["max_risk"] == str(Fraction(most))
        found = polvet.gate(task, policies["fast"], max_risk=float(most))
        assert [(one["name"], one["passing"]) for one in found.checks] == [("risk", "failed" if code else "passed")]
        verified = polvet.load(task).policy(policies["fast"]).verify(max_risk=most)
        assert verified.verdict is (polvet.Verdict.UNSAFE if code else polvet.Verdict.SAFE)
        assert verified.checked
