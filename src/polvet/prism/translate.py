"""A PRISM program as a `Model`: one automaton with one location per module, all variables global under their own names.

    module            automaton of the same name with the location `l`; a command is an edge
    variable          global variable; without `init` it starts at its lower bound, at false, at 0
    init ... endinit  `restrict_initial`; then no variable has an initial value of its own. `x : [0..N] init N/2` is the
                      condition x = N/2 as well: an int must not be assigned a real, but may equal one
    formula           replaced by what it stands for, before modules are renamed (as PRISM does)
    label "x"         transient bool `x`, given its value by the location of the first automaton
    rewards "x"       transient real `x`: state rewards by that location, transition rewards by the edges' assignments.
                      A transition gets its reward once: for an action, the first module that has it assigns it. With
                      `system` an automaton `rewards` that takes part in every transition assigns it instead.
A label or reward whose name is taken is called `x_label`, `x_reward`, `x_reward_2`, ...; rewards without a name are
called `reward`. `Vocabulary` says which variable stands for what; properties are read with it.

Differs  PRISM chooses uniformly among several commands that a dtmc enables at once; the model keeps them as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from polvet.errors import InputError, Where, did_you_mean
from polvet.model.automata import (
    Assignment,
    Automaton,
    Composition,
    Constant,
    Destination,
    Edge,
    Instance,
    Location,
    Model,
    ModelType,
    Synchronisation,
    VariableDeclaration,
)
from polvet.model.expressions import (
    FALSE,
    TRUE,
    Binary,
    BoolLiteral,
    Conditional,
    Expression,
    IntLiteral,
    Name,
    conjunction,
    names,
)
from polvet.model.infix import chained_operands, unquoted
from polvet.model.typecheck import Names, plain, type_of
from polvet.model.types import BOOL, REAL, BoolType, IntType, RealType, Type
from polvet.prism.compose import alphabet, synchronisations
from polvet.prism.formulas import Expander, substituted
from polvet.prism.names import check_assignments, check_names, check_unique
from polvet.prism.renaming import renamed_module
from polvet.prism.syntax import Command, Module, Program, RenamedModule, RewardItem, Rewards, Update

LOCATION = "l"
SILENT = "unlabelled"


@dataclass(frozen=True, slots=True)
class Reward:
    """The transient variable of a reward structure, and whether states and transitions earn it."""

    variable: str
    on_states: bool = True
    on_transitions: bool = True

    @property
    def accumulate(self) -> tuple[str, ...]:
        """When JANI adds it up: on leaving a state, on taking a transition."""
        if not self.on_transitions:
            return ("exit",)
        return ("exit", "steps") if self.on_states else ("steps",)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the words of a property mean in a model: variables, formulas, labels and rewards (None: the first)."""

    type: ModelType
    names: frozenset[str]
    formulas: Mapping[str, Expression]
    labels: Mapping[str, str]
    rewards: Mapping[str | None, Reward]

    def resolved(self, expression: Expression) -> Expression:
        """Return the expression with formulas replaced and "label" turned into the label's variable."""
        values = dict(self.formulas)
        for name in names(expression):
            label = unquoted(name)
            if label is not None and label in self.labels:
                values[name] = Name(self.labels[label])
        return substituted(expression, values)


def vocabulary_of_model(model: Model) -> Vocabulary:
    """Return the vocabulary of any model: its transient bools are labels, its transient numbers rewards."""
    transient = [variable for variable in model.variables if variable.transient]
    rewards: dict[str | None, Reward] = {}
    for variable in transient:
        if isinstance(variable.type, IntType | RealType):
            rewards[variable.name] = Reward(variable.name)
            rewards.setdefault(None, Reward(variable.name))
    known = [constant.name for constant in model.constants]
    known += [variable.name for variable in model.variables]
    for automaton in model.automata:
        known += [variable.name for variable in automaton.variables]
    labels = {variable.name: variable.name for variable in transient if isinstance(variable.type, BoolType)}
    return Vocabulary(model.type, frozenset(known), {}, labels, rewards)


def translate(program: Program, name: str = "prism") -> Model:
    """Return the model of the program."""
    return _Translation(program).model(name)


def vocabulary_of_program(program: Program) -> Vocabulary:
    """Return the vocabulary of the program's model."""
    return _Translation(program).vocabulary()


