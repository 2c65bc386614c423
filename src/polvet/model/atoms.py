"""States of planning problems as planners write them: the atoms that are true, `(at mill) (chain)`, and numbers, `(= (fuel) 3)`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from polvet.errors import InputError, Where, suggest
from polvet.model.arithmetic import Value
from polvet.model.expressions import Binary, Expression, IntLiteral, Name, rebuild
from polvet.model.network import Kind, Variable

METADATA = ("states", "atoms")
"""The line of a model's metadata that says that its states are shown so."""
ATOM = r"\(\s*(?!=)[^\s()=]+(?:\s+[^\s()=]+)*\s*\)"
NUMBER = rf"\(\s*=\s*({ATOM})\s*(-?[0-9]+)\s*\)"
STATE = re.compile(rf"\s*(?:(?:{ATOM}|{NUMBER})\s*)+")
PART = re.compile(rf"{NUMBER}|({ATOM})")
NONE = "none"
"""The value of a group of atoms none of which is true."""


def show_atoms(variables: Sequence[Variable], state: Sequence[Value]) -> str:
    """Return the state by the atoms that are true and by its numbers; what never changes is left out."""
    return " ".join(_shown(variables, state)) or "(nothing)"


def _shown(variables: Sequence[Variable], state: Sequence[Value]) -> Iterator[str]:
    for variable, value in zip(variables, state, strict=False):
        if variable.values is not None:
            if variable.values[int(value)] != NONE:
                yield in_pddl(variable.values[int(value)])
        elif variable.kind is Kind.BOOL:
            if value:
                yield in_pddl(variable.name)
        elif not variable.is_location:
            yield f"(= {in_pddl(variable.name)} {value})"


def with_named_values(expression: Expression, variables: Sequence[Variable]) -> Expression:
    """Return the expression with the name of an atom where a group's variable is compared with its number."""
    named = {variable.name: variable.values for variable in variables if variable.values is not None}

    def shown(part: Expression) -> Expression:
        match part:
            case Binary("=", Name(name), IntLiteral(number)) if (
                name in named and 0 <= number < len(named[name]) and named[name][number] != NONE
            ):
                return Name(named[name][number])
            case _:
                return rebuild(part, shown)

    return shown(expression) if named else expression


def in_pddl(name: str) -> str:
    """Return the name of an atom or of a fluent as PDDL writes it.

    >>> in_pddl("at(r1,a)"), in_pddl("calm")
    ('(at r1 a)', '(calm)')
    """
    predicate, bracket, terms = name.partition("(")
    return f"({' '.join((predicate, *terms[:-1].split(','))) if bracket else name})"


def read_atoms(variables: Sequence[Variable], text: str, where: Where) -> dict[str, bool | int]:
    """Return the truth of every atom and the value of every number of a state that is written as `show_atoms` does."""
    shown = [one for one in variables if not one.is_location]
    numbers = {one.name for one in shown if one.kind is not Kind.BOOL and one.values is None}
    plain = [one.name for one in shown if one.kind is Kind.BOOL]
    atoms = dict.fromkeys([*plain, *(name for one in shown for name in one.values or () if name != NONE)])
    values: dict[str, bool | int] = dict.fromkeys(atoms, False)
    for fluent, value, atom in PART.findall(text):
        predicate, *terms = (fluent or atom).strip("() \t\r\n").lower().split()
        name = f"{predicate}({','.join(terms)})" if terms else predicate
        if name == "nothing" and name not in atoms:
            continue
        if name not in (numbers if fluent else atoms):
            what = "number" if fluent else "atom"
            raise InputError(f"'{name}' is no {what} that changes.", where, suggest(name, numbers if fluent else atoms))
        values[name] = int(value) if fluent else True
    for name in sorted(numbers - values.keys()):
        raise InputError(f"'{name}' has no value.", where, f"Add (= {in_pddl(name)} 0).")
    return values
