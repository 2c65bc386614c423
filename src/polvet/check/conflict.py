"""Checking `conflict`: a few states in which failing is already likelier than the bound, whatever is chosen there.

The certificate lists states with a `value`, a lower bound on the probability of failing, and perhaps with a label that is `taken`.
Replayed in the slow interpreter, in fractions; a state that is not listed counts 1 where it fails, and 0 elsewhere:
- `start` is listed, is a start state, and has a value above the bound;
- a listed state where runs end without failing has the value 0, a label that is taken is applicable;
- from every listed state with a value above 0, every label (or the one that is taken) has an operator, its own or a silent one, of no
  smaller expectation that may lead nearer to a state that fails, counts 0, or is not listed.
SOUND: so whatever is chosen, the environment sees to it that a run surely comes to such a state, and until then the expectation of the
values does not fall. What happens in states that are not listed can only add to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from polvet.check.action_risk import check_not_less
from polvet.check.all_starts import is_start
from polvet.check.arena import Arena, find_arena
from polvet.check.permissive import Row, label_rows, read_fraction
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects
from polvet.model.semantics import State
from polvet.records.state_json import Malformed

Rows = dict[State, dict[str | None, list[Row]]]


def check_conflict(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the listed states alone keep every policy (that takes what is taken) above the bound."""
    arena = find_arena(certificate, subjects)
    if isinstance(arena, Rejected):
        return arena
    try:
        bound = read_fraction(certificate.get("bound"), "'bound'")
        rows, values, taken = _read(arena, certificate.get("states"))
        start = arena.read(certificate.get("start"), "'start'")
        if start not in values:
            raise Malformed("'start' is not listed")
        if not is_start(arena, start):
            raise Malformed(f"{arena.show(start)} is no start state")
        if values[start] <= bound:
            raise Malformed(f"the value {values[start]} of {arena.show(start)} is not above the bound {bound}")
        listed = len(rows)
        _add_unlisted(arena, rows, values)
        check_not_less(arena, rows, values)
    except Malformed as error:
        return Rejected(str(error))
    who = f"every policy that takes {taken} named actions" if taken else "every policy"
    return Accepted(
        f"in {arena.about} {who} fails from {arena.show(start)} with probability at least {float(values[start]):.6g}, "
        f"above {bound}: already in {listed} states"
    )


def _read(arena: Arena, items: Any) -> tuple[Rows, dict[State, Fraction], int]:
    """Return what may be done in the listed states, their values, and in how many something is taken."""
    if not isinstance(items, list) or not items:
        raise Malformed("'states' is not a list of states")
    rows: Rows = {}
    values: dict[State, Fraction] = {}
    taken = 0
    for k, item in enumerate(items):
        what = f"states[{k}]"
        state = arena.read(item.get("state") if isinstance(item, dict) else None, what)
        if state in rows:
            raise Malformed(f"{what} stands twice")
        values[state] = read_fraction(item.get("value"), f"the value of {what}")
        if not 0 <= values[state] <= 1:
            raise Malformed(f"the value {values[state]} of {what} is no probability")
        rows[state] = label_rows(arena, state)
        if not rows[state] and not arena.is_fail(state) and values[state]:
            raise Malformed(f"runs end in {arena.show(state)} without failing, yet its value is {values[state]}")
        if "taken" in item:
            label = item["taken"]
            if not isinstance(label, str) or label not in rows[state]:
                raise Malformed(f"what is taken in {arena.show(state)} is not applicable there")
            rows[state] = {label: rows[state][label]}
            taken += 1
    return rows, values, taken


def _add_unlisted(arena: Arena, rows: Rows, values: dict[State, Fraction]) -> None:
    """Let states after a step that are not listed end the run: failed, or for nothing."""
    after = {target for labels in rows.values() for mine in labels.values() for row in mine for target in row}
    for target in after - rows.keys():
        rows[target] = {}
        values[target] = Fraction(int(bool(arena.is_fail(target))))
