"""Building a model in Python: declare variables, add edges, and have a `Model`, a `Network` or a `Task`.

    m = ModelBuilder("walk", type="mdp")
    x = m.int("x", 0, 9, initial=0)
    m.edge("go", guard=x < 9, to=[(F(9, 10), {"x": x + 1}), (F(1, 10), {})])
    task = m.task(start="x <= 3", fail="x == 7", goal="x == 9")

Conditions and values are terms (`model.terms`), infix texts or numbers. `to` is a dict of assignments (a sure outcome)
or a list of `(probability, assignments)` or `(probability, assignments, location)`; an assignment's target is a name,
an array element such as `"lane[i]"`, or a term. A label of None is silent. `m.edge` adds to the model's own automaton;
`m.automaton("car")` gives further ones, each with locations and local variables. Where no synchronisation is declared,
a label moves all automata that have edges with it together (as in PRISM).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

from polvet.errors import InputError, Where, did_you_mean, suggest
from polvet.model.arithmetic import Value
from polvet.model.automata import (
    Assignment,
    Automaton,
    Composition,
    Constant,
    Destination,
    Edge,
    Function,
    Instance,
    Location,
    Model,
    ModelType,
    Synchronisation,
    VariableDeclaration,
)
from polvet.model.expressions import FALSE, TRUE, ArrayLiteral, Element, Expression, Name
from polvet.model.instantiate import instantiate
from polvet.model.network import Network
from polvet.model.properties import ExpectedReward, Filter, Optimum, Probability, Property, StatePredicate, Until
from polvet.model.table_edges import TableEdges
from polvet.model.tables import HERE, TransitionTable
from polvet.model.task import PolicyReading, Task, condition
from polvet.model.terms import Term, Termlike, expression_of
from polvet.model.types import BOOL, INT, REAL, ArrayType, IntType, RealType, Type

Assignments: TypeAlias = Mapping[Any, Any]  # from names or terms to Termlike; type checkers cannot infer mixed dicts
Outcome: TypeAlias = tuple[Termlike, Assignments] | tuple[Termlike, Assignments, str]
Outcomes: TypeAlias = Assignments | Sequence[Outcome]
TypeName: TypeAlias = str | Type
Truth: TypeAlias = bool  # inside the classes below, `bool` and `int` declare variables
NAMED_TYPES: Mapping[str, Type] = {"bool": BOOL, "int": INT, "real": REAL}


class Declarations:
    """What a model and an automaton have in common: variables and functions."""

    def __init__(self, where: Where) -> None:
        self.where = where
        self.variables: dict[str, VariableDeclaration] = {}
        self.functions: dict[str, Function] = {}

    def bool(self, name: str, initial: Termlike | None = None) -> Term:
        """Declare a truth value and return it; without `initial` it starts with either."""
        return self.variable(name, BOOL, initial)

    def int(
        self, name: str, lower: Termlike | None = None, upper: Termlike | None = None, initial: Termlike | None = None
    ) -> Term:
        """Declare an integer and return it; without `initial` it starts with any value between the bounds."""
        return self.variable(name, IntType(*self._bounds(name, lower, upper)), initial)

    def real(
        self, name: str, lower: Termlike | None = None, upper: Termlike | None = None, initial: Termlike | None = None
    ) -> Term:
        """Declare a real and return it; without `initial` it starts with any value between the bounds."""
        return self.variable(name, RealType(*self._bounds(name, lower, upper)), initial)

    def array(
        self,
        name: str,
        initial: Sequence[Termlike],
        lower: Termlike | None = None,
        upper: Termlike | None = None,
        *,
        of: TypeName = "int",
    ) -> Term:
        """Declare an array with its initial elements and return it.

        >>> m = ModelBuilder("m"); a = m.array("a", [3, 1, 2], 0, 9)
        >>> a[0] + 1
        Term('a[0] + 1')
        """
        base = self.type_of(of)
        if lower is not None or upper is not None:
            if base not in (INT, REAL):
                raise InputError(
                    f"array '{name}' has bounds, but its elements are no numbers.",
                    self.where,
                    "Leave the bounds out, or make the elements numbers.",
                )
            base = type(base)(*self._bounds(name, lower, upper))
        elements = ArrayLiteral(tuple(expression_of(one, self.where.at(name)) for one in initial))
        return self.variable(name, ArrayType(base), Term(elements))

    def transient(self, name: str, initial: Termlike = 0, *, of: TypeName = "real") -> Term:
        """Declare a transient variable, such as a reward, and return it: edges and locations give it values."""
        return self.variable(name, self.type_of(of), initial, transient=True)

    def variable(self, name: str, kind: Type, initial: Termlike | None = None, *, transient: Truth = False) -> Term:
        """Declare a variable of any type and return it."""
        where = self.where.at("variables").at(len(self.variables))
        self._check_new(name, where)
        value = None if initial is None else expression_of(initial, where.at("initial-value"))
        self.variables[name] = VariableDeclaration(name, kind, value, transient, where)
        return Term(Name(name))

    def function(self, name: str, parameters: Mapping[str, TypeName], body: Termlike, type: TypeName = "int") -> None:
        """Declare a function; use it in texts, or with `terms.function(name, ...)`."""
        where = self.where.at("functions").at(len(self.functions))
        if name in self.functions:
            raise InputError(f"the function '{name}' is declared twice.", where, "Rename one.")
        typed = tuple((parameter, self.type_of(kind)) for parameter, kind in parameters.items())
        self.functions[name] = Function(name, self.type_of(type), typed, expression_of(body, where.at("body")), where)

    def type_of(self, name: TypeName) -> Type:
        """Return the type of that name (`bool`, `int`, `real`), or the type itself."""
        if not isinstance(name, str):
            return name
        if name not in NAMED_TYPES:
            hint = did_you_mean(name, NAMED_TYPES) or "Use bool, int or real."
            raise InputError(f"no type '{name}'.", self.where, hint)
        return NAMED_TYPES[name]

    def _bounds(self, name: str, *bounds: Termlike | None) -> tuple[Expression | None, ...]:
        return tuple(None if bound is None else expression_of(bound, self.where.at(name)) for bound in bounds)

    def _check_new(self, name: str, where: Where) -> None:
        if not name:
            raise InputError("a name is empty.", where, "Give it a name.")
        if name in self.variables:
            raise InputError(f"'{name}' is declared twice.", where, "Rename one.")


class AutomatonBuilder(Declarations):
    """An automaton in the making. Its first location is initial, unless others are said to be."""

    def __init__(self, name: str, where: Where) -> None:
        super().__init__(where)
        self.name = name
        self.locations: dict[str, Location] = {}
        self.edges: list[Edge] = []
        self.rows: TableEdges | None = None  # in the place of edges
        self._initial: list[str] = []
        self._restrict: Expression | None = None

    def location(self, name: str, *, initial: bool = False, values: Assignments | None = None) -> str:
        """Add a location and return its name; `values` are what transient variables have there."""
        where = self.where.at("locations").at(len(self.locations))
        if name in self.locations:
            raise InputError(f"the location '{name}' is declared twice.", where, "Rename one.")
        given = _assignments(values or {}, 0, where.at("transient-values"))
        self.locations[name] = Location(name, given, None, where)
        if initial:
            self._initial.append(name)
        return name

    def edge(
        self,
        label: str | None,
        *,
        guard: Termlike | None = None,
        to: Outcomes | None = None,
        at: str | None = None,
        go: str | None = None,
        index: int = 0,
        assign: Assignments | None = None,
    ) -> None:
        """Add an edge from location `at` (the only one, if absent); `go` is where outcomes lead that do not say.

        `assign` is assigned in every outcome, after `to`'s assignments of the same outcome were listed.
        """
        where = self.where.at("edges").at(len(self.edges))
        source = self._place(at, where)
        outcomes = self._outcomes(to, where)
        common = _assignments(assign or {}, index, where.at("assignments"))
        destinations = []
        for number, (probability, assignments, location) in enumerate(outcomes):
            place = where.at("destinations").at(number)
            sure = len(outcomes) == 1 and probability == 1 and not isinstance(probability, Term)
            chance = None if sure else expression_of(probability, place.at("probability"))
            target = self._place(location or go, place) if location or go else source
            written = _assignments(assignments, index, place.at("assignments"))
            destinations.append(Destination(target, chance, (*written, *common), place))
        test = None if guard is None else expression_of(guard, where.at("guard"))
        if test == TRUE:
            test = None
        self.edges.append(Edge(source, label, test, tuple(destinations), (), None, where))

    def restrict_initial(self, condition: Termlike) -> None:
        """Only states satisfying the condition are initial."""
        self._restrict = expression_of(condition, self.where.at("restrict-initial"))

    def _place(self, name: str | None, where: Where) -> str:
        if name is None:
            if len(self.locations) > 1:
                shown = ", ".join(self.locations)
                raise InputError(f"the edge does not say at which location it is ({shown}).", where, "Give at=...")
            return next(iter(self.locations), None) or self.location("here")
        if name not in self.locations:
            hint = did_you_mean(name, self.locations) or "Declare it with .location(...) first."
            raise InputError(f"no location '{name}' in automaton '{self.name}'.", where, hint)
        return name

    def _outcomes(self, to: Outcomes | None, where: Where) -> list[tuple[Termlike, Assignments, str | None]]:
        if to is None:
            return [(1, {}, None)]
        if isinstance(to, Mapping):
            return [(1, to, None)]
        result: list[tuple[Termlike, Assignments, str | None]] = []
        for one in to:
            if not isinstance(one, tuple) or len(one) not in (2, 3) or not isinstance(one[1], Mapping):
                raise InputError(
                    f"{one!r} is no outcome.", where, "Write (probability, {target: value}), perhaps with a location."
                )
            result.append((one[0], one[1], one[2] if len(one) == 3 else None))
        if not result:
            raise InputError("the edge leads nowhere.", where, "Give at least one outcome.")
        numbers = [chance for chance, _, _ in result if isinstance(chance, int | float | Fraction)]
        chances = [Fraction(str(chance)) for chance in numbers]
        if any(chance < 0 for chance in chances) or (len(chances) == len(result) and sum(chances) != 1):
            shown = " + ".join(str(chance) for chance in chances)
            raise InputError(f"the probabilities {shown} are not a distribution.", where, "Make them sum to 1.")
        return result

    def build(self) -> Automaton:
        """Return the automaton."""
        if not self.locations:
            self.location("here")
        initial = tuple(self._initial) or (next(iter(self.locations)),)
        return Automaton(
            self.name,
            tuple(self.locations.values()),
            initial,
            tuple(self.edges) if self.rows is None else self.rows,
            tuple(self.variables.values()),
            tuple(self.functions.values()),
            self._restrict,
            self.where,
        )

    @property
    def labels(self) -> list[str]:
        """Return the labels of its edges, in the order of their first use."""
        if self.rows is not None:
            return list(self.rows.table.used_labels)
        return list(dict.fromkeys(edge.action for edge in self.edges if edge.action is not None))


@dataclass(slots=True)
class _Extras:
    """What only whole models have."""

    constants: dict[str, Constant] = field(default_factory=dict)
    labels: dict[str, None] = field(default_factory=dict)
    properties: list[Property] = field(default_factory=list)
    synchronisations: list[tuple[str | None, Mapping[str, str], Where]] = field(default_factory=list)
    restrict: Expression | None = None
    metadata: dict[str, str] = field(default_factory=dict)


class ModelBuilder(Declarations):
    """A model in the making.

    >>> from fractions import Fraction as F
    >>> m = ModelBuilder("walk", type="mdp")
    >>> x = m.int("x", 0, 9, initial=0)
    >>> m.edge("go", guard=x < 9, to=[(F(9, 10), {"x": x + 1}), (F(1, 10), {})])
    >>> m.edge("back", guard="x > 0", to={x: "x - 1"})
    >>> m.network().labels
    ('go', 'back')

    Two automata that move together:

    >>> m = ModelBuilder("crossing")
    >>> for name in ("car", "light"):
    ...     one = m.automaton(name)
    ...     _ = one.location("red"), one.location("green")
    ...     one.edge("switch", at="red", go="green")
    >>> m.network().joints
    (Joint(label='switch', participants=((0,), (1,))),)
    """

    def __init__(self, name: str, type: str | ModelType = "mdp") -> None:
        super().__init__(Where(name))
        self.name = name
        kinds = {kind.value: kind for kind in ModelType}
        key = type.value if isinstance(type, ModelType) else type
        if key not in kinds:
            raise InputError(f"no model type '{key}'.", self.where, "Use mdp, dtmc or lts.")
        self.type = kinds[key]
        self._automata: dict[str, AutomatonBuilder] = {}
        self._extras = _Extras()

    def constant(self, name: str, value: Termlike | None = None, type: TypeName | None = None) -> Term:
        """Declare a constant and return it; without a value it is open and given from outside."""
        where = self.where.at("constants").at(len(self._extras.constants))
        self._check_new(name, where)
        if type is None and (isinstance(value, Term | str) or value is None):
            raise InputError(f"the type of constant '{name}' is not known.", where, 'Give type="int", ...')
        guessed = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "real"
        given = None if value is None else expression_of(value, where.at("value"))
        self._extras.constants[name] = Constant(name, self.type_of(type or guessed), given, where)
        return Term(Name(name))

    def automaton(self, name: str) -> AutomatonBuilder:
        """Return a new automaton; the order of calls is the order in the model."""
        if name in self._automata:
            raise InputError(f"the automaton '{name}' is declared twice.", self.where, "Rename one.")
        self._automata[name] = AutomatonBuilder(name, self.where.at("automata").at(len(self._automata)))
        return self._automata[name]

    def edge(
        self,
        label: str | None,
        *,
        guard: Termlike | None = None,
        to: Outcomes | None = None,
        assign: Assignments | None = None,
    ) -> None:
        """Add an edge to the model's own automaton, which has one location."""
        own = self._automata.get(self.name) or self.automaton(self.name)
        own.edge(label, guard=guard, to=to, assign=assign)

    def table(self, table: TransitionTable) -> None:
        """Let the model's own automaton be the table, in the place of edges; its variables are declared as those of edges are."""
        if self._automata:
            raise InputError("a table is the whole model.", self.where, "Leave the edges out.")
        own = self.automaton(self.name)
        own.location(HERE)
        own.rows = TableEdges(table, own.where)

    def labels(self, *names: str) -> None:
        """Fix the order of labels (the order of a policy's outputs); absent, it is the order of first use."""
        self._extras.labels.update(dict.fromkeys(names))

    def synchronise(self, label: str | None, **actions: str) -> None:
        """Let automata move together: `synchronise("pass", car="go", light="green")`. Then nothing is implicit."""
        where = self.where.at("system").at("syncs").at(len(self._extras.synchronisations))
        self._extras.synchronisations.append((label, actions, where))

    def restrict_initial(self, condition: Termlike) -> None:
        """Only states satisfying the condition are initial."""
        self._extras.restrict = expression_of(condition, self.where.at("restrict-initial"))

    def reach(self, name: str, condition: Termlike, optimum: str = "min") -> None:
        """Add the property: the least (`min`) or greatest (`max`) probability to reach the condition."""
        where = self.where.at("properties").at(len(self._extras.properties))
        path = Until(TRUE, expression_of(condition, where))
        self._add_property(name, Probability(Optimum(optimum), path))

    def cost(self, name: str, reward: Termlike, until: Termlike, optimum: str = "min") -> None:
        """Add the property: the least or greatest expected sum of `reward` over steps until the condition holds."""
        where = self.where.at("properties").at(len(self._extras.properties))
        value = ExpectedReward(Optimum(optimum), expression_of(reward, where), ("steps",), expression_of(until, where))
        self._add_property(name, value)

    def _add_property(self, name: str, value: Probability | ExpectedReward) -> None:
        # Other tools insist on a filter: here the greatest value over the initial states.
        self._extras.properties.append(Property(name, Filter("max", value, StatePredicate("initial"))))

    def note(self, key: str, text: str) -> None:
        """Add a line of metadata (`description`, `doi`, `url`, `author`)."""
        self._extras.metadata[key] = text

    def build(self) -> Model:
        """Return the model as plain data."""
        if not self._automata:
            raise InputError("the model has no edges.", self.where, "Add some with .edge(...).")
        automata = tuple(automaton.build() for automaton in self._automata.values())
        labels = dict(self._extras.labels)
        for automaton in self._automata.values():
            labels.update(dict.fromkeys(automaton.labels))
        labels.update(dict.fromkeys(label for label, _, _ in self._extras.synchronisations if label is not None))
        instances = tuple(Instance(name) for name in self._automata)
        used = self._synchronisations(list(labels))
        return Model(
            self.name,
            self.type,
            automata,
            Composition(instances, used, self.where.at("system")),
            tuple(labels),
            tuple(self._extras.constants.values()),
            tuple(self.variables.values()),
            tuple(self.functions.values()),
            self._extras.restrict,
            tuple(self._extras.properties),
            (),
            tuple(self._extras.metadata.items()),
            1,
            self.where,
        )

    def _synchronisations(self, labels: list[str]) -> tuple[Synchronisation, ...]:
        if not self._extras.synchronisations:
            return tuple(
                Synchronisation(tuple(label if label in one.labels else None for one in self._automata.values()), label)
                for label in labels
                if any(label in one.labels for one in self._automata.values())
            )
        result = []
        for label, actions, where in self._extras.synchronisations:
            for name, action in actions.items():
                if name not in self._automata:
                    raise InputError(f"no automaton '{name}'.", where, suggest(name, self._automata))
                if action not in self._automata[name].labels:
                    hint = suggest(action, self._automata[name].labels)
                    raise InputError(f"automaton '{name}' has no edge labelled '{action}'.", where, hint)
            result.append(Synchronisation(tuple(actions.get(name) for name in self._automata), label, where))
        return tuple(result)

    def network(self, constants: Mapping[str, Value] | None = None) -> Network:
        """Return the model ready to run; whatever is wrong with it is an InputError naming the place."""
        return instantiate(self.build(), constants)

    def task(
        self,
        *,
        fail: Termlike = FALSE,
        goal: Termlike = FALSE,
        start: Termlike | None = None,
        constants: Mapping[str, Value] | None = None,
        reading: PolicyReading | None = None,
    ) -> Task:
        """Return the model with what shall be avoided and reached, from where.

        >>> m = ModelBuilder("m"); x = m.int("x", 0, 3, initial=0); m.edge("up", guard=x < 3, to={x: x + 1})
        >>> m.task(fail=x == 2, goal="x == 3").start is None
        True
        """
        network = self.network(constants)
        conditions = [
            condition(network, expression_of(given, self.where.at(role)), self.where.at(role))
            for role, given in (("fail", fail), ("goal", goal), ("start", TRUE if start is None else start))
        ]
        return Task(
            network, conditions[0], conditions[1], None if start is None else conditions[2], reading or PolicyReading()
        )


def _assignments(given: Assignments, index: int, where: Where) -> tuple[Assignment, ...]:
    result = []
    for number, (target, value) in enumerate(given.items()):
        place = where.at(number)
        reference = expression_of(target, place.at("ref"))
        if not isinstance(reference, Name | Element):
            raise InputError(f"'{target}' cannot be assigned.", place, "Assign a variable or an array element.")
        result.append(Assignment(reference, expression_of(value, place.at("value")), index, place))
    return tuple(result)
