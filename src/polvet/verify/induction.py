"""1-induction, then strengthening: `fail` is closed against predecessors, perhaps after a few boxes are blocked.

With no box blocked this is plain induction over one step, with the conserved rows of the model as known facts. Each
counterexample to induction then strengthens the claim by the box of states that step so; a start state in such a box ends
an unsafe run. `verify.ic3` is the same loop with generalization.
"""

from __future__ import annotations

from polvet.budget import UNLIMITED, Budget
from polvet.policy.binding import Fitted
from polvet.symbolic.operators import LinearTask
from polvet.verify.box_system import ALONE, Power
from polvet.verify.ic3 import block_backwards
from polvet.verify.verdicts import SafetyResult

MOST_BOXES = 200


def verify_by_induction(
    fitted: Fitted,
    *,
    budget: Budget = UNLIMITED,
    seed: int = 0,
    most_boxes: int = MOST_BOXES,
    linear: LinearTask | None = None,
    power: Power = ALONE,
) -> SafetyResult:
    """Return the verdict of 1-induction, strengthened by at most `most_boxes` boxes."""
    return block_backwards(
        fitted,
        "induction",
        budget=budget,
        seed=seed,
        linear=linear,
        power=power,
        generalize=False,
        most_boxes=most_boxes,
    )
