"""Saved tasks keep their worlds: no file of another is written over, and what was changed since is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import polvet
from polvet.cli.app import run
from polvet.errors import InputError
from polvet.model.semantics import Semantics

gymnasium = pytest.importorskip("gymnasium")

SAFE_IN_DRY = {0: "down", 4: "down", 8: "right", 9: "right", 10: "down", 14: "right"}


def lake(**options):
    return gymnasium.make("FrozenLake-v1", map_name="4x4", **options)


def walk(label_of):
    """A world whose only label leads from x = 4 one way or the other."""
    m = polvet.ModelBuilder("walk")
    x = m.int("x", 0, 9, initial=4)
    m.edge("go", guard=(x > 0) & (x < 9), to={x: x + label_of})
    return polvet.load(m, fail="x == 0", goal="x == 9")


def outcomes_of(task):
    """What may follow in each state of a table, by state and label."""
    semantics = Semantics(task.model_task.network)
    pending, rows = list(semantics.initial_states()), {}
    for state in pending:
        if any(key[0] == state[0] for key in rows) or any(state[1:][-2:]):
            continue
        for move in semantics.moves(state):
            rows[state[0], move.label] = {(one.state[0], one.probability) for one in move.outcomes}
            pending += [one.state for one in move.outcomes]
    return rows


def falls(env, choose, episodes=200):
    """How many real episodes of the policy end in a hole."""
    letters = env.unwrapped.desc.flatten()
    count = 0
    for seed in range(episodes):
        state, _ = env.reset(seed=seed)
        ended = False
        for _ in range(100):
            state, _, ended, _, _ = env.step(choose(state))
            if ended:
                break
        count += ended and letters[state] == b"H"
    return count


def test_two_worlds_saved_in_one_folder_stay_two_worlds(tmp_path):
    """The oracle is the real slippery lake, where the policy that is safe on dry ice falls."""
    labels = ("left", "down", "right", "up")
    assert falls(lake(is_slippery=True), lambda s: labels.index(SAFE_IN_DRY.get(int(s), "left"))) > 50
    assert falls(lake(is_slippery=False), lambda s: labels.index(SAFE_IN_DRY.get(int(s), "left"))) == 0
    for name, slippery in (("slippery", True), ("dry", False)):
        polvet.from_gym(lake(is_slippery=slippery)).save(tmp_path / f"{name}.toml")
    verdicts = {}
    for name in ("slippery", "dry"):
        policy = polvet.load(tmp_path / f"{name}.toml").policy(lambda state: SAFE_IN_DRY.get(state["s"], "left"))
        verdicts[name] = policy.verify(method="explicit").verdict.value
    assert verdicts == {"slippery": "unsafe", "dry": "safe"}


def test_matrices_builders_and_files_of_one_name_each_keep_their_model(tmp_path):
    out = tmp_path / "out"
    tasks = {
        "there": polvet.from_matrix({"go": [[0, 1], [0, 1]]}, fail=[1]),
        "here": polvet.from_matrix({"go": [[1, 0], [0, 1]]}, fail=[1]),
        "up": walk(1),
        "down": walk(-1),
    }
    for name, source in (("a", walk(1)), ("b", walk(-1))):
        folder = tmp_path / name
        folder.mkdir()
        model = source.model_task.source.file.parent / _model_of(source.model_task.source.file)
        shutil.copy(model, folder / "model.jani")
        (folder / "task.toml").write_text('model = "model.jani"\nfail = "x == 0"\n')
        tasks[f"task-{name}"] = polvet.load(folder / "task.toml")
        tasks[f"options-{name}"] = polvet.load(folder / "model.jani", fail="x == 0")
    for name, task in tasks.items():
        task.save(out / f"{name}.toml")
    start = {"there": {"s": 0}, "here": {"s": 0}}
    verdicts = {}
    for name in tasks:
        loaded = polvet.load(out / f"{name}.toml")
        verdicts[name] = loaded.decide(start.get(name, {"x": 4})).verdict.value
    safe = {"here", "up", "task-a", "options-a"}
    assert verdicts == {name: "safe" if name in safe else "unsafe" for name in tasks}


def _model_of(toml: Path) -> str:
    return toml.read_text().split('"')[1]


def test_what_was_made_in_memory_is_saved_under_its_digest_so_that_its_certificates_stay(tmp_path):
    task = walk(1)
    proof = task.policy(lambda state: "go").verify(method="explicit")
    certificate = tmp_path / "certificate.json"
    proof.save(certificate)
    (tmp_path / "walk.jani").write_text("{}")
    saved = task.save(tmp_path / "task.toml")
    assert polvet.load(saved).digest == task.digest
    assert (tmp_path / "walk.jani").read_text() == "{}"


@pytest.mark.parametrize("what", ["changed", "replaced"])
def test_a_saved_model_that_was_changed_or_replaced_is_refused_by_name_and_with_the_way_out(tmp_path, what):
    saved = polvet.from_gym(lake(is_slippery=True)).save(tmp_path / "task.toml")
    other = polvet.from_gym(lake(is_slippery=False)).save(tmp_path / "other.toml")
    model = tmp_path / _model_of(saved)
    assert model != tmp_path / _model_of(other)
    data = model.read_bytes()
    model.write_bytes(data + b"\n" if what == "changed" else (tmp_path / _model_of(other)).read_bytes())
    with pytest.raises(InputError, match=rf"task\.toml: sha256\.model: '{model.name}' is not the file that was saved"):
        polvet.load(saved)
    assert run(["info", str(saved)]) == 30
    model.write_bytes(data)
    assert polvet.load(saved).digest
    lines = saved.read_text().splitlines(keepends=True)
    model.write_bytes(data + b"\n")
    saved.write_text("".join(line for line in lines if not line.startswith("sha256")))
    assert polvet.load(saved).labels == ("left", "down", "right", "up")  # written by hand, it says no digest


def test_the_domains_of_two_planning_problems_do_not_become_one(tmp_path):
    text = """(define (domain d) (:predicates (at-home) (lost)) (:action go :parameters ()
        :precondition (at-home) :effect (and (not (at-home)) EFFECT)))"""
    problem = "(define (problem p) (:domain d) (:init (at-home)) (:goal (not (at-home))))"
    for name, effect in (("lost", "(lost)"), ("kept", "(not (lost))")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "domain.pddl").write_text(text.replace("EFFECT", effect))
        (folder / "problem.pddl").write_text(problem)
        polvet.load(folder / "problem.pddl", fail="(lost)").save(tmp_path / "out" / f"{name}.toml")
    runs = {
        name: polvet.load(tmp_path / "out" / f"{name}.toml").policy(lambda state: "go") for name in ("lost", "kept")
    }
    assert {name: policy.verify().verdict.value for name, policy in runs.items()} == {"lost": "unsafe", "kept": "safe"}


def test_a_generated_benchmark_knows_when_its_model_was_changed(tmp_path):
    model = tmp_path / "janitor.jani"
    assert run(["domains", "janitor", "width=3", "height=3", "-o", str(model)]) == 0
    assert polvet.load(tmp_path / "janitor.toml").labels
    assert run(["domains", "janitor", "width=4", "height=3", "-o", str(tmp_path / "other.jani")]) == 0
    shutil.copy(tmp_path / "other.jani", model)
    with pytest.raises(InputError, match=r"'janitor\.jani' is not the file that was saved with this task"):
        polvet.load(tmp_path / "janitor.toml")


def test_every_part_of_a_task_comes_back_from_its_file(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    m = polvet.ModelBuilder("two")
    x = m.int("x", 0, 9, initial=4)
    m.edge("go left", guard=x > 0, to={x: x - 1})
    saved = polvet.load(m).save(source / "plain.toml")
    (source / "task.toml").write_text(
        f'model = "{_model_of(saved)}"\nfail = "x == 0"\ngoal = "x == 9"\nstart = "x > 3"\n'
        '[policy]\nmode = "raw"\ninputs = ["x"]\noutputs = ["go left"]\noutput = "logits"\n'
    )
    task = polvet.load(source / "task.toml", goal="x == 8")
    again = polvet.load(task.save(tmp_path / "again.toml")).model_task
    first = task.model_task
    assert (again.fail, again.goal, again.start) == (first.fail, first.goal, first.start)
    assert again.reading == first.reading
