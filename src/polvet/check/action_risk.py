"""Checking `action-risk`: a shield that allows exactly the actions whose least risk meets a rule.

A `shield/1` file with `rule`; each state also has `least` and `risks`, pairs of an applicable label and a fraction. First the
file must be a `permissive` shield with exact values. Then, replayed in the slow interpreter, in fractions:
- every state that any applicable label leads to is listed, and every applicable label has one risk, allowed or not;
- the risk of a label is the greatest expectation of `least` over its operators and the silent ones; `least` is the least of the
  risks, 1 in fail states, 0 where runs end elsewhere;
- allowed is what the rule says, no more and no less: of `per-state`, risks of at most the threshold, and where there is none the
  least; of `relative`, those with 1 - risk >= threshold * (1 - least); of `budget`, the least, and the threshold is the `bound`.
With a `horizon` of k steps, `least` and the risks are those of failing within k steps: backward induction over the listed states says
them. Without one:
SOUND: `least` is no smaller than the least risk, since the labels that attain it make it a pre-fixed point. It is no greater: from
every state with `least` above 0, every label has an operator of no smaller expectation that may lead nearer to fail or to `least` 0.
So whatever is chosen, the environment can see to it that a run surely ends in one of the two, and until then the expectation of
`least` does not fall.
SOUND of a budget: an action costs what it risks above `least`. After it, `least` is expected to be at most `least` before it and what was
paid. So `least` and what is left to pay never grow on average; they begin with the bound, and `least` is 1 where a run fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from polvet.check.arena import Arena, find_arena
from polvet.check.permissive import Row, check_permissive, expected_value, label_rows, read_fraction
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects
from polvet.model.semantics import State
from polvet.records.state_json import Malformed

Label = str | None
RULES = ("per-state", "relative", "budget")


def check_action_risk(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the shield allows exactly what its rule says, with true risks."""
    if certificate.get("values") != "exact":
        return Rejected("'values' is not 'exact'")
    shield = check_permissive(certificate, subjects)
    if isinstance(shield, Rejected):
        return shield
    arena = find_arena(certificate, subjects)
    if isinstance(arena, Rejected):
        return arena
    try:
        kind, threshold = _rule(certificate.get("rule"))
        horizon = _horizon(certificate.get("horizon"), kind)
        if kind == "budget" and threshold != read_fraction(certificate.get("bound"), "'bound'"):
            raise Malformed("the budget is not the bound")
        rows: dict[State, dict[Label, list[Row]]] = {}
        least: dict[State, Fraction] = {}
        for k, item in enumerate(certificate["states"]):
            state = arena.read(item["state"], f"states[{k}]")
            rows[state] = label_rows(arena, state)
            least[state] = _probability(item.get("least"), f"'least' of states[{k}]")
        later = least if horizon is None else _within(arena, rows, horizon - 1)
        for k, (state, item) in enumerate(zip(rows, certificate["states"], strict=True)):
            if item.get("mixed"):
                raise Malformed(f"states[{k}] has mixtures, of which the rule says nothing")
            risks = _check_risks(arena, state, rows[state], (least[state], later), item.get("risks"))
            limit = _limit(kind, threshold, least[state])
            meant = {label for label, risk in risks.items() if risk <= limit}
            if set(item["allowed"]) != meant or len(item["allowed"]) != len(meant):
                raise Malformed(f"{arena.show(state)} does not allow what the rule says")
        if horizon is None:
            check_not_less(arena, rows, least)
    except Malformed as error:
        return Rejected(str(error))
    return Accepted(f"{shield.claim}; {_claim(kind, threshold, horizon)}")


def _claim(kind: str, threshold: Fraction, horizon: int | None) -> str:
    within = "" if horizon is None else f" within {horizon} steps"
    if kind == "budget":
        return (
            "whoever pays for each action what it risks above the least there is, out of the bound less the least at the start, "
            f"fails with probability at most {threshold}"
        )
    told = (
        f"risk at most {threshold}{within}, or the least there is"
        if kind == "per-state"
        else f"keep {threshold} of the best chance of not failing{within}"
    )
    return f"in every listed state exactly the actions are allowed that {told}"


