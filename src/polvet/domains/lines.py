"""A truck on a line of places, which picks up packages and brings them to the last place.

Source  the 1-way and 2-way lines of "safety debugging" (tree ensembles), after Jain et al. 2025; pairs such as (15, 10)
        mean 15 packages and 10 places. Labels and variables are those of the authors' own instances.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from polvet.domains.instance import Instance
from polvet.errors import InputError, Where
from polvet.model.build import Assignments, ModelBuilder
from polvet.model.terms import Term, every, total

TOP_SPEED = 3
CHANCE = Fraction(1, 10)  # of each mishap


def one_way_line(*, n: int = 15, p: int = 10, icy: bool = False, park: bool = False, ice: str = "") -> Instance:
    """Return the line on which the truck drives forward only.

    The truck has a speed from 0 to 3. `acc_truck_0` and `dec_truck_0` drive on at the present speed and change it by
    one, `move_truck_0` keeps it; driving beyond the last place is the failure. Standing still it picks packages up
    anywhere but at the end, and drops them only there. The goal: all packages and the truck at the end.
    *Icy*: on icy places a change of speed fails, or the speed grows by itself, with probability 1/10 each time; and
    everywhere a driving truck loses a package onto the next place with probability 1/10. *Park*: at the end the
    truck can park, then it never drives again; without it, a truck that cannot deliver everything has nowhere to stay.

    Differs  the paper does not say which places are icy, and the authors' instances differ (4 and 5, 5 and 7, of 10):
             here the two middle ones, or those listed in `ice`.
             In the authors' instance without ice `move_truck_0` needs a loaded truck; there is no such rule with ice or
             on two ways, so none here. Their unused constants are left out; `aux_vel` (below 0 after a crash, otherwise
             never changed, free between 0 and 3 at the start) is kept, so the numbers of start states agree.
    """
    return _line(n, p, two_way=False, icy=icy, park=park, ice=ice)


def two_way_line(*, n: int = 15, p: int = 10, icy: bool = False, park: bool = False, ice: str = "") -> Instance:
    """Return the line on which the truck drives both ways: speeds from -3 to 3, dropping and picking up everywhere.

    `acc_truck_0` adds one to the speed, `dec_truck_0` takes one off; leaving the line on either side is the failure.
    Ice and parking as on one way. The authors' icy two-way instances are not public; decided here: a lost package falls
    onto the next place in driving direction, and slipping makes the truck faster in its direction.
    """
    return _line(n, p, two_way=True, icy=icy, park=park, ice=ice)


def _line(n: int, p: int, *, two_way: bool, icy: bool, park: bool, ice: str) -> Instance:
    name = f"{'two' if two_way else 'one'}_way_line_{n}_{p}{'_icy' if icy else ''}{'_park' if park else ''}"
    m = ModelBuilder(name)
    m.note("description", "A truck collects packages along a line; it must not drive off the line.")
    loads = [m.int(f"location_load_{i}", 0, n, initial=n if i == 0 else 0) for i in range(p)]
    truck = m.int("truck_0", 0, p - 1, initial=0)
    load = m.int("truck_load_0", 0, n, initial=0)
    slowest = -TOP_SPEED if two_way else 0
    speed = m.int("truck_vel_0", slowest, TOP_SPEED, initial=0)
    parked = m.int("parked_0", 0, 1, initial=0) if park else None
    crashed = m.int("aux_vel", -TOP_SPEED if two_way else -1, TOP_SPEED, initial=1)
    m.labels("pick_up_truck_0", "drop_truck_0", "acc_truck_0", "dec_truck_0", "move_truck_0")

    for i, here in enumerate(loads):
        if two_way or i < p - 1:
            m.edge(
                "pick_up_truck_0",
                guard=(truck == i) & (load < n) & (here >= 1) & (speed == 0),
                to={here: here - 1, load: load + 1},
            )
    for i, here in enumerate(loads):
        if two_way or i == p - 1:
            m.edge("drop_truck_0", guard=(truck == i) & (load >= 1) & (speed == 0), to={here: here + 1, load: load - 1})
    line = _Line(m, loads, truck, load, speed, crashed, parked, p, two_way, _icy_places(ice, p) if icy else None)
    for i in range(p):
        for label, change in (("acc_truck_0", 1), ("dec_truck_0", -1), ("move_truck_0", 0)):
            line.add_driving(label, change, i)
    if parked is not None:
        m.edge("park_truck_0", guard=(parked == 0) & (truck == p - 1) & (speed == 0), to={parked: 1})

    start = every(crashed >= 0, speed == 0, total(*loads, load) == n, truck == 0, loads[-1] == 0)
    if parked is not None:
        start &= parked == 0
    goal = every(*(one == 0 for one in loads[:-1]), loads[-1] == n, truck == p - 1, crashed >= 0)
    return Instance.of(m, start=start, fail=crashed <= -1, goal=goal)


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """Adds the edges of driving away from one place; what may happen there depends on ice and on the load."""

    m: ModelBuilder
    loads: list[Term]
    truck: Term
    load: Term
    speed: Term
    crashed: Term
    parked: Term | None
    places: int
    two_way: bool
    icy: frozenset[int] | None

    def add_driving(self, label: str, change: int, i: int) -> None:
        """Add the edges of one label at place i, one for each speed that behaves in its own way."""
        at_place = [self.truck == i]
        if self.parked is not None:
            at_place = [self.parked == 0, *at_place]
        lowest = -TOP_SPEED if self.two_way else 0
        ends = {v: not 0 <= i + v < self.places for v in range(lowest, TOP_SPEED + 1)}
        for first, last, crash in _runs(ends):
            bounds = [self.speed >= first, self.speed <= last]
            if crash:
                self.m.edge(label, guard=every(*at_place, *bounds), to={self.crashed: -1})
                continue
            # A change of speed stays within the speeds; on one way, `move` needs some speed.
            low = max(first, lowest + 1 if change < 0 else 1 if change == 0 and not self.two_way else lowest)
            high = min(last, TOP_SPEED - 1 if change > 0 else TOP_SPEED)
            if low <= high:
                self._add_mishaps(label, change, i, at_place, low, high)

    def _add_mishaps(self, label: str, change: int, i: int, at_place: list[Term], low: int, high: int) -> None:
        """Add the edges for speeds from low to high; with ice they split by speed and load."""
        if self.icy is None:
            self._edge(label, i, change, [*at_place, self.speed >= low, self.speed <= high], slip=None, losing=0)
            return
        on_ice = i in self.icy
        pieces: list[tuple[int, int, int | None, int]] = []  # first and last speed, slip, direction
        for v in range(low, high + 1):
            slip: int | None = None
            if on_ice and v != 0:
                direction = 1 if v > 0 else -1
                # A change of speed has no effect; keeping the speed makes the truck faster.
                slip = 0 if change != 0 else direction if abs(v) < TOP_SPEED else None
            towards = 1 if v >= 0 else -1
            if pieces and pieces[-1][2:] == (slip, towards):
                pieces[-1] = (pieces[-1][0], v, slip, towards)
            else:
                pieces.append((v, v, slip, towards))
        for first, last, slip, towards in pieces:
            tests = [*at_place, self.speed >= first, self.speed <= last]
            self._edge(label, i, change, [*tests, self.load >= 1], slip=slip, losing=towards)
            self._edge(label, i, change, [*tests, self.load == 0], slip=slip, losing=0)

    def _edge(self, label: str, i: int, change: int, tests: list[Term], *, slip: int | None, losing: int) -> None:
        drive: dict[Term, Term] = {self.truck: self.truck + self.speed}
        plain = {**drive, self.speed: self.speed + change} if change else drive
        outcomes: list[tuple[Fraction, Assignments]] = []
        if slip is not None:
            outcomes.append((CHANCE, {**drive, self.speed: self.speed + slip} if slip else drive))
        if losing:
            next_place = self.loads[min(max(i + losing, 0), self.places - 1)]
            outcomes.append((CHANCE, {**plain, next_place: next_place + 1, self.load: self.load - 1}))
        outcomes.append((1 - CHANCE * len(outcomes), plain))
        self.m.edge(label, guard=every(*tests), to=outcomes)


def ice_on_line(*, p: int, icy: bool, ice: str) -> frozenset[int]:
    """Return the icy places of a line with these parameters.

    >>> sorted(ice_on_line(p=10, icy=True, ice="")), sorted(ice_on_line(p=10, icy=False, ice=""))
    ([4, 5], [])
    """
    return _icy_places(ice, p) if icy else frozenset()


def _icy_places(text: str, places: int) -> frozenset[int]:
    """Return the places listed in `4,5`; nothing listed: the two in the middle."""
    if not text:
        return frozenset({places // 2 - 1, places // 2})
    icy = frozenset(int(part) if part.strip().isdecimal() else -1 for part in text.split(","))
    if not icy <= set(range(places)):
        raise InputError(f"'ice' is '{text}'.", Where("domains"), f"List places from 0 to {places - 1}: ice=4,5.")
    return icy


def _runs(kinds: dict[int, bool]) -> list[tuple[int, int, bool]]:
    """Return the runs of neighbouring speeds of the same kind, as (first, last, kind)."""
    runs: list[tuple[int, int, bool]] = []
    for value, kind in sorted(kinds.items()):
        if runs and runs[-1][2] == kind:
            runs[-1] = (runs[-1][0], value, kind)
        else:
            runs.append((value, value, kind))
    return runs
