"""Probabilities within intervals: robust values and shields against interval value iteration, and intervals from logs that hold."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import polvet
from polvet.errors import InputError
from polvet.worlds.intervals import count_transitions, counted_interval, vertices


def random_rows(rng, states=5):
    """A world of intervals: 0 starts, the last but one fails, the last is the goal."""
    rows = {}
    for state in range(states - 2):
        for label in ("a", "b", "c")[: rng.choice([1, 2, 2, 3])]:
            targets = rng.sample(range(states), rng.choice([1, 2, 3]))
            weights = [rng.randint(1, 5) for _ in targets]
            row = {}
            for target, weight in zip(targets, weights, strict=True):
                chance, slack = Fraction(weight, sum(weights)), Fraction(rng.randint(0, 3), 10)
                row[target] = (max(Fraction(0), chance - slack), min(Fraction(1), chance + slack))
            rows[state, label] = row
    return rows


def worst(row, values):
    """The greatest expectation within the intervals: what is left over goes to the worst outcomes first (Givan et al.)."""
    left = 1 - sum(low for low, _ in row.values())
    total = sum(low * values[target] for target, (low, _) in row.items())
    for target in sorted(row, key=lambda one: -values[one]):
        more = min(left, row[target][1] - row[target][0])
        total += more * values[target]
        left -= more
    return total


def swept(rows, states, pick, allowed=None):
    """Interval value iteration from below; `pick` chooses among labels."""
    values = [float(state == states - 2) for state in range(states)]
    rows = {key: {t: (float(low), float(high)) for t, (low, high) in row.items()} for key, row in rows.items()}
    for _ in range(400):
        for state in range(states - 2):
            mine = [label for s, label in rows if s == state and (allowed is None or label in allowed[state])]
            if mine:
                values[state] = float(pick(worst(rows[state, label], values) for label in mine))
    return values


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 500), marks=pytest.mark.slow)])
def test_500_worlds_of_intervals_are_as_interval_value_iteration_says(seeds):
    impossible = forbidden = 0
    for seed in seeds:
        rng = random.Random(seed)
        rows = random_rows(rng)
        task = polvet.from_intervals(rows, fail=[3], goal=[4])
        least = swept(rows, 5, min)
        bound = Fraction(rng.randint(1, 19), 20)
        if seed % 2:
            found = task.permit(bound, per_state=True)
            assert found.checked, seed
            for (s,), allowed in found.table.actions.items():
                risks = {label: worst(row, least) for (state, label), row in rows.items() if state == s}
                told = found.action_risks({"s": s})
                assert {label: float(risk) for label, risk in told.items()} == pytest.approx(risks, abs=1e-6), seed
                forbidden += len(risks) - len(allowed)
            continue
        found = task.permit(bound, attempts=2)
        if found.verdict.value == "impossible":
            assert least[0] > bound - Fraction(1, 10**6), seed
            impossible += 1
            continue
        assert found.checked, (seed, found)
        allowed = {s: labels for (s,), labels in found.table.actions.items()}
        values = swept({key: row for key, row in rows.items() if key[0] in allowed}, 5, max, allowed)
        for s in allowed:
            assert float(found.risk({"s": s})) == pytest.approx(values[s], abs=1e-6), seed
        assert values[0] <= bound + Fraction(1, 10**6), seed
        # Nothing can be added: one more label of a state it lists, with the rest as it is, breaks the bound.
        for s, labels in allowed.items():
            for label in {label for state, label in rows if state == s} - set(labels):
                after = {target for target, (_, high) in rows[s, label].items() if high > 0}
                if after <= allowed.keys():
                    wider = {**allowed, s: (*labels, label)}
                    assert swept(rows, 5, max, {**dict.fromkeys(range(5), ()), **wider})[0] > bound - Fraction(
                        1, 10**6
                    ), seed
                    forbidden += 1
    assert impossible > len(seeds) / 25
    assert forbidden > len(seeds) / 5


def test_vertices_are_the_distributions_with_one_probability_inside():
    rng = random.Random(1)
    for _ in range(200):
        ends = [sorted(Fraction(rng.randint(0, 6), 6) for _ in range(2)) for _ in range(rng.randint(1, 4))]
        intervals = [(low, high) for low, high in ends]
        found = vertices(intervals)
        assert all(sum(point) == 1 for point in found)
        weights = [rng.randint(-5, 5) for _ in intervals]
        grid = product(
            *([Fraction(k, 6) for k in range(7) if low <= Fraction(k, 6) <= high] for low, high in intervals)
        )
        best = max(
            (sum(w * p for w, p in zip(weights, point, strict=True)) for point in grid if sum(point) == 1), default=None
        )
        mine = max((sum(w * p for w, p in zip(weights, point, strict=True)) for point in found), default=None)
        assert best == mine


def test_a_robust_shield_that_was_tampered_with_is_rejected(tmp_path):
    rejected = 0
    for seed in range(12):
        task = polvet.from_intervals(random_rows(random.Random(seed)), fail=[3], goal=[4])
        shield = task.permit("0.6")
        if shield.verdict.value != "permitted":
            continue
        document = json.loads(shield.save(tmp_path / "shield.json").read_text())
        task.save(tmp_path / "task.toml")
        for change in ("value", "bound", "allowed"):
            wrong = json.loads(json.dumps(document))
            if change == "bound":
                wrong["bound"] = str(Fraction(wrong["states"][0]["value"]) / 2)
            elif change == "value":
                wrong["states"][0]["value"] = str(Fraction(wrong["states"][0]["value"]) * Fraction(9, 10))
            else:
                wrong["states"][0]["allowed"] = ["a", "b", "c"]
            if wrong == document:
                continue
            (tmp_path / "wrong.json").write_text(json.dumps(wrong))
            answer = polvet.certify(tmp_path / "wrong.json", tmp_path / "task.toml")
            if change == "allowed" and answer.accepted:
                assert set(document["states"][0]["allowed"]) == {"a", "b", "c"}, seed
                continue
            if Fraction(document["states"][0]["value"]) > 0 or change == "allowed":
                assert not answer.accepted, (seed, change)
                rejected += 1
    assert rejected > 9


def test_counted_intervals_hold_together_as_often_as_is_stated():
    rng = np.random.default_rng(0)
    truth = (0.7, 0.25, 0.05)
    wrong = 0
    for _ in range(300):
        log = [(0, 0, int(target) + 1) for target in rng.choice(3, size=int(rng.integers(1, 200)), p=truth)]
        table = count_transitions(log, ["go"], outcomes=3, confidence=0.5, ends=[1, 2, 3], states=4)
        row = table.rows[0, 0]
        wrong += any(not low <= truth[target - 1] <= high for target, (low, high) in row.items())
        wrong += sum(p for k, p in enumerate(truth) if k + 1 not in row) > table.unseen.get((0, 0), 0)
    assert wrong <= 150
    low, high = counted_interval(50, 1_000, 0.01)
    assert 0.02 < low < 0.05 < high < 0.09


def test_a_shield_from_logged_transitions_keeps_its_bound_in_the_lake_itself():
    gymnasium = pytest.importorskip("gymnasium")
    lake = gymnasium.make("FrozenLake-v1", is_slippery=True)
    table, desc = lake.unwrapped.P, lake.unwrapped.desc.ravel()
    rng = random.Random(3)
    holes, goals = ([s for s in range(16) if desc[s] == letter] for letter in (b"H", b"G"))
    log = []
    state, _ = lake.reset(seed=1)
    for _ in range(100_000):
        action = rng.randrange(4)
        after, _, over, cut, _ = lake.step(action)
        log.append((int(state), action, int(after)))
        state = lake.reset()[0] if over or cut else after
    labels = ("left", "down", "right", "up")

    def moved(s, way):
        row, column = s // 4 + (way == 1) - (way == 3), s % 4 + (way == 2) - (way == 0)
        return 4 * min(3, max(0, row)) + min(3, max(0, column))

    def outcomes(s, a):  # what is known of ice: it may carry one to either side
        return len({moved(s, (a + turn) % 4) for turn in (-1, 0, 1)})

    task = polvet.from_transitions(log, labels=labels, outcomes=outcomes, confidence=0.95, fail=holes, goal=goals)

    def swept_truly(pick, allowed):
        values = [float(s in holes) for s in range(16)]
        for _ in range(3_000):
            for s, mine in allowed.items():
                if mine:
                    values[s] = pick(sum(p * values[t] for p, t, _, _ in table[s][labels.index(a)]) for a in mine)
        return values

    shield = task.permit("0.5")
    assert shield.checked
    allowed = {s: labels_ for (s,), labels_ in shield.table.actions.items()}
    values = swept_truly(max, allowed)
    assert values[0] <= 0.5
    assert all(float(shield.risk({"s": s})) >= values[s] - 1e-9 for s in allowed)
    ruled = task.permit("0.3", per_state=True)
    assert ruled.checked
    least = swept_truly(min, {s: labels if desc[s] in (b"S", b"F") else () for s in range(16)})
    compared = 0
    for (s,) in ruled.table.actions:
        for label, risk in ruled.action_risks({"s": s}).items():
            truly = sum(p * least[t] for p, t, _, _ in table[s][labels.index(label)])
            assert truly - 1e-9 <= float(risk) <= truly + 0.4  # never less than it is, and not much more
            compared += truly > 0
    assert compared > 15


def test_what_nobody_tried_is_not_done_and_what_nobody_knows_fails():
    log = [(0, 0, 1)] * 50 + [(1, 1, 2)] * 50 + [(0, 1, 3)] * 50
    task = polvet.from_transitions(log, labels=("go", "on"), outcomes=1, goal=[2])
    shield = task.permit("0", per_state=True)
    assert shield.allowed({"s": 0, "failed": False}) == ("go",)  # "on" leads where nothing was tried
    assert shield.allowed({"s": 1, "failed": False}) == ("on",)
    doubtful = polvet.from_transitions(log, labels=("go", "on"), outcomes=2, goal=[2]).permit("1", per_state=True)
    assert all(risk > 0 for risk in doubtful.action_risks({"s": 0, "failed": False}).values())


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ({(0, "go"): {1: (0.1, 0.2), 2: (0.1, 0.2)}}, "no distribution"), ({(0, "go"): {1: (0.9, 0.2)}}, "no interval of"),
        ({(0, "go"): {1: "x"}}, "is no interval"), ({(0, "go"): dict.fromkeys(range(14), (0, 1))}, "14 outcomes"),
    ],
)  # fmt: skip
def test_bad_intervals_are_refused(rows, says):
    with pytest.raises(InputError, match=says):
        polvet.from_intervals(rows, fail=[1])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"log": []}, "no transitions"), ({"outcomes": 1}, "2 different"), ({"confidence": 1.0}, "no probability"),
        ({"goal": [0]}, "where runs end"), ({"start": [5]}, "nothing was tried"), ({"states": 2}, "no such number"),
    ],
)  # fmt: skip
def test_bad_logs_are_refused(given, says):
    asked = {"log": [(0, 0, 1), (0, 0, 2)], "labels": ("go",), "outcomes": 2, **given}
    with pytest.raises(InputError, match=says):
        polvet.from_transitions(asked.pop("log"), **asked)
