"""From a `Model` and values of its open constants to a `Network` that can be run.

The steps, in this order: constants, variables (arrays become scalars `a[0]`, `a[1]`, ...), transient variables, edges
with their locations folded in, and the synchronisations.

Names     a local variable keeps its own name where that is unique in the model, else it is `automaton.name`; the second
          instance of an automaton is `automaton#2`. An automaton with one location has no location variable.
Transient a transient variable has, in a state, the value its location gives it, else its initial value. Edges see the
          initial value, and what assignments of smaller index gave it.
"""

from __future__ import annotations

import logging
from collections import ChainMap, Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from polvet.errors import InputError, Where, suggest
from polvet.model import folding
from polvet.model.arithmetic import Value
from polvet.model.automata import (
    Assignment,
    Automaton,
    Edge,
    Function,
    Instance,
    Model,
    ModelType,
    VariableDeclaration,
)
from polvet.model.constants import bounds_of, evaluate_constants, fit
from polvet.model.expressions import (
    FALSE,
    TRUE,
    Binary,
    Element,
    Expression,
    IntLiteral,
    Name,
    Select,
    conjunction,
    disjunction,
    literal,
    negation,
)
from polvet.model.kinds import kind_of
from polvet.model.network import PROBABILITY_TOLERANCE, Branch, Joint, Kind, Network, NetworkEdge, Update, Variable
from polvet.model.scope import Scope, Symbol
from polvet.model.table_edges import TableEdges
from polvet.model.tables import REWARD, TableMoves
from polvet.model.types import ArrayType, BoolType, IntType, RealType, Type

DISCRETE = (ModelType.LTS, ModelType.DTMC, ModelType.MDP)
MAX_SCALARS = 1_000_000
NONE_OF_THEM = "none"
"""The name of the value 0 where all others have names."""

logger = logging.getLogger(__name__)


def instantiate(model: Model, constants: Mapping[str, Value] | None = None) -> Network:
    """Return the network of the model with its open constants set."""
    if model.type not in DISCRETE:
        raise InputError(
            f"models of type '{model.type.value}' run in continuous time.",
            model.where,
            "Only lts, dtmc and mdp are run.",
        )
    return _Builder(model, evaluate_constants(model, constants or {})).build()


@dataclass(frozen=True, slots=True)
class _Part:
    """One instance of an automaton: the name it goes by, and the two views of names inside it."""

    automaton: Automaton
    name: str
    state: Scope  # guards, probabilities, properties: transients have their value in the state
    moving: Scope  # right-hand sides: transients are scratch
    location: str | None  # its location variable, if it has several locations