class _Translation:
    def __init__(self, program: Program) -> None:
        self.program = program
        if not program.modules:
            raise InputError("the program has no module.", program.where, "Add module m ... endmodule.")
        for kind, items in (("label", program.labels), ("module", program.modules), ("rewards", program.rewards)):
            check_unique(kind, [(one.name, one.where) for one in items])
        self.expander = Expander(program.formulas)
        self.formulas = self.expander.formulas
        self.modules = self._modules()
        variables = [*program.variables, *(v for module in self.modules for v in module.variables)]
        self.declared: list[Constant | VariableDeclaration] = [*program.constants, *variables]
        check_names(program, self.modules)
        check_assignments(program, self.modules)
        self.initially: list[Expression] = [program.init.value] if program.init else []
        self.variables = [self._variable(variable) for variable in variables]
        used = {item.name for item in self.declared} | set(self.formulas)
        self.labels = {label.name: _free_name(label.name, "label", used) for label in program.labels}
        self.rewards: list[tuple[Rewards, Reward]] = []
        for rewards in program.rewards:
            variable = _free_name(rewards.name or "reward", "reward", used)
            on_states = any(item.action is None for item in rewards.items)
            on_transitions = any(item.action is not None for item in rewards.items)
            self.rewards.append((rewards, Reward(variable, on_states, on_transitions)))

    def vocabulary(self) -> Vocabulary:
        """Return what the words of a property mean."""
        rewards: dict[str | None, Reward] = {}
        for written, reward in self.rewards:
            rewards.setdefault(None, reward)
            if written.name is not None:
                rewards[written.name] = reward
        known = frozenset(item.name for item in self.declared)
        return Vocabulary(self.program.type, known, self.formulas, self.labels, rewards)

    def model(self, name: str) -> Model:
        """Return the whole model."""
        program = self.program
        vectors = synchronisations(self.modules, program.system, program.where)
        by_result = program.system is not None and any(reward.on_transitions for _, reward in self.rewards)
        automata = [self._automaton(module, by_result) for module in self.modules]
        first = automata[0]
        automata[0] = replace(first, locations=(replace(first.locations[0], transient_values=self._state_values()),))
        if by_result:
            automaton, vectors = self._reward_automaton(vectors)
            automata.append(automaton)
        actions = dict.fromkeys(action for module in self.modules for action in alphabet(module))
        actions |= dict.fromkeys(action for vector in vectors for action in (*vector.actions, vector.result) if action)
        transient = [
            VariableDeclaration(self.labels[label.name], BOOL, FALSE, transient=True, where=label.where)
            for label in program.labels
        ]
        transient += [
            VariableDeclaration(reward.variable, REAL, IntLiteral(0), transient=True, where=rewards.where)
            for rewards, reward in self.rewards
        ]
        return Model(
            name=name,
            type=program.type,
            automata=tuple(automata),
            system=Composition(tuple(Instance(one.name) for one in automata), vectors, program.where),
            actions=tuple(actions),
            constants=tuple(self._constant(constant) for constant in program.constants),
            variables=(*self.variables, *transient),
            restrict_initial=self._initial_condition(),
            features=("derived-operators",),
            where=program.where,
        )

    def _initial_condition(self) -> Expression | None:
        where = self.program.init.where if self.program.init else self.program.where
        return self.expander.expanded(conjunction(*self.initially), where) if self.initially else None

    def _constant(self, constant: Constant) -> Constant:
        if constant.value is None:
            return constant
        return replace(constant, value=self.expander.expanded(constant.value, constant.where))

    def _variable(self, variable: VariableDeclaration) -> VariableDeclaration:
        variable = self._expanded_variable(variable)
        if self.program.init is not None:
            if variable.initial is not None:
                what = f"'{variable.name}' has an initial value beside init ... endinit."
                raise InputError(what, variable.where, "Move it into the init condition.")
            return variable
        default: Expression = FALSE if isinstance(variable.type, BoolType) else IntLiteral(0)
        if isinstance(variable.type, IntType) and variable.type.lower is not None:
            default = variable.type.lower
        if variable.initial is not None and isinstance(variable.type, IntType) and self._is_real(variable):
            self.initially.append(Binary("=", Name(variable.name), variable.initial))
            return replace(variable, initial=None)
        return replace(variable, initial=default if variable.initial is None else variable.initial)

    def _is_real(self, variable: VariableDeclaration) -> bool:
        constants = Names({constant.name: plain(constant.type) for constant in self.program.constants})
        value = variable.initial
        if value is None or not names(value) <= set(constants.types):
            return False
        return isinstance(type_of(value, constants, variable.where), RealType)

    def _modules(self) -> tuple[Module, ...]:
        """Return the modules with formulas replaced and renamings carried out, in the order of the program."""
        written = {module.name: module for module in self.program.modules}
        done: dict[str, Module] = {}
        spent: dict[str, int] = {}
        for module in self.program.modules:
            path: list[RenamedModule] = []
            current = module
            while current.name not in done and isinstance(current, RenamedModule):
                if current in path:
                    raise InputError(f"the module '{current.name}' copies itself.", current.where, "Break the circle.")
                path.append(current)
                if current.base not in written:
                    hint = did_you_mean(current.base, written) or "Declare it."
                    raise InputError(f"no module '{current.base}' to copy.", current.where, hint)
                current = written[current.base]
            if current.name not in done and isinstance(current, Module):
                before = self.expander.total
                done[current.name] = self._expanded_module(current)
                spent[current.name] = self.expander.total - before
            for copy in reversed(path):
                spent[copy.name] = spent[copy.base]
                self.expander.spend(spent[copy.name] + 1, copy.where)
                done[copy.name] = renamed_module(done[copy.base], copy)
        return tuple(done[module.name] for module in self.program.modules)

    def _expanded_module(self, module: Module) -> Module:
        commands = tuple(self._expanded_command(command) for command in module.commands)
        return replace(module, variables=tuple(map(self._expanded_variable, module.variables)), commands=commands)

    def _expanded_variable(self, variable: VariableDeclaration) -> VariableDeclaration:
        type_: Type = variable.type
        if isinstance(type_, IntType) and type_.lower is not None and type_.upper is not None:
            lower, upper = (self.expander.expanded(bound, variable.where) for bound in (type_.lower, type_.upper))
            type_ = IntType(lower, upper)
        initial = None if variable.initial is None else self.expander.expanded(variable.initial, variable.where)
        return replace(variable, type=type_, initial=initial)

    def _expanded_command(self, command: Command) -> Command:
        updates = tuple(
            Update(
                None if update.probability is None else self.expander.expanded(update.probability, update.where),
                tuple((name, self.expander.expanded(value, where), where) for name, value, where in update.assignments),
                update.where,
            )
            for update in command.updates
        )
        return Command(command.action, self.expander.expanded(command.guard, command.where), updates, command.where)

    def _automaton(self, module: Module, by_result: bool) -> Automaton:
        first = {action: one.name for one in reversed(self.modules) for action in alphabet(one)}
        edges = []
        for command in module.commands:
            earned: tuple[Assignment, ...] = ()
            if command.action is None:
                earned = self._earned("", command.where)
            elif first[command.action] == module.name and not by_result:
                earned = self._earned(command.action, command.where)
            destinations = tuple(
                Destination(
                    LOCATION,
                    update.probability,
                    (*(Assignment(Name(name), value, 0, where) for name, value, where in update.assignments), *earned),
                    update.where,
                )
                for update in command.updates
            )
            guard = None if command.guard == TRUE else command.guard
            edges.append(Edge(LOCATION, command.action, guard, destinations, where=command.where))
        location = Location(LOCATION, where=module.where)
        return Automaton(module.name, (location,), (LOCATION,), tuple(edges), where=module.where)

    def _earned(self, action: str, where: Where) -> tuple[Assignment, ...]:
        """Return the assignments that a transition with this action ("" for none) makes to the rewards."""
        assignments = []
        for rewards, reward in self.rewards:
            value = self._total([item for item in rewards.items if item.action == action])
            if value is not None:
                assignments.append(Assignment(Name(reward.variable), value, 0, where))
        return tuple(assignments)

    def _total(self, items: Iterable[RewardItem]) -> Expression | None:
        terms: list[Expression] = []
        for item in items:
            guard, value = (
                self.expander.expanded(item.guard, item.where),
                self.expander.expanded(item.value, item.where),
            )
            if guard != BoolLiteral(False):
                terms.append(value if guard == TRUE else Conditional(guard, value, IntLiteral(0)))
        return chained_operands("+", terms) if terms else None

    def _state_values(self) -> tuple[Assignment, ...]:
        values = [
            Assignment(Name(self.labels[label.name]), self.expander.expanded(label.value, label.where), 0, label.where)
            for label in self.program.labels
        ]
        for rewards, reward in self.rewards:
            value = self._total([item for item in rewards.items if item.action is None])
            if value is not None:
                values.append(Assignment(Name(reward.variable), value, 0, rewards.where))
        return tuple(values)

    def _reward_automaton(self, vectors: tuple[Synchronisation, ...]) -> tuple[Automaton, tuple[Synchronisation, ...]]:
        """Return an automaton that takes part in every labelled transition to earn its reward, and the new vectors."""
        name = _free_name("rewards", "automaton", {module.name for module in self.modules})
        silent = _free_name(SILENT, "action", {action for module in self.modules for action in alphabet(module)})
        edges = []
        for result in dict.fromkeys(vector.result for vector in vectors):
            where = self.program.where
            destination = Destination(LOCATION, None, self._earned(result or "", where), where)
            edges.append(Edge(LOCATION, result or silent, None, (destination,), where=where))
        location = Location(LOCATION, where=self.program.where)
        automaton = Automaton(name, (location,), (LOCATION,), tuple(edges), where=self.program.where)
        return automaton, tuple(replace(one, actions=(*one.actions, one.result or silent)) for one in vectors)


def _free_name(wanted: str, kind: str, used: set[str]) -> str:
    """Return the wanted name or, where it is taken, one near it; and take it."""
    name, number = wanted, 1
    while name in used:
        name = f"{wanted}_{kind}" if number == 1 else f"{wanted}_{kind}_{number}"
        number += 1
    used.add(name)
    return name
