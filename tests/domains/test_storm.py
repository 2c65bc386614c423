"""Every generated file reads in Storm, which finds as many states."""

import pytest

from polvet.domains import generate
from polvet.kernel.compiled import Compiled
from tests.domains.worlds import SMALL, named

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
