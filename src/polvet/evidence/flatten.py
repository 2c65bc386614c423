"""Tasks and policies written out as one flat text, of which every verdict speaks; docs/flat.md says what such a text means.

The law: what an interpreter of flat texts says of a state (operators, exact probabilities, outcomes, errors of the model, fail, goal,
start, what a policy may choose) is what the kernel and `model/semantics.py` say of it. What a text cannot say is refused by name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from polvet.evidence.flat_text import Piece, Terms, double, word
from polvet.evidence.flat_world import FlatWorld
from polvet.model.expressions import (
    Binary,
    BoolLiteral,
    Expression,
    IntLiteral,
    Name,
    Unary,
    conjuncts,
    disjuncts,
    names,
)
from polvet.model.network import Kind, Network, Variable
from polvet.model.options import ADVERSARIAL, FAIR
from polvet.model.restrict import restrict
from polvet.model.semantics import State
from polvet.model.start_parts import names_in_order, narrowed_bounds, reading_order
from polvet.model.task import Task

if TYPE_CHECKING:
    from polvet.policy.binding import Fitted

VERSION = "(flat 1)"


def flatten(
    task: Task, fitted: Fitted | None = None, *, aside: Collection[str] = (), states: Iterable[State] = ()
) -> str:
    """Return the flat text of a task, or of a policy with its task.

    `aside` are variables that nothing depends on: they are left out, and errors in computing them are not looked for. `states` are
    those in which a policy that is a Python function is asked.
    """
    task = task if fitted is None else fitted.task
    if aside:
        kept = [one.name for one in (*task.network.variables, *task.network.scratch) if one.name not in aside]
        if fitted is None:
            task = restrict(task, kept)
        else:
            from polvet.policy.restrict import restrict_fitted

            fitted = restrict_fitted(fitted, kept)
            task = fitted.task
    network = task.network
    terms = Terms(variable.name for variable in (*network.variables, *network.scratch))
    world = FlatWorld(network, terms)
    declared: list[list[Piece]] = list(world.declarations())
    items: list[list[Piece]] = list(world.moves())
    for role, condition in (("fail", task.fail), ("goal", task.goal)):
        items.append([f"({role} ", terms.of(condition), ")"])
    items.append(_start(task, world, terms))
    items.append([_meaning(task, aside)])
    if fitted is not None:
        from polvet.evidence.flat_policy import policy_item

        items.append(policy_item(fitted, terms, states))
    defined, lines = terms.lines(items)
    return "\n".join([VERSION, *("".join(map(str, item)) for item in declared), *defined, *lines]) + "\n"


def _meaning(task: Task, aside: Collection[str]) -> str:
    fair = task.avoid.loop and not task.avoid.delay  # whether runs end is asked of fair environments, else of any
    parts: dict[str, Sequence[str]] = {
        "choice": ["chance" if task.network.is_chain else "policy"],
        "choose": ["arg-max"],
        "applicable": [task.reading.mode],
        "avoid": [name for name in task.avoid.names if name != "delay"],
        "environment": [FAIR if fair else ADVERSARIAL],
        "bounds": [task.network.out_of_bounds.value],
        "errors": ["aside", *map(word, sorted(aside))] if aside else ["all"],
    }
    shown = " ".join(f"({' '.join((key, *words))})" for key, words in parts.items())
    return f"(meaning {shown})"


# -- where runs start


def _start(task: Task, world: FlatWorld, terms: Terms) -> list[Piece]:
    """Return the item of the start states: listed where the condition lists them, else ranges with conditions."""
    network, initial = task.network, task.start is None
    parts = list(conjuncts(network.initial_condition if task.start is None else task.start))
    ranges = {one.name: _range(one, parts, world, initial=initial) for one in network.variables}
    kept = [part for part in parts if not _is_in_range(part, network, ranges)]
    if (listed := _listed(kept, network, ranges)) is not None:
        return ["(starts", *(f"\n  ({' '.join(state)})" for state in listed), ")"]
    single = [name for name, (low, high) in ranges.items() if low == high and low != "*"]
    reads = [[name for name in names_in_order(part) if name not in single] for part in kept]
    others = [name for name in reading_order(list(ranges), [list(read) for read in reads]) if name not in single]
    place = {name: k for k, name in enumerate((*single, *others))}
    asked: dict[int, list[int]] = {}
    for part in kept:
        last = max((place[name] for name in names(part)), default=0)
        asked.setdefault(last, []).append(terms.of(part))
    item: list[Piece] = ["(start"]
    for name, k in place.items():
        item.append(f" ({word(name)} {ranges[name][0]} {ranges[name][1]}")
        for condition in asked.get(k, ()):
            item += [" ", condition]
        item.append(")")
    return [*item, ")"]


def _range(variable: Variable, parts: Sequence[Expression], world: FlatWorld, *, initial: bool) -> tuple[str, str]:
    """Return the ends of the values that a variable may start with, as far as conditions on it alone say them."""
    if initial and variable.initial is not None:
        value = double(variable.initial) if variable.kind is Kind.REAL else str(int(variable.initial))
        return value, value
    if variable.kind is Kind.BOOL:
        said = {truth for part in parts if (truth := _truth_of(part, variable.name)) is not None}
        return (str(int(said == {True})), str(int(said != {False}))) if len(said) < 2 else ("0", "1")
    low, high = narrowed_bounds(variable, parts)
    least, most = world.bounds(variable)
    if variable.kind is Kind.REAL:
        return ("*" if low is None else double(low)), ("*" if high is None else double(high))
    ends = (least if low is None else str(int(low))), (most if high is None else str(int(high)))
    return ends[0] or "*", ends[1] or "*"


def _truth_of(part: Expression, name: str) -> bool | None:
    """Return which value of a truth value the condition says, and nothing else."""
    match part:
        case Name(other) if other == name:
            return True
        case Unary("¬", Name(other)) if other == name:
            return False
    return None


def _is_in_range(part: Expression, network: Network, ranges: dict[str, tuple[str, str]]) -> bool:
    """Return whether a condition says no more than the ranges do: it compares one integer with a number, and holds at both ends."""
    match part:
        case Name(name) | Unary("¬", Name(name)):
            wanted = str(int(isinstance(part, Name)))
            return ranges[name] == (wanted, wanted)
        case Binary(operator, Name(name), IntLiteral(value)) | Binary(operator, IntLiteral(value), Name(name)):
            if "*" in ranges[name] or network.variables[network.index_of(name)].kind is not Kind.INT:
                return False
            if isinstance(part.left, IntLiteral):
                operator = {"<": ">", ">": "<", "≤": "≥", "≥": "≤"}.get(operator, operator)
            low, high = map(int, ranges[name])
            holds = {
                "=": low == high == value,
                "<": high < value,
                "≤": high <= value,
                ">": low > value,
                "≥": low >= value,
            }
            return holds.get(operator, False)
        case BoolLiteral(True):
            return True
    return False


def _listed(
    kept: Sequence[Expression], network: Network, ranges: dict[str, tuple[str, str]]
) -> list[tuple[str, ...]] | None:
    """Return the states that the only condition lists; None where it is something else."""
    cases = list(disjuncts(kept[0])) if len(kept) == 1 else []
    if len(cases) < 2:
        return None
    kinds = {variable.name: variable.kind for variable in network.variables}
    fixed = {name: low for name, (low, high) in ranges.items() if low == high and low != "*"}
    states: dict[tuple[str, ...], None] = {}
    for case in cases:
        said = dict(fixed)
        possible = True
        for part in conjuncts(case):
            match part:
                case Binary("=", Name(name), IntLiteral(value)) if kinds[name] is Kind.INT:
                    given = str(value)
                    low, high = ranges[name]
                    possible &= (low == "*" or int(low) <= value) and (high == "*" or value <= int(high))
                case Name(name):
                    given = "1"
                case Unary("¬", Name(name)):
                    given = "0"
                case _:
                    return None
            possible &= said.setdefault(name, given) == given
        if len(said) < len(ranges):
            return None
        if possible:
            states[tuple(said[variable.name] for variable in network.variables)] = None
    return list(states)
