"""Checking `action-risk`: a shield that allows exactly the actions whose least risk meets a rule.

A `shield/1` file with `rule`; each state also has `least` and `risks`, pairs of an applicable label and a fraction. First the
file must be a `permissive` shield with exact values. Then, replayed in the slow interpreter, in fractions:
- every state that any applicable label leads to is listed, and every applicable label has one risk, allowed or not;
- the risk of a label is the greatest expectation of `least` over its operators and the silent ones; `least` is the least of the
  risks, 1 in fail states, 0 where runs end elsewhere;
- allowed is what the rule says, no more and no less: of `per-state`, risks of at most the threshold, and where there is none the
  least; of `relative`, those with 1 - risk >= threshold * (1 - least).
SOUND: `least` is no smaller than the least risk, since the labels that attain it make it a pre-fixed point. It is no greater: from
every state with `least` above 0, every label has an operator of no smaller expectation that may lead nearer to fail or to `least` 0.
So whatever is chosen, the environment can see to it that a run surely ends in one of the two, and until then the expectation of
`least` does not fall.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from polvet.check.arena import Arena, find_arena
from polvet.check.checker import Accepted, CheckResult, Rejected, Subjects
from polvet.check.permissive import Row, check_permissive, expected_value, label_rows, read_fraction
from polvet.model.semantics import State
from polvet.records.state_json import Malformed

Label = str | None
RULES = ("per-state", "relative")


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
        rows: dict[State, dict[Label, list[Row]]] = {}
        least: dict[State, Fraction] = {}
        for k, item in enumerate(certificate["states"]):
            state = arena.read(item["state"], f"states[{k}]")
            rows[state] = label_rows(arena, state)
            least[state] = _probability(item.get("least"), f"'least' of states[{k}]")
        for k, (state, item) in enumerate(zip(rows, certificate["states"], strict=True)):
            if item.get("mixed"):
                raise Malformed(f"states[{k}] has mixtures, of which the rule says nothing")
            risks = _check_risks(arena, state, rows[state], least, item.get("risks"))
            best = least[state]
            limit = max(threshold, best) if kind == "per-state" else 1 - threshold * (1 - best)
            meant = {label for label, risk in risks.items() if risk <= limit}
            if set(item["allowed"]) != meant or len(item["allowed"]) != len(meant):
                raise Malformed(f"{arena.show(state)} does not allow what the rule says")
        _check_not_less(arena, rows, least)
    except Malformed as error:
        return Rejected(str(error))
    told = (
        f"risk at most {threshold}, or the least there is" if kind == "per-state" else f"keep {threshold} of the best"
    )
    return Accepted(f"{shield.claim}; in every listed state exactly the actions are allowed that {_says(told, kind)}")


def _says(told: str, kind: str) -> str:
    return told if kind == "per-state" else f"{told} chance of not failing"


def _rule(item: Any) -> tuple[str, Fraction]:
    if not isinstance(item, dict) or len(item) != 1 or next(iter(item)) not in RULES:
        raise Malformed("'rule' is neither 'per-state' nor 'relative' with a threshold")
    ((kind, threshold),) = item.items()
    return kind, _probability(threshold, "the threshold of 'rule'")


def _probability(value: Any, what: str) -> Fraction:
    number = read_fraction(value, what)
    if not 0 <= number <= 1:
        raise Malformed(f"{what} is no probability")
    return number


def _check_risks(
    arena: Arena, state: State, rows: Mapping[Label, list[Row]], least: Mapping[State, Fraction], items: Any
) -> dict[Label, Fraction]:
    """Return the risk of each applicable label; raise Malformed unless all are told as they are, and their least."""
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
        true = max(expected_value(arena, state, row, least) for row in mine)
        if risks[label] != true:
            raise Malformed(f"the risk of '{label}' in {here} is {true}, not {risks[label]}")
    best = min(risks.values()) if risks else Fraction(int(bool(arena.is_fail(state))))
    if least[state] != best:
        raise Malformed(f"'least' of {here} is {best}, not {least[state]}")
    return risks


def _check_not_less(
    arena: Arena, rows: Mapping[State, Mapping[Label, list[Row]]], least: dict[State, Fraction]
) -> None:
    """Raise Malformed unless from everywhere the environment can lead on towards fail or `least` 0, without losing any."""
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
            raise Malformed(f"from {arena.show(state)} failing can be put off for ever: 'least' is {least[state]}")
