"""What the inputs of a policy are: variables of the model, expressions over them, or Python functions of a state.

variable     `x`, its place in a state
expression   `x + y`, `at(mill)`, `(count (?b - block) (clear ?b))`: resolved over the network's scalars, evaluated as
             docs/semantics.md says; the kernel runs it as compiled code (policy/compiled.py), `Reader` is its slow twin
function     `features.py:free_seats`, named in a task file and nowhere else, run with `--allow-code`; asked with the state as a mapping.
             What is said of a policy with such an input holds *by execution*, as for a policy that is a function (policy/functions.py)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from polvet.errors import InputError, ModelError, Where, did_you_mean
from polvet.model.arithmetic import Value
from polvet.model.evaluate import Evaluator, compile_expression
from polvet.model.expressions import Conditional, Expression, IntLiteral, Name, names
from polvet.model.infix import dump_expression, parse_expression
from polvet.model.kinds import kind_of
from polvet.model.network import Kind, Network
from polvet.model.semantics import Semantics, State
from polvet.model.task import resolved
from polvet.policy.functions import load_function, named_function


@dataclass(frozen=True, slots=True, eq=False)
class InputFunction:
    """A Python function of a state that answers one number."""

    text: str
    function: Callable[[Mapping[str, Value]], object]

    def value(self, state: Mapping[str, Value]) -> float:
        """Return what the function answers, a number."""
        answer = self.function(state)
        if isinstance(answer, bool | int | float | np.number | np.bool_) and np.isfinite(float(answer)):
            return float(answer)
        raise InputError(f"answers {str(answer)[:40]!r}, no finite number.", Where(self.text), "Return a number.")


Input: TypeAlias = int | Expression | InputFunction
"""A variable's place in a state, an expression over scalars, or a function."""


class Names:
    """The names by which functions see a state: the variables, and what the model defines by them (atoms, transient values)."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.position = {variable.name: i for i, variable in enumerate(network.variables)}
        self.all = dict.fromkeys((*self.position, *defined_names(network)))
        self._compiled: dict[str, Evaluator] = {}

    def value(self, name: str, state: State) -> Value:
        """Return the value of a known name in the state."""
        if name not in self._compiled:
            resolved = self.network.resolve(Name(name))
            self._compiled[name] = compile_expression(resolved, self.position)
        result: Value = self._compiled[name](state)
        return result


class StateView(Mapping[str, Value]):
    """A state as a function sees it."""

    def __init__(self, names: Names, state: State) -> None:
        self._names, self._state = names, state

    def __getitem__(self, name: str) -> Value:
        if name not in self._names.all:
            raise KeyError(name)
        return self._names.value(name, self._state)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names.all)

    def __len__(self) -> int:
        return len(self._names.all)


class Reader:
    """States to rows of inputs in the slow interpreter: the nearest float32 of each value, infinite beyond them."""

    def __init__(self, network: Network, inputs: Sequence[Input]) -> None:
        self.network = network
        self._names = Names(network)
        self._columns = [self._column(one) for one in inputs]

    def row(self, state: State) -> npt.NDArray[np.float32]:
        """Return the state as a row [1, inputs]; truth values are 0 and 1, locations their number."""
        with np.errstate(over="ignore"):
            return np.array([[column(state) for column in self._columns]], dtype=np.float32)

    def _column(self, one: Input) -> Callable[[State], float]:
        if isinstance(one, int):
            return lambda state: float(state[one])
        if isinstance(one, InputFunction):
            return lambda state: one.value(StateView(self._names, state))
        compute = compile_expression(one, self._names.position)

        def value(state: State) -> float:
            try:
                return float(compute(state))
            except (InputError, OverflowError) as error:  # arithmetic that has no result, such as a division by zero
                why = error.what.removesuffix(".") if isinstance(error, InputError) else "it has no finite value"
                shown = Semantics(self.network).show(state)
                raise ModelError(
                    f"an input of the policy, {dump_expression(one)[:60]}: {why}, in state {shown}.",
                    hint="Guard the operation.",
                ) from None

        return value


def defined_names(network: Network) -> tuple[str, ...]:
    """Return the names of transient variables that stand for an expression in every state, such as the atoms of a PDDL problem."""
    declared = (*network.model.variables, *(one for part in network.model.automata for one in part.variables))
    return tuple(one.name for one in declared if one.transient and one.name in network.scope.names)


def find_inputs(
    network: Network,
    texts: Sequence[str],
    known: Mapping[str, Expression] = {},
    functions: Mapping[str, Path] = {},
    where: Where | None = None,
    *,
    allow_code: bool = False,
) -> tuple[Input, ...]:
    """Return what each input is; `known` are those that the task has read, `functions` the files of those that it calls."""
    place = {variable.name: i for i, variable in enumerate(network.variables)}

    def read(text: str) -> Input:
        if text in place:
            return place[text]
        if text in known:
            return known[text]
        if text in functions:
            name = text.rpartition(":")[2]
            return InputFunction(text, load_function(functions[text], name, asked_for=allow_code))
        return _expression(network, text, place, where)

    return tuple(map(read, texts))


def _expression(network: Network, text: str, variables: Mapping[str, int], where: Where | None) -> Expression:
    symbol = network.scope.leaf(Name(text))
    if symbol is not None and not isinstance(symbol, tuple):
        return symbol
    try:
        parsed = parse_expression(text, Where(text))
    except InputError:
        parsed = Name(text)
    if isinstance(parsed, Name) or named_function(text) is not None:
        hint = did_you_mean(text, variables) or f"The model's variables are: {first_names(variables)}."
        raise InputError(f"the policy reads '{text}', which is no variable of the model.", where, hint)
    return resolved(network, parsed, where or Where(text))[0]


def kind_over(network: Network, expression: Expression) -> Kind:
    """Return what a resolved expression is."""
    return kind_of(expression, {variable.name: variable.kind for variable in network.variables})


def is_whole(network: Network, one: Input) -> bool:
    """Return whether the input is a whole number in every state; what a Python function answers is not known."""
    if isinstance(one, InputFunction):
        return False
    kind = network.variables[one].kind if isinstance(one, int) else kind_over(network, one)
    return kind is not Kind.REAL


def as_number(network: Network, expression: Expression) -> Expression:
    """Return the expression with truth values as 1 and 0."""
    is_truth = kind_over(network, expression) is Kind.BOOL
    return Conditional(expression, IntLiteral(1), IntLiteral(0)) if is_truth else expression


def truth_values(network: Network, known: Mapping[str, Expression]) -> list[str]:
    """Return the names of inputs that are truth values: variables, defined names, and of the expressions that the task has read."""
    kinds = {variable.name: variable.kind for variable in network.variables}
    defined = {name: network.resolve(Name(name)) for name in defined_names(network)}
    variables = [name for name, kind in kinds.items() if kind is Kind.BOOL]
    return variables + [name for name, one in (*defined.items(), *known.items()) if kind_of(one, kinds) is Kind.BOOL]


def variables_read(network: Network, inputs: Sequence[Input]) -> set[str]:
    """Return the names of the variables on which the inputs depend: all of them where one is a function."""
    variables: set[str] = set()
    for one in inputs:
        if isinstance(one, InputFunction):
            return {variable.name for variable in network.variables}
        variables |= {network.variables[one].name} if isinstance(one, int) else names(one)
    return variables


def first_names(names: Collection[str]) -> str:
    """Return the first twelve names, as errors list them."""
    return (", ".join(list(names)[:12]) or "none") + (", ..." if len(names) > 12 else "")
