"""`check` against all schedulers in fractions: values with lower step bounds, nested and filtered ones, and what exit code 0 promises."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

import polvet
from polvet.cli.app import run
from polvet.mdp import check as checking
from tests.mdp.brute import chain, chain_reach, random_choices, schedulers

STATES = 5


def prism(choices):
    """The MDP in PRISM's words: state s is `s=...`."""
    lines = []
    for s, state in enumerate(choices):
        for k, row in enumerate(state):
            shares = " + ".join(f"{p}:(s'={t})" for t, p in row)
            lines.append(f"  [c{k}] s={s} -> {shares};")
    body = "\n".join(lines)
    return f"mdp\nmodule m\n  s : [0..{len(choices) - 1}] init 0;\n{body}\nendmodule\n"


def reach(choices, goal, best):
    """The best chance of coming to the goal, from each state, over all memoryless schedulers."""
    values = [chain_reach(chain(choices, one), [True] * len(choices), goal) for one in schedulers(choices)]
    return [best(mine) for mine in zip(*values, strict=True)]


def back(choices, values, best, steps):
    for _ in range(steps):
        values = [
            best((sum((p * values[t] for t, p in row), Fraction(0)) for row in state), default=values[s])
            for s, state in enumerate(choices)
        ]
    return values


def within(choices, goal, best, steps):
    values = [Fraction(int(one)) for one in goal]
    for _ in range(steps):
        after = back(choices, values, best, 1)
        values = [Fraction(1) if goal[s] else after[s] for s in range(len(choices))]
    return values


def reachable(choices):
    found = [0]
    for s in found:
        found += [t for t in dict.fromkeys(t for row in choices[s] for t, _ in row) if t not in found]
    return sorted(found)


def questions(rng, choices):
    """Yield properties with their exact values."""
    goal = [rng.random() < 0.4 for _ in choices]
    shown = " | ".join(f"s={s}" for s, one in enumerate(goal) if one) or "false"
    word, best = rng.choice([("Pmin", min), ("Pmax", max)])
    first, more = rng.randint(1, 4), rng.randint(0, 3)
    plain = reach(choices, goal, best)
    late = back(choices, plain, best, first)
    yield f"{word}=? [ F>={first} {shown} ]", late[0]
    yield f"{word}=? [ F>{first - 1} {shown} ]", late[0]
    exactly = back(choices, within(choices, goal, best, more), best, first)
    yield f"{word}=? [ F[{first},{first + more}] {shown} ]", exactly[0]
    yield f"{word}=? [ X {shown} ]", back(choices, [Fraction(int(one)) for one in goal], best, 1)[0]
    known = reachable(choices)
    among = rng.sample(known, rng.randint(1, len(known)))
    filtered = " | ".join(f"s={s}" for s in among)
    for function, combine in (("min", min), ("max", max), ("sum", sum), ("avg", lambda v: sum(v) / len(v))):
        yield f"filter({function}, {word}=? [ F {shown} ], {filtered})", combine([plain[s] for s in among])
    bound = rng.choice([Fraction(0), Fraction(1, 3), Fraction(9, 10)])
    inner = [value > bound for value in plain]
    if bound not in plain:
        nested = back(choices, reach(choices, inner, max), max, first)
        yield f"Pmax=? [ F>={first} {word}>{float(bound) if bound == 0.9 else bound} [ F {shown} ] ]", nested[0]
        count = sum(inner[s] for s in among)
        yield f"filter(count, {word}>{bound} [ F {shown} ], {filtered})", Fraction(count)


def asked(folder, seeds):
    for seed in seeds:
        rng = random.Random(seed)
        choices = random_choices(rng, states=STATES)
        (folder / "m.prism").write_text(prism(choices))
        task = polvet.load(folder / "m.prism")
        for text, true in questions(rng, choices):
            yield task, text, true


