"""How atoms are told by variables: one by one as truth values, or the atoms of a mutex group as the values of one variable.

atom `(chain)`                     the truth value `chain`
group `at(mill)`, `at(inn)`, ...   the variable `at(*)`; its value is the number of the atom that is true, 0 where none may be. Each atom
                                   is defined besides, as a transient truth value `at(mill)`, true where `at(*)` has its number: so
                                   it can be named wherever an expression stands, in JANI as well
fluent `(fuel truck)`              the bounded integer `fuel(truck)`; a cost is a transient number: what the step adds
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from polvet.errors import Where
from polvet.model.automata import Assignment, VariableDeclaration
from polvet.model.expressions import (
    FALSE,
    Binary,
    BoolLiteral,
    Conditional,
    Expression,
    IntLiteral,
    Name,
    disjunction,
    negation,
)
from polvet.model.infix import chained_operands
from polvet.model.types import BOOL, REAL, IntType
from polvet.pddl import syntax
from polvet.pddl.bounds import Bounds
from polvet.pddl.ground import Grounding, Outcome, Truth, add, folded, literals
from polvet.pddl.groups import Group
from polvet.pddl.syntax import And, Arithmetic, Atom, Case, Compare, Condition, Fluent, Not, Number, Or

OPERATORS = {"<": "<", "<=": "≤", "=": "=", "!=": "≠"}


class Encoding:
    """The variables of a ground problem, and what its conditions and outcomes are over them."""

    def __init__(self, grounding: Grounding, groups: Sequence[Group], bounds: Bounds) -> None:
        self.grounding, self.groups, self.bounds = grounding, groups, bounds
        self.group_of = {atom: group for group in groups for atom in group.atoms}
        self.value = {atom: k for group in groups for k, atom in enumerate(group.atoms, start=group.lowest)}

    def variables(self, where: Where) -> Iterator[VariableDeclaration]:
        """Yield the variables, each in the place of its first atom, then the fluents."""
        init, numbers = self.grounding.reach.problem.init, self.grounding.reach.problem.numbers
        declared: set[str] = set()
        for atom in self.grounding.atoms:
            group = self.group_of.get(atom)
            if group is None:
                yield VariableDeclaration(str(atom), BOOL, BoolLiteral(atom in init), where=where)
            elif group.name not in declared:
                declared.add(group.name)
                first = next((self.value[one] for one in group.atoms if one in init), 0)
                kind = IntType(IntLiteral(0), IntLiteral(group.highest))
                yield VariableDeclaration(group.name, kind, IntLiteral(first), where=where)
        for fluent in self.grounding.fluents:
            if fluent in self.bounds.costs:
                yield VariableDeclaration(str(fluent), REAL, IntLiteral(0), transient=True, where=where)
            else:
                low, high = self.bounds.ranges[fluent]
                kind = IntType(IntLiteral(low), IntLiteral(high))
                yield VariableDeclaration(str(fluent), kind, IntLiteral(numbers[fluent]), where=where)

    def definitions(self, where: Where) -> tuple[tuple[VariableDeclaration, ...], tuple[Assignment, ...]]:
        """Return the atoms of groups as transient truth values, and what they are in every state."""
        atoms = [atom for atom in self.grounding.atoms if atom in self.group_of]
        names = tuple(VariableDeclaration(str(atom), BOOL, FALSE, transient=True, where=where) for atom in atoms)
        return names, tuple(Assignment(Name(str(atom)), self.expression(atom), where=where) for atom in atoms)

    def expression(self, condition: Condition) -> Expression:
        """Return the ground condition over the variables."""
        match condition:
            case Atom():
                group = self.group_of.get(condition)
                if group is None:
                    return Name(str(condition))
                return Binary("=", Name(group.name), IntLiteral(self.value[condition]))
            case Compare(operator, left, right):
                return Binary(OPERATORS[operator], self.number(left), self.number(right))
            case Not(part):
                return negation(self.expression(part))
            case And(parts):
                return chained_operands("∧", [self.expression(part) for part in parts])
            case Or(parts):
                return chained_operands("∨", [self.expression(part) for part in parts])
            case _:
                raise AssertionError("a ground condition has no quantifier")

    def number(self, number: Number) -> Expression:
        """Return the ground number over the variables."""
        match number:
            case int():
                return IntLiteral(number)
            case Fluent():
                return Name(str(number))
            case Arithmetic(operator, left, right):
                return Binary(operator, self.number(left), self.number(right))
            case Case(condition, then, otherwise):
                return Conditional(self.expression(condition), self.number(then), self.number(otherwise))

    def guard(self, condition: Condition) -> tuple[Condition, Truth]:
        """Return the guard without what groups say already, and the value of each atom that it tells."""
        sure = dict(literals(condition))
        true = {self.group_of[atom].name: atom for atom, value in sure.items() if value and atom in self.group_of}

        def implied(atom: Atom) -> bool | None:
            """Tell that the atom is false, where another one of its group is true."""
            group = self.group_of.get(atom)
            return False if group is not None and true.get(group.name, atom) != atom else None

        def known(atom: Atom) -> bool | None:
            value = sure.get(atom)
            return implied(atom) if value is None else value

        return folded(condition, implied) if true else condition, known

    def outcomes(
        self, outcomes: Sequence[Outcome], known: Truth
    ) -> list[tuple[Fraction, tuple[tuple[str, Expression], ...]]]:
        """Return the assignments of each outcome where these atoms are known, with its probability; equal ones are one."""
        chances: dict[tuple[tuple[str, Expression], ...], Fraction] = {}
        for outcome in outcomes:
            add(chances, tuple(self._assignments(outcome, known)), outcome.probability)
        return [(probability, assignments) for assignments, probability in chances.items()]

    def _assignments(self, outcome: Outcome, known: Truth) -> Iterator[tuple[str, Expression]]:
        changed: dict[str, list[tuple[Atom, Condition]]] = {}
        for atom, after in outcome.values:
            value = folded(after, known)
            group = self.group_of.get(atom)
            if group is not None:
                changed.setdefault(group.name, []).append((atom, value))
            elif value != atom:
                yield str(atom), self.expression(value)
        for name, values in changed.items():
            written = self._value(self.group_of[values[0][0]], values, known)
            if written != Name(name):
                yield name, written
        for fluent, number in outcome.numbers:
            amount = _folded_cases(number, known)
            if fluent in self.bounds.costs and isinstance(amount, Arithmetic):
                amount = amount.right  # nothing but additions: (+ fluent sum)
            yield str(fluent), self.number(amount)

    def _value(self, group: Group, values: list[tuple[Atom, Condition]], known: Truth) -> Expression:
        """The variable of the group afterwards: the number of the one atom that is true, the same where it is none of these."""
        for atom, after in values:
            if after == syntax.TRUE:
                return IntLiteral(self.value[atom])
        options = [
            (self.expression(after), IntLiteral(self.value[atom])) for atom, after in values if after != syntax.FALSE
        ]
        named = [atom for atom, _ in values if known(atom) is not False]  # those that may have been true before
        # SOUND: where one of an exact group's was true, one of the options holds: the last one where no other does.
        none: Expression = options.pop()[1] if group.exact and options else IntLiteral(0)
        otherwise: Expression = Name(group.name)
        if any(known(atom) for atom in named):
            otherwise = none
        elif named:
            otherwise = Conditional(disjunction(*(self.expression(atom) for atom in named)), none, otherwise)
        for test, value in reversed(options):
            otherwise = Conditional(test, value, otherwise)
        return otherwise


def _folded_cases(number: Number, known: Truth) -> Number:
    """Return the number with the conditions of its cases folded where these atoms are known."""
    match number:
        case Case(condition, then, otherwise):
            held = folded(condition, known)
            if held in (syntax.TRUE, syntax.FALSE):
                return _folded_cases(then if held == syntax.TRUE else otherwise, known)
            return Case(held, _folded_cases(then, known), _folded_cases(otherwise, known))
        case Arithmetic(operator, left, right):
            return Arithmetic(operator, _folded_cases(left, known), _folded_cases(right, known))
        case _:
            return number
