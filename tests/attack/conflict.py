"""False conflicts: bounds that can be met, values a hair too great or of runs that never end, choices that need not be taken.

What is true is computed by trying out all that may be chosen in a few states, in fractions.
"""

from __future__ import annotations

from contextlib import nullcontext
from fractions import Fraction

from polvet.check.checker import Subjects
from tests.attack.action_risk import least_risks, least_risks_if_endless_runs_fail
from tests.attack.permissive import HAIRS, Small, small_task


def least_within(small, kept, taken):
    """The least risks where only the kept states count and what is taken is all that may be chosen."""
    operators = [
        [one for one in mine if one.label is None or taken.get(s, one.label) == one.label] if s in kept else []
        for s, mine in enumerate(small.operators)
    ]
    return least_risks(Small(small.base, operators, small.goal, small.starts, small.chain))


def claim_of(small, bound, start, values, kept, taken):
    rows = []
    for state in sorted(kept):
        row = {"state": {"s": small.base + state}, "value": str(values[state])}
        rows.append({**row, "taken": taken[state]} if state in taken else row)
    return {"bound": str(bound), "start": {"s": small.base + start}, "irreducible": True, "states": rows}


def _drawn(rng, small):
    """Some states, and what is taken in some of them."""
    kept = {s for s in range(len(small.operators)) if rng.random() < 0.8} | {small.starts[0]}
    taken = {}
    for state in kept - {small.fail, small.goal}:
        labels = sorted({one.label for one in small.operators[state] if one.label is not None})
        if labels and not small.chain and rng.random() < 0.3:
            taken[state] = rng.choice(labels)
    return kept, taken


def true_claims(rng, folder):
    """Yield (certificate, subjects) for claims that are true."""
    if (made := small_task(rng, folder)) is None:
        return
    small, file, digest = made
    for _ in range(2):
        kept, taken = _drawn(rng, small)
        values = least_within(small, kept, taken)
        start = max(small.starts, key=values.__getitem__)
        if start in kept and values[start] > 0:
            claim = claim_of(small, values[start] * (1 - rng.choice(HAIRS)), start, values, kept, taken)
            yield {"kind": "conflict", "task_sha256": digest, **claim}, Subjects(file)


def false_claims(rng, folder):
    """Yield (certificate, subjects, context of the check) for claims that are false."""
    if (made := small_task(rng, folder)) is None:
        return
    small, file, digest = made
    for claim in _claims(rng, small):
        yield {"kind": "conflict", "task_sha256": digest, **claim}, Subjects(file), nullcontext()


def _claims(rng, small):
    kept, taken = _drawn(rng, small)
    values = least_within(small, kept, taken)
    start, hair = small.starts[0], rng.choice(HAIRS)
    # Bounds that can be met, with true values and with greater ones.
    yield claim_of(small, values[start], start, values, kept, taken)
    for state in sorted(kept):
        more = values[state] + (1 - values[state]) * hair
        if more > values[start] and more > values[state]:
            higher = [more if s == state else v for s, v in enumerate(values)]
            yield claim_of(small, values[start], start, higher, kept, taken)
    yield claim_of(small, values[start], start, [v + (1 - v) * hair for v in values], kept, taken)
    yield claim_of(small, values[start], start, [Fraction(1)] * len(values), kept, {})
    yield claim_of(small, Fraction(-1), start, [Fraction(-1, 2)] * len(values), kept, taken)
    yield claim_of(small, values[start], start, [Fraction(2)] * len(values), kept, taken)
    endless = least_risks_if_endless_runs_fail(small)
    everywhere = set(range(len(values)))
    if endless[start] > (bound := least_risks(small)[start]):
        yield claim_of(small, bound, start, endless, everywhere, {})
    # What only seems to be taken: values of choices that nobody need make, and labels that do not apply.
    free = least_within(small, kept, {})
    if values[start] > free[start]:
        yield claim_of(small, free[start], start, values, kept, {})
    for state in sorted(kept):
        yield claim_of(
            small, Fraction(0), start, [Fraction(1)] * len(values), kept, {state: rng.choice(["nothing", None, 3])}
        )
    # A state that counts is left out, or the run starts elsewhere.
    if values[start] > 0:
        for state in sorted(kept - {start}):
            less = least_within(small, kept - {state}, taken)
            if less[start] < values[start] and less[state] < values[state]:
                yield claim_of(
                    small, less[start], start, values, kept - {state}, {s: x for s, x in taken.items() if s != state}
                )
    for state in sorted(kept - set(small.starts)):
        if values[state] > 0:
            yield claim_of(small, values[state] * (1 - hair), state, values, kept, taken)
