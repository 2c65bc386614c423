"""Code that a file names runs only where the user asks for it: by naming the function, or with --allow-code."""

import json
import shutil
import subprocess
import sys

import pytest

import polvet
from polvet.cli.app import run
from polvet.errors import InputError
from polvet.records.journal import line_of, read_journal
from tests.report.stories import real_campaign

WORLD = """mdp
module stones
  s : [0..6] init 0;
  [step] s<6 -> (s'=s+1);
  [leap] s<5 -> (s'=s+2);
endmodule
"""
RAN = "ran"
CODE = """from pathlib import Path

(Path(__file__).parent / "ran").touch()


def rest(state):
    return state["s"] % 2


def choose(state):
    return "left"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "stones.prism").write_text(WORLD)
    (tmp_path / "features.py").write_text(CODE)
    inputs = ["s", "features.py:rest"]
    (tmp_path / "task.toml").write_text(
        f'model = "stones.prism"\nfail = "s = 5"\ngoal = "s = 6"\n[policy]\ninputs = {json.dumps(inputs)}\n'
    )
    rows = [{"state": dict(zip(inputs, (s, s % 2), strict=True)), "scores": [s != 4, s == 4]} for s in range(7)]
    table = {"format": "table/1", "inputs": inputs, "outputs": ["step", "leap"], "rows": rows}
    (tmp_path / "policy.json").write_text(json.dumps(table))
    return tmp_path


COMMANDS = {
    "verify": (0, "-o", "c.json"),
    "evaluate": (0,),
    "simulate": (0,),
    "fuzz": (0, "--runs", "64"),
    "faults": (0,),
    "gate": (0,),
    "debug": (0, "-o", "debugged"),
    "explore": (0,),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_function_that_a_task_names_runs_only_where_it_is_asked_for(folder, capsys, monkeypatch, command):
    monkeypatch.chdir(folder)
    code, *more = COMMANDS[command]
    words = [command, "task.toml", *(["--policy"] if command == "explore" else []), "policy.json", *more]
    assert run(words) == 30
    said = capsys.readouterr().err
    assert "features.py" in said
    assert "'rest'" in said
    assert "--allow-code" in said
    assert not (folder / RAN).exists()
    assert run([*words, "--allow-code"]) == code
    assert (folder / RAN).exists()


def test_what_is_not_allowed_is_neither_trained_nor_certified_nor_reported(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    subject = ["task.toml", "policy.json"]
    assert run(["verify", *subject, "-o", "c.json", "--allow-code"]) == 0
    assert run(["debug", *subject, "-o", "debugged", "--allow-code"]) == 0
    about = ["--task", "task.toml", "--policy", "policy.json"]
    page = ["-o", "page.html"]
    for words in (
        ["train", "task.toml", "--kind", "trees", "-o", "trained.json"],
        ["certify", "c.json", *about],
        ["certify", "c.json", "--allow-options", *about],
        ["report", "debugged", *page],
        ["report", "debugged", "--check", *page],
        ["report", "c.json", *about, *page],
    ):
        (folder / RAN).unlink(missing_ok=True)
        capsys.readouterr()
        assert run(words) == 30
        assert "--allow-code" in capsys.readouterr().err
        assert not (folder / RAN).exists()
        assert run([*words, "--allow-code"]) == 0
        assert (folder / RAN).exists()


def test_python_asks_with_a_keyword(folder):
    with pytest.raises(InputError, match="allow_code"):
        polvet.load(folder / "task.toml").policy(folder / "policy.json")
    assert not (folder / RAN).exists()
    policy = polvet.load(folder / "task.toml", allow_code=True).policy(folder / "policy.json")
    result = policy.verify()
    assert polvet.load(policy.task, allow_code=True).policy(folder / "policy.json").verify().verdict is result.verdict
    files = folder / "task.toml", folder / "policy.json"
    with pytest.raises(InputError, match="allow_code"):
        polvet.certify(result, *files)
    assert polvet.certify(result, *files, allow_code=True).accepted
    assert polvet.certify(result, policy.task, policy).accepted


def test_a_policy_that_the_user_names_is_asked_for(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "task.toml").write_text('model = "stones.prism"\nfail = "s = 5"\n')
    (folder / "features.py").write_text(CODE.replace('"left"', '"step" if state["s"] != 4 else "leap"'))
    assert run(["verify", "task.toml", "features.py:choose"]) == 0


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    return real_campaign(tmp_path_factory.mktemp("report") / "line")


@pytest.mark.parametrize("attack", ["journal", "outcome", "task", "link"])
def test_a_folder_cannot_name_code(campaign, tmp_path, attack):
    """In a process of its own, in the hostile folder, as somebody who unpacked it would call it."""
    folder = tmp_path / "campaign"
    shutil.copytree(campaign, folder)
    (folder / "evil.py").write_text(CODE)
    if attack == "journal":
        head, *records = read_journal(folder / "journal")
        for record in records:
            if "policy" in record["files"]:
                record["files"]["policy"]["name"] = "evil.py:choose"
        (folder / "journal").write_bytes(b"".join(map(line_of, [head, *records])))
    elif attack == "outcome":
        outcome = json.loads((folder / "outcome.json").read_text())
        (folder / "outcome.json").write_text(json.dumps({**outcome, "policy": "evil.py:choose"}))
    else:
        about = json.loads((folder / "about.json").read_text())
        (folder / "about.json").write_text(json.dumps({**about, "task": "gym:evil:Lake-v0"}))
        if attack == "link":
            (folder / "gym:evil:Lake-v0").write_text("")
    words = [sys.executable, "-m", "polvet", "report", ".", *([] if attack == "link" else ["--check"])]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert not (folder / RAN).exists()
    assert done.returncode == (0 if attack == "link" else 30)