@pytest.mark.parametrize("small", [True, False], ids=["in fractions where small", "in doubles alone"])
def test_what_check_answers_holds_and_is_as_near_as_it_was_asked_for(small, tmp_path, monkeypatch):
    if not small:
        monkeypatch.setattr(checking, "TINY_STATES", -1)
        monkeypatch.setattr(checking, "EXACT_STATES", -1)
    late = answered = count = 0
    for task, text, true in asked(tmp_path, range(90)):
        found, count = task.check(text, gap=1e-6), count + 1
        assert found.lower <= true <= found.upper, (text, task)
        if found.reason is not None:
            assert found.value is None
            continue
        answered += 1
        late += ">" in text and 0 < true < 1
        assert found.upper - found.lower <= 1e-6 * found.lower
        assert abs(Fraction(found.value) - true) <= Fraction(1e-6) * true
    assert late > 20
    assert answered > 0.95 * count


def test_exact_answers_are_the_exact_values(tmp_path):
    told = 0
    for task, text, true in asked(tmp_path, range(100, 140)):
        found = task.check(text, exact=True)
        assert found.lower <= true <= found.upper
        assert found.exact in (None, true), text
        told += found.exact is not None
        assert found.exact is not None or text.startswith("filter"), text
    assert told > 100


WIDE = """mdp
module m
  s : [0..3] init 0;
  [] s=0 -> 0.5:(s'=1) + 0.5:(s'=2);
  [] s=1 -> 0.5:(s'=1) + 0.5:(s'=3);
  [] s=2 -> (s'=3);
  [] s=3 -> true;
endmodule
rewards REWARDS endrewards
"""


def test_bounds_that_stay_wide_are_no_value(tmp_path, monkeypatch, capsys):
    (tmp_path / "m.prism").write_text(WIDE.replace("REWARDS", "true : 1;"))
    monkeypatch.setattr(checking, "TINY_STATES", -1)
    monkeypatch.setattr(checking, "EXACT_STATES", -1)
    # 1 - (1 - 2^-60) is known to the nearest doubles of 1 only.
    code = run(["check", str(tmp_path / "m.prism"), "--property", "Pmin=? [ G<=61 s!=3 & s!=2 ]", "--json"])
    assert code == 20
    assert '"value": null' in capsys.readouterr().out


BROKEN = ["10/s", "mod(10, s)", "log(s, 2)", "pow(0.0, s-1)", "pow(10.0, 400-s)"]
OVERFLOWS = ["pow(10, 30*(1-s))", "9000000000000000*(2000-s)"]


@pytest.mark.parametrize(
    ("reward", "options"),
    [*((one, []) for one in BROKEN + OVERFLOWS), *((one, ["--exact"]) for one in BROKEN)],
)
def test_a_state_reward_that_cannot_be_computed_is_an_error_with_its_state(reward, options, tmp_path, capsys):
    (tmp_path / "m.prism").write_text(WIDE.replace("REWARDS", f"true : {reward};"))
    question = ["check", str(tmp_path / "m.prism"), "--property", "Rmax=? [ F s=3 ]"]
    assert run([*question, *options]) == 30
    assert "in state s=0" in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--exact"]], ids=["bounds", "exact"])
def test_a_reward_that_nobody_earns_need_not_be_computed(options, tmp_path, capsys):
    (tmp_path / "m.prism").write_text(WIDE.replace("REWARDS", "true : 6/(3-s);"))
    question = ["check", str(tmp_path / "m.prism"), "--property", "Rmax=? [ F s=3 ]", "--json"]
    assert run([*question, *options]) == 0
    assert '"exact": "8"' in capsys.readouterr().out


@pytest.mark.threads
@pytest.mark.parametrize("threads", ["1", "3"])
def test_many_states_are_searched_for_it_by_several_threads(threads, tmp_path, capsys):
    text = """mdp
module m
  x : [0..300] init 0;
  y : [0..300] init 0;
  [a] x<300 -> 0.5:(x'=x+1) + 0.5:(y'=min(y+1,300));
  [b] y<300 -> (y'=y+1);
endmodule
rewards true : 1/(max(x-250,250-x)+max(y-251,251-y)); endrewards
"""
    (tmp_path / "m.prism").write_text(text)
    question = ["check", str(tmp_path / "m.prism"), "--property", "Rmax=? [ F x=300 ]", "--workers", threads]
    assert run(question) == 30
    assert "in state x=250,y=251" in capsys.readouterr().err
