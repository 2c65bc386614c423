"""1-induction over one step of the policy, strengthened by a few boxes: no state outside `fail` steps into it.

Plain induction asks one question: does a state that is not in `fail`, and in which the conserved rows of the model hold, step into
`fail`? If none does, and no start state fails, the policy is safe (k-induction with k = 1; Sheeran, Singh, Stalmarck, FMCAD 2000).
Differs  a counterexample to induction does not make k larger: the box of states that step so is blocked, which strengthens the claim,
         and a start state in it ends an unsafe run. At most MOST_BOXES are blocked. The loop is that of `verify/ic3.py`,
         `block_backwards`, without its generalization: cheaper per box, and gives up sooner
Cost, Limits   as there
"""

from __future__ import annotations

from polvet.policy.compiled import Bound
from polvet.verify.ic3 import NEEDS, block_backwards
from polvet.verify.method import Method, Request
from polvet.verify.verdicts import SafetyResult

MOST_BOXES = 200


def _verify(bound: Bound, request: Request) -> SafetyResult:
    return block_backwards(bound.fitted, "induction", request, generalize=False, most_boxes=MOST_BOXES)


INDUCTION = Method(
    "induction", "no step outside `fail` leads into it, strengthened by a few boxes", _verify, NEEDS, linear=True
)
