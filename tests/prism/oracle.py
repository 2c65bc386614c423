"""PRISM's semantics once more, the naive way: what a process can do, straight from the rules of the process algebra.

Knows no synchronisation vectors, no automata, no transient variables: the moves of `A || B` are made of A's and B's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from polvet.model.expressions import Binary, BoolLiteral, Conditional, Expression, IntLiteral, Name, RealLiteral, Unary
from polvet.prism.compose import alphabet
from polvet.prism.syntax import Hide, Module, ModuleReference, Parallel, Process, Program, Rename

Valuation = Mapping[str, int]


@dataclass(frozen=True)
class OracleMove:
    label: str | None
    outcomes: tuple[tuple[Fraction, tuple[tuple[str, int], ...]], ...]


def value(expression: Expression, state: Valuation):
    match expression:
        case BoolLiteral(literal) | IntLiteral(literal) | RealLiteral(literal):
            return literal
        case Name(name):
            return state[name]
        case Unary("¬", operand):
            return not value(operand, state)
        case Conditional(condition, then, otherwise):
            return value(then, state) if value(condition, state) else value(otherwise, state)
        case Binary(sign, left, right):
            one, two = value(left, state), value(right, state)
            match sign:
                case "∧":
                    return one and two
                case "∨":
                    return one or two
                case "=":
                    return one == two
                case "≠":
                    return one != two
                case "<":
                    return one < two
                case "+":
                    return one + two
                case "-":
                    return one - two
                case "*":
                    return one * two
                case "/":
                    return Fraction(one) / two
    raise AssertionError(expression)


def moves(program: Program, state: Valuation) -> list[OracleMove]:
    """Return what the whole program can do: labelled moves by the rules, unlabelled ones of each module by itself."""
    modules = {module.name: module for module in program.modules if isinstance(module, Module)}
    process = program.system
    if process is None:
        names = list(modules)
        process = ModuleReference(names[0], program.where)
        for name in names[1:]:
            process = Parallel(process, ModuleReference(name, program.where), None, program.where)
    return _moves(process, modules, state)


def _actions(process: Process, modules: Mapping[str, Module]) -> set[str]:
    match process:
        case ModuleReference(name):
            return set(alphabet(modules[name]))
        case Parallel(left, right):
            return _actions(left, modules) | _actions(right, modules)
        case Hide(inner, hidden):
            return _actions(inner, modules) - set(hidden)
        case Rename(inner, renaming):
            new = dict(renaming)
            return {new.get(action, action) for action in _actions(inner, modules)}


def _moves(process: Process, modules: Mapping[str, Module], state: Valuation) -> list[OracleMove]:
    match process:
        case ModuleReference(name):
            return [
                OracleMove(
                    command.action,
                    tuple(
                        (
                            Fraction(1 if update.probability is None else value(update.probability, state)),
                            tuple((target, value(new, state)) for target, new, _ in update.assignments),
                        )
                        for update in command.updates
                    ),
                )
                for command in modules[name].commands
                if value(command.guard, state)
            ]
        case Hide(inner, hidden):
            inside = _moves(inner, modules, state)
            return [OracleMove(None if move.label in hidden else move.label, move.outcomes) for move in inside]
        case Rename(inner, renaming):
            new = dict(renaming)
            inside = _moves(inner, modules, state)
            return [OracleMove(new.get(move.label, move.label), move.outcomes) for move in inside]
        case Parallel(left, right, actions):
            both = _actions(left, modules) & _actions(right, modules) if actions is None else set(actions)
            lefts, rights = _moves(left, modules, state), _moves(right, modules, state)
            alone = [move for move in (*lefts, *rights) if move.label is None or move.label not in both]
            return alone + [
                OracleMove(one.label, tuple((p * q, (*a, *b)) for p, a in one.outcomes for q, b in two.outcomes))
                for one in lefts
                for two in rights
                if one.label is not None and one.label == two.label and one.label in both
            ]


def reward(program: Program, structure: int, label: str | None, state: Valuation) -> Fraction:
    """Return what a transition with the label earns from the state (`label` "state": what the state itself earns)."""
    wanted = None if label == "state" else (label or "")
    return sum(
        (
            Fraction(value(item.value, state))
            for item in program.rewards[structure].items
            if item.action == wanted and value(item.guard, state)
        ),
        Fraction(0),
    )
