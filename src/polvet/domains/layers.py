"""The layered family: 2d + 2 states, 2^d ways through them.

Source  "deciding state safety", Fig. 1 and the proof of Theorem 2: TarjanSafe walks all ways, the others all states.
"""

from __future__ import annotations

from fractions import Fraction

from polvet.domains.instance import Instance
from polvet.model.build import ModelBuilder


def layers(*, d: int = 8) -> Instance:
    """Return the task with d layers of two states between the first and the last, and one action everywhere.

    `go` leads from a state to either state of the next layer, from the last layer to the last state, and from there
    back to the first. Nothing fails and there is no goal.
    """
    m = ModelBuilder(f"layers_{d}")
    m.note("description", "Exponentially many ways through few states, and none of them fails.")
    layer, primed = m.int("layer", 0, d + 1, initial=0), m.bool("primed", initial=False)
    half = Fraction(1, 2)
    m.edge("go", guard=layer < d, to=[(half, {layer: layer + 1, primed: one}) for one in (False, True)])
    m.edge("go", guard=layer == d, to={layer: d + 1, primed: False})
    m.edge("go", guard=layer == d + 1, to={layer: 0})
    return Instance.of(m, fail=False)
