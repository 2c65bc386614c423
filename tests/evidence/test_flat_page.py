"""The page of flat texts is right: its texts load, mean what it says of them, and are those that `polvet flatten` writes."""

from __future__ import annotations

from fractions import Fraction
from hashlib import sha256

import pytest

import polvet
from polvet.cli.app import run
from polvet.evidence.checker.policies import Chooser
from polvet.evidence.checker.world import ModelFault, World
from tests.pages import files_in

TEXTS = files_in("flat.md")


def shares(world: World, state) -> dict:
    """Per label the distribution over states, in fractions."""
    found = {}
    for label, outcomes in world.moves(state):
        whole = sum(weight for weight, _ in outcomes)
        found[label] = {after: Fraction(weight) / whole for weight, after in outcomes}
    return found


def test_the_page_shows_three_texts():
    assert set(TEXTS) == {"walk.flat", "rows.flat", "tour.flat"}


@pytest.mark.parametrize(
    ("name", "task", "policy"), [("walk.flat", "walk.toml", "rules.json"), ("rows.flat", "walk.table", None)]
)
def test_the_texts_of_the_page_are_those_that_are_written(name, task, policy, tmp_path):
    for file, text in files_in("formats.md").items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    assert polvet.load(tmp_path / task).flat(None if policy is None else tmp_path / policy) == TEXTS[name]


def test_the_walk_does_what_the_page_says():
    world = World(TEXTS["walk.flat"])
    assert shares(world, (1,))["left"] == {(0,): Fraction(1, 4), (2,): Fraction(3, 4)}
    assert world.is_fail((0,))
    chooser = Chooser(world)
    assert [chooser.choose((x,), {"left", "right"}) for x in (1, 3)] == [(["right"], False), (["left"], False)]
    rows = World(TEXTS["rows.flat"])
    assert shares(rows, (1, 1, 0, 0))["left"] == {(0, 0, 1, 0): Fraction(1, 4), (2, 0, 0, 0): Fraction(3, 4)}
    assert set(rows.starts()) == {(1, 1, 0, 0), (2, 0, 0, 0), (3, 1, 0, 0)}


def test_the_tour_does_what_the_page_says():
    world = World(TEXTS["tour.flat"])
    assert shares(world, (0, 3, 0.5)) == {
        "draw": {(0, 2, 0.5): Fraction(1, 3), (3, 3, 0.25): Fraction(2, 3)},
        None: {(0, 3, 0.75): 1},
    }
    chooser = Chooser(world)
    assert chooser.choose((0, 3, 0.5), {"draw"}) == (["draw"], False)
    assert world.moves((3, 3, 0.75)) == []
    assert set(world.starts()) == {(0, 1, 0.5), (0, 3, 0.5)}
    with pytest.raises(ModelFault):
        world.moves((2, 3, 0.5))


def test_the_command_writes_the_text_and_names_its_digest(tmp_path, capsys):
    for file, text in files_in("formats.md").items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    words = ["flatten", str(tmp_path / "walk.toml"), str(tmp_path / "rules.json")]
    assert run(words) == 0
    assert capsys.readouterr().out == TEXTS["walk.flat"]
    assert run([*words, "-o", str(tmp_path / "walk.flat")]) == 0
    data = (tmp_path / "walk.flat").read_bytes()
    assert data.decode() == TEXTS["walk.flat"]
    assert sha256(data).hexdigest() in capsys.readouterr().out
    (tmp_path / "pilot.py").write_text("def left(state):\n    return 'left'\n", encoding="utf-8")
    assert run(["flatten", str(tmp_path / "walk.toml"), f"{tmp_path / 'pilot.py'}:left"]) == 30
    assert "can only be written for given states" in capsys.readouterr().err
