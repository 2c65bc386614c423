"""Random models small enough to be interpreted: every kind of expression, shape of synchronisation, index and array."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

from hypothesis import strategies as st

from polvet.model.automata import (
    Assignment,
    Automaton,
    Composition,
    Destination,
    Edge,
    Function,
    Instance,
    Location,
    Model,
    ModelType,
    Synchronisation,
    VariableDeclaration,
)  # fmt: skip
from polvet.model.expressions import (
    ArrayLiteral,
    Binary,
    BoolLiteral,
    Call,
    Conditional,
    Element,
    Expression,
    IntLiteral,
    Name,
    RealLiteral,
    Unary,
)  # fmt: skip
from polvet.model.types import BOOL, INT, REAL, ArrayType, IntType

SMALL = st.integers(-3, 4)
DECIMAL = st.sampled_from([Fraction(n, d) for n in (-3, 0, 1, 2, 7) for d in (1, 2, 5, 10)])
BYTE = IntType(IntLiteral(-4), IntLiteral(5))
CELL = IntType(IntLiteral(0), IntLiteral(3))
GLOBALS = (
    VariableDeclaration("x", BYTE, IntLiteral(0)),
    VariableDeclaration("y", BYTE, IntLiteral(1)),
    VariableDeclaration("b", BOOL, BoolLiteral(False)),
    VariableDeclaration("r", REAL, RealLiteral(Fraction(1, 2))),
    VariableDeclaration("n", INT, IntLiteral(0)),
    VariableDeclaration("a", ArrayType(CELL), ArrayLiteral(tuple(IntLiteral(i) for i in (0, 1, 2)))),
    VariableDeclaration(
        "m", ArrayType(ArrayType(CELL)), ArrayLiteral((ArrayLiteral((IntLiteral(1), IntLiteral(2))),) * 2)
    ),
    VariableDeclaration("t", BYTE, IntLiteral(2), transient=True),
)
FUNCTIONS = (
    Function("twice", INT, (("k", INT),), Binary("*", Name("k"), IntLiteral(2))),
    Function(
        "near",
        BOOL,
        (("k", INT), ("l", INT)),
        Binary("≤", Unary("abs", Binary("-", Name("k"), Name("l"))), IntLiteral(1)),
    ),
)
ACTIONS = ("a", "b", "c")


@cache
def integers(depth: int, local: str | None = None) -> st.SearchStrategy[Expression]:
    names = ["x", "y", "n"] + ([local] if local else [])
    leaf: st.SearchStrategy[Expression] = SMALL.map(IntLiteral) | st.sampled_from(names).map(Name)
    if depth == 0:
        return leaf
    less, real, truth = integers(depth - 1, local), reals(depth - 1, local), booleans(depth - 1, local)
    index = integers(0, local).map(lambda i: Binary("%", i, IntLiteral(3)))
    return st.one_of(
        leaf,
        st.builds(Binary, st.sampled_from(["+", "-", "*", "min", "max"]), less, less),
        st.builds(Binary, st.just("%"), less, st.integers(1, 4).map(IntLiteral)),
        st.builds(Binary, st.just("pow"), less, st.integers(0, 3).map(IntLiteral)),
        st.builds(Unary, st.sampled_from(["abs", "sgn"]), less),
        st.builds(Unary, st.sampled_from(["floor", "ceil", "trc"]), real),
        st.builds(Conditional, truth, less, less),
        st.builds(Element, st.just(Name("a")), index | less),
        st.builds(lambda i, j: Element(Element(Name("m"), i), j), less, less),
        less.map(lambda k: Call("twice", (k,))),
    )


@cache
def reals(depth: int, local: str | None = None) -> st.SearchStrategy[Expression]:
    leaf: st.SearchStrategy[Expression] = DECIMAL.map(RealLiteral) | st.just(Name("r"))
    if depth == 0:
        return leaf
    less = reals(depth - 1, local)
    mixed = less | integers(depth - 1, local)
    return st.one_of(
        leaf,
        st.builds(Binary, st.sampled_from(["+", "-", "*", "/", "min", "max"]), less, mixed),
        st.builds(Binary, st.just("%"), less, mixed),
        st.builds(Unary, st.sampled_from(["sin", "cos", "atan", "tanh", "abs"]), less),
        st.builds(Conditional, booleans(depth - 1, local), less, mixed),
    )


@cache
def booleans(depth: int, local: str | None = None) -> st.SearchStrategy[Expression]:
    leaf: st.SearchStrategy[Expression] = st.booleans().map(BoolLiteral) | st.just(Name("b"))
    if depth == 0:
        return leaf
    less, whole, real = booleans(depth - 1, local), integers(depth - 1, local), reals(depth - 1, local)
    order = st.sampled_from(["<", "≤", ">", "≥", "=", "≠"])
    return st.one_of(
        leaf,
        st.builds(Binary, order, whole, whole),
        st.builds(Binary, order, real, whole | real),
        st.builds(Binary, st.sampled_from(["∧", "∨", "⇒", "=", "≠"]), less, less),
        st.builds(Unary, st.just("¬"), less),
        st.builds(Conditional, less, less, less),
        st.builds(lambda j, k: Call("near", (j, k)), whole, whole),
    )


def wrapped(value: Expression) -> Expression:
    """The value brought into -4 .. 5, so that most assignments stay inside their bounds."""
    return Binary("-", Binary("%", value, IntLiteral(10)), IntLiteral(4))


@st.composite
def assignments(draw: st.DrawFn, local: str | None) -> tuple[Assignment, ...]:
    result = []
    taken: set[tuple[str, int]] = set()
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["x", "y", "b", "r", "n", "a", "m", "t"] + ([local] if local else [])))
        index = draw(st.sampled_from([0, 0, 0, 1, 2]))
        if (kind, index) in taken:
            continue
        taken.add((kind, index))
        target: Name | Element = Name(kind)
        value: Expression
        if kind == "b":
            value = draw(booleans(2, local))
        elif kind == "r":
            value = draw(reals(2, local) | integers(1, local))
        elif kind == "n":
            value = Binary("%", draw(integers(2, local)), IntLiteral(5))
        elif kind in ("a", "m"):
            value = Binary("%", draw(integers(1, local)), IntLiteral(4))
            first = draw(integers(1, local) | SMALL.map(IntLiteral))
            if draw(st.integers(0, 4)):
                first = Binary("%", first, IntLiteral(2))
            target = Element(Name(kind), first)
            if kind == "m":
                target = Element(target, Binary("%", draw(integers(0, local)), IntLiteral(2)))
        else:
            value = draw(integers(2, local))
            if draw(st.integers(0, 9)):
                value = wrapped(value)
            if draw(st.booleans()) and index > 0:
                value = wrapped(Binary("+", value, Name("t")))
        result.append(Assignment(target, value, index))
    return tuple(result)


STEP = st.sampled_from([Fraction(1, 10**k) for k in (1, 1, 2, 3, 7, 16, 17, 20, 40, 200, 320, 400)] + [Fraction(1, 3)])
OFF = st.sampled_from(
    [Fraction(0)] * 8 + [Fraction(n, d) for n in (-1, 1) for d in (10**6, 10**17, 10**6 + 1, 10**6 - 1, 2 * 10**5)]
)


@cache
def tiny(local: str | None = None) -> st.SearchStrategy[Expression]:
    """Numbers that doubles tell from 0 with trouble: differences of near numbers, tiny multiples, their powers."""
    number, real = integers(1, local), reals(1, local)
    step = STEP.map(RealLiteral)
    multiple = st.builds(Binary, st.just("*"), step, number)
    part = st.one_of(multiple, st.builds(Binary, st.just("/"), number, st.integers(1, 10).map(IntLiteral)), real, step)
    one = IntLiteral(1)
    several = st.builds(lambda s, k: RealLiteral(s * k), STEP, st.integers(0, 5))
    return st.one_of(
        multiple,
        st.builds(lambda s: Binary("-", one, Binary("-", one, s)), multiple),
        st.builds(lambda t, s: Binary("-", Binary("+", t, s), t), part, step | multiple),
        st.builds(lambda s, k, x: Binary("-", RealLiteral(s * k), Binary("*", RealLiteral(s), x)), STEP, SMALL, number),
        st.builds(
            lambda c, k, t: Binary("-", c, Binary("/", t, k)), several, st.integers(1, 10).map(IntLiteral), number
        ),
        st.builds(lambda s, k: Binary("pow", s, IntLiteral(k)), part, st.integers(0, 3)),
        st.builds(lambda s, t: Binary("/", s, Binary("+", one, Unary("abs", t))), part, part),
        st.builds(Conditional, booleans(1, local), multiple, part),
        st.builds(lambda s: Binary("%", s, one), part),
    )


@st.composite
def computed(draw: st.DrawFn, local: str | None) -> list[Expression | None]:
    """Two computed probabilities near 0 and 1; most sum to 1, some almost, some are no distribution."""
    share = draw(tiny(local))
    if draw(st.integers(0, 4)):
        share = Binary(
            "min", IntLiteral(1), draw(st.sampled_from([Unary("abs", share), Binary("max", share, IntLiteral(0))]))
        )
    rest: Expression = Binary("-", IntLiteral(1), share)
    if (off := draw(OFF)) != 0:
        rest = Binary("+", rest, RealLiteral(off))
    return draw(st.permutations([share, rest]))


@st.composite
def destinations(draw: st.DrawFn, locations: list[str], local: str | None) -> tuple[Destination, ...]:
    count = draw(st.sampled_from([1, 1, 2, 3]))
    shape = draw(st.integers(0, 3))
    if count == 1:
        chances: list[Expression | None] = [None]
    elif shape == 0 and count == 2:
        chance = Conditional(Name("b"), RealLiteral(Fraction(1, 4)), IntLiteral(1))
        chances = [chance, Binary("-", IntLiteral(1), chance)]
    elif shape == 1 and count == 2:
        chances = draw(computed(local))
    else:
        weights = [Fraction(draw(st.integers(1, 4))) for _ in range(count)]
        chances = [RealLiteral(weight / sum(weights)) for weight in weights]
    return tuple(Destination(draw(st.sampled_from(locations)), chance, draw(assignments(local))) for chance in chances)


@st.composite
def automata(draw: st.DrawFn, name: str) -> Automaton:
    locations = [f"l{i}" for i in range(draw(st.integers(1, 3)))]
    local = "own" if draw(st.booleans()) else None
    edges = []
    for _ in range(draw(st.integers(1, 4))):
        guard = draw(st.none() | booleans(2, local))
        action = draw(st.sampled_from([None, *ACTIONS, *ACTIONS]))
        source = draw(st.sampled_from(locations))
        edges.append(Edge(source, action, guard, draw(destinations(locations, local))))
    held = tuple(
        Location(one, (Assignment(Name("t"), draw(SMALL.map(IntLiteral))),) if draw(st.integers(0, 3)) == 0 else ())
        for one in locations
    )
    starts = tuple(draw(st.lists(st.sampled_from(locations), min_size=1, max_size=2, unique=True)))
    own = (VariableDeclaration("own", BYTE, draw(st.none() | SMALL.map(IntLiteral))),) if local else ()
    restrict = Binary("≤", Name("own"), IntLiteral(-2)) if local and own[0].initial is None else None
    return Automaton(name, held, starts, tuple(edges), own, (), restrict)


@st.composite
def models(draw: st.DrawFn) -> Model:
    """A model of one to three automata."""
    parts = [draw(automata(f"A{i}")) for i in range(draw(st.integers(1, 3)))]
    instances = [Instance(part.name, draw(st.sampled_from([(), ("a",)]))) for part in parts]
    if draw(st.integers(0, 5)) == 0:
        instances.append(Instance(parts[0].name))
    vectors: tuple[Synchronisation, ...] | None = None
    if draw(st.integers(0, 4)):
        vectors = tuple(
            Synchronisation(
                tuple(draw(st.sampled_from([None, *ACTIONS, *ACTIONS])) for _ in instances),
                draw(st.sampled_from([None, *ACTIONS])),
            )
            for _ in range(draw(st.integers(1, 4)))
        )
    kind = draw(st.sampled_from([ModelType.MDP, ModelType.MDP, ModelType.DTMC]))
    return Model("random", kind, tuple(parts), Composition(tuple(instances), vectors), ACTIONS, (), GLOBALS, FUNCTIONS)
