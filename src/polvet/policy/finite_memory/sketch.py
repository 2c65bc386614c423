"""Policy sketches as finite-memory policies: rules C -> E over boolean and numeric features.

Source   Bonet & Geffner, "General policies, representations, and planning width", AAAI 2021; Drexler, Seipp, Geffner,
         "Learning sketches for decomposing planning problems into subproblems of bounded width", ICAPS 2022
A text of lines: `boolean H`, `numeric n m`, and rules such as `n > 0, !H -> n-down, H, m?`. In effects `n-down` (or
n↓), `n-up` (n↑), `n?`, `H`, `!H`, `H?`; features that are not named keep their value. A sketch terminates
if no execution of its rules, from any valuation, goes on for ever: every control state is initial.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, Where
from polvet.policy.finite_memory.features import (
    ANY,
    DOWN,
    FALSE,
    TRUE,
    UP,
    Features,
    Rule,
    build_from_rules,
    parse_condition,
)
from polvet.policy.finite_memory.fmp import FiniteMemoryPolicy

MAX_FEATURES = 14
_CHANGE = re.compile(r"(!|not\s+)?\s*([^\s!?↓↑,]+?)\s*(-down|-up|↓|↑|\?)?")


def parse_sketch(text: str, where: Where, budget: Budget = UNLIMITED) -> FiniteMemoryPolicy:
    """Return the policy of a sketch: one control state per boolean valuation and zero pattern, all initial."""
    booleans: list[str] = []
    numbers: list[str] = []
    lines: list[tuple[str, str, Where]] = []
    for count, line in enumerate(text.splitlines(), start=1):
        place = Where(where.file, line=count)
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] in ("boolean", "numeric") and "->" not in line:
            (booleans if words[0] == "boolean" else numbers).extend(words[1:])
            continue
        condition, arrow, effects = line.partition("->")
        if not arrow:
            raise InputError(f"'{line.strip()}' is no rule.", place, "Write CONDITION -> EFFECTS.")
        lines.append((condition.strip(" {}"), effects.strip(" {}"), place))
    names = (*booleans, *numbers)
    if len(set(names)) < len(names):
        raise InputError("a feature is named twice.", where, "Remove one of them.")
    if len(names) > MAX_FEATURES:
        raise InputError(
            f"{len(names)} features make too many control states; at most {MAX_FEATURES}.", where, "Use fewer features."
        )
    if not lines:
        raise InputError("the sketch has no rules.", where, "Write CONDITION -> EFFECTS.")
    features = Features(names, frozenset(numbers))
    rules = [
        Rule(parse_condition(condition, features, place), _changes(effects, features, place), f"rule {number}")
        for number, (condition, effects, place) in enumerate(lines)
    ]
    starts = [("", pattern) for pattern in product([False, True], repeat=len(names))]
    name = Path(where.file).name
    return build_from_rules(features, rules, starts, [], first_match=False, name=name, where=where, budget=budget)


def _changes(text: str, features: Features, where: Where) -> dict[int, str]:
    changes: dict[int, str] = {}
    for part in filter(str.strip, text.split(",")):
        found = _CHANGE.fullmatch(part.strip())
        if found is None:
            raise InputError(f"'{part.strip()}' is no effect.", where, "Write n-down, n-up, n?, H, !H or H?.")
        negated, name, sign = found.groups()
        index = features.index(name, where)
        if name in features.numeric:
            change = {"-down": DOWN, "↓": DOWN, "-up": UP, "↑": UP, "?": ANY}.get(sign or "")
        else:
            change = ANY if sign == "?" else None if sign else FALSE if negated else TRUE
        if change is None or (negated and name in features.numeric):
            raise InputError(
                f"'{part.strip()}' does not suit the feature '{name}'.", where, "Write n-down, n-up, n?, H, !H or H?."
            )
        if index in changes:
            raise InputError(f"the effects change '{name}' twice.", where, "Remove one of them.")
        changes[index] = change
    return changes
