"""A PRISM program as it is written: what `parse` makes and `translate` reads. Places stand beside everything."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from polvet.errors import Where
from polvet.model.automata import Constant, ModelType, VariableDeclaration
from polvet.model.expressions import Expression


@dataclass(frozen=True, slots=True)
class Definition:
    """A formula or a label: a name for an expression."""

    name: str
    value: Expression
    where: Where


@dataclass(frozen=True, slots=True)
class Update:
    """One outcome of a command: its probability (None: 1) and its assignments `(x'=e)`."""

    probability: Expression | None
    assignments: tuple[tuple[str, Expression, Where], ...]
    where: Where


@dataclass(frozen=True, slots=True)
class Command:
    """`[action] guard -> updates;` (action None: unlabelled)."""

    action: str | None
    guard: Expression
    updates: tuple[Update, ...]
    where: Where


@dataclass(frozen=True, slots=True)
class Module:
    """A module with its local variables and commands."""

    name: str
    variables: tuple[VariableDeclaration, ...]
    commands: tuple[Command, ...]
    where: Where


@dataclass(frozen=True, slots=True)
class RenamedModule:
    """`module name = base [ old=new, ... ] endmodule`."""

    name: str
    base: str
    renaming: tuple[tuple[str, str, Where], ...]
    where: Where


@dataclass(frozen=True, slots=True)
class RewardItem:
    """`guard : value;` for states, `[action] guard : value;` for transitions (action "" for unlabelled ones)."""

    action: str | None
    guard: Expression
    value: Expression
    where: Where


@dataclass(frozen=True, slots=True)
class Rewards:
    """A reward structure; `name` None where it has none."""

    name: str | None
    items: tuple[RewardItem, ...]
    where: Where


@dataclass(frozen=True, slots=True)
class ModuleReference:
    """A module taking part in `system`."""

    name: str
    where: Where


@dataclass(frozen=True, slots=True)
class Parallel:
    """Two processes in parallel; `actions` None means all that both have, () means none (interleaving)."""

    left: Process
    right: Process
    actions: tuple[str, ...] | None
    where: Where


@dataclass(frozen=True, slots=True)
class Hide:
    """`process / {a, b}`: these actions become unlabelled."""

    process: Process
    actions: tuple[str, ...]
    where: Where


@dataclass(frozen=True, slots=True)
class Rename:
    """`process {a<-b}`: the action a becomes b."""

    process: Process
    renaming: tuple[tuple[str, str], ...]
    where: Where


Process: TypeAlias = ModuleReference | Parallel | Hide | Rename


@dataclass(frozen=True, slots=True)
class Program:
    """A whole program."""

    type: ModelType
    constants: tuple[Constant, ...]
    variables: tuple[VariableDeclaration, ...]
    modules: tuple[Module | RenamedModule, ...]
    formulas: tuple[Definition, ...]
    labels: tuple[Definition, ...]
    rewards: tuple[Rewards, ...]
    init: Definition | None
    system: Process | None
    where: Where
    uses: tuple[tuple[str, Where], ...] = field(default=(), compare=False, repr=False)
