"""Domains at a size that the slow interpreter can enumerate, each with random policies of every kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polvet.domains import generate
from polvet.kernel.starts import Starts
from polvet.model.task import PolicyReading
from polvet.policy.binding import fit
from tests.verify.oracle import random_policy

KINDS = ("network", "dyadic", "trees", "table")
CASES = [
    ("racetrack", {"map": "lane", "speed": 2}),
    ("blocksworld", {"n": 3, "cost": 1}),
    ("blocksworld", {"n": 4, "cost": 0}),
    ("sliding-tiles", {"n": 3, "cost": 1}),
    ("transport", {"locations": 4, "packages": 3}),
    ("beluga", {"jigs": 3}),
    ("one-way-line", {"n": 3, "p": 5}),
    ("one-way-line", {"n": 2, "p": 5, "icy": True, "park": True, "ice": "1,2,4"}),
    ("two-way-line", {"n": 2, "p": 4}),
    ("flappy-bird", {"width": 12, "height": 6, "walls": 2}),
    ("layers", {"d": 5}),
    ("janitor", {}),
]


def fitted_case(case, kind, mode, seed):
    """The domain's task with a random policy, and its start states."""
    task = generate(case[0], **case[1]).task()
    task = replace(task, reading=PolicyReading(mode))
    names = [variable.name for variable in task.network.variables]
    rng = np.random.default_rng(seed)
    policy = random_policy(kind, rng, names, list(task.network.labels))
    return fit(task, policy), list(Starts.of(task).states())
