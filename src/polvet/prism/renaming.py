"""Module renaming: a copy of a module with names replaced, all at once."""

from __future__ import annotations

from dataclasses import replace

from polvet.errors import InputError
from polvet.model.expressions import Expression
from polvet.model.types import IntType
from polvet.prism.formulas import renamed
from polvet.prism.syntax import Command, Module, RenamedModule, Update


def renamed_module(base: Module, copy: RenamedModule) -> Module:
    """Return the copy of the base; formulas must be replaced in it already, and every variable must be renamed."""
    new = {old: name for old, name, _ in copy.renaming}
    for variable in base.variables:
        if variable.name not in new:
            hint = f"Add {variable.name}=... to the renamings."
            raise InputError(f"the variable '{variable.name}' of '{base.name}' is not renamed.", copy.where, hint)

    def changed(expression: Expression) -> Expression:
        return renamed(expression, new)

    variables = []
    for variable in base.variables:
        type_ = variable.type
        if isinstance(type_, IntType) and type_.lower is not None and type_.upper is not None:
            type_ = IntType(changed(type_.lower), changed(type_.upper))
        initial = None if variable.initial is None else changed(variable.initial)
        place = next(where for old, _, where in copy.renaming if old == variable.name)
        variables.append(replace(variable, name=new[variable.name], type=type_, initial=initial, where=place))
    commands = []
    for command in base.commands:
        updates = tuple(
            Update(
                None if update.probability is None else changed(update.probability),
                tuple((new.get(name, name), changed(value), where) for name, value, where in update.assignments),
                update.where,
            )
            for update in command.updates
        )
        action = None if command.action is None else new.get(command.action, command.action)
        commands.append(Command(action, changed(command.guard), updates, command.where))
    return Module(copy.name, tuple(variables), tuple(commands), copy.where)
