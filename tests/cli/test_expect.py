"""A gate asks for what must be proved; and a condition that no state satisfies, of which everything is true, is said aloud."""

import json

import pytest

import polvet
from polvet.check.checker import CHECKERS
from polvet.check.never import is_never
from polvet.check.proves import PROVES, kinds_expected
from polvet.cli.app import run
from polvet.errors import InputError
from polvet.model.semantics import Semantics
from polvet.model.task import TaskOptions
from polvet.sources import load_task

WALK = """mdp
module walk
  x : [0..4] init 2; y : [0..3] init 0;
  [left] x>0 -> (x'=x-1);
  [right] x<4 -> (x'=x+1) & (y'=min(3,y+1));
endmodule
"""
NO_FAIL = "no state satisfies"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "walk.prism").write_text(WALK)
    (tmp_path / "walk.toml").write_text('model = "walk.prism"\nfail = "x == 4"\ngoal = "x == 0"\n')
    for label in ("left", "right"):
        rules = {"format": "rules/1", "rules": [{"when": "true", "action": label}]}
        (tmp_path / f"{label}.json").write_text(json.dumps(rules))
    assert run(["verify", "walk.toml", "left.json", "-o", "safe.json"]) == 0
    assert run(["verify", "walk.toml", "right.json", "-o", "unsafe.json"]) == 10
    assert run(["decide", "walk.toml", "-o", "policy-exists.json", "--state", "x=2,y=0"]) == 0
    return tmp_path


LEFT, RIGHT = ["--policy", "left.json"], ["--policy", "right.json"]


@pytest.mark.parametrize(
    ("certificate", "policy", "expected", "code"),
    [
        ("unsafe.json", RIGHT, None, 0),  # it is accepted: this fools `certify ... && deploy`
        ("unsafe.json", RIGHT, "safe", 10),
        ("unsafe.json", RIGHT, "unsafe", 0),
        ("unsafe.json", RIGHT, "run", 0),
        ("unsafe.json", RIGHT, "safe, unsafe", 0),
        ("safe.json", LEFT, "safe", 0),
        ("safe.json", LEFT, "unsafe", 10),
        ("safe.json", LEFT, "reachable-set", 0),
        ("safe.json", LEFT, "grid,invariant", 10),
        ("safe.json", LEFT, "terminating", 10),
        ("policy-exists.json", [], "safe", 0),
        ("policy-exists.json", RIGHT, "safe", 10),  # some policy is safe: that says nothing about this one
        ("safe.json", LEFT, "save", 30),
    ],
)
def test_a_certificate_must_prove_what_is_expected(folder, capsys, certificate, policy, expected, code):
    words = ["certify", certificate, "--task", "walk.toml", *policy]
    assert run([*words, *(() if expected is None else ("--expect", expected)), "--json"]) == code
    out, err = capsys.readouterr()
    if code == 30:
        assert "Did you mean 'safe'?" in err
        return
    told = json.loads(out.splitlines()[-1])
    assert told["verdict"] == ("accepted" if code == 0 else "rejected")
    if code == 10:
        assert "it proves something else" in told["reason"]


def test_python_expects_the_same(folder):
    task = polvet.load("walk.toml")
    policy = task.policy("right.json")
    found = policy.verify()
    assert polvet.certify(found, task, policy).accepted
    assert polvet.certify(found, task, policy, expect=["unsafe"]).accepted
    assert not polvet.certify(found, task, policy, expect="safe").accepted
    with pytest.raises(InputError, match="expect: 'saef' is unknown"):
        polvet.certify(found, task, policy, expect="saef")


def test_every_kind_can_be_expected_and_no_kind_proves_two_opposite_words():
    for kind in CHECKERS:
        assert kinds_expected([kind], of_policy=True) == {kind}
    opposite = [
        ("safe", "unsafe"),
        ("permitted", "impossible"),
        ("terminating", "nonterminating"),
        ("holds", "refuted"),
    ]
    for of_policy in (False, True):
        for good, bad in opposite:
            assert not kinds_expected([good], of_policy=of_policy) & kinds_expected([bad], of_policy=of_policy)
    assert {word for word in PROVES if " " not in word} >= {word for pair in opposite for word in pair}


CONDITIONS = [
    "x == 99", "x > 4", "x + y > 7", "x == 4 & y > 3", "x < 0 | y < 0", "!(x >= 0)", "x == 4 ? false : x > 5",
    "x == 4", "x + y > 6", "x + y == 7", "x < 1 | y < 0", "x * y = 12", "max(x, y) > 4", "min(x, y) >= 3", "mod(x, 3) = 3",
    "x == 3 & y > 2", "pow(x, 2) = 5",
]  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_that_is_called_impossible_has_no_state(folder, condition):
    """By the interpreter, state by state; where nothing is said there may be one or none."""
    task = load_task("walk.toml", TaskOptions(fail=condition))
    holds = Semantics(task.network).compile(task.fail)
    there = any(holds((x, y)) for x in range(5) for y in range(4))
    assert is_never(task.network, task.fail) <= (not there)
    if CONDITIONS.index(condition) < 7:
        assert is_never(task.network, task.fail)


def test_a_fail_that_no_state_satisfies_is_said_aloud_and_in_json(folder, capsys):
    for words in (
        ["verify", "walk.toml", "right.json"],
        ["decide", "walk.toml"],
        ["evaluate", "walk.toml", "left.json"],
    ):
        capsys.readouterr()
        assert run([*words, "--fail", "x == 99", "--json"]) == 0
        out, err = capsys.readouterr()
        assert f"warning: --fail: {NO_FAIL} 'x == 99'" in err
        assert any(NO_FAIL in one for one in json.loads(out)["warnings"])
        assert err.count(NO_FAIL) == 1
    capsys.readouterr()
    assert run(["verify", "walk.toml", "right.json", "--fail", "x == 99", "-o", "nothing.json"]) == 0
    assert run(["certify", "nothing.json", "--task", "walk.toml", *RIGHT, "--fail", "x == 99", "--json"]) == 0
    out, err = capsys.readouterr()
    assert any(NO_FAIL in one for one in json.loads(out.splitlines()[-1])["warnings"])
    capsys.readouterr()
    for condition in ("x == 4", "false"):  # there is nothing to say of what was meant
        run(["verify", "walk.toml", "left.json", "--fail", condition, "--json"])
        out, err = capsys.readouterr()
        assert err == ""
        assert "warnings" not in json.loads(out)


def test_a_task_in_memory_says_it_too(folder, caplog):
    polvet.from_matrix({"go": [[0.5, 0.5], [0, 1]]}, fail="s == 99")
    assert "fail: no state satisfies 's == 99'" in caplog.text


@pytest.mark.parametrize(
    ("asked", "value"), [("Pmax=? [F fail]", "0.0"), ("Pmin=? [G !fail]", "1.0"), ("Pmax=? [F goal]", "1.0")]
)
def test_a_property_may_speak_of_a_fail_that_is_false(folder, capsys, asked, value):
    (folder / "walk.toml").write_text('model = "walk.prism"\nfail = "false"\ngoal = "x == 0"\n')
    capsys.readouterr()
    assert run(["check", "walk.toml", "--property", asked]) == 0
    assert capsys.readouterr().out.splitlines()[0] == value
    (folder / "walk.toml").write_text('model = "walk.prism"\ngoal = "x == 0"\n')
    assert run(["check", "walk.toml", "--property", "Pmax=? [F fail]"]) == 30  # nobody said what fails
