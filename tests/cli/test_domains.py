"""`polvet domains`: lists, explains, writes; wrong input ends in 30 and leaves nothing behind."""

import json

import pytest

from polvet.cli.app import run
from polvet.domains import CATALOGUE
from polvet.load import load_task


def test_the_list_names_every_domain_with_its_parameters(capsys) -> None:  # type: ignore[no-untyped-def]
    assert run(["domains", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    listed = {one["name"]: [parameter["name"] for parameter in one["parameters"]] for one in document["domains"]}
    assert listed["transport"][:2] == ["locations", "packages"]
    assert list(listed) == list(CATALOGUE)
    assert run(["domains"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in listed)


def test_a_domain_is_written_with_its_task(tmp_path, capsys) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "out" / "line.jani"
    assert run(["domains", "one-way-line", "n=2", "p=4", "icy", "-o", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"] == "written"
    assert document["model"] == str(path)
    assert document["task"] == str(path.with_suffix(".toml"))
    task = load_task(path.with_suffix(".toml"))
    assert document["figures"]["labels"] == len(task.network.labels)
    assert document["figures"]["start_states"] == 4 * 10
    assert run(["domains", "follow-car", "-o", str(tmp_path / "car.jani")]) == 0
    assert "infinitely many" in capsys.readouterr().out


def test_a_domain_explains_itself(capsys) -> None:  # type: ignore[no-untyped-def]
    assert run(["domains", "janitor"]) == 0
    assert "as in Table 1" in capsys.readouterr().out
    assert run(["domains", "janitor", "width=3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "generated"


@pytest.mark.parametrize(
    "arguments",
    [
        ["janitr", "-o", "x.jani"],
        ["janitor", "width=1", "-o", "x.jani"],
        ["janitor", "-o", "x.txt"],
        ["janitor", "hight=3"],
        ["janitor", "width=3", "width=4"],
        ["-o", "x.jani"],
        ["--jason"],
        ["racetrack", "map=nowhere", "-o", "x.jani"],
    ],
)
def test_wrong_input_exits_30_and_writes_nothing(arguments, tmp_path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    assert run(["domains", *arguments]) == 30
    assert capsys.readouterr().err.startswith("polvet: ")
    assert list(tmp_path.iterdir()) == []
