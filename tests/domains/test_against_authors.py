"""Generated worlds against the authors' own files: same variables, same labels, same moves with probabilities."""

import random
from fractions import Fraction

import pytest

from polvet.domains import generate
from polvet.errors import InputError
from polvet.jani import load_properties
from polvet.kernel.compiled import Compiled
from polvet.kernel.starts import Starts
from polvet.load import load_network, load_task
from polvet.model.expressions import Binary, conjunction, disjunction
from polvet.model.network import Network
from polvet.model.properties import PolicyTask, StateCondition, StatesValues
from polvet.model.task import Task, TaskOptions, condition
from tests.domains.worlds import BENCHMARKS, differences, explored, needs_benchmarks

pytestmark = [needs_benchmarks, pytest.mark.slow]
HALF = Fraction(1, 2)


def theirs(path: str, **constants: int | Fraction | bool) -> Network:
    return load_network(BENCHMARKS / path, constants)


@pytest.mark.parametrize(
    ("name", "parameters", "path", "constants"),
    [
        ("one-way-line", {"icy": True, "ice": "5,7"}, "jani-env/one_way_line_15_10/model.jani", {}),
        ("one-way-line", {"icy": True, "ice": "4,5"}, "jani-env/mod_linetrack/mod_linetrack.jani", {}),
        (
            "one-way-line", {"n": 17, "icy": True, "park": True},
            "jani-env/mod_linetrack_17_10/mod_linetrack_17_10.jani", {},
        ),
        ("two-way-line", {}, "jani-env/two_way_line_15_10/model.jani", {}),
        ("transport", {"empty_backward": True}, "jani-env/linetrack/model.jani", {}),
        ("blocksworld", {"n": 6}, "plaja-tests/icaps22/blocksworld/models/cost05/blocksworld_6_5.jani", {}),
        (
            "blocksworld", {"n": 4, "cost": 3},
            "plaja-tests/blocksworld/cost_terminal/models/legacy_enc/blocksworld_4_3.jani",
            {"failing_probability": HALF, "item_cost_bound": 3},
        ),
        (
            "sliding-tiles", {"n": 8, "cost": 3, "wrap": True},
            "plaja-tests/npuzzle/compact_starts_non_terminal/models/offset_enc/npuzzle_3_3.jani",
            {"failing_probability": HALF, "item_cost_bound": 3, "cost_terminal": False},
        ),
        ("beluga", {}, "microplaja/beluga_4_2.jani", {}),
        ("bouncing-ball", {"tau": "0.3"}, "jani-env/bouncing_ball/bouncing_ball.jani", {}),
        ("inverted-pendulum", {"tau": "0.1"}, "jani-env/inverted_pendulum/inverted_pendulum.jani", {}),
    ],
    ids=lambda value: value if isinstance(value, str) and "/" not in value else "",
)  # fmt: skip
def test_moves_are_the_same(name, parameters, path, constants) -> None:  # type: ignore[no-untyped-def]
    assert differences(generate(name, **parameters).task(), theirs(path, **constants)) == []


def test_the_deterministic_one_way_line_differs_only_in_moving_an_empty_truck() -> None:
    task = generate("one-way-line").task()
    found = differences(task, theirs("microplaja/one_way_line_15_10_det.jani"), walks=60)
    assert found
    for state, mine, other in found:
        assert state["truck_load_0"] == 0
        assert [move for move in mine if move[0] != "move_truck_0"] == other


def reachable(network: Network, task: Task) -> int:
    """Return how many states the network reaches from the task's start states (variables found by name)."""
    order = [task.network.index_of(variable.name) for variable in network.variables]
    compiled = Compiled(network)
    starts = [tuple(state[i] for i in order) for state in Starts.of(task).states()]
    return len(compiled.explore(compiled.pack(starts)))


def test_blocksworld_and_beluga_reach_as_many_states() -> None:
    path = "plaja-tests/blocksworld/cost_terminal/models/legacy_enc/blocksworld_4_3.jani"
    task = generate("blocksworld", n=4, cost=2).task()
    _, space = explored(task)
    assert len(space) == reachable(theirs(path, failing_probability=HALF, item_cost_bound=2), task)
    task = generate("beluga", jigs=4).task()
    _, space = explored(task)
    assert len(space) == reachable(theirs("microplaja/beluga_4_2.jani"), task)


def same_states(task: Task, other: Task) -> bool:
    """Return whether the other task's conditions single out the same start states, over the same variables."""
    names = [variable.name for variable in task.network.variables]
    order = [other.network.index_of(name) for name in names]
    theirs_ = {tuple(state[i] for i in order) for state in Starts.of(other).states()}
    return theirs_ == set(Starts.of(task).states())


