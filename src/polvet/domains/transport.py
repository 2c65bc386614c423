"""A truck on a straight road with a bridge at its end that bears one package at a time.

Source  "policy predicate abstraction": 10 locations, 15 packages; names and labels of the authors' instance linetrack.
"""

from __future__ import annotations

from polvet.domains.instance import Instance
from polvet.model.build import ModelBuilder
from polvet.model.terms import every, total

BRIDGE_LIMIT = 1


def transport(*, locations: int = 10, packages: int = 15, empty_backward: bool = False) -> Instance:
    """Return the road; crossing the bridge (to the last location, or back) with more than one package fails.

    `pick_up_truck_0`, `drop_truck_0`, `drive_forward`, `drive_backward`. After each drive `last_capacity_diff` is what
    the road would still have borne; below zero is the failure. Start: truck and packages on the near side of the
    bridge, some perhaps loaded already. Goal: all packages on the far side.

    Facts   10 locations and 15 packages have 11,767,536 start states.
    Differs the authors' instance lets a truck drive backward only with no load at all; the paper speaks of the bridge
            alone. `empty_backward` chooses theirs.
    """
    m = ModelBuilder(f"transport_{locations}_{packages}")
    m.note("description", "Deliver packages over a bridge that bears one at a time.")
    loads = [m.int(f"location_load_{i}", 0, packages, initial=packages if i == 0 else 0) for i in range(locations)]
    truck = m.int("truck_0", 0, locations - 1, initial=0)
    load = m.int("truck_load_0", 0, packages, initial=0)
    spare = m.int("last_capacity_diff", -packages, packages, initial=0)
    m.labels("pick_up_truck_0", "drop_truck_0", "drive_forward", "drive_backward")
    for i, here in enumerate(loads):
        at = truck == i
        m.edge("pick_up_truck_0", guard=at & (load < packages) & (here >= 1), to={here: here - 1, load: load + 1})
        m.edge("drop_truck_0", guard=at & (load >= 1), to={here: here + 1, load: load - 1})
    for i in range(locations - 1):
        bears = BRIDGE_LIMIT if i == locations - 2 else packages
        m.edge("drive_forward", guard=truck == i, to={truck: i + 1, spare: bears - load})
        back = 0 if empty_backward else bears
        m.edge("drive_backward", guard=truck == i + 1, to={truck: i, spare: back - load})
    start = every(spare == 0, total(*loads, load) == packages, truck <= locations - 2, loads[-1] == 0)
    return Instance.of(m, start=start, fail=spare <= -1, goal=every(loads[-1] == packages, spare >= 0))
