"""Conditions of rules: which variables one reads, and whether it holds; written in the model room's infix language.

A task may hand in a parser of its own, which knows its locations and constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from polvet.errors import InputError, Where
from polvet.policy.protocol import Value


class Condition(Protocol):
    """A parsed condition: which variables it reads, and whether it holds."""

    @property
    def variables(self) -> Iterable[str]:
        """The names the condition reads."""

    def __call__(self, state: Mapping[str, Value]) -> bool:
        """Return whether the condition holds in the state."""


ConditionParser = Callable[[str, Where], Condition]


@dataclass(frozen=True, slots=True)
class InfixCondition:
    """A condition in the model room's infix language, compiled to a function of its variables' values."""

    variables: tuple[str, ...]
    evaluate: Callable[[Sequence[Any]], Any]
    where: Where

    def __call__(self, state: Mapping[str, Value]) -> bool:
        """Return whether the condition holds in the state; a condition whose value is a number is an InputError."""
        value = self.evaluate([state[name] for name in self.variables])
        if not isinstance(value, bool):
            raise InputError(
                f"the condition has the value {value}, which is neither true nor false.",
                self.where,
                "Write a comparison.",
            )
        return value


def model_condition(text: str, where: Where) -> Condition:
    """Return the condition written in the model room's infix language; its names are variables, never locations."""
    from polvet.model.evaluate import compile_expression
    from polvet.model.expressions import names
    from polvet.model.infix import parse_expression, unquoted

    expression = parse_expression(text, where)
    inputs = tuple(sorted(names(expression)))
    for name in inputs:
        if unquoted(name) is not None:
            raise InputError(
                f"the location {name} is only known within a model.", where, "Load the rules with their task."
            )
    position = {name: index for index, name in enumerate(inputs)}
    return InfixCondition(inputs, compile_expression(expression, position), where)