def test_start_conditions_single_out_the_same_states() -> None:
    blocks = "plaja-tests/blocksworld/cost_terminal/models/legacy_enc/blocksworld_4_3.jani"
    options = TaskOptions(constants={"failing_probability": HALF, "item_cost_bound": 3})
    assert same_states(generate("blocksworld", n=4, cost=3).task(), load_task(BENCHMARKS / blocks, options))
    six = "plaja-tests/icaps22/blocksworld/models/cost05/blocksworld_6_5.jani"
    folder = "plaja-tests/icaps22/blocksworld/additional_properties/safety_verification/cost05/blocksworld_6_5"
    start = f"{folder}/compact_starts_cost_predicates_afterwards/learned_cost05_non_terminal/start.jani"
    assert same_states(generate("blocksworld", n=6).task(), with_start(theirs(six), start))
    puzzle = "plaja-tests/npuzzle/compact_starts_non_terminal/models/offset_enc/npuzzle_3_3.jani"
    network = theirs(puzzle, failing_probability=HALF, item_cost_bound=3, cost_terminal=False)
    start = "plaja-tests/npuzzle/additional_properties/safety_verification/preds_lab_id_1.jani"
    assert same_states(generate("sliding-tiles", n=8, cost=3).task(), with_start(network, start))


def with_start(network: Network, path: str) -> Task:
    """Return the network with the start condition of a property file."""
    (only,) = load_properties(BENCHMARKS / path)
    found = only.expression.start if isinstance(only.expression, PolicyTask) else only.expression
    assert isinstance(found, StateCondition)
    assert found.condition is not None
    return Task(network, start=condition(network, found.condition, only.where))


@pytest.mark.parametrize(("name", "file"), [("one-way-line", "one_way"), ("two-way-line", "two_way")])
def test_lines_start_and_end_like_the_authors(name: str, file: str) -> None:
    other = load_task(BENCHMARKS / f"jani-env/{file}_line_15_10/model.jani")
    task = generate(name).task()
    assert Starts.of(other).count == Starts.of(task).count == 5_230_016
    assert task.start is not None
    compiled = Compiled(task.network, conditions=[task.start, task.fail, task.goal])
    states = compiled.pack(Starts.of(other).sample(300, random.Random(1)))
    assert compiled.machine.holds(0, states).all()
    assert not (compiled.machine.holds(1, states) | compiled.machine.holds(2, states)).any()


def test_published_racetrack_maps_are_read() -> None:
    tracks = sorted((BENCHMARKS / "racetrack-momba" / "tracks").glob("*.txt"))
    icy = [track for track in tracks if "i" in track.read_text().partition("\n")[2]]  # other grounds are refused
    for track in icy:
        with pytest.raises(InputError, match=r"'i' .* is no place"):
            generate("racetrack", map=str(track))
    for track in (one for one in tracks if one not in icy):
        task = generate("racetrack", map=str(track), speed=2).task()
        signs = track.read_text().partition("\n")[2]
        assert Starts.of(task).count == signs.count("s")


def test_the_published_barto_small_start_states_are_states_of_ours() -> None:
    folder = BENCHMARKS / "plaja-tests/icaps22/racetrack/additional_properties/safety_verification/simple"
    (states,) = load_properties(folder / "EvaluationMMB/barto-small/random_starts_999/start.jani")
    track = BENCHMARKS / "racetrack-momba" / "tracks" / "barto-small.track.txt"
    task = generate("racetrack", map=str(track), speed=20, anywhere=True).task()
    compiled = Compiled(task.network, conditions=[task.start])
    names = [variable.name for variable in task.network.variables]
    rows = []
    for one in states.expression.states:
        given = {target.name: value.value for target, value in one.values}
        rows.append(tuple(given.get(name, False) for name in names))
    assert len(rows) > 900
    assert compiled.machine.holds(0, compiled.pack(rows)).all()


@pytest.mark.parametrize(
    ("model", "starts", "method"),
    [
        ("jani-env/bouncing_ball/bouncing_ball.jani", "jani-env/bouncing_ball/start.jani", "exact"),
        ("jani-env/bouncing_ball/bouncing_ball.jani", "jani-env/bouncing_ball/start_compact.jani", "rejection"),
        ("microplaja/beluga_4_2.jani", "microplaja/pa_beluga_4_2_random_starts_1000.jani", "exact"),
    ],
)
def test_published_lists_of_start_states_are_counted_as_listed(model: str, starts: str, method: str) -> None:
    network = theirs(model)
    (only,) = load_properties(BENCHMARKS / starts)
    found = only.expression.start if isinstance(only.expression, PolicyTask) else only.expression
    if isinstance(found, StatesValues):
        listed = {frozenset((target, value) for target, value in state.values) for state in found.states}
        parts = [conjunction(*(Binary("=", target, value) for target, value in state)) for state in listed]
        task = Task(network, start=condition(network, disjunction(*parts), only.where))
        assert Starts.of(task).count == len(listed) > 20
    else:
        assert isinstance(found, StateCondition)
        assert found.condition is not None
        task = Task(network, start=condition(network, found.condition, only.where))
        assert Starts.of(task).count is None
    assert Starts.of(task).method == method
    assert len(Starts.of(task).sample(10, random.Random(1))) == 10
