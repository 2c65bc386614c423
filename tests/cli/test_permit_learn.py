"""`polvet permit` and `polvet learn`: verdicts, exit codes, figures, and files that `polvet certify` accepts."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from polvet.cli.app import run
from polvet.domains import generate
from polvet.jani.write import dump_model
from polvet.model.build import ModelBuilder


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
    conditions = ("--fail", "x == jx && y == jy", "--goal", "x == 2 && y == 2")
    assert answer(capsys, "permit", model, *conditions, "--bound", "1/4", "-o", shield)[0] == 0
    assert answer(capsys, "certify", shield, "--task", model)[0] == 10
    code, found = answer(capsys, "certify", shield, "--task", model, *conditions)
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


def test_a_start_that_fails_already_or_has_ended_is_said_so(task: str, capsys: Any) -> None:
    assert run(["permit", task, "--bound", "0.1", "--fail", "x == 0"]) == 10
    assert "a start state fails already" in capsys.readouterr().out
    code, found = answer(capsys, "learn", task, "--cost", "fuel", "--bound", "0.1", "--fail", "x == 0")
    assert (code, found["verdict"], found["figures"]["minimum"]) == (10, "impossible", 1.0)
    assert run(["learn", task, "--cost", "fuel", "--bound", "0.1", "--goal", "x == 0"]) == 30
    assert "the run ends in the start state" in capsys.readouterr().err


def test_probabilities_that_do_not_sum_to_one_are_refused_with_their_place(task: str, capsys: Any) -> None:
    model = Path(task.replace(".toml", ".jani"))
    document = json.loads(model.read_text())
    document["automata"][0]["edges"][0]["destinations"][0]["probability"] = {"exp": 0.3}
    model.write_text(json.dumps(document))
    lines = [line for line in Path(task).read_text().splitlines() if not line.startswith("sha256")]
    Path(task).write_text("\n".join(lines))  # the change is intended
    for command in (["permit", task, "--bound", "0.1"], ["learn", task, "--bound", "0.1", "--cost", "fuel"]):
        assert run(command) == 30
        said = capsys.readouterr().err
        assert "automata[0].edges[0].destinations" in said
        assert "sum to" in said


def test_dead_ends_are_counted_and_end_runs_safely(tmp_path: Path, capsys: Any) -> None:
    m = ModelBuilder("dead_ends")
    x = m.int("x", 0, 4, initial=0)
    m.edge("left", guard=x == 0, to={x: 1})
    m.edge("right", guard=x == 0, to=[(Fraction(1, 2), {x: 2}), (Fraction(1, 2), {x: 3})])
    (tmp_path / "dead.jani").write_text(dump_model(m.build()))
    model = str(tmp_path / "dead.jani")
    code, found = answer(capsys, "permit", model, "--fail", "x == 2", "--goal", "x == 4", "--bound", "0.4")
    assert (code, found["figures"]["dead_ends"], found["figures"]["permitted"]) == (0, 2, 1)
    assert not found["figures"]["goal_reachable"]
    assert run(["permit", model, "--fail", "x == 2", "--goal", "x == 4", "--bound", "0.4"]) == 0
    assert "dead ends 2 states" in capsys.readouterr().out
