"""Every generated file reads in Storm, which finds as many states."""

import pytest

from polvet.domains import generate
from polvet.kernel.compiled import Compiled
from polvet.model.task import Task
from tests.domains.worlds import SMALL, named, unsafe_states

pytestmark = [pytest.mark.slow, pytest.mark.peer]

stormpy = pytest.importorskip("stormpy")


@pytest.mark.parametrize("case", SMALL, ids=named)
def test_storm_builds_as_many_states(case, tmp_path) -> None:  # type: ignore[no-untyped-def]
    instance = generate(case[0], **case[1])
    path, _ = instance.write(tmp_path / "world.jani")
    program, properties = stormpy.parse_jani_model(str(path))
    assert len(properties) == len(instance.model.properties) >= 2
    model = stormpy.build_model(program)
    space = Compiled(instance.task().network).explore()
    assert model.nr_states == len(space)
    assert model.nr_choices == space.choices + space.deadlocks  # Storm adds a loop to a deadlock


@pytest.mark.parametrize("case", SMALL, ids=named)
def test_storm_agrees_whether_failure_can_be_avoided(case, tmp_path) -> None:  # type: ignore[no-untyped-def]
    instance = generate(case[0], **case[1])
    path, _ = instance.write(tmp_path / "world.jani")
    program, properties = stormpy.parse_jani_model(str(path))
    place = [one.name for one in instance.model.properties].index("fail")  # the least probability to reach it
    model = stormpy.build_model(program, [properties[place]])
    least = stormpy.model_checking(model, properties[place]).get_value(model.initial_states[0])
    task = instance.task()
    space, unsafe = unsafe_states(Task(task.network, task.fail, task.goal), goal_ends=False)
    assert (least > 0) == bool(unsafe[space.initial[0]])


@pytest.mark.parametrize(
    ("name", "parameters", "cost", "least"),
    [
        ("janitor", {}, "fuel", 84),
        ("comexp", {"width": 6, "height": 6}, "energy", 0.3),
        ("comexp", {"width": 8, "height": 8}, "energy", 0.42),
    ],
)
def test_least_costs_are_the_lower_bounds_of_the_papers_table(name, parameters, cost, least, tmp_path) -> None:  # type: ignore[no-untyped-def]
    instance = generate(name, **parameters)
    path, _ = instance.write(tmp_path / "world.jani")
    program, properties = stormpy.parse_jani_model(str(path))
    place = [one.name for one in instance.model.properties].index(cost)
    model = stormpy.build_model(program, [properties[place]])
    value = stormpy.model_checking(model, properties[place]).get_value(model.initial_states[0])
    assert value == pytest.approx(least)
