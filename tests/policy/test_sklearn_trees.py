"""scikit-learn's tree models: scores and choices against the library, in memory and through skops."""

import numpy as np
import pytest

from polvet.errors import InputError
from polvet.policy import load_policy
from polvet.policy.sklearn_trees import ensemble_from_sklearn
from polvet.policy.trees import reference_scores

ensemble = pytest.importorskip("sklearn.ensemble")
tree = pytest.importorskip("sklearn.tree")

threadpoolctl = pytest.importorskip("threadpoolctl")

RNG = np.random.default_rng(8)
TRAIN = RNG.normal(size=(300, 5)).astype(np.float32)
CLASSES = np.abs(TRAIN[:, 0] * 2 + TRAIN[:, 1]).round().astype(int) % 3
TARGETS = RNG.normal(size=(300, 4))
MISSING = TRAIN.copy()
MISSING[RNG.random(TRAIN.shape) < 0.1] = np.nan

CLASSIFIERS = {
    "tree": (tree.DecisionTreeClassifier(max_depth=6, random_state=0), TRAIN),
    "deep tree": (tree.DecisionTreeClassifier(random_state=0), TRAIN),
    "tree with missing": (tree.DecisionTreeClassifier(max_depth=6, random_state=0), MISSING),
    "extra tree": (tree.ExtraTreeClassifier(max_depth=6, random_state=0), TRAIN),
    "forest": (ensemble.RandomForestClassifier(25, max_depth=6, random_state=0), MISSING),
    "extra trees": (ensemble.ExtraTreesClassifier(25, max_depth=6, random_state=0), TRAIN),
    "boosting": (ensemble.GradientBoostingClassifier(n_estimators=20, random_state=0), TRAIN),
    "boosting from zero": (ensemble.GradientBoostingClassifier(n_estimators=9, init="zero", random_state=0), TRAIN),
    "histogram": (ensemble.HistGradientBoostingClassifier(max_iter=20, random_state=0), MISSING),
}
REGRESSORS = {
    "tree": tree.DecisionTreeRegressor(max_depth=5, random_state=0),
    "forest": ensemble.RandomForestRegressor(10, max_depth=5, random_state=0),
}


@pytest.fixture(autouse=True)
def one_thread():
    with threadpoolctl.threadpool_limits(1):
        yield


def rows_like(data, count=20_000):
    rows = RNG.normal(scale=1.5, size=(count, 5)).astype(np.float32)
    seen = RNG.random(rows.shape) < 0.3
    rows[seen] = TRAIN[RNG.integers(0, 300, seen.sum()), RNG.integers(0, 5, seen.sum())]
    if np.isnan(data).any():
        rows[RNG.random(rows.shape) < 0.1] = np.nan
    return rows


def library_scores(model, rows):
    if hasattr(model, "decision_function"):
        return model.decision_function(rows).reshape(len(rows), -1)
    return model.predict_proba(rows)


@pytest.mark.parametrize("labels", [CLASSES, CLASSES > 1], ids=["three classes", "binary"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_scores_and_choices_of_classifiers_equal_the_library(name, labels):
    model, data = CLASSIFIERS[name]
    model.fit(data, labels)
    policy = ensemble_from_sklearn(model)
    rows = rows_like(data)
    expected = library_scores(model, rows)
    scores = policy.scores(rows)
    assert np.array_equal(scores[:, -expected.shape[1] :], expected)
    assert np.array_equal(model.classes_[policy.choose(rows)], model.predict(rows))
    assert np.array_equal(reference_scores(policy, rows[:100]), scores[:100])


@pytest.mark.parametrize("name", REGRESSORS)
def test_scores_of_regressors_equal_the_library(name):
    model = REGRESSORS[name].fit(TRAIN, TARGETS)
    policy = ensemble_from_sklearn(model, outputs=["n", "e", "s", "w"])
    rows = rows_like(TRAIN)
    assert np.array_equal(policy.scores(rows), model.predict(rows))
    assert np.array_equal(policy.choose(rows), model.predict(rows).argmax(axis=1))


def test_boosting_regression_gives_one_score():
    model = ensemble.GradientBoostingRegressor(n_estimators=9, random_state=0).fit(TRAIN, TARGETS[:, 0])
    rows = rows_like(TRAIN, 500)
    assert np.array_equal(ensemble_from_sklearn(model).scores(rows)[:, 0], model.predict(rows))
    model = ensemble.HistGradientBoostingRegressor(max_iter=9, random_state=0).fit(TRAIN, TARGETS[:, 0])
    assert np.array_equal(ensemble_from_sklearn(model).scores(rows)[:, 0], model.predict(rows))


def test_class_names_are_the_labels():
    names = np.array(["left", "stay", "right"])[CLASSES]
    model = tree.DecisionTreeClassifier(max_depth=3, random_state=0).fit(TRAIN, names)
    policy = ensemble_from_sklearn(model, inputs=list("abcde"))
    assert policy.outputs == ("left", "right", "stay")
    assert [policy.outputs[i] for i in policy.choose(TRAIN)] == model.predict(TRAIN).tolist()


def test_binary_boosting_takes_the_librarys_side_at_zero():
    model = ensemble.GradientBoostingClassifier(n_estimators=1, init="zero", learning_rate=0.0, random_state=0)
    model.fit(TRAIN, CLASSES > 1)
    assert (library_scores(model, TRAIN) == 0).all()
    assert model.predict(TRAIN).all()
    assert (ensemble_from_sklearn(model).choose(TRAIN) == 1).all()


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_skops_file_gives_the_same_policy(name, tmp_path):
    skops = pytest.importorskip("skops.io")
    model, data = CLASSIFIERS[name]
    model.fit(data, CLASSES)
    skops.dump(model, tmp_path / "m.skops")
    rows = rows_like(data, 2000)
    assert np.array_equal(load_policy(tmp_path / "m.skops").scores(rows), ensemble_from_sklearn(model).scores(rows))


def test_other_estimators_and_strange_types_are_refused_by_name(tmp_path):
    skops = pytest.importorskip("skops.io")
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import FunctionTransformer

    with pytest.raises(InputError, match="LogisticRegression is not supported"):
        ensemble_from_sklearn(LogisticRegression().fit(TRAIN, CLASSES))
    with pytest.raises(InputError, match="not a fitted"):
        ensemble_from_sklearn(tree.DecisionTreeClassifier())
    skops.dump(FunctionTransformer(func=rows_like), tmp_path / "m.skops")
    with pytest.raises(InputError, match="rows_like"):
        load_policy(tmp_path / "m.skops")
    start = tree.DecisionTreeClassifier(max_depth=1)
    model = ensemble.GradientBoostingClassifier(n_estimators=2, init=start).fit(TRAIN, CLASSES)
    with pytest.raises(InputError, match="not constant"):
        ensemble_from_sklearn(model)


def test_a_truncated_skops_file_is_an_input_error(tmp_path):
    skops = pytest.importorskip("skops.io")
    data = skops.dumps(tree.DecisionTreeClassifier(max_depth=3).fit(TRAIN, CLASSES))
    for cut in (10, len(data) // 2, len(data) - 5):
        (tmp_path / "m.skops").write_bytes(data[:cut])
        with pytest.raises(InputError):
            load_policy(tmp_path / "m.skops")
