"""Start states: counts, lists and samples agree with trying all values in the slow interpreter."""

import math
import random
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polvet.errors import InputError, LimitReached, ModelError
from polvet.kernel.compiled import Compiled
from polvet.kernel.starts import Starts, draw_ranks, drawable_starts, is_start_of, sample_starts
from polvet.kernel.starts.ranked import BigDiagram
from polvet.model.build import ModelBuilder
from polvet.model.expressions import (
    Binary,
    BoolLiteral,
    Conditional,
    Expression,
    IntLiteral,
    Name,
    RealLiteral,
    Select,
    Unary,
)
from polvet.model.semantics import Semantics
from polvet.model.task import Task
from polvet.model.terms import Term, every, some, total

INTS = ("x", "y", "z")
BOOLS = ("a", "b")


def builder() -> ModelBuilder:
    m = ModelBuilder("starts")
    m.int("x", -2, 5)
    m.int("y", 0, 3)
    m.int("z", -7, 1)
    m.bool("a")
    m.bool("b", initial=True)
    m.edge("stay")
    return m


def integers(depth: int) -> st.SearchStrategy[Expression]:
    leaf = st.one_of(st.sampled_from([Name(n) for n in INTS]), st.integers(-9, 9).map(IntLiteral))
    if depth == 0:
        return leaf
    inner, truth = integers(depth - 1), truths(depth - 1)
    return st.one_of(
        leaf,
        st.builds(Binary, st.sampled_from(["+", "-", "*", "min", "max", "%", "pow"]), inner, inner),
        st.builds(Unary, st.sampled_from(["abs", "sgn"]), inner),
        st.builds(Unary, st.sampled_from(["floor", "ceil", "trc", "sgn"]), reals(depth - 1)),
        st.builds(Conditional, truth, inner, inner),
        st.builds(
            lambda i, items: Select((i,), (len(items),), tuple(items)), inner, st.lists(inner, min_size=1, max_size=3)
        ),
        st.builds(
            lambda i, j, items: Select((i, j), (2, 2), tuple(items)), inner, inner,
            st.lists(inner, min_size=4, max_size=4),
        ),
    )  # fmt: skip


def reals(depth: int) -> st.SearchStrategy[Expression]:
    leaf = st.sampled_from([RealLiteral(Fraction(n, 4)) for n in range(-6, 7)])
    if depth == 0:
        return leaf
    inner, number = reals(depth - 1), integers(depth - 1)
    either = st.one_of(inner, number)
    return st.one_of(
        leaf,
        st.builds(Binary, st.sampled_from(["+", "-", "*", "min", "max", "%", "pow"]), inner, either),
        st.builds(Binary, st.just("/"), either, either),
        st.builds(Unary, st.sampled_from(["abs", "sin", "exp"]), inner),
        st.builds(Conditional, truths(depth - 1), inner, either),
    )


def truths(depth: int) -> st.SearchStrategy[Expression]:
    leaf = st.one_of(st.sampled_from([Name(n) for n in BOOLS]), st.booleans().map(BoolLiteral))
    if depth == 0:
        return leaf
    inner, number = truths(depth - 1), integers(depth - 1)
    return st.one_of(
        leaf,
        st.builds(Binary, st.sampled_from(["∧", "∨", "⇒", "=", "≠"]), inner, inner),
        st.builds(Unary, st.just("¬"), inner),
        st.builds(Binary, st.sampled_from(["=", "≠", "<", "≤", ">", "≥"]), number, number),
        st.builds(Binary, st.sampled_from(["=", "≠", "<", "≤", ">", "≥"]), number, reals(depth - 1)),
        st.builds(Conditional, inner, inner, inner),
    )


NETWORK = builder().network()


@settings(max_examples=300, deadline=None)
@given(truths(3), truths(3), st.booleans())
def test_the_diagram_has_exactly_the_states_that_trying_all_values_finds(left, right, initial) -> None:  # type: ignore[no-untyped-def]
    condition = Binary("∧", left, right)
    semantics = Semantics(NETWORK)
    try:
        wanted = list(semantics.states_satisfying(condition, initial=initial))
    except InputError:
        return  # the interpreter stops at a fault; what happens then is tested below
    try:
        starts = Starts(NETWORK, condition, initial=initial)
    except ModelError:
        # The interpreter evaluates from left to right and may never see the fault.
        assert _can_fault(condition)
        return
    found = list(starts.states())
    assert len(found) == starts.count == len(wanted)
    assert set(found) == set(wanted)
    for part, places in starts._ranked:
        big = BigDiagram(part.diagram, [starts._domain(NETWORK.variables[place]) for place in places])
        assert big.total == part.total
        ranks = range(min(part.total, 20))
        assert [big.unrank(rank) for rank in ranks] == part.rows(ranks).tolist()


