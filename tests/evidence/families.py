"""Random tasks of every front end, and random policies of every kind, for the law of flat texts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from polvet.errors import InputError, Where
from polvet.model.automata import Model
from polvet.model.build import ModelBuilder
from polvet.model.expressions import FALSE
from polvet.model.infix import parse_expression
from polvet.model.instantiate import instantiate
from polvet.model.network import Network, OutOfBounds
from polvet.model.task import PolicyReading, Task, condition
from polvet.pddl import load_pddl
from polvet.policy.binding import Fitted, fit
from polvet.policy.rules import rules_from_json
from polvet.policy.tables import Table
from polvet.policy.trees import LIGHTGBM_ZERO, MISSING_ZERO, TreeEnsemble, make_tree
from polvet.prism.translate import translate
from polvet.worlds.table import build_table
from tests.attack.worlds import random_world
from tests.kernel.test_twins import chancy_models, network_of
from tests.pddl.test_meaning import PROBLEM, atoms, conditions, domains
from tests.policy.graphs import random_graph
from tests.policy.worlds import random_network
from tests.prism.conftest import program
from tests.prism.test_translate import _random_program
from tests.repair.ensembles import random_ensemble
from tests.strategies import booleans, models
from tests.worlds.test_explicit_tables import random_table

Case = tuple[Task, Fitted | None]
Family = Callable[[random.Random], Iterator[Case]]


def with_conditions(network: Network, chance: random.Random, *, started: bool = True) -> Task:
    """Return a task over the network with random conditions on its integers."""
    names = [variable.name for variable in network.variables]

    def drawn() -> str:
        one, other = chance.choice(names), chance.choice(names)
        kinds = {variable.name: variable.kind.value for variable in network.variables}
        shapes = [f"{one} >= {chance.randint(-1, 3)}", f"!({one} = {chance.randint(0, 2)})", f"{one} + {other} = 2"]
        if kinds[one] == "bool" or kinds[other] == "bool":
            shapes = [f"{one} = {one}"] if kinds[one] != "bool" else [one, f"!{one}"]
        return chance.choice(shapes)

    def read(text: str):
        return condition(network, parse_expression(text), Where("law"))

    start = " && ".join(drawn() for _ in range(chance.randint(1, 3)))
    return Task(network, read(drawn()), read(drawn()), read(start) if started and chance.random() < 0.4 else None)


def prism(chance: random.Random) -> Iterator[Case]:
    yield with_conditions(instantiate(translate(program(_random_program(chance)))), chance), None


def table(chance: random.Random) -> Iterator[Case]:
    yield with_conditions(build_table(random_table(chance)).network(), chance), None


def numbers(chance: random.Random) -> Iterator[Case]:
    """Worlds at the edges of numbers, with rules, tables and networks."""
    with TemporaryDirectory() as folder:
        world = random_world(chance.randrange(10**9), Path(folder))
        if world is not None:
            yield world.task, world.fitted


SIZE = 5


def small_task(chance: random.Random) -> Task:
    """A builder's world: two integers, a truth value and a double, labels that are not always applicable, a silent move."""
    m = ModelBuilder("small")
    x, y = m.int("x", -1, SIZE, initial=chance.randint(0, 2)), m.int("y", 0, SIZE, initial=0)
    b, v = m.bool("b", initial=False), m.real("v", -2, 4, initial=0)
    m.edge("a", guard=x < SIZE, to={"x": x + 1, "b": ~b})
    m.edge("b", guard=(y < SIZE) & (v < 3), to=[(0.25, {"y": y + 1}), (0.75, {"v": v + chance.choice([0.5, 0.1])})])
    m.edge("c", guard=(x > 0) | b, to={"x": x - 1, "y": 0, "v": 0 - v})
    if chance.random() < 0.3:
        m.edge(None, guard=b & (x == 2), to={"y": SIZE - y})
    task = m.task(fail=(x == SIZE) & (y == 0), goal=y == SIZE)
    return replace(task, reading=PolicyReading("raw")) if chance.random() < 0.4 else task


INPUTS, LABELS = ("x", "y", "b", "v"), ("a", "b", "c")
COMPUTED = ("x + y", "x * v", "x >= y")


def inputs_of(chance: random.Random) -> tuple[str, ...]:
    names = [*INPUTS, *(COMPUTED if chance.random() < 0.4 else ())]
    return tuple(chance.sample(names, chance.randint(1, len(names))))


