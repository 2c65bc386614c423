"""scikit-learn's trees debugged to safe, saved as skops, loaded by scikit-learn: `predict` takes no failing state anywhere."""

import itertools

import numpy as np
import pytest

import polvet
from polvet.errors import InputError
from polvet.policy import load_policy, save_policy
from polvet.policy.sklearn_save import grown_together
from polvet.policy.sklearn_trees import ensemble_from_sklearn
from polvet.policy.trees import VECTOR, TreeEnsemble
from tests.repair.ensembles import random_tree

skops = pytest.importorskip("skops.io")
ensemble = pytest.importorskip("sklearn.ensemble")
trees = pytest.importorskip("sklearn.tree")

SIZE = 7
PITS = {(2, 1), (2, 2), (4, 4), (5, 4), (1, 5), (5, 1)}
STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))
LABELS = ("left", "right", "down", "up")
FREE = sorted(set(itertools.product(range(SIZE), repeat=2)) - PITS - {(SIZE - 1, SIZE - 1)})
KINDS = {
    "DecisionTree": lambda: trees.DecisionTreeClassifier(max_depth=4, random_state=0),
    "ExtraTree": lambda: trees.ExtraTreeClassifier(max_depth=5, random_state=0),
    "ExtraTrees": lambda: ensemble.ExtraTreesClassifier(7, max_depth=4, random_state=0),
    "RandomForest": lambda: ensemble.RandomForestClassifier(7, max_depth=4, random_state=0),
    "GradientBoosting": lambda: ensemble.GradientBoostingClassifier(n_estimators=6, max_depth=2, random_state=0),
    "HistGradientBoosting": lambda: ensemble.HistGradientBoostingClassifier(
        max_iter=6, max_leaf_nodes=5, min_samples_leaf=2, random_state=0
    ),
}


def moved(place, step):
    """The two outcomes of a step: it may slip one further; walls stop it."""

    def one(at):
        return tuple(min(max(a + d, 0), SIZE - 1) for a, d in zip(at, step, strict=True))

    return {one(place), one(one(place))}


def grid(labels=LABELS, steps=STEPS):
    m = polvet.ModelBuilder("grid")
    x, y = m.int("x", 0, SIZE - 1, initial=0), m.int("y", 0, SIZE - 1, initial=0)
    for label, (dx, dy) in zip(labels, steps, strict=True):
        at, d = (x, dx) if dx else (y, dy)
        far = at if d < 0 else SIZE - 1 - at
        m.edge(label, guard=far >= 2, to=[(0.5, {at: at + d}), (0.5, {at: at + 2 * d})])
        m.edge(label, guard=far == 1, to={at: at + d})
        m.edge(label, guard=far == 0, to={at: at})
    pits = " || ".join(f"(x == {a} && y == {b})" for a, b in sorted(PITS))
    last = SIZE - 1
    return polvet.load(m, fail=pits, goal=f"x == {last} && y == {last}", start=f"!({pits})", mode="raw")


def teacher(steps=STEPS):
    """Actions that mostly walk to the goal and do not look at pits: faulty."""
    rng = np.random.default_rng(4)
    wanted = [k for k, step in enumerate(steps) if sum(step) > 0]
    actions = rng.choice(wanted, len(FREE))
    other = rng.random(len(FREE)) < 0.3
    actions[other] = rng.integers(0, len(steps), other.sum())
    actions[: len(steps)] = np.arange(len(steps))
    return np.array(FREE, dtype=np.float32), actions


def failing(chosen, steps=STEPS):
    """The free places from which the choices may lead into a pit, by brute force over all places."""
    bad = set(PITS)
    while True:
        more = {at for at in FREE if at not in bad and moved(at, steps[chosen[at]]) & bad}
        if not more:
            return bad - PITS
        bad |= more


