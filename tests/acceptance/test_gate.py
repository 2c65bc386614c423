"""The gate passes only what was decided, speaks JUnit and SARIF, and is a pytest plugin."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from polvet import domains
from polvet.acceptance.judge import Check, GateResult, Passing, Sampling, Thresholds, judge
from polvet.acceptance.junit import dump_junit
from polvet.acceptance.sarif import dump_sarif
from polvet.budget import Budget
from polvet.cli.app import run
from polvet.domains.catalogue import generate
from polvet.model.semantics import Semantics
from polvet.policy.binding import load_fitted
from polvet.sources import load_task
from tests.npm import npm_file

pytest_plugins = ["pytester"]
SHIPPED = Path(domains.__file__).parent / "policies"
LINE, GOOD, FAULTY = (
    SHIPPED / name for name in ("one-way-line-8-5.toml", "one-way-line-8-5-good.json", "one-way-line-8-5-faulty.json")
)
QUICK = Sampling(starts=3_000, runs=2)


def passings(judged: GateResult) -> dict[str, str]:
    return {check.name: check.passing.value for check in judged.checks}


@pytest.fixture(scope="module")
def task():
    return load_task(LINE)


def failing_share(task, policy) -> float:
    """The share of start states from which the policy can fail, by following it in the slow interpreter."""
    from polvet.kernel.starts import Starts

    semantics, fitted = Semantics(task.network), load_fitted(task, policy)
    is_fail, is_goal = semantics.compile(task.fail), semantics.compile(task.goal)
    known: dict = {}

    def fails(start):
        path, seen = [start], {start}
        for state in path:
            if state in known:
                if known[state]:
                    return True
                continue
            if is_fail(state):
                return True
            if is_goal(state):
                continue
            for move in fitted.followed(state, semantics.moves(state)):
                for outcome in move.outcomes:
                    if outcome.state not in seen:
                        seen.add(outcome.state)
                        path.append(outcome.state)
        known.update(dict.fromkeys(seen, False))
        return False

    starts = list(Starts.of(task).states())
    for start in starts:
        known[start] = fails(start)
    return sum(known[start] for start in starts) / len(starts)


def test_thresholds_are_compared_with_what_brute_force_counts(task):
    share = 100 * failing_share(task, FAULTY)
    for most, wanted in ((share + 0.01, "passed"), (share - 0.01, "failed")):
        assert passings(judge(task, FAULTY, Thresholds(max_unsafe=most), QUICK)) == {"unsafe": wanted}


def test_a_good_policy_passes_and_a_faulty_one_fails(task):
    everything = Thresholds(max_faults=0, max_unsafe=0, min_goal=90, proved=True)
    assert set(passings(judge(task, GOOD, everything, QUICK)).values()) == {"passed"}
    judged = judge(task, FAULTY, everything, QUICK)
    assert passings(judged) == {"faults": "failed", "unsafe": "failed", "goal": "passed", "proof": "failed"}
    assert judged.passing is Passing.FAILED
    assert judge(task, FAULTY, Thresholds(max_faults=len(judged.faults)), QUICK).passing is Passing.PASSED


def test_no_threshold_means_no_fault(task):
    assert passings(judge(task, FAULTY, Thresholds(), QUICK)) == {"faults": "failed"}


ROUND = """mdp
module m
  x : [0..9] init 5;
  [around] x > 0 & x < 9 -> (x'=x=5 ? 6 : 5);
  [on] x > 0 & x < 9 -> (x'=x+1);
  [back] x > 5 & x < 9 -> (x'=x-1);
endmodule
"""


def gated(folder, capsys, action, *options, goal="x = 9", mode="filtered"):
    """The exit code, the JSON answer, the text, JUnit and SARIF of a gate on a policy with one action."""
    (folder / "m.prism").write_text(ROUND)
    (folder / "p.json").write_text(json.dumps({"format": "rules/1", "rules": [{"when": "true", "action": action}]}))
    files = [folder / "junit.xml", folder / "found.sarif"]
    command = ["gate", str(folder / "m.prism"), str(folder / "p.json"), "--fail", "x = 0", "--mode", mode, *options]
    command += ["--junit", str(files[0]), "--sarif", str(files[1]), *(["--goal", goal] if goal else [])]
    codes = {run(command)}
    text = capsys.readouterr().out
    codes.add(run([*command, "--json"]))
    assert len(codes) == 1
    answer = json.loads(capsys.readouterr().out)
    return codes.pop(), answer, text, ElementTree.parse(files[0]).getroot(), json.loads(files[1].read_text())


def test_a_policy_without_faults_that_goes_round_for_ever_does_not_pass(tmp_path, capsys):
    code, answer, text, junit, sarif = gated(tmp_path, capsys, "around")
    assert code == 10
    assert answer["verdict"] == "failed"
    assert answer["reason"] == "no run reaches the goal"
    figures = answer["figures"]
    assert (figures["faults"], figures["goal_percent"], figures["states"]) == (0, 0.0, 2)
    assert set(figures["ends"]) == {"limit"}
    assert "%Goal 0.00" in text
    assert "2 states reached" in text
    assert "--min-goal 0" in text
    assert [case.get("name") for case in junit.iter("testcase") if case.find("failure") is not None] == ["goal"]
    assert "2 states reached" in junit.findtext("system-out")
    levels = {result["ruleId"]: result["level"] for result in sarif["runs"][0]["results"]}
    assert levels == {"goal": "error", "runs": "warning"}


def test_what_is_wanted_can_be_stated(tmp_path, capsys):
    code, answer, text, _, sarif = gated(tmp_path, capsys, "around", "--min-goal", "0")
    assert (code, answer["verdict"], answer["reason"]) == (0, "passed", None)
    assert "WARNING: no run reaches the goal" in text
    assert [result["level"] for result in sarif["runs"][0]["results"]] == ["warning"]
    assert gated(tmp_path, capsys, "around", "--max-faults", "0")[0] == 0


def test_a_policy_that_reaches_the_goal_passes_and_its_runs_are_told(tmp_path, capsys):
    code, answer, text, junit, sarif = gated(tmp_path, capsys, "on")
    assert (code, answer["figures"]["goal_percent"], answer["figures"]["states"]) == (0, 100.0, 5)
    assert "%Goal 100.00; 1 runs from 1 start states: 1 goal; 5 states reached" in text
    assert "%Goal 100.00" in junit.findtext("system-out")
    assert [(one["ruleId"], one["level"]) for one in sarif["runs"][0]["results"]] == [("runs", "note")]


@pytest.mark.parametrize(("action", "mode", "end"), [("around", "filtered", "limit"), ("back", "raw", "stuck")])
def test_without_a_goal_runs_that_never_end_well_do_not_pass_unasked(tmp_path, capsys, action, mode, end):
    code, answer, _, _, _ = gated(tmp_path, capsys, action, goal=None, mode=mode)
    assert code == 10
    assert answer["reason"].startswith("the task has no goal, and every run")
    assert (answer["figures"]["goal_percent"], list(answer["figures"]["ends"])) == (None, [end])
    assert gated(tmp_path, capsys, action, "--max-faults", "0", goal=None, mode=mode)[0] == 0


def test_time_that_is_over_before_a_run_reached_the_goal_leaves_it_unknown(tmp_path, capsys):
    code, answer, _, _, _ = gated(tmp_path, capsys, "on", "--time-limit", "0")
    assert (code, answer["verdict"]) == (20, "unknown")


def test_what_only_a_sample_shows_is_unknown_unless_samples_are_enough(task):
    few = Sampling(starts=50, runs=2)
    strict, lax = Thresholds(max_unsafe=0), Thresholds(max_unsafe=0, sampled=True)
    assert judge(task, GOOD, strict, few).passing is Passing.UNKNOWN
    assert judge(task, GOOD, lax, few).passing is Passing.PASSED
    cut = replace(few, budget=Budget(None, None, 100))
    judged = judge(task, GOOD, Thresholds(max_faults=0), cut)
    assert judged.passing is Passing.UNKNOWN
    assert "not exhaustive" in judged.checks[0].says
    assert judge(task, GOOD, Thresholds(max_faults=0, sampled=True), cut).passing is Passing.PASSED


def test_a_failure_beats_an_unknown():
    checks = [Check(str(k), one, "") for k, one in enumerate((Passing.UNKNOWN, Passing.FAILED, Passing.PASSED))]
    assert GateResult(tuple(checks)).passing is Passing.FAILED
    assert GateResult(tuple(checks[::2])).passing is Passing.UNKNOWN
    assert GateResult(()).passing is Passing.PASSED


def test_the_command_has_documented_exit_codes_and_writes_both_files(tmp_path, capsys):
    junit, sarif = tmp_path / "junit.xml", tmp_path / "found.sarif"
    files = ["--junit", str(junit), "--sarif", str(sarif)]
    assert run(["gate", str(LINE), str(FAULTY), "--max-faults", "0", "--json", *files]) == 10
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"] == "failed"
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "1", "0")
    document = json.loads(sarif.read_text())
    results = document["runs"][0]["results"]
    rules = {rule["id"] for rule in document["runs"][0]["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in results} <= rules
    assert sum(result["ruleId"] == "fault" for result in results) == answer["figures"]["faults"]
    for result in results:  # what code-scanning services ask for
        (place,) = result["locations"]
        assert place["physicalLocation"]["region"]["startLine"] >= 1
        assert len(result["partialFingerprints"]["polvetFinding/v1"]) == 64
    prints = [result["partialFingerprints"]["polvetFinding/v1"] for result in results]
    assert len(set(prints)) == len(prints), "each fault is a finding of its own"
    told = suite.find(".//failure").text.splitlines()
    assert re.fullmatch(r"In the state .*=.* the policy chooses .*; safe would be .*\.", told[0])
    assert told[-1] == f"... and {answer['figures']['faults'] - 20} more"
    assert run(["gate", str(LINE), str(FAULTY), "--max-faults", "0", "--sarif", str(sarif), "--json"]) == 10
    capsys.readouterr()
    again = json.loads(sarif.read_text())["runs"][0]["results"]
    assert [result["partialFingerprints"] for result in again] == [result["partialFingerprints"] for result in results]
    assert run(["gate", str(LINE), str(GOOD), "--max-faults", "0", "--min-goal", "90", "--runs", "2"]) == 0
    assert run(["gate", str(LINE), str(GOOD), "--max-unsafe", "0", "--starts", "20", "--runs", "1"]) == 20
    assert run(["gate", str(LINE), str(GOOD), "--min-goal", "900"]) == 30
    capsys.readouterr()


def test_hostile_texts_stay_texts_in_both_formats(task):
    evil = 'a]]></failure><x y="\x00\x1b&\ud800'
    judged = GateResult((Check("faults", Passing.FAILED, evil), Check("goal", Passing.UNKNOWN, evil)))
    root = ElementTree.fromstring(dump_junit(judged, task, evil, 0.0).encode("utf-8"))
    assert [case.tag for case in root.iter()] == ["testsuite", "testcase", "failure", "testcase", "error"]
    assert json.loads(dump_sarif(judged, task, "p.json"))["runs"][0]["results"][0]["message"]["text"] == evil


@pytest.mark.slow
def test_infinitely_many_starts_are_sampled_and_called_so(tmp_path):
    _, task_file = generate("follow-car").write(tmp_path / "car.jani")
    labels = load_task(task_file).network.labels
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"format": "rules/1", "rules": [{"when": "true", "action": labels[0]}]}))
    judged = judge(
        load_task(task_file), policy, Thresholds(max_faults=10**9), Sampling(starts=20, runs=1, max_steps=50)
    )
    assert judged.passing is Passing.UNKNOWN
    assert "infinitely many start states" in judged.checks[0].says


@pytest.mark.slow
def test_the_plugin_adds_tests_and_a_fixture(pytester):
    pytester.makepyfile(
        """
        def test_policy(polvet_policy):
            polvet_policy.check(max_faults=0, proved=True)
        """
    )
    plugin = ("-p", "polvet.acceptance.plugin") if not _registered(pytester) else ()
    good = pytester.runpytest_subprocess(*plugin, "--polvet", str(LINE), "--polvet-policy", str(GOOD))
    good.assert_outcomes(passed=2)
    bad = pytester.runpytest_subprocess(
        *plugin, "--polvet", str(LINE), "--polvet-policy", str(FAULTY), "--polvet-min-goal", "1"
    )
    bad.assert_outcomes(passed=1, failed=1)
    bad.stdout.fnmatch_lines(["*faults: failed: 41 faults found, at most 0 allowed*"])
    bad.stdout.fnmatch_lines(["*In the state * the policy chooses *; safe would be *"])
    bad.stdout.fnmatch_lines(["collected 2 items*"])
    pytester.runpytest_subprocess(*plugin).stdout.fnmatch_lines(["*polvet_policy needs --polvet TASK*"])


@pytest.mark.slow
def test_the_plugin_works_from_an_ini_file_without_any_test(pytester):
    pytester.makeini(f"[pytest]\npolvet = {LINE}\npolvet_policy = {FAULTY}\npolvet_max_faults = 41\n")
    plugin = ("-p", "polvet.acceptance.plugin") if not _registered(pytester) else ()
    found = pytester.runpytest_subprocess(*plugin)
    found.assert_outcomes(passed=1)
    found.stdout.fnmatch_lines(["collected 1 item*"])


def _registered(pytester) -> bool:
    from importlib.metadata import entry_points

    return any(one.value == "polvet.acceptance.plugin" for one in entry_points(group="pytest11"))


def test_what_code_scanning_reads_keeps_to_the_published_schema(tmp_path_factory, tmp_path, capsys):
    jsonschema = pytest.importorskip("jsonschema")
    cache = tmp_path_factory.mktemp("npm")
    schema = json.loads(
        npm_file(cache, "@microsoft/jest-sarif@1.0.0-beta.0", "package/lib/schemas/sarif-2.1.0-rtm.5.json")
    )
    _, _, _, _, sarif = gated(tmp_path, capsys, "around")
    validator = jsonschema.validators.validator_for(schema)(schema)
    assert [error.message for error in validator.iter_errors(sarif)] == []
    (run,) = sarif["runs"]
    assert run["results"]
    for result in run["results"]:  # what code-scanning services ask for besides
        assert result["locations"][0]["physicalLocation"]["region"]["startLine"] >= 1
        assert result["partialFingerprints"]
    del run["tool"]
    assert list(validator.iter_errors(sarif)), "the schema is not asked in vain"


NARROW = ["HSH", "FFF", "HGH"]
"""Slippery ice where every step from the start may fall; who goes up at the start falls for certain."""


def falling_share(policy, episodes=300):
    """How many real episodes of the policy on the slippery ice end in a hole: an oracle without a model."""
    gymnasium = pytest.importorskip("gymnasium")
    env, labels = gymnasium.make("FrozenLake-v1", desc=NARROW, is_slippery=True), ("left", "down", "right", "up")
    fallen = 0
    for seed in range(episodes):
        state, _ = env.reset(seed=seed)
        ended = False
        while not ended:
            state, reward, ended, _, _ = env.unwrapped.step(labels.index(policy(int(state))))
        fallen += reward == 0
    return fallen / episodes


@pytest.fixture(scope="module")
def slippery(tmp_path_factory):
    import polvet

    folder = tmp_path_factory.mktemp("lake")
    world = polvet.from_gym("FrozenLake-v1", desc=NARROW, is_slippery=True)
    careful = {1: "left", 3: "up", 4: "down", 5: "up"}
    policies = {"bold": dict.fromkeys(range(9), "up"), "careful": dict.fromkeys(range(9), "up") | careful}
    for name, chosen in policies.items():
        rows = [{"state": {"s": state}, "action": action} for state, action in chosen.items()]
        document = {"format": "table/1", "inputs": ["s"], "outputs": list(world.labels), "rows": rows}
        (folder / f"{name}.json").write_text(json.dumps(document))
    return world.save(folder / "lake.toml"), folder / "bold.json", folder / "careful.json", policies


def test_where_nothing_is_surely_safe_faults_alone_let_no_policy_pass(slippery, tmp_path, capsys):
    task, bold, careful, policies = slippery
    shares = {path: falling_share(policies[path.stem].get) for path in (bold, careful)}
    assert shares[bold] == 1.0
    assert shares[careful] < 0.8
    for options in (
        ["--max-faults", "0"],
        [],
        ["--max-faults", "0", "--sampled"],
        ["--max-faults", "0", "--min-goal", "0"],
    ):
        for policy in (bold, careful):
            assert run(["gate", str(task), str(policy), *options, "--json"]) in (10, 20)
            answer = json.loads(capsys.readouterr().out)
            (risk,) = [one for one in answer["checks"] if one["name"] == "risk"]
            assert risk["passing"] == "unknown"
            assert "no policy surely avoids failing from 1 of the start states" in risk["says"]
            assert "--max-risk" in risk["says"]
            shown = float(re.search(r"fails with probability ([0-9.e-]+)", risk["says"])[1])
            assert abs(shown - shares[policy]) < 0.09
    for policy, wanted in ((bold, 10), (careful, 0)):
        assert run(["gate", str(task), str(policy), "--max-faults", "0", "--max-risk", "0.9"]) == wanted
    capsys.readouterr()


def test_a_gate_that_bounds_no_risk_says_so_in_every_format(tmp_path, capsys):
    code, answer, text, junit, sarif = gated(tmp_path, capsys, "on", "--min-goal", "50")
    assert code == 0
    assert answer["figures"]["not_judged"] == "how likely runs fail: --max-risk bounds it"
    (note,) = [one for one in sarif["runs"][0]["results"] if one["ruleId"] == "runs"]
    for told in (text, junit.findtext("system-out"), note["message"]["text"]):
        assert "not judged: how likely runs fail: --max-risk bounds it" in told
    for options in (["--max-risk", "0.5"], ["--proved"], ["--max-unsafe", "0"], ["--max-faults", "0"], []):
        _, answer, text, _, _ = gated(tmp_path, capsys, "on", *options)
        assert answer["figures"]["not_judged"] is None, options
        assert "not judged" not in text


@pytest.mark.slow
def test_the_plugin_passes_no_policy_by_its_faults_where_nothing_is_surely_safe(pytester, slippery):
    task, bold, careful, _ = slippery
    plugin = ("-p", "polvet.acceptance.plugin") if not _registered(pytester) else ()
    given = ("--polvet", str(task), "--polvet-max-faults", "0", "--polvet-policy")
    found = pytester.runpytest_subprocess(*plugin, *given, str(bold))
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["*risk: unknown: no policy surely avoids failing from 1 of the start states*"])
    stated = pytester.runpytest_subprocess(*plugin, *given, str(careful), "--polvet-max-risk", "0.9")
    stated.assert_outcomes(passed=2)
    refused = pytester.runpytest_subprocess(*plugin, *given, str(bold), "--polvet-max-risk", "0.9")
    refused.assert_outcomes(passed=1, failed=1)
