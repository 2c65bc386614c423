"""`polvet permit` and `polvet learn`: verdicts, exit codes, figures, and files that `polvet certify` accepts."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from polvet.cli.app import run
from polvet.domains import generate


@pytest.fixture
def task(tmp_path: Path) -> str:
    return str(generate("janitor", width=3, height=3).write(tmp_path / "janitor.jani")[1])


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run([*arguments, "--json"])
    out = capsys.readouterr().out
    return code, json.loads(out) if out else {}


def test_permit_writes_a_shield_that_certify_accepts(task: str, tmp_path: Path, capsys: Any) -> None:
    shield = str(tmp_path / "shield.json")
    code, found = answer(capsys, "permit", task, "--bound", "0.1", "-o", shield)
    assert (code, found["verdict"], found["certificate"]) == (0, "permitted", shield)
    assert found["figures"]["value"] <= 0.1
    assert found["figures"]["maximal"]
    assert json.loads(Path(shield).read_text())["bound"] == "1/10"
    assert answer(capsys, "certify", shield, "--task", task)[0] == 0


def test_options_of_the_command_line_travel_with_the_shield(task: str, tmp_path: Path, capsys: Any) -> None:
    shield = str(tmp_path / "shield.json")
    model = task.replace(".toml", ".jani")
    arguments = ("--fail", "x == jx && y == jy", "--goal", "x == 2 && y == 2", "--bound", "1/4", "-o", shield)
    assert answer(capsys, "permit", model, *arguments)[0] == 0
    code, found = answer(capsys, "certify", shield, "--task", model)
    assert code == 0
    assert "1/4" in found["claim"]


def test_a_bound_below_the_minimum_is_impossible_and_names_it(task: str, capsys: Any) -> None:
    code, found = answer(capsys, "permit", task, "--fail", "x + y >= 1", "--bound", "0.25")
    # Waiting at the start avoids that; leaving is what the goal asks for, but safety alone does not.
    assert (code, found["verdict"]) == (0, "permitted")
    code, found = answer(capsys, "permit", task, "--fail", "jx + jy <= 3", "--goal", "false", "--bound", "0.25")
    assert (code, found["verdict"]) == (10, "impossible")
    assert found["figures"]["minimum"] == 1.0


@pytest.mark.parametrize("bound", ["-1", "1.01", "x", "1/0"])
def test_a_bound_that_is_no_probability_is_wrong_input(task: str, bound: str, capsys: Any) -> None:
    assert run(["permit", task, f"--bound={bound}"]) == 30
    assert "--bound" in capsys.readouterr().err


def test_a_model_without_fail_is_wrong_input(task: str, capsys: Any) -> None:
    assert run(["permit", task.replace(".toml", ".jani"), "--bound", "0.1"]) == 30
    assert "--fail" in capsys.readouterr().err


def test_learn_closes_the_gap_and_shows_each_iteration(task: str, tmp_path: Path, capsys: Any) -> None:
    shield = str(tmp_path / "last.json")
    code, found = answer(capsys, "learn", task, "--cost", "fuel", "--bound", "0.2", "-o", shield)
    figures = found["figures"]
    assert (code, found["verdict"]) == (0, "optimal")
    assert figures["lower"] <= figures["upper"] <= figures["lower"] * (1 + 1e-5)
    assert len(figures["history"]) == figures["iterations"]
    lowers = [one["lower"] for one in figures["history"]]
    assert lowers == sorted(lowers)
    assert answer(capsys, "certify", shield, "--task", task)[0] == 0


def test_learn_inside_a_given_shield(task: str, tmp_path: Path, capsys: Any) -> None:
    shield = str(tmp_path / "shield.json")
    assert answer(capsys, "permit", task, "--bound", "0.2", "-o", shield)[0] == 0
    code, found = answer(capsys, "learn", task, "--cost", "fuel", "--shield", shield)
    assert code == 0
    assert found["figures"]["lower"] <= found["figures"]["upper"]


def test_learn_names_what_is_missing(task: str, capsys: Any) -> None:
    assert run(["learn", task, "--cost", "fule", "--bound", "0.1"]) == 30
    assert "Did you mean 'fuel'?" in capsys.readouterr().err
    assert run(["learn", task, "--cost", "fuel"]) == 30
    assert run(["learn", task, "--cost", "fuel", "--bound", "0.1", "--goal", "x > 5"]) == 30
    assert "goal" in capsys.readouterr().err


def test_pictures_are_drawn_and_the_tree_is_written(task: str, tmp_path: Path, capsys: Any) -> None:
    tree, grid, bounds = (str(tmp_path / name) for name in ("tree.json", "grid.svg", "bounds.svg"))
    code, found = answer(capsys, "permit", task, "--bound", "0.1", "--tree", tree, "--picture", grid)
    assert code == 0
    assert found["figures"]["tree_leaves"] > 1
    panels = [one.text for one in ElementTree.parse(grid).iter("{http://www.w3.org/2000/svg}text")]
    assert {"right", "up"} <= set(panels)
    code, found = answer(
        capsys, "learn", task, "--cost", "fuel", "--bound", "0.2", "--deterministic", "--picture", bounds
    )
    assert (code, found["verdict"]) == (0, "optimal")
    lines = list(ElementTree.parse(bounds).iter("{http://www.w3.org/2000/svg}polyline"))
    assert len(lines) == 3
    assert len(lines[0].attrib["points"].split()) == found["figures"]["iterations"]
