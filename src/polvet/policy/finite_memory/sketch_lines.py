"""Sketches as lines: `boolean H`, `numeric n m`, and rules such as `n > 0, !H -> n-down, H, m?`.

In effects `n-down` (or n↓), `n-up` (n↑), `n?`, `H`, `!H`, `H?`; a feature that is not named keeps its value. Behind a
name its meaning may stand in quotation marks: `numeric n "n_count(c_primitive(on,0))"`. Behind the effects may stand which
actions follow the rule: `n > 0, !H -> n-down, H : unstack pick-up`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from polvet.errors import InputError, Where
from polvet.policy.finite_memory.features import (
    ANY,
    DOWN,
    FALSE,
    TRUE,
    UP,
    Features,
    Rule,
    parse_condition,
)

_CHANGE = re.compile(r"(!|not\s+)?\s*([^\s!?↓↑,]+?)\s*(-down|-up|↓|↑|\?)?")
_DECLARED = re.compile(r'\s*([^\s"]+)(?:\s+"([^"]*)")?')
KINDS = ("boolean", "numeric")


def read_lines(text: str, where: Where) -> tuple[Features, tuple[Rule, ...]]:
    """Return the features and rules of the lines, or raise an InputError with the line."""
    declared: dict[str, list[str]] = {kind: [] for kind in KINDS}
    meanings: dict[str, str] = {}
    lines: list[tuple[str, str, tuple[str, ...], Where]] = []
    for count, line in enumerate(text.splitlines(), start=1):
        place = Where(where.file, line=count)
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] in KINDS and "->" not in line:
            rest = line.strip().removeprefix(words[0])
            if _DECLARED.sub("", rest).strip():
                raise InputError(f"'{line.strip()}' names no features.", place, f'Write {words[0]} f, or f "MEANING".')
            for name, meaning in _DECLARED.findall(rest):
                declared[words[0]].append(name)
                if meaning:
                    meanings[name] = meaning
            continue
        condition, arrow, effects = line.partition("->")
        if not arrow:
            raise InputError(f"'{line.strip()}' is no rule.", place, "Write CONDITION -> EFFECTS.")
        effects, colon, actions = effects.partition(" : ")
        if colon and not actions.split():
            raise InputError("no action is named behind the ':'.", place, "Name one, or remove the ':'.")
        lines.append((condition.strip(" {}"), effects.strip(" {}"), tuple(actions.lower().split()), place))
    names = (*declared["boolean"], *declared["numeric"])
    if len(set(names)) < len(names):
        raise InputError("a feature is named twice.", where, "Remove one of them.")
    if not lines:
        raise InputError("the sketch has no rules.", where, "Write CONDITION -> EFFECTS.")
    features = Features(names, frozenset(declared["numeric"]), meanings)
    return features, tuple(
        Rule(
            parse_condition(condition, features, place),
            _changes(effects, features, place),
            f"rule {number}",
            actions=actions,
        )
        for number, (condition, effects, actions, place) in enumerate(lines)
    )


def _changes(text: str, features: Features, where: Where) -> dict[int, str]:
    changes: dict[int, str] = {}
    for part in filter(str.strip, text.split(",")):
        match = _CHANGE.fullmatch(part.strip())
        if match is None:
            raise InputError(f"'{part.strip()}' is no effect.", where, "Write n-down, n-up, n?, H, !H or H?.")
        negated, name, sign = match.groups()
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


_EFFECTS = {DOWN: "{}-down", UP: "{}-up", ANY: "{}?", TRUE: "{}", FALSE: "!{}"}


def dump_lines(features: Features, rules: Iterable[Rule], where: Where) -> str:
    """Return the sketch as lines, which `read_lines` reads; an InputError where a rule says what lines cannot say."""
    lines = []
    for kind, names in (("boolean", set(features.names) - features.numeric), ("numeric", features.numeric)):
        for name in features.names:
            meaning = features.meanings.get(name)
            lines += [f'{kind} {name} "{meaning}"' if meaning else f"{kind} {name}"] if name in names else []
    for rule in rules:
        if rule.memory or rule.following or rule.after or not set(rule.changes.values()) <= _EFFECTS.keys():
            hint = "Choose among rules without memory, of effects that rise, fall, stay or are any."
            raise InputError(f"'{rule.label}' cannot be written as a line.", where, hint)
        condition = " || ".join(
            " && ".join(_literal(features, index, value) for index, value in conjunction.items()) or "true"
            for conjunction in rule.conditions
        )
        effects = ", ".join(_EFFECTS[change].format(features.names[index]) for index, change in rule.changes.items())
        lines.append(f"{condition} -> {effects}" + (f" : {' '.join(rule.actions)}" if rule.actions else ""))
    return "\n".join(lines) + "\n"


def _literal(features: Features, index: int, value: bool) -> str:
    name = features.names[index]
    if name in features.numeric:
        return f"{name} > 0" if value else f"{name} = 0"
    return name if value else f"!{name}"
