"""Only what was checked is said: an engine that lies ends in exit code 40 and a bundle, whatever the command; the checker is real."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

import polvet
from polvet.acceptance import judge
from polvet.budget import Budget
from polvet.campaign import examination, steps
from polvet.check.checker import CHECKERS
from polvet.cli.app import run
from polvet.confirm import confirmation
from polvet.confirm.outcome import Checked, NotChecked
from polvet.domains import generate
from polvet.errors import FalseCertificate
from polvet.files import read_json
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import compile_policy
from polvet.policy.finite_memory import Builder, dump_fmp, load_fmp
from polvet.repair import library
from polvet.safety import certificates as certificates_of_states
from polvet.safety import strong_cyclic
from polvet.safety.decide import Decider
from polvet.shield import file as shield_file
from polvet.sources import load_task
from polvet.termination import decide as termination
from polvet.termination import its, selection
from polvet.verdict import Verdict
from polvet.verify import certificates, portfolio

VERDICTS = ("safe", "unsafe", "passed", "failed", "repaired", "permitted", "terminating", "strong-cyclic")
TRUTHFUL = (its, selection)
"""Imported before anybody lies: what they take from `termination.decide` is the truth, also for the tests that come after these."""
WALK = """
mdp
module m
  x : [0..9] init 4;
  [left]  x>0 & x<9 -> (x'=x-1);
  [right] x>0 & x<9 -> 0.9:(x'=x+1) + 0.1:(x'=x);
endmodule
"""


class Files:
    """A walk on a line with a pit at 0: a good policy, one with faults, and a plan that ends and one that does not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.task, self.good, self.bad = folder / "walk.toml", folder / "good.json", folder / "bad.json"
        (folder / "walk.prism").write_text(WALK, encoding="utf-8")
        self.task.write_text('model = "walk.prism"\nfail = "x == 0"\ngoal = "x == 9"\n', encoding="utf-8")
        for file, action in ((self.good, "right"), (self.bad, "left")):
            rules = [{"when": "x >= 5", "action": "right"}, {"when": "true", "action": action}]
            file.write_text(json.dumps({"format": "rules/1", "rules": rules}), encoding="utf-8")
        self.ending, self.looping = folder / "ending.json", folder / "looping.json"
        ending = Builder("q0", name="ending").edge("q0", "q1", x=-1).edge("q1", "q0").build()
        looping = Builder("q0", name="looping").edge("q0", "q1", x=-1).edge("q1", "q0", x=1).build()
        for file, plan in ((self.ending, ending), (self.looping, looping)):
            file.write_text(json.dumps(dump_fmp(plan)), encoding="utf-8")
        self.faults = folder / "faults.json"

    def bound(self, policy: Path):
        return compile_policy(load_fitted(load_task(self.task), policy))

    def find_faults(self) -> Path:
        assert run(["faults", str(self.task), str(self.bad), "-o", str(self.faults)]) == 10
        return self.faults


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "given"
    folder.mkdir()
    return Files(folder)


def refused(capsys, *arguments) -> dict[str, bytes]:
    """The content of the bundle of a command that ends in exit code 40 and gives no verdict, as text and as JSON."""
    capsys.readouterr()
    for more in ([], ["--json"]):
        assert run([*map(str, arguments), *more]) == 40
        shown = capsys.readouterr()
        assert shown.out == ""
        assert "this is a bug in polvet: its checker rejects" in shown.err
        assert not any(shown.err.startswith(f"polvet: {word}") for word in VERDICTS)
    bundles = sorted(Path().rglob("polvet-bug-*.zip"))
    assert len(bundles) == 2, "the second did not overwrite the first"
    assert str(bundles[-1]) in shown.err
    return content_of(bundles[0])


def content_of(bundle: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(bundle) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def assert_complete(content: dict[str, bytes], files: Files, policy: Path | None) -> None:
    """The bundle holds what was given, byte for byte, and who says no about what."""
    assert content["task/walk.toml"] == files.task.read_bytes()
    assert content["task/walk.prism"] == (files.folder / "walk.prism").read_bytes()
    if policy is not None:
        assert content[f"policy/{policy.name}"] == policy.read_bytes()
    about = json.loads(content["about.json"])
    assert about["version"] == polvet.__version__
    assert about["command"]
    assert about["reason"]
    assert json.loads(content["certificate.json"])["kind"]


def say_safe(files: Files, true=portfolio.verify):
    """An engine that takes every policy for the good one."""

    def verify(bound, **options):
        made = true(files.bound(files.good), **{**options, "method": "explicit"})
        return replace(made, certificate={**made.certificate, "policy_sha256": bound.fitted.sha256})

    return verify


def say_unsafe(files: Files, true=portfolio.verify):
    """An engine that takes every policy for the bad one."""
    return lambda bound, **options: true(files.bound(files.bad), **{**options, "method": "explicit"})


def test_verify_gives_no_verdict_on_a_false_proof(files, monkeypatch, capsys):
    monkeypatch.setattr(portfolio, "verify", say_safe(files))
    content = refused(capsys, "verify", files.task, files.bad, "-o", "certificate.json")
    assert_complete(content, files, files.bad)
    assert not Path("certificate.json").exists()
    assert json.loads(content["certificate.json"])["kind"] == "reachable-set"


def test_verify_gives_no_verdict_on_a_run_of_another_policy(files, monkeypatch, capsys):
    monkeypatch.setattr(portfolio, "verify", say_unsafe(files))
    content = refused(capsys, "verify", files.task, files.good, "--fail", "x == 0")
    assert_complete(content, files, files.good)
    assert json.loads(content["about.json"])["options"]["fail"] == "x == 0"


def test_a_certificate_of_another_kind_is_no_proof(files, monkeypatch, capsys):
    """The run is one of the policy, but a run is no proof of safety."""
    bad = files.bound(files.bad)
    document = certificates.certificate_of(bad, portfolio.verify(bad))
    assert document["kind"] == "run"
    monkeypatch.setattr(certificates, "certificate_of", lambda *given: document)
    monkeypatch.setattr(portfolio, "verify", say_safe(files))
    content = refused(capsys, "verify", files.task, files.bad)
    assert "does not prove the verdict 'safe policy'" in json.loads(content["about.json"])["reason"]


def test_a_proof_must_speak_of_everything_that_is_to_be_avoided(files, monkeypatch, capsys):
    """An accepted proof that the policy avoids `fail` says nothing about deadlocks."""

    def of_fail_alone(*given, true=certificates.certificate_of):
        return {key: value for key, value in true(*given).items() if key != "avoids"}

    monkeypatch.setattr(certificates, "certificate_of", of_fail_alone)
    content = refused(capsys, "verify", files.task, files.good, "--avoid", "deadlock")
    assert "avoids deadlock" in json.loads(content["about.json"])["reason"]


def wrong_action(self, states, true=Decider.safe_policy, **options):
    return {state: "left" if state == (1,) else action for state, action in true(self, states, **options).items()}


def wrong_rank(self, states, true=Decider.unsafe_rank, **options):
    return [replace(one, rank=0) for one in true(self, states, **options)]


@pytest.mark.parametrize("which", [["--state", "x=3"], ["--state", "x=3", "-o", "safe.json"], ["--all-starts"]])
def test_decide_gives_no_verdict_on_a_policy_that_leaves_safety(files, monkeypatch, capsys, which):
    monkeypatch.setattr(Decider, "safe_policy", wrong_action)
    assert_complete(refused(capsys, "decide", files.task, *which), files, None)
    assert not Path("safe.json").exists()


def test_decide_gives_no_verdict_on_a_false_rank(files, monkeypatch, capsys):
    monkeypatch.setattr(Decider, "unsafe_rank", wrong_rank)
    content = refused(capsys, "decide", files.task, "--fail", "x == 0 | x == 5 | x == 3", "--state", "x=4")
    assert json.loads(content["certificate.json"])["kind"] == "unsafe-rank"


@pytest.mark.parametrize("which", [["--state", "x=3"], ["--all-starts"]])
def test_decide_gives_no_verdict_that_the_prover_does_not_share(files, monkeypatch, capsys, which):
    def flipped(self, states, true=Decider.decide_packed, **options):
        return [replace(one, verdict=Verdict.UNSAFE) for one in true(self, states, **options)]

    monkeypatch.setattr(Decider, "decide_packed", flipped)
    content = refused(capsys, "decide", files.task, *which)
    assert_complete(content, files, None)
    assert "is safe" in json.loads(content["about.json"])["reason"]


def test_decide_gives_no_verdict_on_evidence_about_other_states(files, monkeypatch, capsys):
    def elsewhere(prover, states, verdict, true=certificates_of_states.prove, **options):
        return true(prover, [(6,)], verdict, **options)

    monkeypatch.setattr("polvet.safety.prove", elsewhere)
    content = refused(capsys, "decide", files.task, "--state", "x=3")
    assert "not about the states" in json.loads(content["about.json"])["reason"]


@pytest.mark.parametrize("more", [[], ["-o", "strong.json"]])
def test_decide_gives_no_verdict_on_a_false_distance(files, monkeypatch, capsys, more):
    def too_near(solved, starts, true=strong_cyclic.prove_won, **options):
        found = true(solved, starts, **options)
        found["states"][0]["distance"] = 1
        return found

    monkeypatch.setattr(strong_cyclic, "prove_won", too_near)
    assert_complete(refused(capsys, "decide", files.task, "--goal-reaching", "--state", "x=3", *more), files, None)
    assert not Path("strong.json").exists()


def test_permit_gives_no_verdict_on_a_value_that_is_too_small(files, monkeypatch, capsys):
    def too_small(*given, true=shield_file.to_document):
        found = true(*given)
        found["states"][0]["value"] = "1/1000000"
        return found

    model = generate("janitor", width=3, height=3).write(files.folder / "janitor.jani")[1]
    monkeypatch.setattr(shield_file, "to_document", too_small)
    content = refused(capsys, "permit", model, "--bound", "0.1", "-o", "shield.json")
    assert content["task/janitor.toml"] == model.read_bytes()
    assert not Path("shield.json").exists()


def test_terminates_gives_no_verdict_on_the_ranking_of_another_plan(files, monkeypatch, capsys):
    other = load_fmp(files.ending)
    monkeypatch.setattr(termination, "terminates", lambda plan, true=termination.terminates, **o: true(other, **o))
    content = refused(capsys, "terminates", files.looping, "-o", "ranking.json")
    assert content["task/looping.json"] == files.looping.read_bytes()
    assert not Path("ranking.json").exists()


def test_gate_gives_no_verdict_on_a_false_proof(files, monkeypatch, capsys):
    monkeypatch.setattr(judge, "verify", say_safe(files))
    content = refused(capsys, "gate", files.task, files.bad, "--proved", "--junit", "junit.xml")
    assert_complete(content, files, files.bad)
    assert not Path("junit.xml").exists()


def test_gate_does_not_pass_a_policy_whose_faults_were_overlooked(files, monkeypatch, capsys):
    def none(*given, true=judge.all_faults, **options):
        return replace(true(*given, **options), faults=())

    monkeypatch.setattr(judge, "all_faults", none)
    content = refused(capsys, "gate", files.task, files.bad, "--max-faults", "0")
    assert_complete(content, files, files.bad)
    assert json.loads(content["certificate.json"])["kind"] == "run"


def test_gate_does_not_fail_a_policy_for_faults_that_it_does_not_have(files, monkeypatch, capsys):
    bad = files.bound(files.bad)

    def others(bound, decider, true=judge.all_faults, **options):
        return replace(true(bound, decider, **options), faults=true(bad, Decider(bad.task), **options).faults)

    monkeypatch.setattr(judge, "all_faults", others)
    content = refused(capsys, "gate", files.task, files.good, "--max-faults", "0")
    assert_complete(content, files, files.good)
    assert json.loads(content["certificate.json"])["kind"] == "fault"


def unrepaired(fitted, *given, true=library.repair_checked, **options):
    """A repair that fixed nothing, and says that it did."""
    made, agreement = true(fitted, *given, **options)
    return replace(made, policy=fitted.policy), agreement


@pytest.mark.parametrize("more", [[], ["-o", "new/policy.json", "--certificate", "new/certificate.json"]])
def test_repair_gives_no_verdict_on_a_policy_that_was_not_repaired(files, monkeypatch, capsys, more):
    faults = files.find_faults()
    monkeypatch.setattr(library, "repair_checked", unrepaired)
    content = refused(capsys, "repair", files.task, files.bad, "--faults", faults, *more)
    assert_complete(content, files, None)
    assert "policy/policy.json" in content
    assert not Path("new/certificate.json").exists()


QUICK = ("--starts", "10", "--max-steps", "50", "--workers", "1")


def test_debug_gives_no_verdict_on_a_false_proof(files, monkeypatch, capsys):
    def fewer(*given, true=examination.certificate_of):
        certificate = true(*given)
        return {**certificate, "count": certificate["count"] - 1} if "count" in certificate else certificate

    monkeypatch.setattr(examination, "certificate_of", fewer)
    content = refused(capsys, "debug", files.task, files.bad, "-o", "debugged", *QUICK)
    assert_complete(content, files, None)
    assert not Path("debugged/outcome.json").exists()
    steps_done = [json.loads(line)["step"] for line in Path("debugged/figures.jsonl").read_text().splitlines()]
    assert "repair" in steps_done
    assert "verify" not in steps_done


def test_debug_goes_on_with_no_policy_that_was_not_repaired(files, monkeypatch, capsys):
    monkeypatch.setattr(steps, "repair_checked", unrepaired)
    content = refused(capsys, "debug", files.task, files.bad, "-o", "debugged", *QUICK)
    assert json.loads(content["certificate.json"])["kind"] == "repair"


def test_the_front_door_gives_no_verdict_either(files, monkeypatch):
    task = polvet.load(files.task)
    bad = task.policy(files.bad)
    faults = bad.faults()
    monkeypatch.setattr(portfolio, "verify", say_safe(files))
    monkeypatch.setattr(judge, "verify", say_safe(files))
    monkeypatch.setattr(steps, "repair_checked", unrepaired)
    monkeypatch.setattr(library, "repair_checked", unrepaired)
    monkeypatch.setattr(Decider, "safe_policy", wrong_action)
    other = load_fmp(files.ending)
    monkeypatch.setattr(termination, "terminates", lambda plan, true=termination.terminates, **o: true(other, **o))
    lies = [
        bad.verify, lambda: task.decide({"x": 3}), lambda: task.decide([{"x": 3}]),
        lambda: polvet.terminates(files.looping), lambda: polvet.gate(task, bad, proved=True),
        lambda: bad.repair(faults), lambda: bad.debug("debugged", starts=10, max_steps=50),
    ]  # fmt: skip
    for number, lie in enumerate(lies):
        with pytest.raises(FalseCertificate) as caught:
            lie()
        assert caught.value.bundle.exists(), number
        assert "certificate.json" in content_of(caught.value.bundle)


def test_a_policy_and_a_task_in_memory_are_bundled_by_their_files(files, monkeypatch):
    model = polvet.ModelBuilder("walk")
    x = model.int("x", 0, 9, initial=4)
    for label, step in (("left", -1), ("right", 1)):
        model.edge(label, guard=(x > 0) & (x < 9), to={x: x + step})
    task = polvet.load(model, fail="x == 0", goal="x == 9")
    good, bad = (task.policy({n: label for n in range(1, 9)}) for label in ("right", "left"))
    assert good.verify().checked is bad.verify().checked is True
    true = portfolio.verify(good.bound)
    lie = replace(true, certificate={**true.certificate, "policy_sha256": bad.digest})
    monkeypatch.setattr(portfolio, "verify", lambda bound, **options: lie)
    with pytest.raises(FalseCertificate) as caught:
        bad.verify()
    content = content_of(caught.value.bundle)
    assert {"task/task.toml", "policy/policy.json"} <= set(content)
    assert any(name.startswith("task/walk-") and name.endswith(".jani") for name in content)
    assert content["policy/policy.json"] == bad.file.read_bytes()


def answer(capsys, *arguments):
    capsys.readouterr()
    code = run([*map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def commands(files: Files):
    """Every command that gives a verdict with evidence, and the verdict."""
    task, good, bad = files.task, files.good, files.bad
    janitor = generate("janitor", width=3, height=3).write(files.folder / "janitor.jani")[1]
    faults = files.find_faults()
    return [
        (("verify", task, good), "safe"), (("verify", task, bad), "unsafe"),
        (("verify", task, good, "--avoid", "deadlock"), "safe"),
        (("decide", task, "--state", "x=3"), "safe"), (("decide", task, "--state", "x=0"), "unsafe"),
        (("decide", task, "--start", "x >= 0"), "unsafe"), (("decide", task, "--goal-reaching"), "strong-cyclic"),
        (("decide", task, "--goal-reaching", "--start", "x >= 0"), "not-strong-cyclic"),
        (("gate", task, good, "--proved"), "passed"), (("gate", task, bad, "--proved"), "failed"),
        (("gate", task, good), "passed"), (("gate", task, bad), "failed"),
        (("repair", task, bad, "--faults", faults), "repaired"), (("permit", janitor, "--bound", "0.1"), "permitted"),
        (("terminates", files.ending), "terminating"), (("terminates", files.looping), "nonterminating"),
        (("terminates", files.ending, "--goal", "x == 0"), "goal-reaching"),
        (("debug", task, bad, "-o", files.folder / "debugged", *QUICK), "safe"),
    ]  # fmt: skip


def test_what_is_said_was_checked(files, capsys):
    for arguments, verdict in commands(files):
        code, document = answer(capsys, *arguments)
        assert (document["verdict"], document.get("checked")) == (verdict, True), arguments
        assert "not_checked" not in document
        assert code in (0, 10)
    assert not list(Path().rglob("polvet-bug-*"))
    assert json.loads((files.folder / "debugged/outcome.json").read_text())["checked"] is True


def test_what_had_no_time_to_be_checked_is_said_so(files, monkeypatch, capsys):
    """Nothing is small, and no second is left for checking: the verdict stays, and says that nobody checked it."""
    listed = commands(files)
    monkeypatch.setattr(confirmation, "A_MINUTE", 0.0)
    monkeypatch.setattr(confirmation, "BESIDES", -1e9)
    for arguments, verdict in listed:
        _, document = answer(capsys, *arguments)
        assert (document["verdict"], document.get("checked")) == (verdict, False), arguments
        assert document["not_checked"]
    run(["verify", str(files.task), str(files.good), "--fail", "x == 0", "-o", "certificate.json"])
    shown = capsys.readouterr().out
    words = f"polvet certify certificate.json --task {files.task} --policy {files.good} --fail 'x == 0'"
    assert shown.startswith("safe\n")
    assert f"not checked here: checking it takes longer than 0.0 s; `{words}` checks it" in shown


def test_a_limit_that_is_used_up_leaves_the_verdict_unchecked(files):
    """A budget whose time is over when the certificate is there, by a clock that the test holds."""
    now = [0.0]
    bound = files.bound(files.good)
    certificate = certificates.certificate_of(bound, portfolio.verify(bound))
    about = confirmation.about_policy(bound.task, files.good, bound.fitted.sha256)
    within = Budget(10, clock=lambda: now[0])
    assert confirmation.confirm("safe policy", certificate, about, found=9, budget=within) == Checked()
    now[0] = 11.0
    said = confirmation.confirm("safe policy", certificate, about, found=11, budget=within)
    assert isinstance(said, NotChecked)
    assert "time limit of 10 s reached" in said.reason


def test_a_python_function_in_memory_is_asked_again(files):
    result = polvet.load(files.task).policy(lambda state: "right").verify()
    assert result.verdict is polvet.Verdict.SAFE
    assert result.checked is True
    assert result.certificate["policy_sha256"] is None


def test_a_file_that_changed_meanwhile_is_no_bug(files, monkeypatch, capsys):
    """The policy is written anew while it is verified: what was found is about what was read, and nobody can check it."""

    def slow(bound, true=portfolio.verify, **options):
        found = true(bound, **options)
        files.good.write_bytes(files.bad.read_bytes())
        return found

    monkeypatch.setattr(portfolio, "verify", slow)
    code, document = answer(capsys, "verify", files.task, files.good)
    assert (code, document["verdict"], document["checked"]) == (0, "safe", False)
    assert "have changed" in document["not_checked"]


def test_an_unknown_verdict_has_nothing_to_check(files, capsys):
    code, document = answer(capsys, "verify", files.task, files.good, "--method", "explicit", "--max-states", "2")
    assert (code, document["verdict"]) == (20, "unknown")
    assert "checked" not in document


def test_faults_from_elsewhere_are_no_bug_of_the_repair(files, capsys):
    """Nothing is applicable in the pit: whoever lists a fault there is answered, and told that nobody checked it."""
    document = read_json(files.find_faults())
    document["faults"].append({"state": {"x": 0}, "action": "left", "safe_actions": ["right"], "unsafe_outcomes": []})
    files.faults.write_text(json.dumps(document), encoding="utf-8")
    code, shown = answer(capsys, "repair", files.task, files.bad, "--faults", files.faults)
    assert code in (0, 10)
    assert shown["checked"] is False
    assert "a listed fault is none" in shown["not_checked"]


def test_every_kind_of_certificate_proves_some_verdict():
    assert {kind for kinds in confirmation.PROVES.values() for kind in kinds} == set(CHECKERS)