def predicted(model):
    rows = np.array(FREE, dtype=np.float32)
    return dict(zip(FREE, (int(k) for k in model.predict(rows)), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_debugged_to_safe_and_saved_the_librarys_own_predict_never_fails(kind, tmp_path):
    task = grid()
    model = KINDS[kind]().fit(*teacher())
    before = predicted(model)
    assert failing(before), "the policy to begin with fails somewhere"
    skops.dump(model, tmp_path / "policy.skops")
    policy = task.policy(tmp_path / "policy.skops")
    assert [task.labels.index(policy.act({"x": a, "y": b})) for a, b in FREE] == [before[at] for at in FREE]
    campaign = policy.debug(tmp_path / "out", iterations=20, seed=1)
    assert campaign.verdict is polvet.Verdict.SAFE
    campaign.policy.save(tmp_path / "better.skops")
    better = skops.load(tmp_path / "better.skops", trusted=skops.get_untrusted_types(file=tmp_path / "better.skops"))
    assert type(better) is type(model)
    after = predicted(better)
    assert failing(after) == set()
    assert [campaign.policy.act({"x": a, "y": b}) for a, b in FREE] == [LABELS[after[at]] for at in FREE]
    assert better.get_params()["random_state"] == 0
    assert better.classes_.tolist() == model.classes_.tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["leaves", "tree", "penalty"])
def test_an_estimator_in_memory_comes_back_repaired_by_every_method(kind, method):
    task = grid()
    model = KINDS[kind]().fit(*teacher())
    policy = task.policy(model)
    found = policy.faults()
    assert len(found)
    better = policy.repair(found, method=method)
    assert better.repaired.figures["faults_left"] == 0
    assert better.repaired.figures["library"] == "sklearn"
    assert better.repaired.figures["library_confirmed"] == len(found)
    again = better.object
    assert type(again) is type(model)
    chosen = predicted(again)
    assert [better.act({"x": a, "y": b}) for a, b in FREE] == [LABELS[chosen[at]] for at in FREE]
    assert predicted(model) != chosen, "the object given stays as it was"


@pytest.mark.parametrize("kind", ["GradientBoosting", "HistGradientBoosting"])
def test_binary_boosting_is_repaired_too(kind):
    steps, labels = ((1, 0), (0, 1)), ("right", "up")
    task = grid(labels, steps)
    model = KINDS[kind]().fit(*teacher(steps))
    policy = task.policy(model)
    found = policy.faults()
    better = policy.repair(found)
    chosen = predicted(better.object)
    assert [better.act({"x": a, "y": b}) for a, b in FREE] == [labels[chosen[at]] for at in FREE]
    for fault in found:
        at = fault.state["x"], fault.state["y"]
        assert labels[chosen[at]] in fault.safe_actions


def test_trees_grown_together_are_the_sum_bit_for_bit():
    rng = np.random.default_rng(0)
    for _ in range(30):
        parts = tuple(random_tree(rng, VECTOR, "<=", depth=3, width=3) for _ in range(3))
        rows = rng.integers(-2, 2 * 6, (300, 2)).astype(np.float32) / 2
        many = TreeEnsemble(("x", "y"), ("a", "b", "c"), parts, (0.0,) * 3, "<=", "float64")
        one = TreeEnsemble(("x", "y"), ("a", "b", "c"), (grown_together(parts),), (0.0,) * 3, "<=", "float64")
        assert np.array_equal(one.scores(rows), many.scores(rows))
        assert len(one.trees[0].leaves) < 8**3, "splits that are decided already are left out"


def test_classes_that_are_numbers_are_the_numbers_of_labels(tmp_path):
    task = grid()
    rows, actions = teacher()
    some = actions != 1
    model = trees.DecisionTreeClassifier(random_state=0).fit(rows[some], actions[some])
    assert model.classes_.tolist() == [0, 2, 3]
    policy = task.policy(model)
    assert policy.outputs == ("left", "down", "up")
    chosen = predicted(model)
    assert [policy.act({"x": a, "y": b}) for a, b in FREE] == [LABELS[chosen[at]] for at in FREE]
    with pytest.raises(InputError, match="action number 9"):
        task.policy(trees.DecisionTreeClassifier().fit(rows, np.where(actions == 1, 9, actions)))


def test_a_forest_of_several_jobs_is_refused_with_the_way_out():
    rows, actions = teacher()
    model = ensemble.RandomForestClassifier(3, n_jobs=2).fit(rows, actions)
    with pytest.raises(InputError, match="n_jobs=1"):
        ensemble_from_sklearn(model)
    assert len(ensemble_from_sklearn(model.set_params(n_jobs=1)).trees) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_unchanged_scores_the_same(kind, tmp_path):
    model = KINDS[kind]().fit(*teacher())
    policy = ensemble_from_sklearn(model)
    save_policy(policy, tmp_path / "p.skops")
    rows = np.random.default_rng(1).normal(3, 4, (2000, 2)).astype(np.float32)
    assert np.array_equal(load_policy(tmp_path / "p.skops").scores(rows), policy.scores(rows))
