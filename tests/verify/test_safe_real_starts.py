"""Regions of safe real-valued starts: no run that the slow interpreter makes from them fails, and false ones are rejected."""

from __future__ import annotations

import copy
import json
import math
import os
import random
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

import polvet
from polvet.budget import Budget
from polvet.check.arena import Arena
from polvet.check.checker import Accepted, Rejected, Subjects, check
from polvet.check.followed import Followed
from polvet.check.grid import pack_marks, unpack_marks
from polvet.errors import Where
from polvet.kernel.starts import is_start_of
from polvet.policy.compiled import compile_policy
from polvet.verify import safe_starts_grid
from polvet.verify.grid import Attempt
from polvet.verify.safe_starts import find_safe_starts
from tests.verify.real_worlds import random_world

WORLDS = 12 * int(os.environ.get("POLVET_ROUNDS", "1"))
POINTS, STEPS, WIDE = 300, 25, 600
"""States of each region that are followed, how long, and from how many states at most the next step is made."""


@dataclass
class Case:
    """A random world, what was found and its certificate as it is read again."""

    fitted: object
    found: object
    certificate: dict | None
    subjects: Subjects

    @property
    def is_region(self):
        return self.certificate is not None and self.certificate["kind"] == "safe-region"

    def verdict(self, certificate):
        return check(json.loads(json.dumps(certificate)), self.subjects, Where("c"))


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    @cache
    def solved(seed):
        folder = tmp_path_factory.mktemp(f"world-{seed}")
        _, fitted, files = random_world(seed, folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(safe_starts_grid, "ATTEMPTS", (Attempt(16, 8, 8, 1), Attempt(32, 8, 16, 2)))
            found, certificate = find_safe_starts(compile_policy(fitted), budget=Budget(120), seed=seed)
        return Case(
            fitted, found, None if certificate is None else json.loads(json.dumps(certificate)), Subjects(*files)
        )

    return solved


@pytest.fixture
def regions(case):
    cases = [case(seed) for seed in range(WORLDS)]
    found = [one for one in cases if one.is_region]
    assert len(found) > WORLDS // 4  # neither all nor none of the starts
    return found


def points(boxes, count, rng):
    """Points of boxes: half of them at their ends."""
    for _ in range(count):
        box = rng.choice(boxes)
        yield tuple(
            rng.choice([low, high]) if rng.random() < 0.5 else min(max(rng.uniform(low, high), low), high)
            for low, high in (box.get(name, (0.0, 4.0)) for name in "xy")
        )


def failing_run(fitted, states):
    """A state of `fail` that runs from the states come to, in every order of evaluation and by every outcome; None: none does."""
    arena = Arena.of(fitted.task)
    followed, rng = Followed(arena, fitted), random.Random(0)
    frontier = set(states)
    for _ in range(STEPS):
        for state in frontier:
            if arena.is_fail(state):
                return state
        if len(frontier) > WIDE:
            frontier = set(rng.sample(sorted(frontier), WIDE))
        steps = followed.steps(sorted(frontier))
        frontier = {outcome.state for step in steps for move in step.moves for outcome in move.outcomes}
    return None


def starts_of(one, boxes, count, seed):
    is_start = is_start_of(one.fitted.task)
    return [state for state in points(boxes, count, random.Random(seed)) if is_start(state)]


def test_no_run_from_a_proved_region_fails(case, regions):
    followed = 0
    for seed in range(WORLDS):
        one = case(seed)
        if one.certificate is None:
            assert one.found.volume is None or one.found.volume.proved == 0
            continue
        assert isinstance(one.verdict(one.certificate), Accepted)
        boxes = one.certificate["region"]["in"] if one.is_region else [{}]
        states = starts_of(one, boxes, POINTS, seed)
        followed += len(states)
        assert failing_run(one.fitted, states) is None
        for part in one.found.rest:
            if part.run is not None:
                start = dict(zip("xy", part.run.states[0], strict=True))
                assert not any(all(a <= start[n] <= b for n, (a, b) in box.items()) for box in one.found.boxes)
                assert Arena.of(one.fitted.task).is_fail(part.run.states[-1])
    assert followed > 2_000


def test_the_shares_are_those_of_drawn_states(case):
    told = 0
    for seed in range(WORLDS):
        one = case(seed)
        if one.found.volume is None:
            continue
        volume = one.found.volume
        assert math.isclose(volume.proved + volume.unsafe + volume.open, 1, abs_tol=1e-9)
        states = starts_of(one, [{}], 40_000, seed)
        boxes = one.found.boxes if one.found.side == "in" else [{}]
        inside = np.mean(
            [any(all(a <= s["xy".index(n)] <= b for n, (a, b) in box.items()) for box in boxes) for s in states[:4_000]]
        )
        assert abs(inside - volume.proved) < 0.05
        told += 0 < volume.proved < 1
    assert told > 2


def widened(one):
    """Yield regions that hold a start state more than what is proved: by the next double, by a cell, or by all."""
    boxes, lines = one.certificate["region"]["in"], one.certificate["proof"]["lines"]
    is_start = is_start_of(one.fitted.task)

    def is_said(state):
        value = dict(zip("xy", state, strict=True))
        return any(all(low <= value[name] <= high for name, (low, high) in box.items()) for box in boxes)

    for k, box in enumerate(boxes):
        for name, (low, high) in box.items():
            following = [x for x in lines[name] if x > high]
            beyond = following[1] if len(following) > 1 else 4.0
            for ends, new in (
                ([low, math.nextafter(high, 9)], math.nextafter(high, 9)),
                ([low, beyond], math.nextafter(high, 9)),
                ([math.nextafter(low, -9), high], math.nextafter(low, -9)),
            ):
                middle = {n: (box.get(n, [1.0, 1.0])[0] + box.get(n, [1.0, 1.0])[1]) / 2 for n in "xy"}
                state = tuple({**middle, name: new}.values())
                if is_start(state) and not is_said(state):
                    yield {"in": [*boxes[:k], {**box, name: ends}, *boxes[k + 1 :]]}
    yield {"in": [{}]}
    yield {"in": [*boxes, {"x": [0.0, 4.0]}]}
    yield {"out": []}


def test_a_region_that_says_more_is_rejected(regions):
    rejected = 0
    for one in regions:
        for region in widened(one):
            assert isinstance(one.verdict({**one.certificate, "region": region}), Rejected), region
            rejected += 1
    assert rejected > 40


def test_a_region_with_a_cell_dropped_or_bounds_swapped_is_rejected(regions):
    rng, rejected = random.Random(3), 0
    for one in regions:
        proof, boxes = one.certificate["proof"], one.certificate["region"]["in"]
        lines = [np.array(proof["lines"][name]) for name in "xy"]
        shape = [len(line) for line in lines]
        marks = unpack_marks(proof["cells"], math.prod(shape))
        for state in starts_of(one, boxes, 8, rng.random()):
            cell = [np.searchsorted(line, x, side="right") - 1 for line, x in zip(lines, state, strict=True)]
            dropped = marks.copy()
            assert dropped[np.ravel_multi_index(cell, shape)]
            dropped[np.ravel_multi_index(cell, shape)] = False
            bad = {**one.certificate, "proof": {**proof, "cells": pack_marks(dropped)}}
            assert isinstance(one.verdict(bad), Rejected)
            rejected += 1
        for k, box in enumerate(boxes):
            for name, (low, high) in box.items():
                swapped = {"in": [*boxes[:k], {**box, name: [high, low]}, *boxes[k + 1 :]]}
                assert low == high or isinstance(one.verdict({**one.certificate, "region": swapped}), Rejected)
    assert rejected > 20


def test_a_region_of_another_task_is_rejected(regions, tmp_path):
    false = 0
    for seed, one in enumerate(regions):
        task, policy = one.subjects.task, one.subjects.policy
        for rim in ("x < 1.5", "x > 1.5", "y < 2", "y > 2"):
            folder = tmp_path / f"{seed}-{rim[0]}{rim[2]}"
            folder.mkdir()
            text = task.read_text()
            fail = next(line for line in text.splitlines() if line.startswith("fail"))
            (folder / "world.jani").write_bytes((task.parent / "world.jani").read_bytes())
            (folder / "world.toml").write_text(text.replace(fail, f'fail = "{rim}"'))
            other = Case(
                polvet.load(folder / "world.toml").policy(policy).fitted,
                None,
                None,
                Subjects(folder / "world.toml", policy),
            )
            assert isinstance(other.verdict(one.certificate), Rejected)
            invented = {**one.certificate, "task_sha256": other.fitted.task.sha256}
            states = starts_of(one, one.certificate["region"]["in"], 100, seed)
            if failing_run(other.fitted, states) is not None:
                assert isinstance(other.verdict(invented), Rejected)
                false += 1
    assert false > 10


def test_a_region_is_not_taken_for_all_start_states(regions):
    for one in regions:
        head = {k: v for k, v in one.certificate.items() if k not in ("kind", "region", "proof")}
        assert isinstance(one.verdict({**head, **one.certificate["proof"]}), Rejected)
        lying = copy.deepcopy(one.certificate)
        lying["proof"]["region"] = {"in": []}
        assert isinstance(one.verdict(lying), Rejected)


def test_the_condition_says_to_the_last_bit_which_starts_are_in_the_region(regions):
    one = regions[0]
    found = polvet.load(one.subjects.task).policy(one.subjects.policy).verify(region=True, time_limit=60)
    assert found.certificate["kind"] == "safe-region"
    assert found.share == found.volume.proved
    boxes = found.certificate["region"]["in"]
    is_said = is_start_of(polvet.load(one.subjects.task, start=found.condition).model_task)
    tried = set()
    for state in points(boxes, 300, random.Random(5)):
        for turn in (-9.0, 9.0):
            tried |= {state, tuple(math.nextafter(x, turn) for x in state)}
    answers = [any(all(a <= s["xy".index(n)] <= b for n, (a, b) in box.items()) for box in boxes) for s in tried]
    assert [is_said(state) for state in tried] == answers
    assert 0 < sum(answers) < len(answers)