def _limit(kind: str, threshold: Fraction, best: Fraction) -> Fraction:
    """Return what an allowed action may risk where the best one risks that."""
    if kind == "relative":
        return 1 - threshold * (1 - best)
    return max(threshold, best) if kind == "per-state" else best


def _horizon(item: Any, kind: str) -> int | None:
    if item is None:
        return None
    if not isinstance(item, int) or isinstance(item, bool) or item < 1 or kind == "budget":
        raise Malformed("'horizon' is no number of steps, or the rule has none")
    return item


def _within(arena: Arena, rows: Mapping[State, Mapping[Label, list[Row]]], steps: int) -> dict[State, Fraction]:
    """Return the least probability of failing within so many steps, by backward induction."""
    now = {state: Fraction(int(bool(arena.is_fail(state)))) for state in rows}
    for _ in range(steps):
        arena.budget.check()
        new = {
            state: min(max(expected_value(arena, state, row, now) for row in mine) for mine in labels.values())
            if labels
            else now[state]
            for state, labels in rows.items()
        }
        if new == now:
            break
        now = new
    return now


def _rule(item: Any) -> tuple[str, Fraction]:
    if not isinstance(item, dict) or len(item) != 1 or next(iter(item)) not in RULES:
        raise Malformed("'rule' is not 'per-state', 'relative' or 'budget' with a threshold")
    ((kind, threshold),) = item.items()
    return kind, _probability(threshold, "the threshold of 'rule'")


def _probability(value: Any, what: str) -> Fraction:
    number = read_fraction(value, what)
    if not 0 <= number <= 1:
        raise Malformed(f"{what} is no probability")
    return number


def _check_risks(
    arena: Arena,
    state: State,
    rows: Mapping[Label, list[Row]],
    told: tuple[Fraction, Mapping[State, Fraction]],
    items: Any,
) -> dict[Label, Fraction]:
    """Return the risk of each applicable label; raise Malformed unless all are told as they are, and their least.

    `told` is the least risk that is claimed of the state, and the least risk of every state after a step.
    """
    least, later = told
    arena.budget.check()
    here = arena.show(state)
    if not isinstance(items, list) or not all(
        isinstance(one, list) and len(one) == 2 and (one[0] is None or isinstance(one[0], str)) for one in items
    ):
        raise Malformed(f"'risks' of {here} is not a list of pairs of a label and a fraction")
    risks = {label: _probability(risk, f"a risk of {here}") for label, risk in items}
    if risks.keys() != rows.keys() or len(items) != len(rows):
        raise Malformed(f"'risks' of {here} does not name every applicable label once")
    for label, mine in rows.items():
        true = max(expected_value(arena, state, row, later) for row in mine)
        if risks[label] != true:
            raise Malformed(f"the risk of '{label}' in {here} is {true}, not {risks[label]}")
    best = min(risks.values()) if risks else Fraction(int(bool(arena.is_fail(state))))
    if least != best:
        raise Malformed(f"'least' of {here} is {best}, not {least}")
    return risks


def check_not_less(arena: Arena, rows: Mapping[State, Mapping[Label, list[Row]]], least: dict[State, Fraction]) -> None:
    """Raise Malformed unless from everywhere the environment can lead on towards fail or `least` 0, without losing any.

    States without labels have ended: `least` is what they count.
    """
    # For every label that is still to be led on: the states after operators that lose nothing.
    users: dict[State, list[tuple[State, Label]]] = {}
    missing: dict[State, set[Label]] = {}
    ended: list[State] = []
    for state, labels in rows.items():
        if least[state] == 0 or not labels:
            ended.append(state)
            continue
        missing[state] = set(labels)
        for label, mine in labels.items():
            for row in mine:
                if expected_value(arena, state, row, least) >= least[state]:
                    for target, chance in row.items():
                        if chance > 0:
                            users.setdefault(target, []).append((state, label))
    while ended:
        arena.budget.check()
        for state, label in users.get(ended.pop(), ()):
            if label in missing[state]:
                missing[state].remove(label)
                if not missing[state]:
                    ended.append(state)
    for state, labels_left in missing.items():
        if labels_left:
            raise Malformed(f"from {arena.show(state)} failing may be less likely than {least[state]}")
