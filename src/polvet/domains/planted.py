"""Worlds with policies whose faults are known because they were put there: what a fault finder must find, and no more.

A corridor of rooms 0 .. `rooms`; the goal is its end. `walk` leads on (or nowhere), `wait` stays, `jump` leads on or into a
shaft, where every action falls deeper until the bottom, which is the failure. A `key`, drawn at the start, never changes.

Planted   the policy jumps in some (room, key): a fault, if it ever gets there
Ropes     in some rooms one may jump out of the shaft right at its top: there the jump is no fault, but not climbing is
Bridges   in some rooms a jump is safe, and the policy jumps: no fault
Dead ends in some (room, key) the policy waits for ever: what is planted behind is on no run, hence no fault
Wind      in some rooms a silent operator pushes on, also past a dead end
Doomed    some starts are in the shaft already: unsafe runs without a fault
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from polvet.domains.instance import Instance
from polvet.files import write_whole
from polvet.model.build import ModelBuilder
from polvet.model.semantics import State
from polvet.model.terms import Term
from polvet.policy.tables import Table, save_table

WALK, WAIT, JUMP = "walk", "wait", "jump"
OUTPUTS = (WALK, WAIT, JUMP)


@dataclass(frozen=True, slots=True, eq=False)
class PlantedFaults:
    """A world, a policy, and the states of all its faults with the action taken there, known by construction."""

    instance: Instance
    policy: Table
    faults: dict[State, str]
    doomed_starts: frozenset[State]

    def write(self, folder: str | Path) -> tuple[Path, Path]:
        """Write `planted.jani`, `planted.toml`, `policy.json` and `planted-faults.txt`; return task and policy."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        _, task = self.instance.write(place / "planted.jani")
        save_table(self.policy, str(place / "policy.json"))
        lines = [f"room={s[0]},key={s[1]},fall={s[2]}: {action}\n" for s, action in sorted(self.faults.items())]
        write_whole(place / "planted-faults.txt", "".join(lines))
        return task, place / "policy.json"


def plant(seed: int, *, rooms: int = 12, keys: int = 6, depth: int = 3, share: float = 0.15) -> PlantedFaults:
    """Return a world with hidden faults; states are (room, key, fall).

    >>> walk = plant(1)
    >>> len(walk.faults) > 0, all(action in ("jump", "walk") for action in walk.faults.values())
    (True, True)
    """
    rng = random.Random(seed)
    inner = range(1, rooms)
    bridges = {room for room in inner if rng.random() < share}
    ropes = {room for room in inner if rng.random() < share}
    windy = {room for room in inner if rng.random() < share}
    planted = {(room, key) for room in inner for key in range(keys) if rng.random() < share and room not in bridges}
    if not planted:
        planted = {(min(room for room in inner if room not in bridges), 0)}
    halts = {(room, key) for room in inner for key in range(keys) if rng.random() < share / 6} - planted
    doomed = depth >= 2 and rng.random() < 0.5
    instance = _world(rooms, keys, depth, bridges, ropes, windy, doomed)
    rows: dict[tuple[float, ...], tuple[float, ...]] = {}
    for room in range(rooms + 1):
        for key in range(keys):
            jumps = (room, key) in planted or room in bridges
            chosen = WAIT if (room, key) in halts else JUMP if jumps else WALK
            rows[float(room), float(key), 0.0] = tuple(float(label == chosen) for label in OUTPUTS)
    policy = Table(("room", "key", "fall"), OUTPUTS, rows, default=OUTPUTS.index(WALK))
    faults: dict[State, str] = {}
    for key in range(keys):
        for room in range(rooms):
            if (room, key) in planted:
                faults[(room, key, 1) if room in ropes else (room, key, 0)] = WALK if room in ropes else JUMP
            if (room, key) in halts and room not in windy:
                break  # nothing behind is on a run of the policy
    starts = frozenset({(1, 0, 2)}) if doomed else frozenset[State]()
    return PlantedFaults(instance, policy, faults, starts)


def _world(
    rooms: int, keys: int, depth: int, bridges: set[int], ropes: set[int], windy: set[int], doomed: bool
) -> Instance:
    m = ModelBuilder("planted")
    room, key, fall = (
        m.int("room", 0, rooms, initial=0),
        m.int("key", 0, keys - 1),
        m.int("fall", 0, depth + 1, initial=0),
    )
    m.labels(*OUTPUTS)
    on_way = (fall == 0) & (room < rooms)
    m.edge(WALK, guard=on_way, to=[("3/4", {room: room + 1}), ("1/4", {})])
    m.edge(WAIT, guard=fall == 0, to={})
    m.edge(JUMP, guard=on_way & ~_any_of(room, bridges), to=[("1/2", {room: room + 1}), ("1/2", {fall: 1})])
    m.edge(JUMP, guard=on_way & _any_of(room, bridges), to={room: room + 1})
    if windy:
        m.edge(None, guard=on_way & _any_of(room, windy), to={room: room + 1})
    falling = (fall >= 1) & (fall <= depth)
    climbing = (fall == 1) & _any_of(room, ropes)
    m.edge(WALK, guard=falling, to={fall: fall + 1})
    m.edge(WAIT, guard=falling, to={fall: fall + 1})
    m.edge(JUMP, guard=falling & ~climbing, to={fall: fall + 1})
    m.edge(JUMP, guard=climbing, to={fall: 0})
    start = (room == 0) & (fall == 0)
    if doomed:
        start = start | ((room == 1) & (fall == 2) & (key == 0))
    return Instance.of(m, start=start, fail=fall == depth + 1, goal=room == rooms)


def _any_of(variable: Term, values: set[int]) -> Term:
    test = variable < 0
    for value in sorted(values):
        test = test | (variable == value)
    return test