def _can_fault(expression: Expression) -> bool:
    from polvet.model.expressions import children

    risky = isinstance(expression, Select) or (
        isinstance(expression, Binary | Unary) and expression.operator in ("/", "%", "pow", "log", "exp")
    )
    return risky or any(_can_fault(child) for child in children(expression))


def test_sums_over_many_variables_are_counted_and_numbered_without_listing() -> None:
    m = ModelBuilder("sums")
    xs = [m.int(f"x{i}", 0, 15) for i in range(10)]
    m.int("free", 1, 7)
    m.edge("stay")
    task = m.task(start=total(*xs) == 15)
    assert Starts.of(task).count == math.comb(24, 9) * 7
    states = sample_starts(task, 300, seed=1)
    assert len(states) == 300
    assert all(sum(state[:10]) == 15 and 1 <= state[10] <= 7 for state in states)
    assert states == sample_starts(task, 300, seed=1) != sample_starts(task, 300, seed=2)


def test_samples_are_uniform() -> None:
    m = builder()
    task = m.task(start="x + y <= 0 && (a => z == 1)")
    starts = Starts.of(task)
    assert starts.count is not None
    rounds = 200
    counts = Counter(starts.sample(rounds * starts.count, random.Random(7)))
    assert len(counts) == starts.count
    # chi-square with k - 1 degrees of freedom stays within six standard deviations
    chi = sum((n - rounds) ** 2 / rounds for n in counts.values())
    assert abs(chi - (starts.count - 1)) < 6 * math.sqrt(2 * starts.count)


def test_numbers_beyond_128_bits_are_exact() -> None:
    m = ModelBuilder("huge")
    xs = [m.int(f"x{i}", 0, 2**40) for i in range(8)]
    m.edge("stay")
    task = m.task(start=every(*(xs[i] < xs[i + 1] + 2**41 for i in range(7))))  # true, but only by arithmetic
    starts = Starts.of(task)
    assert starts.count == (2**40 + 1) ** 8
    linked = m.task(start=some(*(x == 0 for x in xs)))
    starts = Starts.of(linked)
    assert starts.count == (2**40 + 1) ** 8 - (2**40) ** 8
    assert starts.state(starts.count - 1)[-1] == 0
    assert starts.state(0) == (0,) * 8
    assert all(0 in state for state in starts.sample(50, random.Random(0)))


