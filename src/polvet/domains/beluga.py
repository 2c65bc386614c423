"""Parts arrive in an aircraft and leave for the factory in another order; racks hold them in between.

Source  "safety debugging" (Beluga with 4, 5 and 6 jigs), after a logistics problem at Airbus; labels and variables of
        the authors' own instance beluga_4_2.
"""

from __future__ import annotations

from fractions import Fraction

from polvet.domains.instance import Instance
from polvet.model.build import Assignments, ModelBuilder
from polvet.model.terms import Term, every

HALF = Fraction(1, 2)


def production_lines(jigs: int) -> tuple[list[int], list[int]]:
    """Return the order in which each of the two production lines asks for its parts.

    >>> production_lines(4)
    ([0, 3], [2, 1])
    """
    rest = list(range(jigs - 1, 0, -1))
    return [0, *rest[: jigs // 2 - 1]], rest[jigs // 2 - 1 :]


def beluga(*, jigs: int = 4, racks: int = 2) -> Instance:
    """Return the task of bringing all parts (jigs) to the factory; moving them onto racks too often is the failure.

    `unload_beluga_0` puts the last part of the aircraft on the trailer. `push_front_rack_r` and `push_back_rack_r` put
    it onto one end of a rack, `pop_front_rack_r` and `pop_back_rack_r` take the part at that end to the truck,
    `unload_truck_0` puts that back on the trailer, `send_to_factory` delivers it if it is the one asked for. Two
    production lines ask for their parts in order; after each push, and after a truck was unloaded or sent, either line
    may be the next to ask. Start: any order in the aircraft. Goal: everything delivered.

    Differs the authors' instance has 4 parts and allows fewer than 6 pushes; the paper is silent about others. Here:
            fewer than jigs + jigs // 2 pushes; racks never fill up (3 places per part); the lines as in
            `production_lines`, which gives theirs for 4.
    """
    m = ModelBuilder(f"beluga_{jigs}_{racks}")
    m.note("description", "Sort arriving parts through racks without moving them too often.")
    on_rack = [jigs + r for r in range(racks)]
    trailer, truck, factory = jigs + racks, jigs + racks + 1, jigs + racks + 2
    limit = jigs + jigs // 2
    place = [m.int(f"jig_{j}", 0, factory, initial=j) for j in range(jigs)]
    ahead = [m.int(f"front_jig_{j}", -1, jigs - 1, initial=-1) for j in range(jigs)]
    behind = [m.int(f"back_jig_{j}", -1, jigs - 1, initial=-1) for j in range(jigs)]
    room = [m.int(f"rack_load_{r}", 0, 3 * jigs, initial=3 * jigs) for r in range(racks)]
    front = [m.int(f"front_rack_{r}", -1, jigs - 1, initial=-1) for r in range(racks)]
    back = [m.int(f"back_rack_{r}", -1, jigs - 1, initial=-1) for r in range(racks)]
    trailer_free = m.int("empty_trailer_0", 0, 1, initial=1)
    aboard = m.int("beluga_0", 0, jigs, initial=jigs)
    wanted = m.int("next_jig", -1, jigs - 1, initial=0)
    orders = production_lines(jigs)
    lines = [m.int(f"line_{i}", -1, jigs - 1, initial=order[0] if order else -1) for i, order in enumerate(orders)]
    truck_free = m.int("empty_truck", 0, 1, initial=1)
    swaps = m.int("num_swaps", 0, limit, initial=0)
    ends = ("front", "back")
    m.labels(
        "unload_beluga_0",
        "send_to_factory",
        *(f"push_{end}_rack_{r}" for end in ends for r in range(racks)),
        *(f"pop_{end}_rack_{r}" for end in ends for r in range(racks)),
        "unload_truck_0",
    )

    def ask(label: str, guard: Term, effect: Assignments) -> None:
        """Add the edges after which either line that still needs something may ask."""
        one, other = lines
        m.edge(
            label,
            guard=every(guard, one >= 0, other >= 0),
            to=[(HALF, {**effect, wanted: one}), (HALF, {**effect, wanted: other})],
        )
        m.edge(label, guard=every(guard, one == -1, other >= 0), to={**effect, wanted: other})
        m.edge(label, guard=every(guard, one >= 0, other == -1), to={**effect, wanted: one})

    for mine, order in enumerate(orders):
        other = lines[1 - mine]
        for j, following in zip(order, [*order[1:], -1], strict=True):
            sent: Assignments = {truck_free: 1, place[j]: factory, lines[mine]: following}
            ready = every(wanted == j, place[j] == truck)
            m.edge("send_to_factory", guard=every(ready, other == -1), to={**sent, wanted: following})
            both: list[tuple[Fraction, Assignments]] = [
                (HALF, {**sent, wanted: following}),
                (HALF, {**sent, wanted: other}),
            ]
            m.edge(
                "send_to_factory",
                guard=every(ready, other >= 0),
                to=both if following >= 0 else {**sent, wanted: other},
            )
    for j in range(jigs):
        m.edge(
            "unload_beluga_0",
            guard=every(trailer_free == 1, place[j] == aboard - 1),
            to={trailer_free: 0, place[j]: trailer, aboard: aboard - 1},
        )
        ask(
            "unload_truck_0",
            every(place[j] == truck, trailer_free == 1),
            {truck_free: 1, trailer_free: 0, place[j]: trailer},
        )
        for r in range(racks):
            for end, near, far, inward, outward in (
                ("front", front[r], back[r], behind, ahead),
                ("back", back[r], front[r], ahead, behind),
            ):
                pushed: Assignments = {
                    trailer_free: 1,
                    room[r]: room[r] - 1,
                    place[j]: on_rack[r],
                    near: j,
                    swaps: swaps + 1,
                }
                loaded = every(place[j] == trailer, room[r] >= 1, swaps < limit)
                ask(f"push_{end}_rack_{r}", every(loaded, near == -1), {**pushed, far: j, ahead[j]: -1, behind[j]: -1})
                popped: Assignments = {truck_free: 0, place[j]: truck, inward[j]: -1, room[r]: room[r] + 1}
                first = every(place[j] == on_rack[r], near == j, truck_free == 1)
                m.edge(f"pop_{end}_rack_{r}", guard=every(first, inward[j] == -1), to={**popped, near: -1, far: -1})
                for k in range(jigs):
                    if k != j:
                        ask(f"push_{end}_rack_{r}", every(loaded, near == k), {**pushed, inward[j]: k, outward[k]: j})
                        m.edge(
                            f"pop_{end}_rack_{r}",
                            guard=every(first, inward[j] == k),
                            to={**popped, near: k, outward[k]: -1},
                        )
    different = [one != other for k, one in enumerate(place) for other in place[:k]]
    nowhere = [one == -1 for one in (*ahead, *behind, *front, *back)]
    first_orders = [line == (order[0] if order else -1) for line, order in zip(lines, orders, strict=True)]
    start = every(
        *(one < jigs for one in place),
        *different,
        *nowhere,
        *(one == 3 * jigs for one in room),
        trailer_free == 1,
        truck_free == 1,
        aboard == jigs,
        wanted == 0,
        *first_orders,
        swaps == 0,
    )
    delivered = every(*(one == factory for one in place), swaps < limit)
    return Instance.of(m, start=start, fail=swaps >= limit, goal=delivered)