def trees(chance: random.Random) -> Iterator[Case]:
    rng = np.random.default_rng(chance.randrange(2**30))
    task, names = small_task(chance), inputs_of(chance)
    ensemble = random_ensemble(rng, chance.choice(["scalar", "vector", "double", "binary"]))
    if len(names) > 1:
        renamed = TreeEnsemble(names[:2], ensemble.outputs, ensemble.trees, ensemble.base, ensemble.comparison,
                               ensemble.arithmetic, ensemble.divisor)  # fmt: skip
        yield task, fit(task, renamed)
    # Zeros that are missing, thresholds that are infinite, and no finite threshold that is a float32.
    inner = [0, 1, -1, -1, -1]
    ends = [chance.choice([0.0, 1.1, float(LIGHTGBM_ZERO), 3e38]), chance.choice([np.inf, -np.inf, 0.3]), 0, 0, 0]
    made = make_tree(0, inner, ends, [1, 3, -1, -1, -1], [2, 4, -1, -1, -1], [0, 0, 0.3, chance.choice([0.1, 0.2]), -1],
                     [chance.random() < 0.5] * 5, [MISSING_ZERO, 0, 0, 0, 0])  # fmt: skip
    comparison, arithmetic = chance.choice(["<", "<="]), chance.choice(["float32", "float64"])
    lightgbm = TreeEnsemble(("v", "x"), ("a", "c"), (made,) * 3, (0.0, 0.5), comparison, arithmetic)
    yield task, fit(task, lightgbm)


def networks(chance: random.Random) -> Iterator[Case]:
    rng = np.random.default_rng(chance.randrange(2**30))
    task, names = small_task(chance), inputs_of(chance)
    yield task, fit(task, random_network(rng, names, LABELS, chance.random() < 0.5))
    yield task, fit(task, random_network(rng, ("x", "y", "b"), LABELS, True))
    yield task, fit(task, random_graph(rng, names, LABELS))


def tables(chance: random.Random) -> Iterator[Case]:
    task = small_task(chance)
    keys = [(float(x), float(y)) for x in range(-1, SIZE + 1) for y in range(SIZE + 1)]
    scores = [tuple(float(chance.choice([0, 0, 0, 1, 0.5, -2])) for _ in LABELS) for _ in keys]
    rows = {key: one for key, one in zip(keys, scores, strict=True) if chance.random() < 0.8}
    yield task, fit(task, Table(("x", "y"), LABELS, rows, chance.choice([None, 0, 1, 2])))


RULES = (
    "x > y",
    "x + y = 3",
    "v / 2 >= 0.5",
    "!(y = 2)",
    "x % 2 = 0 && y < 4",
    "b => y = 1",
    "(x > 2 ? b : y < 3)",
    "b",
    "v = 1",
)


def rules(chance: random.Random) -> Iterator[Case]:
    task = small_task(chance)
    listed = [{"when": chance.choice(RULES), "action": chance.choice(LABELS)} for _ in range(chance.randint(1, 4))]
    if chance.random() < 0.6:
        listed.append({"when": "true", "action": "a"})
    document = {"format": "rules/1", "rules": listed}
    yield task, fit(task, rules_from_json(document, Where("rules"), booleans=["b"]))


FAMILIES: dict[str, Family] = {
    family.__name__: family for family in (prism, table, numbers, trees, networks, tables, rules)
}


MODELS = models()


@st.composite
def jani_tasks(draw: st.DrawFn, model: st.SearchStrategy[Model] = MODELS) -> Task | None:
    """A random JANI model under random conditions; None where it makes no sense."""
    network = network_of(draw(model))
    if network is None:
        return None
    if draw(st.booleans()):
        network = replace(network, out_of_bounds=OutOfBounds.DISABLE)
    fail, goal, start = draw(booleans(2)), draw(booleans(2)), draw(st.none() | booleans(2))
    try:
        resolved = [FALSE if one is None else network.resolve(one) for one in (fail, goal, start)]
    except InputError:
        return None
    return Task(network, resolved[0], resolved[1], None if start is None else resolved[2])


@st.composite
def pddl_tasks(draw: st.DrawFn) -> Task | None:
    """A random PDDL domain with a random problem; None where it is refused."""
    init, goal = draw(st.sets(atoms((), ("p", "q", "s", "s")), max_size=5)), draw(conditions((), 2))
    try:
        world = load_pddl(PROBLEM.format(" ".join(sorted(init)), goal), draw(domains()))
        return Task(instantiate(world.model))
    except InputError:
        return None


def chancy_tasks() -> st.SearchStrategy[Task | None]:
    """JANI models that compute their probabilities: near 0, near 1, or no distribution."""
    return jani_tasks(chancy_models())


STRATEGIES = {"jani": jani_tasks, "chances": chancy_tasks, "pddl": pddl_tasks}


def drawn(name: str, number: int, count: int, check: Callable[[Task], object]) -> None:
    """Ask the check about so many tasks of a strategy, repeatably."""

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.just(None).flatmap(lambda _: STRATEGIES[name]()).map(lambda task: [task]))
    def ask(tasks: list[Task | None]) -> None:
        if tasks[0] is not None:
            check(tasks[0])

    ask()
