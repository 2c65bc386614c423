"""`system` to synchronisation vectors: which modules' actions happen together, and what the result is called.

Semantics (PRISM's process algebra)
    M            every action of M by itself
    A || B       together on the actions that both have; else each by itself
    A ||| B      never together
    A |[a,b]| B  together on a and b only; one that only one side has never happens
    A / {a}      a becomes unlabelled and synchronises no more
    A {a<-b}     a becomes b
Without `system` all modules stand under `||`.

Limits   MAX_VECTORS vectors
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from polvet.errors import InputError, Where, did_you_mean
from polvet.model.automata import Synchronisation
from polvet.prism.syntax import Hide, Module, ModuleReference, Parallel, Process, Rename

MAX_VECTORS = 200_000


@dataclass(frozen=True, slots=True)
class _Vector:
    """The module's action per taking part module (by its number), and the result (None: unlabelled)."""

    actions: tuple[tuple[int, str], ...]
    result: str | None


def alphabet(module: Module) -> tuple[str, ...]:
    """Return the actions of the module's commands, in the order of their first use."""
    return tuple(dict.fromkeys(command.action for command in module.commands if command.action is not None))


def synchronisations(modules: tuple[Module, ...], system: Process | None, where: Where) -> tuple[Synchronisation, ...]:
    """Return the synchronisation vectors, one entry per module."""
    if system is None:
        parts: list[Process] = [ModuleReference(module.name, module.where) for module in modules]
        system = reduce(lambda left, right: Parallel(left, right, None, where), parts)
    numbers = {module.name: number for number, module in enumerate(modules)}
    _check_references(system, numbers, where)
    vectors, _ = _vectors(system, numbers, modules)
    result = []
    for vector in vectors:
        actions = dict(vector.actions)
        row = tuple(actions.get(number) for number in range(len(modules)))
        result.append(Synchronisation(row, vector.result, where))
    return tuple(result)


def _check_references(system: Process, numbers: Mapping[str, int], where: Where) -> None:
    used: set[str] = set()
    pending = [system]
    while pending:
        match pending.pop():
            case ModuleReference(name, place):
                if name not in numbers:
                    hint = did_you_mean(name, numbers) or f"The modules are {', '.join(numbers)}."
                    raise InputError(f"no module '{name}'.", place, hint)
                if name in used:
                    raise InputError(f"the module '{name}' takes part twice.", place, "Copy it by renaming.")
                used.add(name)
            case Parallel(left, right):
                pending += (right, left)
            case Hide(process) | Rename(process):
                pending.append(process)
    absent = [name for name in numbers if name not in used]
    if absent:
        raise InputError(f"the module '{absent[0]}' takes no part in system.", where, "Every module must be in it.")


def _vectors(
    process: Process, numbers: Mapping[str, int], modules: tuple[Module, ...]
) -> tuple[list[_Vector], frozenset[str]]:
    """Return the vectors of the process and its actions; a left-deep row of `||` costs no recursion."""
    row: list[tuple[Process, Parallel]] = []
    while isinstance(process, Parallel):
        row.append((process.right, process))
        process = process.left
    vectors, actions = _single(process, numbers, modules)
    for right, node in reversed(row):
        other, other_actions = _vectors(right, numbers, modules)
        shared = actions & other_actions if node.actions is None else frozenset(node.actions)
        joined = [vector for vector in (*vectors, *other) if vector.result is None or vector.result not in shared]
        by_result: dict[str | None, list[_Vector]] = {}
        for vector in other:
            by_result.setdefault(vector.result, []).append(vector)
        for vector in vectors:
            if vector.result is not None and vector.result in shared:
                partners = by_result.get(vector.result, [])
                joined += [_Vector((*vector.actions, *partner.actions), vector.result) for partner in partners]
            if len(joined) > MAX_VECTORS:
                raise InputError(f"over {MAX_VECTORS} synchronisations.", node.where, "Use fewer renamed actions.")
        vectors, actions = joined, actions | other_actions
    return vectors, actions


def _single(
    process: Process, numbers: Mapping[str, int], modules: tuple[Module, ...]
) -> tuple[list[_Vector], frozenset[str]]:
    match process:
        case ModuleReference(name):
            number = numbers[name]
            own = alphabet(modules[number])
            return [_Vector(((number, action),), action) for action in own], frozenset(own)
        case Hide(inner, hidden):
            vectors, actions = _vectors(inner, numbers, modules)
            changed = [_Vector(v.actions, None if v.result in hidden else v.result) for v in vectors]
            return changed, actions - frozenset(hidden)
        case Rename(inner, renaming):
            vectors, actions = _vectors(inner, numbers, modules)
            new = dict(renaming)
            changed = [_Vector(v.actions, None if v.result is None else new.get(v.result, v.result)) for v in vectors]
            return changed, frozenset(new.get(action, action) for action in actions)
    return _vectors(process, numbers, modules)
