"""The front door: the whole product from five lines of Python, with the same answers as the command line, and messages for wrong use."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import polvet
from polvet.cli.app import run
from polvet.domains.shipped import shipped_files

NAMES = tuple(
    """
    Accepted Campaign Comparison Decisions Description Evaluation Exploration Fault Faults Fence Fuzzing Gate Generalizing GoalMissed
    GoalReaching Impossible InputError LearnedScheduler LimitReached MissingExtra Model ModelBuilder ModelError Nonterminating Policy
    PolvetError Refuted Rejected Repair Run Safe SafeRegion Shield Simulation Solved Task Terminating Training Unknown
    Unsafe Unsolvable Value Verdict
    certify from_gym from_intervals from_matrix from_transitions gate generalizes info load synthesize terminates
    """.split()  # noqa: SIM905
)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shipped")
    for file in shipped_files():
        shutil.copy(file, folder)
    return folder


@pytest.fixture
def task(shipped):
    return polvet.load(shipped / "one-way-line-8-5.toml")


@pytest.fixture
def faulty(task, shipped):
    return task.policy(shipped / "one-way-line-8-5-faulty.json")


def test_what_is_offered_is_exactly_this():
    assert tuple(polvet.__all__) == NAMES
    assert all(hasattr(polvet, name) for name in NAMES)
    assert set(polvet._HOME_OF) == set(NAMES)
    with pytest.raises(AttributeError, match="it offers"):
        polvet.no_such_thing  # noqa: B018


def test_the_reference_page_has_exactly_what_is_offered():
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference.md").read_text()
    listed = re.findall(r"^::: (\S+)\.(\w+)$", page, re.MULTILINE)
    assert sorted(name for _, name in listed) == sorted(NAMES)
    assert all(polvet._HOME_OF[name] == home for home, name in listed)


def test_importing_polvet_loads_nothing_heavy():
    code = "import sys, polvet; print(sorted({'numpy', 'z3', 'highspy', 'click', 'rich', 'polvet._core'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_story_of_the_readme(task, faulty, tmp_path):
    assert faulty.evaluate(starts=2000).unsafe_percent == pytest.approx(100 * 105 / 1980)
    result = faulty.verify()
    assert result.verdict is polvet.Verdict.UNSAFE
    assert result.run.end == "fail"
    result.save(tmp_path / "run.json")
    assert polvet.certify(tmp_path / "run.json", task, faulty).accepted
    faults = faulty.faults()
    assert faults.exhaustive
    better = faulty.repair(faults)
    assert better.verify().verdict is polvet.Verdict.SAFE
    proof = better.verify()
    proof.save(tmp_path / "safe.json")
    better.save(tmp_path / "better.json")
    assert polvet.certify(tmp_path / "safe.json", task, tmp_path / "better.json").accepted
    assert polvet.certify(proof, task, better).accepted
    assert not polvet.certify(proof, task, faulty).accepted
    campaign = faulty.debug(tmp_path / "campaign", starts=200)
    assert campaign.verdict is polvet.Verdict.SAFE
    assert campaign.policy.verify().verdict is polvet.Verdict.SAFE
    assert "polvet" in campaign.report(tmp_path / "report.html").read_text()
    assert polvet.gate(task, campaign.policy, max_faults=0).passed
    assert not polvet.gate(task, faulty, max_faults=0).passed


def test_python_and_the_command_line_say_the_same(shipped, task, faulty, capsys):
    files = [str(shipped / "one-way-line-8-5.toml"), str(shipped / "one-way-line-8-5-faulty.json")]

    def said(*arguments):
        run([*arguments, "--json"])
        return json.loads(capsys.readouterr().out)

    line = said("verify", *files)
    found = faulty.verify().to_dict()
    assert (line["verdict"], line["certificate"]) == (found["verdict"], found["certificate"])
    line = said("evaluate", *files, "--starts", "300")
    assert line["figures"]["unsafe_percent"] == faulty.evaluate(starts=300).unsafe_percent
    assert line["figures"]["goal_percent_interval"] == list(faulty.evaluate(starts=300).goal_interval)
    assert said("faults", *files)["figures"]["faults"] == len(faulty.faults())
    assert said("explore", files[0])["figures"]["states"] == task.explore().states
    assert said("gate", *files)["verdict"] == polvet.gate(task, faulty).verdict.value
    assert said("permit", files[0], "--bound", "0.1")["figures"]["permitted"] == task.permit(0.1).permitted


def test_results_refuse_to_be_truth_values(faulty):
    result = faulty.verify()
    with pytest.raises(TypeError, match="no truth value"):
        bool(result)
    with pytest.raises(TypeError, match="no truth value"):
        bool(result.verdict)


def walk():
    m = polvet.ModelBuilder("walk")
    x = m.int("x", 0, 9, initial=4)
    for label, step in (("left", -1), ("right", 1)):
        m.edge(label, guard=(x > 0) & (x < 9), to={x: x + step})
    return m


def test_a_model_in_memory_is_certified_with_what_is_saved(tmp_path):
    task = polvet.load(walk(), fail="x == 0", goal="x == 9")
    policy = task.policy({x: "right" for x in range(1, 9)})
    proof = policy.verify()
    assert proof.verdict is polvet.Verdict.SAFE
    assert polvet.certify(proof, task, policy).accepted
    task.save(tmp_path / "walk.toml")
    policy.save(tmp_path / "walk.json")
    proof.save(tmp_path / "proof.json")
    assert polvet.certify(tmp_path / "proof.json", tmp_path / "walk.toml", tmp_path / "walk.json").accepted
    other = polvet.load(walk(), fail="x == 1", goal="x == 9")
    assert not polvet.certify(proof, other, policy).accepted


def test_states_come_as_dictionaries_lists_frames_and_arrays():
    pandas = pytest.importorskip("pandas")
    task = polvet.load(walk(), fail="x == 0", goal="x == 9")
    rows = [{"x": x} for x in range(10)]
    wanted = (False, *[True] * 9)
    assert task.decide(rows).safe == wanted
    assert task.decide(pandas.DataFrame(rows)).safe == wanted
    assert task.decide(np.arange(10).reshape(-1, 1)).safe == wanted
    assert task.decide(rows).to_dataframe()["safe"].tolist() == list(wanted)
    assert task.decide({"x": 0}).verdict is polvet.Verdict.UNSAFE
    one = task.decide({"x": 3})
    assert polvet.certify(one, task).accepted


def objects():
    """One policy of each kind over x in 1..8, each with the same choices: left below 4, right from there on."""
    rows = np.arange(1, 9, dtype=np.float32).reshape(-1, 1)
    chosen = np.array([0, 0, 0, 1, 1, 1, 1, 1])
    yield "dict", {int(x): int(c) for x, c in zip(rows[:, 0], chosen, strict=True)}
    yield "array", np.eye(2)[np.concatenate([[0], chosen, [0]])]
    yield "function", lambda state: "left" if state["x"] < 4 else "right"
    if _has("xgboost"):
        import xgboost

        yield "XGBClassifier", xgboost.XGBClassifier(n_estimators=8, n_jobs=1, min_child_weight=0).fit(rows, chosen)
        data = xgboost.DMatrix(rows, label=chosen)
        yield (
            "Booster",
            xgboost.train(
                {"objective": "multi:softprob", "num_class": 2, "nthread": 1, "min_child_weight": 0}, data, 8
            ),
        )
    if _has("lightgbm"):
        import lightgbm

        yield (
            "LGBMClassifier",
            lightgbm.LGBMClassifier(n_estimators=8, min_child_samples=1, verbose=-1, n_jobs=1).fit(rows, chosen),
        )
    if _has("sklearn"):
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.tree import DecisionTreeClassifier

        yield "DecisionTreeClassifier", DecisionTreeClassifier(random_state=0).fit(rows, chosen)
        yield "RandomForestClassifier", RandomForestClassifier(5, random_state=0).fit(rows, chosen)
    if _has("torch"):
        import torch

        module = torch.nn.Sequential(torch.nn.Linear(1, 2))
        with torch.no_grad():
            module[0].weight.copy_(torch.tensor([[-1.0], [1.0]]))
            module[0].bias.copy_(torch.tensor([3.5, -3.5]))
        yield "torch", module


def _has(package):
    from importlib.util import find_spec

    return find_spec(package) is not None


def test_objects_of_every_kind_choose_as_they_do_in_their_library():
    task = polvet.load(walk(), fail="x == 0", goal="x == 9")
    for name, given in objects():
        policy = task.policy(given)
        acts = [policy.act({"x": x}) for x in range(1, 9)]
        assert acts == ["left"] * 3 + ["right"] * 5, name
        result = policy.verify()
        assert result.verdict is polvet.Verdict.SAFE, name  # from 4 it walks right
        from_all = polvet.load(task, start="x >= 1 && x <= 8").policy(given)
        assert from_all.verify().verdict is polvet.Verdict.UNSAFE, name
        assert [fault.state["x"] for fault in from_all.faults()] == [1], name
        assert type(policy.object) is type(given) or name == "function"


def test_a_repaired_object_is_of_the_same_kind_and_its_library_agrees():
    task = polvet.load(walk(), fail="x == 0", goal="x == 9", start="x >= 1 && x <= 8")
    rows = np.arange(1, 9, dtype=np.float32).reshape(-1, 1)
    for name, given in objects():
        if name == "function":
            continue
        policy = task.policy(given)
        better = policy.repair(policy.faults())
        assert better.verify().verdict is polvet.Verdict.SAFE, name
        again = better.object
        assert type(again) is type(given), name
        acts = [better.act({"x": x}) for x in range(1, 9)]
        assert acts[0] == "right"
        if name.endswith("Classifier"):
            assert [task.labels[k] for k in again.predict(rows)] == acts
        elif name == "dict":
            assert [again[x] for x in range(1, 9)] == acts
        elif name == "array":
            assert [task.labels[int(again[x].argmax())] for x in range(1, 9)] == acts
        elif name == "torch":
            import torch

            with torch.no_grad():
                assert [task.labels[int(k)] for k in again(torch.from_numpy(rows)).argmax(1)] == acts


def test_a_function_in_memory_is_certified_by_asking_it_again(tmp_path):
    task = polvet.load(walk(), fail="x == 0", goal="x == 9")

    def right(state):
        return "right"

    def left(state):
        return "left"

    proof, refutation = task.policy(right).verify(), task.policy(left).verify()
    assert (proof.verdict, refutation.verdict) == (polvet.Verdict.SAFE, polvet.Verdict.UNSAFE)
    assert proof.checked
    assert refutation.checked
    proof.save(tmp_path / "proof.json")
    accepted = polvet.certify(tmp_path / "proof.json", task, right)
    assert accepted.accepted
    assert "the given function" in accepted.claim
    assert "by execution" in accepted.claim
    assert accepted.about["by_execution"] is True
    table = task.policy({x: "right" for x in range(1, 9)})
    for false, function in ((proof, left), (refutation, right), (table.verify(), right), (proof, table)):
        assert not polvet.certify(false, task, function).accepted
    for part, value in (("count", 5), ("policy_sha256", "0" * 64), ("task_sha256", "0" * 64)):
        assert not polvet.certify({**proof.certificate, part: value}, task, right).accepted
    answers = iter(["right"] * 5 + ["left"] * 100)
    with pytest.raises(polvet.InputError, match="depend on the state alone"):
        task.policy(lambda state: next(answers)).verify("explicit")


def test_matrices_are_models():
    model = polvet.Model.from_matrix({"go": [[0.5, 0.5], [0, 1]]}, features={"far": [0, 1]})
    assert isinstance(model, polvet.Model)
    task = polvet.load(model, fail="far == 1")
    assert task.check("Pmax=? [F fail]", exact=True).exact == 1
    assert polvet.from_matrix({"go": [[0.5, 0.5], [0, 1]]}, fail=[1]).explore().states == 2


def test_an_estimator_has_one_digest():
    tree = pytest.importorskip("sklearn.tree")
    pytest.importorskip("skops")
    given = tree.DecisionTreeClassifier(random_state=0).fit([[1], [5], [6]], [0, 1, 1])
    task = polvet.load(walk(), fail="x == 0", goal="x == 9")
    first, second = task.policy(given), task.policy(given)
    assert first.digest == second.digest
    assert second.object.predict([[1], [6]]).tolist() == [0, 1]


def test_long_work_tells_how_far_it_is(faulty, capsys):
    told = []
    faulty.fuzz(2000, progress=lambda done, known: told.append((done, known)))
    assert told[-1][0] >= 2000
    assert all(done <= known for done, known in told)
    faulty.fuzz(2000, progress=True)
    assert capsys.readouterr().err.endswith("\n")


def test_results_are_short(task, faulty):
    for result in (
        faulty.verify(),
        faulty.evaluate(100),
        faulty.faults(),
        polvet.gate(task, faulty),
        faulty.verify(region=True),
    ):
        assert len(repr(result)) < 300
        assert repr(result).startswith(type(result).__name__)


def test_cards_show_courses_and_maps(faulty, tmp_path):
    assert "Course" in faulty.debug(tmp_path / "campaign", starts=50)._repr_html_()
    from polvet.front.writing import domains

    domains("janitor", width=3, height=3, output=tmp_path / "janitor.jani")
    assert "Risk over" in polvet.load(tmp_path / "janitor.toml").permit(0.1)._repr_html_()


def test_cards_and_runs_show_themselves(faulty):
    result = faulty.verify()
    card = result._repr_html_()
    assert "unsafe" in card
    assert "srcdoc" in card
    assert "<script" not in card, "whatever runs stands in the frame, escaped"
    assert "polvet-card" in faulty.faults()._repr_html_()
    assert result.run.to_dict()["end"] == "fail"


WRONG = [
    ("a missing file", lambda t, p: polvet.load("no-such.toml"), "no-such.toml"),
    ("a number for a world", lambda t, p: polvet.load(3), "is no world"),
    ("None for a world", lambda t, p: polvet.load(None), "is no world"),
    ("an unknown name in fail", lambda t, p: polvet.load(walk(), fail="y == 0"), "y"),
    ("a number as fail", lambda t, p: polvet.load(walk(), fail="x + 1"), "not a bool"),
    ("a broken condition", lambda t, p: polvet.load(walk(), fail="x =="), "fail"),
    ("an unknown bounds word", lambda t, p: polvet.load(walk(), out_of_bounds="clamp"), "clamp"),
    ("an unknown mode", lambda t, p: polvet.load(walk(), mode="soft"), "soft"),
    ("an unknown thing to avoid", lambda t, p: polvet.load(walk(), avoid="sleep"), "sleep"),
    ("constants that are none", lambda t, p: polvet.load(walk(), constants=["N"]), "constants"),
    ("an unknown constant", lambda t, p: polvet.load(walk(), constants={"N": 3}), "N"),
    ("a state without a variable", lambda t, p: t.decide({}), "no value for"),
    ("a state with an unknown variable", lambda t, p: t.decide({"q": 1}), "no variable 'q'"),
    ("a state out of bounds", lambda t, p: t.decide({"x": 99}), "outside"),
    ("a text as state", lambda t, p: t.decide("x=3"), "is no state"),
    ("a number as state", lambda t, p: t.decide(3), "is no state"),
    ("a row that is too long", lambda t, p: t.decide(np.zeros((1, 7))), "7 values"),
    ("an unknown algorithm", lambda t, p: t.decide({"x": 3}, algorithm="magic"), "magic"),
    ("an unknown property", lambda t, p: t.check("nothing"), "nothing"),
    ("a number as property", lambda t, p: t.check(3), "is no property"),
    ("a number as policy", lambda t, p: t.policy(3), "is no policy"),
    ("a missing policy file", lambda t, p: t.policy("no-such.onnx"), "no-such.onnx"),
    ("a key of two values", lambda t, p: t.policy({(1, 2): "left"}), "2 values"),
    ("an unknown label", lambda t, p: t.policy({1: "up"}), "up"),
    ("an action number too large", lambda t, p: t.policy({1: 7}), "no action 7"),
    ("a function that answers nonsense", lambda t, p: t.policy(lambda s: "up").act({"x": 3}), "up"),
    ("a function that answers too large a number", lambda t, p: t.policy(lambda s: 9).act({"x": 3}), "9"),
    ("an unknown method", lambda t, p: p.verify("guess"), "guess"),
    ("a negative time limit", lambda t, p: p.verify(time_limit=-1), "limit"),
    ("a text as time limit", lambda t, p: p.verify(time_limit="soon"), "limit"),
    ("no workers", lambda t, p: p.verify(workers=0), "threads"),
    ("faults of nobody", lambda t, p: p.repair([1]), "no list of faults"),
    (
        "faults of another policy",
        lambda t, p: p.repair(t.policy({x: "right" for x in range(9)}).faults()),
        "another policy",
    ),
    ("an unknown setting", lambda t, p: p.debug("out", startz=3), "startz"),
    ("a function to be debugged", lambda t, p: t.policy(lambda s: "left").debug("out"), "cannot be repaired"),
    ("a function to be saved", lambda t, p: t.policy(lambda s: "left").save("out"), "no file format"),
    ("a bound above 1", lambda t, p: t.permit(2), "2"),
    ("a bound that is a word", lambda t, p: t.permit("high"), "high"),
    ("a certificate that is none", lambda t, p: polvet.certify({"kind": "wish"}), "wish"),
    ("a list as certificate", lambda t, p: polvet.certify([1]), "no certificate"),
    ("a result without a certificate", lambda t, p: polvet.certify(t.explore()), "no certificate"),
    ("a task saved as something else", lambda t, p: t.save("walk.txt"), ".toml"),
    ("a plan that is missing", lambda t, p: polvet.terminates("no-such.json"), "no-such.json"),
    ("an environment that is none", lambda t, p: polvet.from_gym(7), "no environment"),
]


@pytest.mark.parametrize(("use", "says"), [(use, says) for _, use, says in WRONG], ids=[name for name, _, _ in WRONG])
def test_wrong_use_gets_one_clear_message(use, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = polvet.load(walk(), fail="x == 0", goal="x == 9")
    policy = task.policy({x: "left" for x in range(1, 9)})
    with pytest.raises(polvet.PolvetError) as error:
        use(task, policy)
    assert says in str(error.value)
