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
    Call,
    Element,
    Unary,
)
from polvet.model.properties import ExpectedReward

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
    if model.functions or any(automaton.functions for automaton in model.automata):
        used.add("functions")
    pending: list[Any] = [model]
    while pending:
        part = pending.pop()
        match part:
            case tuple():
                pending.extend(part)
                continue
            case Where() | str() | bool() | int() | None:
                continue
            case Unary(operator, _) | Binary(operator, _, _):
                if operator in DERIVED_OPERATORS:
                    used.add("derived-operators")
                elif operator in TRIGONOMETRIC_OPERATORS:
                    used.add("trigonometric-functions")
                elif operator in HYPERBOLIC_OPERATORS:
                    used.add("hyperbolic-functions")
            case Element() | ArrayLiteral() | ArrayBuild():
                used.add("arrays")
            case Call():
                used.add("functions")
            case ExpectedReward(accumulate=accumulate) if "exit" in accumulate:
                used.add("state-exit-rewards")
        pending.extend(getattr(part, slot) for slot in getattr(part, "__slots__", ()))
    return tuple(feature for feature in FEATURES if feature in used)


def declared_features(model: Model) -> tuple[str, ...]:
    """Return the features a file of this model declares: what it declared already, then what it uses besides."""
    return model.features + tuple(feature for feature in used_features(model) if feature not in model.features)
