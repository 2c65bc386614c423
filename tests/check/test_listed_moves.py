"""The operators of listed states in bulk are the slow interpreter's, and shields checked so are judged as the interpreter does."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polvet.check import permissive
from polvet.check.arena import Arena
from polvet.check.box_view import Unreadable
from polvet.check.checker import Accepted, Rejected, Subjects, check
from polvet.check.listed_moves import ListedMoves
from polvet.check.listed_states import ListedStates
from polvet.check.permissive_bulk import scaled
from polvet.domains import generate
from polvet.errors import Where
from polvet.model.semantics import Semantics, State
from polvet.model.task import Task, TaskOptions
from polvet.records.state_json import Malformed
from polvet.sources import load_task

WORLDS: dict[str, dict[str, Any]] = {
    "janitor": {"width": 4, "height": 3}, "folline": {"length": 9, "width": 5, "stray": 20},
    "comexp": {"width": 4, "height": 3, "distance": 4}, "blocksworld": {"n": 3, "cost": 2},
    "two-way-line": {"n": 2, "p": 3, "icy": True}, "transport": {"locations": 3, "packages": 2},
}  # fmt: skip
TWO_MODULES = """mdp
module one
  x : [0..5] init 0;
  [go] x<5 -> 1/3 : (x'=x+1) + 2/3 : (x'=max(0,x-1));
  [go] x=2 -> (x'=4);
  [] x=3 -> 0.25 : (x'=0) + 0.75 : true;
endmodule
module two
  y : [0..3] init 0;
  on : bool init false;
  [go] !on -> 0.1 : (y'=min(3,y+1)) & (on'=true) + 0.9 : true;
  [go] on & mod(y,2)=1 -> (on'=false);
  [flip] y=3 -> (on'=!on) & (y'=0);
endmodule
"""


def arena_of(task: Task) -> Arena:
    semantics = Semantics(task.network)
    return Arena(task, semantics, semantics.compile(task.fail), semantics.compile(task.goal), "here")


def reachable(arena: Arena, most: int = 600) -> list[State]:
    known = dict.fromkeys(arena.semantics.initial_states())
    pending = list(known)
    while pending and len(known) < most:
        for move in arena.moves(pending.pop()):
            for outcome in move.outcomes:
                if outcome.state not in known:
                    known[outcome.state] = None
                    pending.append(outcome.state)
    return list(known)


def rows_of(moves: list[tuple[str | None, dict[State, Fraction]]]) -> list[str]:
    return sorted(f"{label} {sorted(row.items())}" for label, row in moves)


def assert_same(arena: Arena, states: list[State]) -> None:
    listed = ListedStates(arena.task.network, list(np.array(states, dtype=np.int64).T))
    bulk = ListedMoves(arena, listed)
    found: list[list[tuple[str | None, dict[State, Fraction]]]] = [[] for _ in states]
    known = {state: k for k, state in enumerate(states)}
    for block in bulk.blocks():
        for source, targets, shares, whole in zip(block.source, block.target, block.share, block.whole, strict=True):
            row: dict[State, Fraction] = {}
            for target, share in zip(targets.tolist(), shares.tolist(), strict=True):
                name = states[target] if target >= 0 else ()
                row[name] = row.get(name, Fraction(0)) + Fraction(int(share), int(whole))
            found[int(source)].append((block.label, row))
    assert not bulk.doubtful.any()
    for k, state in enumerate(states):
        assert bool(bulk.fail[k]) == bool(arena.is_fail(state))
        ended = arena.is_fail(state) or arena.is_goal(state)
        true = []
        for move in [] if ended else arena.moves(state):
            row = {}
            for outcome in move.outcomes:
                name = outcome.state if outcome.state in known else ()
                row[name] = row.get(name, Fraction(0)) + outcome.probability
            true.append((move.label, row))
        assert rows_of(found[k]) == rows_of(true)


@pytest.mark.parametrize("world", sorted(WORLDS))
def test_operators_in_bulk_are_those_of_the_interpreter(world: str) -> None:
    arena = arena_of(generate(world, **WORLDS[world]).task())
    states = reachable(arena)
    random.Random(1).shuffle(states)
    assert len(states) > 50
    assert_same(arena, states)
    assert_same(arena, states[: len(states) // 2])


def test_operators_of_several_modules_are_multiplied_out(tmp_path: Path) -> None:
    (tmp_path / "two.prism").write_text(TWO_MODULES)
    arena = arena_of(load_task(tmp_path / "two.prism", TaskOptions(fail="x=5")))
    states = reachable(arena)
    assert len(states) > 20
    assert_same(arena, states)


def test_what_cannot_be_followed_in_bulk_is_refused_or_doubtful(tmp_path: Path) -> None:
    model = "mdp\nmodule m\n x : [0..5] init 0;\n [a] x<5 -> x/10 : (x'=x+1) + 1-x/10 : true;\nendmodule\n"
    (tmp_path / "m.prism").write_text(model)
    arena = arena_of(load_task(tmp_path / "m.prism", TaskOptions(fail="x=5")))
    states = ListedStates(arena.task.network, [np.arange(6)])
    with pytest.raises(Unreadable):
        ListedMoves(arena, states)
    with pytest.raises(Malformed):
        ListedStates(arena.task.network, [np.array([0, 6])])
    with pytest.raises(Malformed):
        ListedStates(arena.task.network, [np.array([0, 3, 0])])
    (tmp_path / "m.prism").write_text(model.replace("x/10 : (x'=x+1) + 1-x/10 : true", "(x'=x+2)"))
    arena = arena_of(load_task(tmp_path / "m.prism", TaskOptions(fail="x=5")))
    moves = ListedMoves(arena, ListedStates(arena.task.network, [np.arange(6)]))
    assert len(list(moves.blocks())) == 1
    assert moves.doubtful.tolist() == [False, False, False, False, True, False]  # 4 + 2 is outside the bounds


def test_values_over_one_denominator_are_the_same_values() -> None:
    for digits in (20, 70, 3_000):
        values = [Fraction(1, 3), Fraction(1), Fraction(0), Fraction(1, 2**digits)]
        numbers, one = scaled(values)
        assert [Fraction(x) / one for x in numbers.tolist()] == values


@pytest.fixture(scope="module")
def shield(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any], Path]:
    """A shield with exact values, the same with bounds, and its task."""
    from polvet.cli.app import run
    from polvet.shield import build_world
    from polvet.shield.file import to_document
    from polvet.shield.permissive import prove

    folder = tmp_path_factory.mktemp("shield")
    run(["domains", "janitor", "width=4", "height=4", "-o", str(folder / "j.jani")])
    task = load_task(folder / "j.toml")
    documents = []
    for exact in (True, False):
        world = build_world(task, exact=exact)
        permitted = np.ones(world.options, dtype=bool)
        proved = prove(world, permitted, Fraction(1))
        assert proved is not None
        documents.append(to_document(task, world, proved, proved.risk))
    assert [document["values"] for document in documents] == ["exact", "upper-bounds"]
    return documents[0], documents[1], folder / "j.toml"


def changed(document: dict[str, Any], rng: random.Random, way: int) -> dict[str, Any]:
    """The shield with one thing in it that is wrong."""
    forged = json.loads(json.dumps(document))
    states = forged["states"]
    acting = [row for row in states if row["allowed"]]
    row = rng.choice(acting)
    match way:
        case 0:  # a hair below what is needed, in a state whose value some action attains
            row = max(acting, key=lambda one: Fraction(one["value"]))
            row["value"] = str(Fraction(row["value"]) * (1 - rng.choice([Fraction(1, 10**3), Fraction(1, 10**9)])))
        case 1:
            row["allowed"] = [*row["allowed"], "fly"]
        case 2:
            row["allowed"] = []
        case 3:
            states.remove(row)
        case 4:
            rng.choice([one for one in states if Fraction(one["value"]) == 1])["value"] = "1/2"
        case 5:
            states.append({**row, "value": "0"})
        case 6:
            forged["bound"] = str(Fraction(forged["bound"]) * (1 - Fraction(1, 10**30)))
    return forged


@pytest.mark.parametrize("which", [0, 1], ids=["exact", "upper-bounds"])
def test_many_states_are_checked_in_bulk_and_forged_ones_rejected(
    which: int, shield: tuple[dict[str, Any], dict[str, Any], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    document, subjects = shield[which], Subjects(shield[2])
    monkeypatch.setattr(permissive, "FEW", 100)
    judged: list[int] = []
    rows = permissive._rows
    monkeypatch.setattr(permissive, "_rows", lambda *given: judged.append(1) or rows(*given))
    accepted = check(document, subjects, Where("shield"))
    assert isinstance(accepted, Accepted)
    assert not judged  # the interpreter was asked about no state
    rng = random.Random(which)
    for way in range(7):
        assert isinstance(check(changed(document, rng, way), subjects, Where("shield")), Rejected)
    monkeypatch.setattr(permissive, "FEW", 10**9)
    assert check(document, subjects, Where("shield")) == accepted


def test_a_value_that_no_action_attains_is_rejected_in_bulk(
    shield: tuple[dict[str, Any], dict[str, Any], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permissive, "FEW", 100)
    forged = json.loads(json.dumps(shield[0]))
    for row in forged["states"]:
        row["value"] = "1"  # inductive everywhere, but not where runs end safely
    forged["bound"] = "1"
    assert isinstance(check(forged, Subjects(shield[2]), Where("shield")), Rejected)
    forged["values"] = "upper-bounds"
    assert isinstance(check(forged, Subjects(shield[2]), Where("shield")), Accepted)


def test_wide_variables_that_guards_pin_together_are_followed(tmp_path):
    """Together they have more values than 64 bits tell apart: the states of a wide world lead where they lead in a narrow one."""
    text = """mdp
module m
  x : [0..TOP] init 0;
  y : [0..TOP] init 0;
  z : [0..TOP] init 0;
  w : [0..TOP] init 0;
  [a] x=1 & y=2 & z=3 & w=4 -> (x'=2);
  [a] x=2 & y=2 & z=3 & w=4 -> (w'=5);
endmodule
"""
    states = [(1, 2, 3, 4), (2, 2, 3, 4), (2, 2, 3, 5), (7, 7, 7, 7)]
    found = []
    for top in (9, 2**30):
        file = tmp_path / "wide.prism"
        file.write_text(text.replace("TOP", str(top)))
        arena = Arena.of(load_task(file, TaskOptions(fail="x = 9")))
        columns = list(np.array(states, dtype=np.int64).T)
        moves = list(ListedMoves(arena, ListedStates(arena.task.network, columns)).blocks())
        found.append(
            sorted((int(s), int(t)) for block in moves for s, t in zip(block.source, block.target[:, 0], strict=True))
        )
    assert found[0] == found[1] == [(0, 1), (1, 2)]
