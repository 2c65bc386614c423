"""False shields by a rule: risks a hair off, actions the rule does not mean, and least risks that only endless runs could refute.

What is true is computed by trying out all schedulers against all environments of a few states, in fractions.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from itertools import product

from polvet.check.checker import Subjects
from tests.attack.permissive import HAIRS, small_task

THRESHOLDS = (Fraction(0), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10), Fraction(1), Fraction(1, 10**17))


def labels_of(small, state):
    """What may be chosen there; nothing where runs end."""
    operators = small.operators[state]
    if state in (small.fail, small.goal) or not operators:
        return []
    labels = sorted({o.label for o in operators if o.label is not None})
    return [None] if small.chain or not labels else labels


def least_risks(small):
    """The least chance of failing from each state, over all memoryless choosers against the worst environment."""
    states = range(len(small.operators))
    best = [Fraction(1)] * len(states)
    for picked in product(*(labels_of(small, s) or [None] for s in states)):
        worst = small.worst([small.choices(s, [label]) for s, label in zip(states, picked, strict=True)])
        best = [min(a, b) for a, b in zip(best, worst, strict=True)]
    return best


def least_within(small, steps):
    """The least chance of failing within so many steps from each state, played out move by move."""

    def play(state, left):
        labels = labels_of(small, state)
        if state == small.fail or not labels or not left:
            return Fraction(int(state == small.fail))
        return min(
            max(sum(p * play(t, left - 1) for t, p in row.items()) for row in small.choices(state, [label]))
            for label in labels
        )

    return [play(state, steps) for state in range(len(small.operators))]


def least_risks_if_endless_runs_fail(small):
    """The same where a run that never ends counts as failed: it solves the same equations."""
    wider = replace(small, operators=[*small.operators, []])
    states = range(len(small.operators))
    most = [Fraction(0)] * len(states)
    for picked in product(*(labels_of(small, s) or [None] for s in states)):
        choices = [small.choices(s, [label]) for s, label in zip(states, picked, strict=True)]
        rows = [mine or ([{}] if s == small.fail else [{wider.fail: Fraction(1)}]) for s, mine in enumerate(choices)]
        ends = [min(some) for some in zip(*(wider._reach([*one, {}])[:-1] for one in product(*rows)), strict=True)]
        most = [max(a, b) for a, b in zip(most, ends, strict=True)]
    return [1 - end for end in most]


def risks_of(small, least):
    """What each label risks where the least is risked ever after."""
    return [
        {
            label: max(sum(p * least[t] for t, p in row.items()) for row in small.choices(s, [label]))
            for label in labels_of(small, s)
        }
        for s in range(len(small.operators))
    ]


def _reached(small):
    """The states that any choices lead to, the starts among them."""
    found, todo = set(small.starts), list(small.starts)
    while todo:
        state = todo.pop()
        after = {t for label in labels_of(small, state) for row in small.choices(state, [label]) for t in row}
        todo += after - found
        found |= after
    return found


def meant(rule, threshold, risks, best):
    """The labels that the rule allows."""
    if rule == "budget":
        return [label for label, risk in risks.items() if risk == best]
    if rule == "relative":
        return [label for label, risk in risks.items() if 1 - risk >= threshold * (1 - best)]
    return [label for label, risk in risks.items() if risk <= threshold or risk == best > threshold]


def claim_of(small, rule, threshold, least, *, allowed=None, risks=None, horizon=None):
    """A shield by these numbers whose values under allowed actions are true."""
    if horizon is not None and risks is None:
        risks = risks_of(small, least_within(small, horizon - 1))
    told = risks_of(small, least) if risks is None else risks
    if allowed is None:
        allowed = [meant(rule, threshold, mine, best) for mine, best in zip(told, least, strict=True)]
    values = small.worst([small.choices(s, labels) for s, labels in enumerate(allowed)])
    rows = [
        {
            "state": {"s": small.base + s}, "allowed": allowed[s], "value": str(values[s]), "least": str(least[s]),
            "risks": [[label, str(risk)] for label, risk in told[s].items()],
        }
        for s in range(len(values))
    ]  # fmt: skip
    bound = threshold if rule == "budget" else max(values[s] for s in small.starts)
    within = {} if horizon is None else {"horizon": horizon}
    return {"bound": str(bound), "values": "exact", "rule": {rule: str(threshold)}, "states": rows, **within}


def false_claims(rng, folder):
    """Yield (certificate, subjects, context of the check) for claims that are false."""
    if (found := small_task(rng, folder)) is None:
        return
    small, file, digest = found
    for claim in _claims(rng, small):
        yield {"kind": "action-risk", "task_sha256": digest, **claim}, Subjects(file), nullcontext()


def true_claims(rng, folder):
    """Yield (certificate, subjects) for claims that are true."""
    if (found := small_task(rng, folder)) is None:
        return
    small, file, digest = found
    least = least_risks(small)
    for rule in ("per-state", "relative"):
        claim = claim_of(small, rule, rng.choice(THRESHOLDS), least)
        yield {"kind": "action-risk", "task_sha256": digest, **claim}, Subjects(file)
        steps = rng.randint(1, 4)
        claim = claim_of(small, rule, rng.choice(THRESHOLDS), least_within(small, steps), horizon=steps)
        yield {"kind": "action-risk", "task_sha256": digest, **claim}, Subjects(file)
    claim = claim_of(small, "budget", max(least[s] for s in small.starts), least)
    yield {"kind": "action-risk", "task_sha256": digest, **claim}, Subjects(file)


def _claims_within(rng, small):
    """Risks of another number of steps, or of all of them."""
    rule, threshold, steps = rng.choice(["per-state", "relative"]), rng.choice(THRESHOLDS), rng.randint(1, 4)
    least = least_within(small, steps)
    true = claim_of(small, rule, threshold, least, horizon=steps)
    for other in {max(1, steps - 1), steps + 1} - {steps}:
        if risks_of(small, least_within(small, other - 1)) != risks_of(small, least_within(small, steps - 1)):
            yield {**true, "horizon": other}
    ever = least_risks(small)
    if ever != least:
        yield {**claim_of(small, rule, threshold, ever), "horizon": steps}
        yield {key: value for key, value in true.items() if key != "horizon"}
    yield {**true, "horizon": rng.choice([0, -1, True, "3", 2.0])}


def _claims_of_a_budget(rng, small, least):
    """Budgets that the start cannot keep, that are not the bound, or that give something away."""
    worst = max(least[s] for s in small.starts)
    hair = rng.choice(HAIRS)
    if worst > 0:
        yield claim_of(small, "budget", worst * (1 - hair), least)
    true = claim_of(small, "budget", worst, least)
    if worst < 1:
        yield {**true, "bound": str(worst + (1 - worst) * hair)}
        yield {**true, "rule": {"budget": str(worst + (1 - worst) * hair)}}
    yield {**true, "horizon": 3}
    risks = risks_of(small, least)
    for state, mine in enumerate(risks):
        dear = [label for label, risk in mine.items() if risk > least[state]]
        if dear:
            cheap = [{**one, dear[0]: least[state]} if s == state else one for s, one in enumerate(risks)]
            allowed = [row["allowed"] for row in true["states"]]
            yield claim_of(small, "budget", worst, least, risks=cheap)
            yield claim_of(small, "budget", worst, least, risks=cheap, allowed=allowed)
            return


def _claims(rng, small):
    rule, threshold = rng.choice(["per-state", "relative"]), rng.choice(THRESHOLDS)
    least = least_risks(small)
    true = claim_of(small, rule, threshold, least)
    yield from _claims_within(rng, small)
    yield from _claims_of_a_budget(rng, small, least)
    endless = least_risks_if_endless_runs_fail(small)
    if endless != least:
        yield claim_of(small, rule, threshold, endless)
    risks = risks_of(small, least)
    open_ = [s for s, mine in enumerate(risks) if mine]
    if not open_:
        return
    state = rng.choice(open_)
    # A least risk that is a hair off, with all risks computed from it; and one risk alone that is.
    hair = rng.choice(HAIRS)
    for off in (least[state] * (1 - hair), least[state] + (1 - least[state]) * hair):
        if off != least[state]:
            yield claim_of(small, rule, threshold, [off if s == state else v for s, v in enumerate(least)])
    label = rng.choice(sorted(risks[state], key=str))
    for off in (risks[state][label] * (1 - hair), risks[state][label] + (1 - risks[state][label]) * hair):
        if off != risks[state][label]:
            other = [{**mine, label: off} if s == state else mine for s, mine in enumerate(risks)]
            yield claim_of(small, rule, threshold, least, risks=other)
            lower = [min(mine.values()) if mine else v for mine, v in zip(other, least, strict=True)]
            yield claim_of(small, rule, threshold, lower, risks=other)
    # More or less than the rule means, with values that are true of it.
    allowed = [row["allowed"] for row in true["states"]]
    for some in (list(risks[state]), allowed[state][:1], allowed[state][1:]):
        if some and set(some) != set(allowed[state]):
            wrong = [some if s == state else one for s, one in enumerate(allowed)]
            yield claim_of(small, rule, threshold, least, allowed=wrong)
    for other in THRESHOLDS:
        if any(set(meant(rule, other, risks[s], least[s])) != set(allowed[s]) for s in open_):
            yield {**true, "rule": {rule: str(other)}}
    # A risk, or a state that a label leads to, is missing.
    rows = true["states"]
    yield {**true, "states": [{**row, "risks": row["risks"][1:]} if s == state else row for s, row in enumerate(rows)]}
    missing = rng.choice(sorted(_reached(small)))
    yield {**true, "states": [row for s, row in enumerate(rows) if s != missing]}
    if (worst := Fraction(true["bound"])) > 0:
        yield {**true, "bound": str(worst * (1 - hair))}
