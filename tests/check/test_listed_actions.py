"""The actions of listed states in bulk are those of the slow interpreter; claims of many states are judged alike, forged ones rejected."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polvet.check import listed_actions
from polvet.check.arena import Arena
from polvet.check.checker import Accepted, Rejected, Subjects, check
from polvet.check.listed_actions import ListedActions
from polvet.cli.app import run
from polvet.domains import generate
from polvet.errors import Where
from polvet.model.task import TaskOptions
from polvet.sources import load_task
from tests.check.test_listed_moves import TWO_MODULES, WORLDS, arena_of, reachable

FIELD = """mdp
module field
  x : [0..9] init 1; y : [0..9] init 1; doomed : bool init false;
  [right] x<9 & !doomed -> 0.9:(x'=x+1) + 0.1:true;
  [up] y<9 & !doomed -> 0.9:(y'=y+1) + 0.1:(x'=max(x-1,0));
  [trip] !doomed & x>0 & y>0 -> (doomed'=true);
  [fall] doomed & y>0 -> (y'=y-1);
  [slide] doomed & y>0 & x<9 -> (y'=y-1)&(x'=x+1);
  [] doomed & x=4 & y>0 -> (y'=y-1);
endmodule
"""


def assert_same(arena: Arena, count: int) -> None:
    """Compare every action of some of the reachable states with `Arena.outcomes`."""
    states = reachable(arena)
    random.Random(1).shuffle(states)
    states = states[:count]
    place, listed = {state: k for k, state in enumerate(states)}, ListedActions(arena, states)
    assert not listed.doubtful.any()
    names = {column: label for label, column in listed.column.items()}
    true = [{} if arena.is_fail(state) or arena.is_goal(state) else arena.outcomes(state) for state in states]
    for k, outcomes in enumerate(true):
        assert {names[int(column)] for column in np.flatnonzero(listed.applicable[:, k])} == set(outcomes)
    for label, column in listed.column.items():
        wrong, sources, targets = listed.follow([label] * len(states))
        for k, outcomes in enumerate(true):
            assert bool(wrong[k]) == (label not in outcomes)
            if label in outcomes:
                expected = {place.get(outcome, -1) for outcome in outcomes[label]}
                assert set(targets[sources == k].tolist()) == expected
                every = np.arange(len(states))
                led = listed.leads_to(np.full(len(states), k), np.full(len(states), column), every)
                assert set(np.flatnonzero(led).tolist()) == expected - {-1}


@pytest.mark.parametrize("world", sorted(WORLDS))
def test_actions_in_bulk_are_those_of_the_interpreter(world: str) -> None:
    arena = arena_of(generate(world, **WORLDS[world]).task())
    assert_same(arena, 60)


def test_silent_operators_are_part_of_every_action(tmp_path: Path) -> None:
    (tmp_path / "two.prism").write_text(TWO_MODULES)
    assert_same(arena_of(load_task(tmp_path / "two.prism", TaskOptions(fail="x=5"))), 60)
    (tmp_path / "field.prism").write_text(FIELD)
    arena = arena_of(load_task(tmp_path / "field.prism", TaskOptions(fail="doomed & y=0")))
    assert_same(arena, 100)
    assert_same(arena, 10**9)


CLAIMS: dict[str, tuple[str, ...]] = {
    "safe-policy": ("--state", "x=1,y=1,doomed=false"),
    "unsafe-rank": ("--state", "x=1,y=9,doomed=true"),
    "strong-cyclic": ("--goal-reaching",),
    "no-strong-cyclic": ("--state", "x=1,y=9,doomed=true", "--goal-reaching"),
}
NUMBERS = {"unsafe-rank": "rank", "strong-cyclic": "distance", "no-strong-cyclic": "round"}


def forged(claim: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """The claim with one thing wrong in it; it may be another true one."""
    made = json.loads(json.dumps(claim))
    row = rng.choice(made["states"])
    match rng.randrange(5):
        case 0 if claim["kind"] in NUMBERS:
            row[NUMBERS[claim["kind"]]] = rng.choice([0, 1, 2, row[NUMBERS[claim["kind"]]] + 1])
        case 1 if "action" in row:
            row["action"] = rng.choice(["right", "up", "trip", "fall", "slide", None, "fly"])
        case 1 if row.get("actions"):
            rng.choice(row["actions"])["action"] = rng.choice(["fall", "slide", "trip", None, "fly"])
        case 2 if row.get("actions"):
            rng.choice(row["actions"])["outcome"] = rng.randrange(len(made["states"]))
        case 3 if row.get("actions"):
            row["actions"].pop()
        case 4:
            row["state"] = {"x": rng.randrange(10), "y": rng.randrange(10), "doomed": rng.random() < 0.5}
        case _:
            made["states"].remove(row)
            made["start"] = [min(k, len(made["states"]) - 1) for k in made["start"]]
    return made


@pytest.mark.parametrize("kind", sorted(CLAIMS))
def test_claims_are_judged_in_bulk_as_state_by_state(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "field.prism").write_text(FIELD)
    (tmp_path / "t.toml").write_text("model='field.prism'\nfail='doomed & y = 0'\ngoal='!doomed & x = 9 & y = 9'\n")
    run(["decide", str(tmp_path / "t.toml"), *CLAIMS[kind], "-o", str(tmp_path / "c.json")])
    claim = json.loads((tmp_path / "c.json").read_text())
    assert claim["kind"] == kind
    asked: list[int] = []
    moves = Arena.moves
    monkeypatch.setattr(Arena, "moves", lambda arena, state: asked.append(1) or moves(arena, state))
    subjects, rng, rejected = Subjects(tmp_path / "t.toml", options=None), random.Random(kind), 0
    monkeypatch.setattr(listed_actions, "FEW", 0)
    accepted = check(claim, subjects, Where("claim"))
    assert isinstance(accepted, Accepted)
    assert not asked  # the interpreter was asked about no state
    for _ in range(60):
        lie = forged(claim, rng)
        monkeypatch.setattr(listed_actions, "FEW", 0)
        found = check(lie, subjects, Where("claim"))
        monkeypatch.setattr(listed_actions, "FEW", 10**9)
        judged = check(lie, subjects, Where("claim"))
        assert type(found) is type(judged)
        rejected += isinstance(found, Rejected)
    assert rejected > 30
