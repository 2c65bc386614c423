"""A task's options: certificates repeat them, and they make the same task again."""

from __future__ import annotations

from fractions import Fraction

import pytest

from polvet.errors import InputError, Where
from polvet.model.network import OutOfBounds
from polvet.model.task import Avoid, TaskOptions
from polvet.sources import load_task, options_from_json, parse_avoid

WHERE = Where("options")
MODEL = "mdp\nconst int N;\nmodule m\n x : [0..N] init 0;\n [go] x<N -> (x'=x+1);\nendmodule\n"
FULL = TaskOptions(
    {"N": 4, "p": Fraction(1, 10), "open": True}, "x == 1", "x == 2", "x == 3", OutOfBounds.DISABLE, "raw"
)


@pytest.mark.parametrize("options", [TaskOptions(), FULL, TaskOptions(mode="filtered")])
def test_options_survive_a_certificate(options):
    assert options_from_json(options.to_json(), WHERE) == options


def test_options_are_written_as_they_were_given():
    assert TaskOptions().to_json() == {}
    assert FULL.to_json() == {
        "constants": "N=4,p=1/10,open=true", "start": "x == 1", "fail": "x == 2", "goal": "x == 3",
        "out_of_bounds": "disable", "mode": "raw",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "not an object of texts"),
        ({"fail": 3}, "not an object of texts"),
        ({"colour": "red"}, "'colour' is unknown"),
        ({"out_of_bounds": "ignore"}, "error or disable"),
        ({"out_of_bounds": ""}, "error or disable"),
        ({"mode": "strict"}, "filtered or raw"),
        ({"constants": "N"}, "NAME=VALUE"),
    ],
)
def test_options_nobody_writes_are_refused(given, said):
    with pytest.raises(InputError) as caught:
        options_from_json(given, WHERE)
    assert said in str(caught.value)


def test_a_task_knows_what_it_was_made_of(tmp_path):
    file = tmp_path / "walk.prism"
    file.write_text(MODEL, encoding="utf-8")
    options = TaskOptions(
        {"N": 3}, fail="x == 3", out_of_bounds=OutOfBounds.DISABLE, mode="raw", avoid=Avoid(stuck=True)
    )
    task = load_task(file, options)
    assert task.options == options
    assert task.source is not None
    assert task.source.file == file
    assert task.sha256 == task.source.sha256
    assert task.network.out_of_bounds is OutOfBounds.DISABLE
    assert task.reading.mode == "raw"
    assert task.avoid == Avoid(stuck=True)


def test_what_else_is_unsafe_has_three_names():
    assert parse_avoid("", WHERE) == Avoid()
    assert parse_avoid("deadlock,stuck", WHERE).names == ("stuck", "deadlock")
    assert parse_avoid("loop, stuck", WHERE).names == ("stuck", "loop")
    with pytest.raises(InputError, match="'turn' is unknown"):
        parse_avoid("turn", WHERE)
