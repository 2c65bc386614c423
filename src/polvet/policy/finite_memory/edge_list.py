"""Edge lists: one edge a line, `q0 q1 {"label": "x1-3"}`, an amount added to one counter; all states are initial."""

from __future__ import annotations

import json
import re
from pathlib import Path

from polvet.errors import InputError, Where
from polvet.policy.finite_memory.fmp import Choice, Edge, Effect, FiniteMemoryPolicy, Variable, check_fmp

_LINE = re.compile(r"(\S+)\s+(\S+)(?:\s+(\{.*\}))?\s*")
_CHANGE = re.compile(r"\s*([A-Za-z_]\w*?)\s*([+-])\s*(\d*)\s*")


def parse_edge_list(text: str, where: Where) -> FiniteMemoryPolicy:
    """Return the policy of an edge list; `x1+` and `x1-` mean a change by 1, several changes are split by commas.

    >>> fmp = parse_edge_list('a b {"label": "x1-3"}', Where("here"))
    >>> fmp.initial, str(fmp.edges[0].choices[0].effects["x1"])
    (('a', 'b'), '-3')
    """
    states: dict[str, None] = {}
    names: dict[str, None] = {}
    edges: list[Edge] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        place = Where(where.file, line=number)
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise InputError(f"'{line.strip()}' is not an edge.", place, 'Write: FROM TO {"label": "x1-3"}.')
        source, target, attributes = match.groups()
        effects = _effects(attributes, place) if attributes else {}
        states.update(dict.fromkeys((source, target)))
        names.update(dict.fromkeys(effects))
        edges.append(Edge(len(edges), source, target, (Choice(effects),)))
    if not edges:
        raise InputError("there is no edge.", where, 'Write one edge per line: FROM TO {"label": "x1-3"}.')
    variables = tuple(Variable(name) for name in sorted(names))
    return check_fmp(
        FiniteMemoryPolicy(variables, tuple(states), tuple(states), tuple(edges), name=Path(where.file).name), where
    )


def _effects(attributes: str, where: Where) -> dict[str, Effect]:
    try:
        entry = json.loads(attributes)
    except json.JSONDecodeError as error:
        raise InputError(f"the attributes are not JSON: {error.msg}.", where, 'Write {"label": "x1-3"}.') from None
    label = entry.get("label", "") if isinstance(entry, dict) else None
    if not isinstance(label, str):
        raise InputError("the label is not a string.", where, 'Write {"label": "x1-3"}.')
    effects: dict[str, Effect] = {}
    for part in filter(str.strip, label.split(",")):
        match = _CHANGE.fullmatch(part)
        if match is None:
            raise InputError(f"the label '{part}' is not a change by an integer.", where, "Write x1-3 or x1+2.")
        name, sign, digits = match.groups()
        if name in effects:
            raise InputError(f"the label changes '{name}' twice.", where, "Write the sum of both changes.")
        effects[name] = Effect.exactly(int(sign + (digits or "1")))
    return effects