def test_wide_domains_are_cut_by_ranges_of_values() -> None:
    m = ModelBuilder("wide")
    x, y = m.int("x", 0, 10**12), m.int("y", -(10**12), 10**12)
    m.edge("stay")
    task = m.task(start=(x >= 10**11) & (x < 10**11 + 5) & (y * 2 == x) | (x == 3) & (y >= 10**12 - 2))
    assert set(Starts.of(task).states()) == {
        *((v, v // 2) for v in range(10**11, 10**11 + 5, 2)), *((3, 10**12 - k) for k in range(3))
    }  # fmt: skip


def test_lists_of_states_come_back_as_they_are() -> None:
    rng = random.Random(5)
    m = ModelBuilder("lists")
    xs = [m.int(f"x{i}", 0, 99) for i in range(6)]
    r = m.real("r")
    m.edge("stay")
    states = {(*(rng.randrange(100) for _ in range(6)), rng.randrange(5) / 4) for _ in range(200)}
    task = m.task(start=some(*(every(*(v == c for v, c in zip((*xs, r), state, strict=True))) for state in states)))
    assert set(Starts.of(task).states()) == states
    assert Starts.of(task).method == "exact"


@pytest.mark.parametrize("start", [None, "x + y == 3 && !a"])
def test_a_state_is_a_start_where_it_is_listed(start: str | None) -> None:
    m = ModelBuilder("m")
    m.int("x", 0, 3)
    m.int("y", 0, 3, initial=2)
    m.bool("a")
    m.edge("stay")
    m.restrict_initial("x <= y")
    task = m.task(start=start)
    is_start = is_start_of(task)
    every_state = product(range(4), range(4), (False, True))
    assert {state for state in every_state if is_start(state)} == set(Starts.of(task).states()) != set()


def test_real_variables_are_drawn_between_their_bounds() -> None:
    m = ModelBuilder("reals")
    x, y, n = m.real("x", 0, 1), m.real("y"), m.int("n", 0, 3)
    m.edge("stay")
    task = m.task(start=(y >= -1) & (y <= 2.5) & (x * x + y * y <= 1) & (n > 1))
    assert Starts.of(task).count is None
    starts = Starts.of(task)
    assert starts.method == "rejection"
    sample = starts.sample(500, random.Random(1))
    assert all(0 <= x <= 1 and -1 <= y <= 2.5 and x * x + y * y <= 1 and n in (2, 3) for x, y, n in sample)
    assert 0.3 < sum(y > 0 for _, y, _ in sample) / 500 < 0.7
    with pytest.raises(InputError, match="infinitely many"):
        next(Starts.of(task).states())


def test_initial_states_keep_initial_values_and_explore_uses_them() -> None:
    m = builder()
    m.restrict_initial("x == y && !a")
    network = m.network()
    wanted = set(Semantics(network).initial_states())
    assert set(Starts.initial(network).states()) == wanted
    compiled = Compiled(network)
    assert set(compiled.unpack(compiled.initial())) == wanted
    assert len(compiled.explore()) == len(wanted)
    task = Task(network)
    assert Starts.of(task).count == len(wanted)


def test_several_locations_are_values_like_others() -> None:
    m = ModelBuilder("places")
    one = m.automaton("one")
    for name in ("l", "m", "n"):
        one.location(name, initial=name != "n")
    one.edge("go", at="l", go="n")
    m.int("x", 0, 1)
    assert Starts.of(m.task(start='x == 1 && one.location != "m"')).count == 2
    assert Starts.of(m.task()).count == 4


def test_draws_without_repetition_are_different_and_complete() -> None:
    m = builder()
    starts = Starts.of(m.task(start="x == y"))
    assert starts.count is not None
    drawn = starts.sample(starts.count, random.Random(3), distinct=True)
    assert set(drawn) == set(starts.states())
    with pytest.raises(InputError, match="different start states"):
        starts.sample(starts.count + 1, random.Random(3), distinct=True)
    assert len(set(draw_ranks(10**30, 100, random.Random(0), distinct=True))) == 100


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("10 % y == 1", "cannot be evaluated"),
        ("x / y > 1", "cannot be evaluated"),
        ("false", "no state satisfies"),
        ("x > 100", "no state satisfies"),
        ("u > 3", "infinitely many"),
        ("r > 3 && r < 2", "no state satisfies"),
    ],
)
def test_conditions_that_cannot_be_used_say_why(start: str, message: str) -> None:
    m = builder()
    m.int("u", initial=0)
    m.real("r", 0, 9, initial=0)
    with pytest.raises(InputError, match=message):
        sample_starts(m.task(start=start if "u" in start else f"u == 0 && ({start})"), 1, seed=0)


def test_a_fault_behind_a_false_conjunct_does_not_matter() -> None:
    m = builder()
    assert Starts.of(m.task(start="y != 0 && 6 % y == 0")).count == 3 * 8 * 9 * 4
    assert Starts.of(m.task(start="y == 0 || x / y == 1")).count == 9 * 4 * (8 + 3)


def test_memory_ends_in_a_named_limit() -> None:
    m = ModelBuilder("hard")
    xs = [m.int(f"x{i}", 0, 40) for i in range(40)]
    m.edge("stay")
    task = m.task(start=every(*(xs[i] * xs[j] != 7 * i + j for i in range(40) for j in range(i))))
    assert task.start is not None
    with pytest.raises(LimitReached, match="MB"):
        Starts(task.network, task.start, megabytes=20)
    drawn = drawable_starts(task, megabytes=20)
    assert (drawn.method, drawn.count) == ("rejection", None)


def test_what_cannot_be_counted_is_drawn_by_rejection() -> None:
    m = ModelBuilder("loose")
    xs = [m.int(f"x{i}", 0, 40) for i in range(40)]
    m.edge("stay")
    task = m.task(start=every(*(xs[i] * xs[j] != 7 * i + j for i in range(40) for j in range(max(0, i - 6), i, 5))))
    starts = drawable_starts(task, megabytes=1)
    assert starts.method == "rejection"
    assert task.start is not None
    holds = Semantics(task.network).compile(task.start)
    assert all(holds(state) for state in starts.sample(20, random.Random(0)))


def test_a_state_is_found_by_its_rank() -> None:
    starts = Starts.of(builder().task(start=Term.of("x") >= 0))
    assert starts.count is not None
    assert [starts.state(rank) for rank in range(5)] == list(starts.states(5))
    with pytest.raises(InputError, match="rank"):
        starts.state(starts.count)
