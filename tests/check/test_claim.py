"""What a certificate is about: the task's own conditions, or those that are asked for; never others, and never hidden."""

from __future__ import annotations

import json
import shlex

import pytest

from polvet.cli.app import run
from polvet.files import sha256

MODEL = """mdp
const int N = 9;
module m
  x : [0..9] init 0;
  [go] x<N -> (x'=x+1);
  [stay] true -> true;
endmodule
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "walk.prism").write_text(MODEL, encoding="utf-8")
    (tmp_path / "walk.toml").write_text('model = "walk.prism"\nfail = "x == 2"\n', encoding="utf-8")
    table = {"format": "table/1", "inputs": ["x"], "outputs": ["go", "stay"], "rows": [], "default": "go"}
    (tmp_path / "policy.json").write_text(json.dumps(table), encoding="utf-8")
    return tmp_path


def say(capsys, *arguments):
    code = run(list(map(str, arguments)))
    return code, capsys.readouterr()


def made(capsys, folder, *options, command="verify"):
    """Return a certificate made with these options, as arguments of certify."""
    task, file = folder / "walk.toml", folder / "certificate.json"
    policy = [folder / "policy.json"] if command == "verify" else []
    more = ["--method", "explicit"] if command == "verify" else ["--state", "x=0"]
    say(capsys, command, task, *policy, *more, *options, "-o", file)
    return [file, "--task", task, *(["--policy", folder / "policy.json"] if policy else [])]


OTHERS = [
    ("--fail", "false"),
    ("--fail", "x == 20"),
    ("--start", "x == 3"),
    ("--goal", "x == 1"),
    ("--constants", "N=1"),
    ("--out-of-bounds", "disable"),
    ("--mode", "raw"),
]


@pytest.mark.parametrize("option", OTHERS)
@pytest.mark.parametrize("command", ["verify", "decide"])
def test_other_conditions_are_rejected_unless_they_are_asked_for(folder, capsys, option, command):
    if command == "decide" and option[0] == "--mode":
        pytest.skip("decide reads no policy")
    certificate = made(capsys, folder, *option, command=command)
    code, said = say(capsys, "certify", *certificate)
    assert code == 10
    assert "other conditions" in said.out
    assert shlex.join(option) in said.out
    assert "--allow-options" in said.out
    assert say(capsys, "certify", *certificate, *option)[0] == 0
    code, said = say(capsys, "certify", *certificate, "--allow-options")
    assert code == 0
    assert option[1] in said.out


@pytest.mark.parametrize("option", [("--fail", "x==2"), ("--constants", "N=9"), ("--mode", "filtered")])
def test_options_that_repeat_the_task_are_its_own_conditions(folder, capsys, option):
    certificate = made(capsys, folder, *option)
    assert say(capsys, "certify", *certificate)[0] == 0


def test_the_tasks_own_conditions_are_not_those_asked_for(folder, capsys):
    certificate = made(capsys, folder)
    assert say(capsys, "certify", *certificate)[0] == 0
    code, said = say(capsys, "certify", *certificate, "--fail", "x == 20")
    assert code == 10
    assert "own conditions" in said.out


def test_asking_for_conditions_and_allowing_any_contradict(folder, capsys):
    assert say(capsys, "certify", *made(capsys, folder), "--fail", "x == 2", "--allow-options")[0] == 30


@pytest.mark.parametrize("word", ["ignore", "", "error\x1b[2J", "DISABLE"])
def test_only_known_words_say_what_is_out_of_bounds(folder, capsys, word):
    certificate = made(capsys, folder)
    document = json.loads(certificate[0].read_text(encoding="utf-8"))
    certificate[0].write_text(json.dumps(document | {"options": {"out_of_bounds": word}}), encoding="utf-8")
    for more in ([], ["--allow-options"]):
        code, said = say(capsys, "certify", *certificate, *more)
        assert code == 10
        assert "error or disable" in said.out
        assert "\x1b" not in said.out


def test_the_claim_is_data(folder, capsys):
    certificate = made(capsys, folder, "--fail", "x == 20", "--out-of-bounds", "disable")
    code, said = say(capsys, "certify", *certificate, "--allow-options", "--json")
    assert code == 0
    document = json.loads(certificate[0].read_text(encoding="utf-8"))
    assert json.loads(said.out)["about"] == {
        "kind": "reachable-set", "task_sha256": document["task_sha256"],
        "policy_sha256": sha256(folder / "policy.json"),
        "options": {"fail": "x == 20", "out_of_bounds": "disable"}, "constants": {"N": 9},
        "start": None, "fail": "x == 20", "goal": "false", "out_of_bounds": "disable", "mode": "filtered", "avoid": [],
    }  # fmt: skip


def test_what_else_is_avoided_is_part_of_the_claim(folder, capsys):
    certificate = made(capsys, folder, "--avoid", "deadlock", "--fail", "false")
    said = say(capsys, "certify", *certificate, "--fail", "false", "--json")[1]
    assert json.loads(said.out)["about"]["avoid"] == ["deadlock"]


def test_the_hint_of_a_campaign_checks_its_certificate(folder, capsys):
    policy = {"format": "table/1", "inputs": ["x"], "outputs": ["go", "stay"], "rows": [], "default": "stay"}
    (folder / "policy.json").write_text(json.dumps(policy), encoding="utf-8")
    code, said = say(
        capsys, "debug", folder / "walk.toml", folder / "policy.json", "-o", folder / "out", "--fail", "x >= 5"
    )
    assert code == 0
    hint = next(line for line in said.out.splitlines() if "check it: " in line).split("check it: ")[1].rstrip(")")
    words = shlex.split(hint)
    assert words[:2] == ["polvet", "certify"]
    assert say(capsys, *words[1:])[0] == 0
    assert say(capsys, *words[1:-2])[0] == 10  # without the condition


@pytest.mark.parametrize("avoid", ["stuck", "deadlock", "stuck,deadlock"])
def test_what_a_policy_avoids_can_be_asked_for(folder, capsys, avoid):
    asked = ("--fail", "x == 20")
    avoiding = made(capsys, folder, *asked, "--avoid", avoid)
    assert say(capsys, "certify", *avoiding, *asked, "--avoid", avoid)[0] == 0
    assert say(capsys, "certify", *avoiding, *asked)[0] == 0, "it may avoid more than is asked for"
    silent = made(capsys, folder, *asked)
    code, said = say(capsys, "certify", *silent, *asked, "--avoid", avoid)
    assert code == 10
    assert "does not say that the policy avoids" in said.out


def test_a_run_into_a_deadlock_is_checked_where_deadlocks_are_to_be_avoided(folder, capsys):
    (folder / "walk.prism").write_text(MODEL.replace("[stay] true", "[stay] x<N"), encoding="utf-8")
    asked = ("--fail", "x == 20", "--avoid", "deadlock")
    run_certificate = made(capsys, folder, *asked)
    code, said = say(capsys, "certify", *run_certificate, *asked)
    assert code == 0, said.out
    assert "is in a deadlock after 9 steps" in said.out


def test_a_claim_that_leaves_variables_out_says_what_it_does_not_say(folder, capsys):
    """Nothing reads `cost`, which leaves its bounds: runs do not fail, but the model breaks a rule there."""
    costly = MODEL.replace("init 0;", "init 0;\n  cost : [0..3] init 0;").replace(
        "(x'=x+1)", "(x'=x+1) & (cost'=cost+1)"
    )
    (folder / "walk.prism").write_text(costly, encoding="utf-8")
    certificate = made(capsys, folder, "--fail", "x == 20")
    code, said = say(capsys, "certify", *certificate, "--fail", "x == 20", "--json")
    found = json.loads(said.out)
    assert (code, found["about"]["kept"]) == (0, ["x"])
    assert "errors in computing cost aside" in found["claim"]
    assert say(capsys, "explore", folder / "walk.toml")[0] == 30