class _Builder:
    """Gathers variables and edges, and the ways to resolve names."""

    def __init__(self, model: Model, constants: dict[str, Value]) -> None:
        self.model = model
        self.constants = constants
        self.symbols: dict[str, Symbol] = {name: literal(value) for name, value in constants.items()}
        self.variables: list[Variable] = []
        self.scratch: list[Variable] = []
        self.kinds: dict[str, Kind] = {}
        self.edges: list[NetworkEdge] = []
        self.moves: TableMoves | None = None  # in the place of edges
        self.locations: dict[str, tuple[str, ...]] = {}
        self.initial: list[Expression] = []
        self.transients: list[tuple[str | None, VariableDeclaration, str]] = []  # owner, declaration, full name
        self.local: list[dict[str, Symbol]] = []  # per instance: its own variables under their short names

    def build(self) -> Network:
        model = self.model
        automata = {automaton.name: automaton for automaton in model.automata}
        instances = self._instances(automata)
        self._declare_variables(instances)
        root, steps, parts = self._scopes(instances)
        for part in parts:
            self._restrict_initial(part)
        if model.restrict_initial is not None:
            self.initial.append(root.scalar(model.restrict_initial, model.where.at("restrict-initial")))
        joints = self._joints(parts)
        written = self._labels(parts)
        if model.type is ModelType.DTMC:  # what moves together is told by labels, but nobody chooses one
            joints, written = tuple(replace(joint, label=None) for joint in joints), []
        ordered = dict.fromkeys(action for action in model.actions if action in set(written))
        ordered.update(dict.fromkeys(written))
        condition = conjunction(*self.initial)
        self._expect_bool(condition, model.where, "restrict-initial")
        return Network(
            model,
            self.constants,
            self._with_named_values(root),
            tuple(self.scratch),
            tuple(self.edges) if self.moves is None else self.moves,
            joints,
            tuple(ordered),
            condition,
            root,
            steps,
        )

    def _with_named_values(self, root: Scope) -> tuple[Variable, ...]:
        """Return the variables; where transient truth values stand for `x = 0`, `x = 1`, ... they name all values of x (0 may be none)."""
        names: dict[str, dict[int, str]] = {}
        for _, _, name in self.transients:
            match root.names.get(name):
                case Binary("=", Name(owner), IntLiteral(value)):
                    names.setdefault(owner, {}).setdefault(value, name)
        variables = []
        for variable in self.variables:
            named = names.get(variable.name, {})
            is_named = variable.lower == 0 and variable.upper is not None and len(named) >= 2
            wanted = range(int(variable.upper or 0) + 1) if is_named else range(0)
            if is_named and all(k in named for k in wanted if k):
                variable = replace(variable, values=tuple(named.get(k, NONE_OF_THEM) for k in wanted))
            variables.append(variable)
        return tuple(variables)

    # -- variables

    def _instances(self, automata: Mapping[str, Automaton]) -> list[tuple[Automaton, str]]:
        count: Counter[str] = Counter()
        result = []
        for instance in self.model.system.instances:
            if instance.automaton not in automata:
                hint = suggest(instance.automaton, automata)
                raise InputError(f"no automaton '{instance.automaton}'.", self.model.system.where, hint)
            count[instance.automaton] += 1
            number = count[instance.automaton]
            name = instance.automaton if number == 1 else f"{instance.automaton}#{number}"
            result.append((automata[instance.automaton], name))
        return result

    def _declare_variables(self, instances: list[tuple[Automaton, str]]) -> None:
        root = Scope(self.symbols, _by_name(self.model.functions), self.locations)
        uses = Counter(declaration.name for declaration in self.model.variables)
        uses.update(self.constants)
        uses.update(declaration.name for automaton, _ in instances for declaration in automaton.variables)
        for declaration in self.model.variables:
            self._declare(declaration, declaration.name, None, root)
        for automaton, name in instances:
            local: dict[str, Symbol] = {}
            self.local.append(local)
            for declaration in automaton.variables:
                full = declaration.name if uses[declaration.name] == 1 else f"{name}.{declaration.name}"
                self._declare(declaration, full, name, root)
                if full in self.symbols:
                    local[declaration.name] = self.symbols[f"{name}.{declaration.name}"] = self.symbols[full]
            if len(automaton.locations) > 1:
                self._declare_location(automaton, name)
            elif not automaton.locations:
                raise InputError(
                    f"automaton '{automaton.name}' has no location.", automaton.where, "Give it at least one."
                )
            else:
                self.locations[f"{name}.location"] = (automaton.locations[0].name,)
        if len(self.variables) > MAX_SCALARS:
            raise InputError(
                f"the model has {len(self.variables)} scalars; at most {MAX_SCALARS} are run.",
                self.model.where,
                "Make the arrays or the constants smaller.",
            )

    def _declare(self, declaration: VariableDeclaration, name: str, owner: str | None, root: Scope) -> None:
        if declaration.transient:
            self.transients.append((owner, declaration, name))
            return
        initial: Symbol | None = None
        if declaration.initial is not None:
            initial = root.expand(declaration.initial, declaration.where.at("initial-value"))
        self.symbols[name] = self._scalars(declaration, declaration.type, name, initial, root, self.variables)

    def _scalars(
        self,
        declaration: VariableDeclaration,
        type_: Type,
        name: str,
        initial: Symbol | None,
        scope: Scope,
        into: list[Variable],
    ) -> Symbol:
        if isinstance(type_, ArrayType):
            if not isinstance(initial, tuple):
                raise InputError(
                    f"array '{name}' has no initial value, so its length is unknown.",
                    declaration.where,
                    "Give an initial value by 'av' or 'ac'.",
                )
            return tuple(
                self._scalars(declaration, type_.base, f"{name}[{i}]", one, scope, into)
                for i, one in enumerate(initial)
            )
        if isinstance(initial, tuple):
            raise InputError(
                f"'{name}' starts as an array but is a {type_}.", declaration.where, "Write a single value."
            )
        lower = upper = None
        if isinstance(type_, IntType | RealType):
            lower, upper = bounds_of(type_, scope, declaration.where.at("type"))
        value: Value | None = None
        if initial is not None:
            value = folding.value_of(initial)
            if value is None:
                raise InputError(
                    f"the initial value of '{name}' is not constant.",
                    declaration.where.at("initial-value"),
                    "Write constants and numbers only.",
                )
            value = fit(value, type_, f"the initial value of '{name}'", declaration.where.at("initial-value"))
            if (lower is not None and value < lower) or (upper is not None and value > upper):
                raise InputError(
                    f"the initial value {value} of '{name}' is outside [{lower}, {upper}].",
                    declaration.where.at("initial-value"),
                    "Change the value or the bounds.",
                )
        kind = {BoolType: Kind.BOOL, IntType: Kind.INT, RealType: Kind.REAL}[type(type_)]
        into.append(Variable(name, kind, lower, upper, value, None, declaration.where))
        self.kinds[name] = kind
        return Name(name)

    def _declare_location(self, automaton: Automaton, name: str) -> None:
        names = tuple(location.name for location in automaton.locations)
        variable = f"{name}.location"
        initial = automaton.initial_locations
        if not initial:
            raise InputError(
                f"automaton '{automaton.name}' has no initial location.", automaton.where, "Give 'initial-locations'."
            )
        start = names.index(initial[0]) if len(initial) == 1 else None
        self.variables.append(Variable(variable, Kind.INT, 0, len(names) - 1, start, names, automaton.where))
        self.kinds[variable] = Kind.INT
        self.symbols[variable] = Name(variable)
        self.locations[variable] = names
        if start is None:
            tests = (Binary("=", Name(variable), IntLiteral(names.index(one))) for one in initial)
            self.initial.append(disjunction(*tests))

    # -- scopes and transient variables

    def _scopes(self, instances: list[tuple[Automaton, str]]) -> tuple[Scope, Scope, list[_Part]]:
        functions = _by_name(self.model.functions)
        assigned = self._assigned_transients()
        resting: dict[str, Symbol] = {}  # the value of each transient in a state
        moving: dict[str, Symbol] = {}  # what right-hand sides see of it
        root = Scope(ChainMap(resting, self.symbols), functions, self.locations)
        steps = Scope(ChainMap(moving, resting, self.symbols), functions, self.locations)
        own: dict[str | None, tuple[dict[str, Symbol], dict[str, Symbol]]] = {None: (resting, moving)}
        parts = []
        for (automaton, name), local in zip(instances, self.local, strict=True):
            views = {**functions, **_by_name(automaton.functions)}
            rests: dict[str, Symbol] = dict(local)
            moves: dict[str, Symbol] = dict(local)
            own[name] = (rests, moves)
            state = Scope(ChainMap(rests, resting, self.symbols), views, self.locations)
            move = Scope(ChainMap(moves, rests, moving, resting, self.symbols), views, self.locations)
            location = f"{name}.location" if len(automaton.locations) > 1 else None
            parts.append(_Part(automaton, name, state, move, location))
        for owner, declaration, full in self.transients:
            rest, move_ = own[owner]
            if declaration.initial is None:
                raise InputError(
                    f"transient variable '{full}' has no initial value.", declaration.where, "Give 'initial-value'."
                )
            default = root.expand(declaration.initial, declaration.where.at("initial-value"))
            value = self._resting_value(declaration.name, owner, parts, default)
            rest[declaration.name] = value
            if owner is not None:
                resting.setdefault(full, value)
                resting[f"{owner}.{declaration.name}"] = value
            if declaration.name in assigned:
                target = self._scalars(declaration, declaration.type, full, default, root, self.scratch)
                move_[declaration.name] = target
                moving.setdefault(full, target)
            else:
                move_[declaration.name] = default
                moving.setdefault(full, default)
        return root, steps, parts

    def _assigned_transients(self) -> set[str]:
        transient = {declaration.name for _, declaration, _ in self.transients}
        assigned = set()
        for automaton in self.model.automata:
            if isinstance(automaton.edges, TableEdges):
                assigned |= {REWARD} if automaton.edges.table.is_rewarded else set()
                continue
            for edge in automaton.edges:
                for assignment in (*edge.assignments, *(a for one in edge.destinations for a in one.assignments)):
                    target: Expression = assignment.target
                    while isinstance(target, Element):
                        target = target.array
                    if isinstance(target, Name) and target.name in transient:
                        assigned.add(target.name)
        return assigned

    def _resting_value(self, name: str, owner: str | None, parts: list[_Part], default: Symbol) -> Symbol:
        value = default
        for part in parts:
            if owner is not None and part.name != owner:
                continue
            for number, location in enumerate(part.automaton.locations):
                for assignment in location.transient_values:
                    if isinstance(assignment.target, Name) and assignment.target.name == name:
                        given = part.state.expand(assignment.value, assignment.where)
                        if part.location is None:
                            value = given
                        else:
                            here = Binary("=", Name(part.location), IntLiteral(number))
                            value = _either(here, given, value)
        return value

    def _restrict_initial(self, part: _Part) -> None:
        if part.automaton.restrict_initial is not None:
            where = part.automaton.where.at("restrict-initial")
            self.initial.append(part.state.scalar(part.automaton.restrict_initial, where))

    # -- edges and joints

    def _joints(self, parts: list[_Part]) -> tuple[Joint, ...]:
        by_action = [self._edges_of(part) for part in parts]
        joints: list[Joint] = []
        looped: set[tuple[str, str]] = set()
        for actions in by_action:
            if None in actions:
                joints.append(Joint(None, (actions[None],)))
        synchronisations = self.model.system.synchronisations
        if synchronisations is None:
            for actions in by_action:
                joints += [Joint(action, (edges,)) for action, edges in actions.items() if action is not None]
            return tuple(joints)
        instances = self.model.system.instances
        for synchronisation in synchronisations:
            if len(synchronisation.actions) != len(parts):
                raise InputError(
                    f"a synchronisation of {len(synchronisation.actions)} actions for {len(parts)} elements.",
                    synchronisation.where,
                    "Write one action or null per element.",
                )
            participants = []
            for part, instance, actions, action in zip(
                parts, instances, by_action, synchronisation.actions, strict=True
            ):
                if action is None:
                    continue
                if action in instance.input_enable and (part.name, action) not in looped:
                    looped.add((part.name, action))
                    actions[action] = (*actions.get(action, ()), self._input_loop(part, actions.get(action, ())))
                participants.append(actions.get(action, ()))
            if participants and all(participants):
                joints.append(Joint(synchronisation.result, tuple(participants)))
        return tuple(joints)

    def _labels(self, parts: list[_Part]) -> list[str]:
        """Return the labels that edges can move by as they are written, whatever their guards are under these constants.

        What a policy's outputs mean must not depend on constants, so that an action which is never enabled keeps its label.
        """
        written = [_actions(part.automaton) for part in parts]
        synchronisations = self.model.system.synchronisations
        if synchronisations is None:
            return [action for mine in written for action in mine if action is not None]
        labels = []
        for one in synchronisations:
            moving = [
                action in mine or action in instance.input_enable
                for action, mine, instance in zip(one.actions, written, self.model.system.instances, strict=True)
                if action is not None
            ]
            if moving and all(moving) and one.result is not None:
                labels.append(one.result)
        return labels

    def _edges_of(self, part: _Part) -> dict[str | None, tuple[int, ...]]:
        rows, alone = part.automaton.edges, self.model.system.instances == (Instance(part.name),)
        if isinstance(rows, TableEdges) and alone and self.model.type is not ModelType.DTMC:
            self.moves = TableMoves(rows.table, rows.where, part.name)
            return self.moves.by_label()
        by_action: dict[str | None, list[int]] = {}
        places = {location.name: number for number, location in enumerate(part.automaton.locations)}
        for edge in part.automaton.edges:
            network_edge = self._edge(part, edge, places)
            if network_edge.guard == FALSE:
                continue
            by_action.setdefault(edge.action, []).append(len(self.edges))
            self.edges.append(network_edge)
        return {action: tuple(edges) for action, edges in by_action.items()}

    def _edge(self, part: _Part, edge: Edge, places: Mapping[str, int]) -> NetworkEdge:
        if edge.rate is not None:
            raise InputError("an edge with a rate needs continuous time.", edge.where, "Only lts, dtmc, mdp are run.")
        guard: Expression = TRUE if edge.guard is None else part.state.scalar(edge.guard, edge.where.at("guard"))
        self._expect_bool(guard, edge.where, "guard")
        if part.location is not None:
            here = Binary("=", Name(part.location), IntLiteral(places[edge.location]))
            guard = folding.binary("∧", here, guard)
        branches = []
        for destination in edge.destinations:
            probability: Expression = IntLiteral(1)
            if destination.probability is not None:
                probability = part.state.scalar(
                    destination.probability, destination.where.at("probability"), exact=True
                )
                if self._kind(probability, destination.where, "probability") is Kind.BOOL:
                    raise InputError(
                        "a probability is not a number.",
                        destination.where.at("probability"),
                        "Write a number or a numeric expression.",
                    )
            updates = [
                update
                for assignment in (*edge.assignments, *destination.assignments)
                for update in self._updates(part, assignment)
            ]
            if part.location is not None and destination.location != edge.location:
                first = min((update.index for update in updates), default=0)
                target = IntLiteral(places[destination.location])
                updates.append(Update(Name(part.location), target, first, destination.where))
            if folding.value_of(probability) != 0:
                branches.append(Branch(probability, tuple(sorted(updates, key=lambda update: update.index))))
        return NetworkEdge(guard, self._normalised(branches, edge), part.name, edge.where)

    def _normalised(self, branches: list[Branch], edge: Edge) -> tuple[Branch, ...]:
        """Return the branches with constant probabilities scaled to sum to exactly 1."""
        values = [folding.value_of(branch.probability) for branch in branches]
        known = [Fraction(value) for value in values if value is not None]
        total = sum(known, Fraction(0))
        complete = len(known) == len(values)
        if any(value < 0 for value in known) or (complete and abs(total - 1) > PROBABILITY_TOLERANCE):
            shown = " + ".join(str(value) for value in known)
            raise InputError(
                f"the probabilities {shown} of an edge are not a distribution.",
                edge.where.at("destinations"),
                "Make them sum to 1.",
            )
        if not complete or total == 1:
            return tuple(branches)
        logger.warning("%s: probabilities sum to %s and are scaled to 1", edge.where.at("destinations"), float(total))
        return tuple(
            Branch(literal(value / total), branch.updates) for value, branch in zip(known, branches, strict=True)
        )

    def _updates(self, part: _Part, assignment: Assignment) -> list[Update]:
        target = part.moving.leaf(assignment.target) or part.moving.expand(
            assignment.target, assignment.where.at("ref")
        )
        value = part.moving.leaf(assignment.value) or part.moving.expand(assignment.value, assignment.where.at("value"))
        return list(self._pairs(target, value, assignment))

    def _pairs(self, target: Symbol, value: Symbol, assignment: Assignment) -> Iterable[Update]:
        where = assignment.where
        if not isinstance(target, tuple) and not isinstance(value, tuple):
            target, value = folding.in_doubles(target), folding.in_doubles(value)
        if isinstance(target, tuple) or isinstance(value, tuple):
            if not isinstance(target, tuple) or not isinstance(value, tuple) or len(target) != len(value):
                raise InputError("an array is assigned something of another shape.", where, "Give it the same length.")
            for one, other in zip(target, value, strict=True):
                yield from self._pairs(one, other, assignment)
            return
        cells: tuple[Expression, ...] = target.items if isinstance(target, Select) else (target,)
        kinds = set()
        for cell in cells:
            if not isinstance(cell, Name) or cell.name not in self.kinds:
                raise InputError("only variables can be assigned.", where.at("ref"), "Assign a variable.")
            kinds.add(self.kinds[cell.name])
        kind = self._kind(value, where, "value")
        if kind is Kind.REAL and kinds == {Kind.INT}:
            # JANI forbids it, but published models do it and other tools cut the fraction off.
            logger.warning("%s: a real is assigned to an integer; its fraction is cut off", where)
            value, kind = folding.unary("trc", value), Kind.INT
        for expected in kinds:
            if expected is not kind and not (expected is Kind.REAL and kind is Kind.INT):
                raise InputError(
                    f"a {kind.value} is assigned to a variable of type {expected.value}.",
                    where,
                    "Write a value of the variable's type.",
                )
        if isinstance(target, Select):
            for index in target.indices:
                self._kind(index, where, "ref")
        assert isinstance(target, Name | Select)
        yield Update(target, value, assignment.index, where)

    def _input_loop(self, part: _Part, edges: tuple[int, ...]) -> int:
        """An instance that is input-enabled for an action idles where none of its edges takes it."""
        guard = negation(disjunction(*(self.edges[i].guard for i in edges)))
        self.edges.append(NetworkEdge(guard, (Branch(IntLiteral(1), ()),), part.name, part.automaton.where))
        return len(self.edges) - 1

    # -- kinds

    def _kind(self, expression: Expression, where: Where, key: str) -> Kind:
        try:
            return kind_of(expression, self.kinds)
        except InputError as error:
            raise InputError(error.what, where.at(key), error.hint) from None

    def _expect_bool(self, expression: Expression, where: Where, key: str) -> None:
        if (kind := self._kind(expression, where, key)) is not Kind.BOOL:
            raise InputError(f"a condition is a {kind.value}, not a bool.", where.at(key), "Compare it with something.")


def _by_name(functions: Iterable[Function]) -> dict[str, tuple[Function, Scope | None]]:
    return {function.name: (function, None) for function in functions}


def _actions(automaton: Automaton) -> dict[str | None, None]:
    """Return the actions of the edges, in the order of their first use."""
    if isinstance(automaton.edges, TableEdges):
        return dict.fromkeys(automaton.edges.table.used_labels)
    return dict.fromkeys(edge.action for edge in automaton.edges)


def _either(condition: Expression, then: Symbol, otherwise: Symbol) -> Symbol:
    if isinstance(then, tuple) and isinstance(otherwise, tuple):
        return tuple(_either(condition, one, other) for one, other in zip(then, otherwise, strict=True))
    assert not isinstance(then, tuple)
    assert not isinstance(otherwise, tuple)
    return folding.conditional(condition, then, otherwise)
