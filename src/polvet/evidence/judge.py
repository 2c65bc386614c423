"""Whether evidence shows its claim: the fast checker looks at every listed state, the reference at those that it leaves, and at more.

SOUND: a state that the fast checker does not leave to the reference is as its kind asks. What it leaves, and `AGAIN` others drawn at
random, the reference judges; where the two differ about a state, the evidence is rejected.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from polvet.evidence.checker.check import Rejected, Unreadable, Verdict, check
from polvet.files import Json

MANY = 10_000
"""Of so many listed states the fast checker is asked first."""
AGAIN = 1_000
"""So many of the states that the fast checker has judged are judged again."""


def judge(flat: str, evidence: Json, watch: Callable[[], None] | None = None, *, slow: bool = False) -> Verdict:
    """Return what the evidence shows of the flat text; raise Rejected or Unreadable. `slow`: all is left to the reference."""
    text = json.dumps(evidence, ensure_ascii=False)
    listed = evidence.get("states")
    if slow or not isinstance(listed, list) or len(listed) < MANY:
        return check(flat, text, watch=watch)
    from polvet import _check

    answer = _check.judge(flat.encode(), text.encode(), watch)
    if isinstance(answer, str):  # why all is left to the reference
        return check(flat, text, watch=watch)
    left, starts, bad = answer
    again = set(random.Random(len(listed)).sample(range(len(listed)), AGAIN)) - set(left)
    verdict = check(flat, text, only=[*left, *sorted(again)], watch=watch)
    if bad is not None:
        raise Rejected(f"starts: {bad} is not listed, or is beyond the bound")
    if starts == 0:
        raise Rejected("starts: there is none, so that nothing is claimed")
    return verdict


__all__ = ["Rejected", "Unreadable", "Verdict", "judge"]
