"""Names in a PRISM program: all known, none declared twice, and nobody assigns what is not theirs.

A module assigns its own variables, and globals where no other module takes part in the command (PRISM's rules).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from polvet.errors import InputError, Where, did_you_mean
from polvet.model.expressions import names
from polvet.prism.compose import alphabet
from polvet.prism.syntax import Command, Module, Program, RenamedModule


def check_unique(kind: str, items: Iterable[tuple[str | None, Where]]) -> None:
    """Refuse the second declaration of a name, pointing at the first."""
    seen: dict[str, Where] = {}
    for name, where in items:
        if name is not None and name in seen:
            raise InputError(f"{kind} '{name}' is declared twice.", where, f"See {seen[name]}; rename one of the two.")
        if name is not None:
            seen[name] = where


def check_names(program: Program, modules: Sequence[Module]) -> None:
    """Refuse constants, variables and formulas of one name, and names that nothing declares, at their place."""
    places = [(constant.name, constant.where) for constant in program.constants]
    places += [(variable.name, variable.where) for variable in program.variables]
    places += [(variable.name, variable.where) for module in modules for variable in module.variables]
    places += [(formula.name, formula.where) for formula in program.formulas]
    check_unique("the name", places)
    known = {name for name, _ in places}
    for name, where in program.uses:
        if name not in known:
            hint = did_you_mean(name, known) or "Declare it as a constant, variable or formula."
            raise InputError(f"no constant, variable or formula '{name}'.", where, hint)
    copies = {module.name for module in program.modules if isinstance(module, RenamedModule)}
    for module in modules:
        # The names of written modules were checked above, at their own place; renaming may bring in others.
        unknown = sorted(_read_by(module) - known) if module.name in copies else []
        if unknown:
            what = f"after renaming, module '{module.name}' reads '{unknown[0]}', which is not declared."
            raise InputError(what, module.where, did_you_mean(unknown[0], known) or "Correct the renaming.")


def _read_by(module: Module) -> set[str]:
    read: set[str] = set()
    for command in module.commands:
        read |= names(command.guard)
        for update in command.updates:
            read |= names(update.probability) if update.probability else set()
            for _, value, _ in update.assignments:
                read |= names(value)
    return read


def check_assignments(program: Program, modules: Sequence[Module]) -> None:
    """Refuse assignments to what a command must not assign."""
    owner = {variable.name: module.name for module in modules for variable in module.variables}
    shared = {variable.name for variable in program.variables}
    users: dict[str | None, set[str]] = {}
    for module in modules:
        for action in alphabet(module):
            users.setdefault(action, set()).add(module.name)
    for module in modules:
        for command in module.commands:
            alone = len(users.get(command.action, set())) <= 1
            for update in command.updates:
                for name, _, where in update.assignments:
                    if name in shared:
                        _check_global(name, command, alone, where)
                    elif name not in owner:
                        hint = did_you_mean(name, [*owner, *shared]) or "Declare it in the module."
                        raise InputError(f"no variable '{name}' to assign.", where, hint)
                    elif owner[name] != module.name:
                        what = f"module '{module.name}' assigns '{name}' of module '{owner[name]}'."
                        raise InputError(what, where, "Assign it in its own module, or declare it global.")


def _check_global(name: str, command: Command, alone: bool, where: Where) -> None:
    if not alone:
        what = f"the global variable '{name}' is assigned in the synchronising command [{command.action}]."
        raise InputError(what, where, "Assign globals in commands that no other module joins.")
