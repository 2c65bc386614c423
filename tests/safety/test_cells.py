"""What cells of real values tell is what a search finds: on random models with clocks, silent edges and chance; cars; poles."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

import polvet
from polvet.budget import Budget
from polvet.check.flow import Moves
from polvet.domains import generate
from polvet.domains.instance import Instance
from polvet.jani import dump_model
from polvet.model.build import ModelBuilder
from polvet.model.infix import dump_expression
from polvet.safety.cells import foresee_cells, judge_cells
from polvet.safety.decide import SAFE, UNSAFE, Decider
from polvet.safety.foresight import sharpen

END = 7
CELLS = 1 << 13


def random_real_task(seed):
    """A model over a real number or two, a switch and a clock that ends every run after a few steps."""
    rng = random.Random(seed)
    m = ModelBuilder("cells")
    clock = m.int("clock", 0, 20, initial=0)
    names = ["x", "y"][: rng.randint(1, 2)]
    for name in names:
        m.real(name, -50, 50, initial=0)
    m.int("switch", 0, 2, initial=0)

    def step():
        change = {}
        for name in names:
            factor, shift = (
                rng.choice(["1", "1", "0.5", "-0.9", "1.2"]),
                rng.choice(["-1.3", "-0.4", "0.3", "0.9", "2"]),
            )
            other = rng.choice([f"+ 0.1 * {rng.choice(names)}", ""])
            change[name] = f"{factor} * {name} + {shift} {other}"
        if rng.random() < 0.3:
            change["switch"] = rng.randint(0, 2)
        return {**change, "clock": clock + 1}

    def guard():
        tests = ["true", f"x <= {rng.randint(-2, 6)}", f"x >= {rng.randint(-6, 2)}", f"switch <= {rng.randint(0, 2)}"]
        inside = " && ".join(f"-12 <= {name} && {name} <= 12" for name in names)
        return f"{inside} && {rng.choice(tests)}"

    for label in ("a", "b", "c")[: rng.randint(1, 3)]:
        for _ in range(rng.choice([1, 1, 2])):
            if rng.random() < 0.3:
                m.edge(label, guard=guard(), to=[(Fraction(1, 3), step()), (Fraction(2, 3), step())])
            else:
                m.edge(label, guard=guard(), to=step())
    if rng.random() < 0.3:
        m.edge(None, guard=guard(), to=step())
    fail = rng.choice([f"x >= {rng.randint(3, 6)}", f"x <= -3 || x >= {rng.randint(4, 7)}", "x >= 2 && switch == 1"])
    goal = rng.choice([f"clock >= {END}", f"clock >= {END} && x < 1000", f"clock >= {END} || switch == 2"])
    return Instance.of(m, start="clock == 0", fail=fail, goal=goal).task()


def some_states(task, count, seed):
    rng = random.Random(seed)
    return [
        tuple(
            rng.randint(0, END - 1) if variable.name == "clock"
            else rng.randint(0, 2) if variable.name == "switch"
            else rng.uniform(-9, 9)
            for variable in task.network.variables
        )
        for _ in range(count)
    ]  # fmt: skip


def told_by_cells(judged, compiled, states):
    """The verdict that the tables give each state, looked up here; 0 where they give none."""
    found = []
    for state in states:
        place, lines = 0, iter(judged.lines)
        inside = True
        for k in judged.variables:
            if isinstance(state[k], float):
                lower, scale, count = next(lines)
                at = int(np.floor((state[k] - lower) * scale))
                inside = inside and 0 <= at < count
            else:
                variable = compiled.network.variables[k]
                at, count = state[k] - variable.lower, variable.upper - variable.lower + 1
            place = place * count + at
        lost = inside and judged.lost[place] and (judged.latest is None or state[judged.latest[0]] <= judged.latest[1])
        found.append(SAFE if inside and judged.won[place] else UNSAFE if lost else 0)
    return found


@pytest.mark.slow
def test_cells_of_random_models_tell_what_searches_find():
    won = lost = used = 0
    for seed in range(60):
        task = random_real_task(seed)
        plain = Decider(task)
        states = some_states(task, 150, seed)
        words = plain.compiled.pack(states)
        judged = judge_cells(plain, words, cells=CELLS)
        assert judged is not None
        told = np.array(told_by_cells(judged, plain.compiled, states))
        known = plain.known_packed(words)
        assert (known != 0).all()
        assert (told[told != 0] == known[told != 0]).all(), seed
        sharp = Decider(task)
        assert foresee_cells(sharp, words, cells=CELLS) == bool(judged.won.any()) + bool(judged.lost.any())
        assert (sharp.known_packed(words) == known).all()
        goal = plain.compiled.machine.holds(1, words)
        won += int(((told == SAFE) & (goal == 0)).sum())
        lost += int(((told == UNSAFE) & (plain.compiled.machine.holds(0, words) == 0)).sum())
        used += bool((told != 0).any())
    assert used > 40
    assert won > 500
    assert lost > 150


@pytest.mark.parametrize(
    ("name", "options", "ranges"),
    [
        ("follow-car", {"tau": "0.4"}, [(0, 990), (0.5, 30.0), (27.0, 34.0)]),
        ("inverted-pendulum", {"tau": "0.1"}, [(0, 990), (-0.78, 0.78), (-2, 2)]),
    ],
)
@pytest.mark.slow
def test_cars_and_poles_are_judged_as_by_search(name, options, ranges):
    task = generate(name, **options).task()
    rng = random.Random(1)
    states = [
        tuple(rng.randint(a, b) if isinstance(a, int) and isinstance(b, int) else rng.uniform(a, b) for a, b in ranges)
        for _ in range(120)
    ]
    plain, sharp = Decider(task), Decider(task)
    words = plain.compiled.pack(states)
    assert sharpen(sharp, words) == 2
    told = sharp.known_packed(words, budget=Budget(states=1_000_000))
    compared = {SAFE: 0, UNSAFE: 0}
    for k in range(len(states)):
        known = plain.known_packed(words[k : k + 1], budget=Budget(states=plain.known_states + 20_000))[0]
        if known and told[k]:
            assert known == told[k], states[k]
            compared[int(known)] += 1
    assert (told != 0).mean() > 0.95
    assert compared[SAFE] > 10
    assert compared[UNSAFE] > 10


def forgetful(ways):
    """A mistake in the code that cells share with a checker: every other outcome is left out."""
    return lambda moves: iter(list(ways(moves))[::2])


@pytest.mark.parametrize(("seed", "is_wrong"), [(0, False), (5, False), (16, True)])
def test_a_mistake_about_sets_leads_to_no_false_word(seed, is_wrong, tmp_path, monkeypatch):
    """Cells guide a search; what is said of a state is checked state by state, where nobody follows sets."""
    task = random_real_task(seed)
    (tmp_path / "m.jani").write_text(dump_model(task.network.model))
    conditions = [f'fail = "{dump_expression(task.fail)}"', f'goal = "{dump_expression(task.goal)}"']
    file = tmp_path / "task.toml"
    file.write_text("\n".join(['model = "m.jani"', 'start = "clock == 0"', *conditions]))
    names = [variable.name for variable in task.network.variables]
    states = [dict(zip(names, state, strict=True)) for state in some_states(task, 8, seed)]
    known = [one["safe"] for one in polvet.load(file).decide(states).to_dict()["figures"]["states"]]
    monkeypatch.chdir(tmp_path)  # where a bug leaves its bundle
    monkeypatch.setattr(Moves, "_ways", forgetful(Moves._ways))
    if is_wrong:
        with pytest.raises(polvet.PolvetError, match="its checker rejects"):
            polvet.load(file).decide(states, sharpen=True)
        return
    said = polvet.load(file).decide(states, sharpen=True).to_dict()
    assert said["checked"] is True
    assert [one["safe"] for one in said["figures"]["states"]] == known


def test_models_that_cells_do_not_follow_are_left_to_the_search():
    task = generate("one-way-line", n=2, p=3).task()
    plain = Decider(task)
    words = plain.compiled.pack([tuple(0 for _ in task.network.variables)])
    assert judge_cells(plain, words) is None
    m = ModelBuilder("root")
    m.real("x", 0, 10, initial=1)
    m.edge("a", to={"x": "exp(x) - x"})
    odd = Instance.of(m, start="x == 1", fail="x > 9", goal="x < 0").task()
    decider = Decider(odd)
    assert judge_cells(decider, decider.compiled.pack([(1.0,)])) is None
