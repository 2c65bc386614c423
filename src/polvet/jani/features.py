"""What of JANI is supported, as data: model types, features, operators, types; and the names of what is refused.

The readers look here to refuse a thing by its name, the writer to declare what a model uses, the documentation to
print a table. Names are JANI's own.
"""

from __future__ import annotations

from typing import Any

from polvet.errors import Where
from polvet.model.automata import Model
from polvet.model.expressions import (
    TRIGONOMETRIC,
    ArrayBuild,
    ArrayLiteral,
    Binary,
    BoolLiteral,
    Call,
    Element,
    IntLiteral,
    Name,
    RealLiteral,
    Unary,
)
from polvet.model.properties import Comparison, ExpectedReward
from polvet.model.table_edges import TableEdges
from polvet.model.types import ArrayType

MODEL_TYPES = {
    "lts": "labelled transition systems",
    "dtmc": "discrete-time Markov chains",
    "mdp": "Markov decision processes",
}
UNSUPPORTED_MODEL_TYPES = {
    "ctmc": "continuous-time Markov chains (exponential rates)",
    "ctmdp": "continuous-time Markov decision processes (exponential rates)",
    "ma": "Markov automata (exponential rates)",
    "ta": "timed automata (clocks)",
    "pta": "probabilistic timed automata (clocks)",
    "sta": "stochastic timed automata (clocks, sampling from distributions)",
    "ha": "hybrid automata (continuous variables)",
    "pha": "probabilistic hybrid automata (continuous variables)",
    "sha": "stochastic hybrid automata (continuous variables, sampling from distributions)",
}

# In the order in which the writer declares them.
FEATURES = (
    "arrays", "derived-operators", "functions", "hyperbolic-functions", "trigonometric-functions",
    "state-exit-rewards",
)  # fmt: skip
# A declaration of these says something about properties, and properties are refused only when they are evaluated.
PROPERTY_FEATURES = ("multi-objective-properties", "tradeoff-properties")
UNSUPPORTED_FEATURES = {
    "datatypes": "user-defined data types and options",
    "edge-priorities": "priorities of edges",
    "named-expressions": "named expressions",
    "nondet-selection": "nondeterministic selection of values",
    "multiobjective-models": "models for several objectives",
}

UNSUPPORTED_TYPES = {
    "clock": "clocks",
    "continuous": "continuous variables",
    "datatype": "user-defined data types",
    "option": "option types",
}

DERIVED_OPERATORS = frozenset(("⇒", ">", "≥", "min", "max", "trc", "abs", "sgn"))
HYPERBOLIC_OPERATORS = frozenset(name for name in TRIGONOMETRIC if name.endswith("h"))
TRIGONOMETRIC_OPERATORS = frozenset(TRIGONOMETRIC) - HYPERBOLIC_OPERATORS
UNSUPPORTED_OPERATORS = {
    "der": "the derivative `der` (continuous time)",
    "nondet": "nondeterministic selection (`nondet`)",
    "da": "access to a member of a data type (`da`)",
    "dv": "values of data types (`dv`)",
    "oa": "access to an option (`oa`)",
    "ov": "values of options (`ov`)",
    "empty": "the empty option (`empty`)",
}
OTHER_SPELLINGS = {
    "&": "∧", "&&": "∧", "and": "∧", "|": "∨", "||": "∨", "or": "∨", "!": "¬", "not": "¬", "==": "=", "!=": "≠",
    "<=": "≤", ">=": "≥", "=>": "⇒", "->": "⇒", "implies": "⇒", "mod": "%", "^": "pow", "ln": "log", "round": "floor",
    "if": "ite", "forall": "∀", "exists": "∃",
}  # fmt: skip
"""Signs other languages use, and JANI's own: for the hint in the error message."""


def used_features(model: Model) -> tuple[str, ...]:
    """Return the features the model uses, in the order of `FEATURES`.

    Cost: one visit of each node, without recursion.
    """
    used: set[str] = set()
    operators: set[str] = set()
    if model.functions or any(automaton.functions for automaton in model.automata):
        used.add("functions")
    pending: list[Any] = [model]
    while pending:
        part = pending.pop()
        kind = type(part)
        if kind is tuple:
            pending += part
        elif kind is Binary:
            operators.add(part.operator)
            pending += (part.left, part.right)
        elif kind not in _LEAVES:
            if kind is Unary or kind is Comparison:
                operators.add(part.operator)
            elif kind in (Element, ArrayLiteral, ArrayBuild, ArrayType):
                used.add("arrays")
            elif kind is Call:
                used.add("functions")
            elif kind is ExpectedReward and "exit" in part.accumulate:
                used.add("state-exit-rewards")
            pending += [getattr(part, slot) for slot in getattr(part, "__slots__", ())]
    for feature, members in _OPERATOR_FEATURES.items():
        if operators & members:
            used.add(feature)
    return tuple(feature for feature in FEATURES if feature in used)


_LEAVES = (TableEdges, Name, str, Where, type(None), IntLiteral, RealLiteral, BoolLiteral, int, bool)
_OPERATOR_FEATURES = {
    "derived-operators": DERIVED_OPERATORS,
    "trigonometric-functions": TRIGONOMETRIC_OPERATORS,
    "hyperbolic-functions": HYPERBOLIC_OPERATORS,
}


def declared_features(model: Model) -> tuple[str, ...]:
    """Return the features a file of this model declares: what it declared already, then what it uses besides."""
    return model.features + tuple(feature for feature in used_features(model) if feature not in model.features)
