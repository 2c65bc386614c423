"""Random models that use all of JANI's language; they are syntax only, so hardly any of them is well-formed.

A model is a function of a seed: hypothesis draws seeds, which is far faster than drawing each node.
"""

from dataclasses import replace
from fractions import Fraction
from random import Random

from hypothesis import strategies as st

from polvet.jani.features import declared_features
from polvet.model import expressions as ex
from polvet.model import properties as pr
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
from polvet.model.types import BOOL, INT, REAL, ArrayType, IntType, RealType

IDENTIFIERS = ("x", "y", "N", "größe", "a b", "table-counter", "op", "true", "π", '"\\')
ACCUMULATES = ((), ("steps",), ("exit",), ("steps", "time"))

decimals = st.builds(
    lambda number, places: Fraction(number, 10**places), st.integers(-(10**30), 10**30), st.integers(0, 40)
)


class Maker:
    """Makes random parts of models; each method returns one."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def pick(self, items):
        return self.random.choice(items)

    def maybe(self, make):
        return make() if self.random.random() < 0.5 else None

    def few(self, make, least=0):
        return tuple(make() for _ in range(self.random.randint(least, 2)))

    def name(self):
        return self.pick(IDENTIFIERS)

    def flag(self):
        return self.random.random() < 0.5

    def leaf(self):
        match self.random.randrange(5):
            case 0:
                return ex.BoolLiteral(self.flag())
            case 1:
                return ex.IntLiteral(self.random.randint(-(10**20), 10**20))
            case 2:
                return ex.RealLiteral(
                    Fraction(self.random.randint(-(10**30), 10**30), 10 ** self.random.randint(0, 40))
                )
            case 3:
                return ex.MathConstant(self.pick("πe"))
            case _:
                return ex.Name(self.name())

    def expression(self, depth=3):
        if depth == 0 or self.random.random() < 0.3:
            return self.leaf()

        def inner():
            return self.expression(depth - 1)

        match self.random.randrange(8):
            case 0:
                return ex.Unary(self.pick(ex.UNARY), inner())
            case 1 | 2:
                return ex.Binary(self.pick(ex.BINARY), inner(), inner())
            case 3:
                return ex.Conditional(inner(), inner(), inner())
            case 4:
                return ex.Call(self.name(), self.few(inner))
            case 5:
                return ex.Element(inner(), inner())
            case 6:
                return ex.ArrayLiteral(self.few(inner))
            case _:
                return ex.ArrayBuild(self.name(), inner(), inner())

    def bound(self):
        return self.maybe(self.expression)

    def type(self):
        match self.random.randrange(6):
            case 0:
                return ArrayType(self.type())
            case 1:
                return IntType(self.bound(), self.bound())
            case 2:
                return RealType(self.bound(), self.bound())
            case _:
                return self.pick((BOOL, INT, REAL))

    def target(self):
        name = ex.Name(self.name())
        return ex.Element(name, self.expression()) if self.flag() else name

    def assignments(self):
        return self.few(lambda: Assignment(self.target(), self.expression(), self.random.randint(-2, 3)))

    def interval(self):
        return pr.Interval(self.expression(), self.bound(), self.flag(), self.flag())

    def reward_bound(self):
        return pr.RewardBound(self.expression(), self.pick(ACCUMULATES), self.interval())

    def instant(self):
        return pr.RewardBound(self.expression(), self.pick(ACCUMULATES), pr.Interval(upper=self.expression()))

    def path(self, depth):
        steps, time, rewards = self.maybe(self.interval), self.maybe(self.interval), self.few(self.reward_bound)
        match self.random.randrange(5):
            case 0:
                return pr.Globally(self.formula(depth), steps, time, rewards)
            case 1:
                return pr.Next(self.formula(depth))
            case 2:
                return pr.Until(ex.TRUE, self.formula(depth), steps, time, rewards)
            case _:
                return pr.Until(self.formula(depth), self.formula(depth), steps, time, rewards, self.pick("UWR"))

    def quantity(self, depth):
        """Return a formula that is no expression."""
        if depth == 0:
            return pr.StatePredicate(self.pick(("initial", "deadlock")))
        if self.flag():
            return pr.Probability(self.pick(list(pr.Optimum)), self.path(depth - 1))
        return pr.PathQuantifier(self.pick("∀∃"), self.path(depth - 1))

    def formula(self, depth=2):
        match self.random.randrange(4):
            case 0 if depth:
                return pr.Comparison("¬", self.quantity(depth - 1))
            case 1 if depth:
                # A comparison of two expressions is an expression: one side at least is none.
                return pr.Comparison(self.pick("∧∨≤>"), self.quantity(depth - 1), self.formula(depth - 1))
            case 2:
                return self.quantity(depth)
            case _:
                return self.expression()

    def locations(self):
        return self.few(
            lambda: pr.AutomatonLocation(self.name(), self.name(), self.maybe(lambda: self.random.randint(0, 3)))
        )

    def states(self):
        if self.flag():
            return pr.StateCondition(self.bound(), self.locations())

        def state():
            return pr.StateValues(self.few(lambda: (self.target(), self.expression())), self.locations())

        return pr.StatesValues(self.few(state))

    def objective(self):
        rewards = self.bound(), self.bound(), self.bound()
        return pr.Objective(self.maybe(self.states), *rewards, self.pick(ACCUMULATES))

    def value(self):
        match self.random.randrange(6):
            case 0:
                return self.path(1)
            case 1:
                return pr.ExpectedReward(
                    self.pick(list(pr.Optimum)), self.expression(), self.pick(ACCUMULATES), self.maybe(self.formula),
                    self.bound(), self.bound(), self.few(self.instant),
                )  # fmt: skip
            case 2:
                return pr.SteadyState(self.pick(list(pr.Optimum)), self.formula(), self.pick(ACCUMULATES))
            case 3:
                return pr.OtherExpression("Multi", '{"op": "Multi", "properties": [0.25, 1.0]}')
            case _:
                return self.formula()

    def property(self):
        match self.random.randrange(6):
            case 0:
                expression = self.states()
            case 1:
                expression = self.objective()
            case 2:
                predicates = self.maybe(lambda: pr.Predicates(self.few(self.expression)))
                expression = pr.PolicyTask(
                    self.maybe(self.states), self.maybe(self.states), self.maybe(self.objective), predicates,
                    self.maybe(lambda: "net.jani2nnet"),
                )  # fmt: skip
            case 3:
                expression = pr.Filter(self.pick(("min", "values", "∀")), self.value(), self.formula())
            case _:
                expression = self.value()
        return pr.Property(self.name(), expression, self.maybe(lambda: "a\ncomment ü"))

    def variable(self):
        return VariableDeclaration(self.name(), self.type(), self.bound(), self.flag())

    def function(self):
        parameters = self.few(lambda: (self.name(), self.type()))
        return Function(self.name(), self.type(), parameters, self.expression())

    def edge(self):
        destinations = self.few(lambda: Destination(self.name(), self.bound(), self.assignments()))
        return Edge(self.name(), self.maybe(self.name), self.bound(), destinations, self.assignments())

    def automaton(self):
        locations = self.few(lambda: Location(self.name(), self.assignments()))
        edges, variables, functions = self.few(self.edge), self.few(self.variable), self.few(self.function)
        return Automaton(self.name(), locations, self.few(self.name), edges, variables, functions, self.bound())

    def model(self):
        vectors = self.maybe(
            lambda: self.few(lambda: Synchronisation(self.few(lambda: self.maybe(self.name)), self.maybe(self.name)))
        )
        composition = Composition(self.few(lambda: Instance(self.name(), self.few(self.name))), vectors)
        model = Model(
            self.name(),
            self.pick((ModelType.LTS, ModelType.DTMC, ModelType.MDP)),
            self.few(self.automaton, least=1),
            composition,
            actions=self.few(self.name),
            constants=self.few(lambda: Constant(self.name(), self.type(), self.bound())),
            variables=self.few(self.variable),
            functions=self.few(self.function),
            restrict_initial=self.bound(),
            properties=self.few(self.property),
            metadata=tuple({self.name(): "text ü" for _ in range(2)}.items()),
        )
        return replace(model, features=declared_features(model))


models = st.integers(0, 2**64).map(lambda seed: Maker(seed).model())
