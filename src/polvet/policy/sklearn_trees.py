"""scikit-learn's trees, forests and gradient boosting as tree ensembles.

Arithmetic, equal to scikit-learn's bit for bit: rows are float32, thresholds float64, `x <= threshold` goes left, sums are
float64 in the order of the estimators.
Scores   trees: the leaf's class fractions (or regression values); forests: their sum divided by the number of trees;
         gradient boosting: the raw score, from the constant initial prediction, leaf values times the learning rate.
         Binary gradient boosting has two outputs: class 0 has a constant score, so that `>= 0` (GradientBoosting) or
         `> 0` (HistGradientBoosting) chooses class 1 as the library does.
Outputs  classes that are texts are labels, whole numbers are the labels' numbers
Refused  several outputs of a classifier, categorical splits, an initial estimator that is not constant, forests with several jobs
         (they add in changing order); pickle
Files    `skops_file.py` reads and writes them; repaired ones stay in their class (`sklearn_save.py`)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polvet.errors import InputError, Where
from polvet.policy.protocol import names_or_positions
from polvet.policy.trees import MISSING_NAN, VECTOR, Origin, Tree, TreeEnsemble, make_tree

JUST_BELOW_ZERO = -5e-324
SINGLE = ("DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier", "ExtraTreeRegressor")
FORESTS = ("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor")
BOOSTED = ("GradientBoostingClassifier", "GradientBoostingRegressor")
HISTOGRAM = ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor")


def ensemble_from_sklearn(
    estimator: Any,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    where: Where | None = None,
) -> TreeEnsemble:
    """Return the ensemble of a fitted estimator, or raise an InputError that names its class."""
    kind = type(estimator).__name__
    place = where or Where(kind)
    if not hasattr(estimator, "n_features_in_"):
        raise InputError(f"{kind} is not a fitted scikit-learn estimator.", place, "Call fit before saving.")
    divisor = 0.0
    if kind in SINGLE:
        trees, base = [_tree(estimator, VECTOR, 1.0, place)], [0.0] * _width(estimator, place)
    elif kind in FORESTS:
        if estimator.n_jobs not in (None, 1):
            raise InputError(
                f"the forest adds its trees in {estimator.n_jobs} jobs, in changing order: near ties fall either way.",
                place,
                "Save it after model.set_params(n_jobs=1).",
            )
        trees = [_tree(part, VECTOR, 1.0, place) for part in estimator.estimators_]
        base = [0.0] * _width(estimator, place)
        divisor = float(len(trees))
    elif kind in BOOSTED:
        trees, base = _boosted(estimator, place)
    elif kind in HISTOGRAM:
        trees, base = _histogram(estimator, place)
    else:
        supported = ", ".join((*SINGLE, *FORESTS, *BOOSTED, *HISTOGRAM, "MLPClassifier"))
        raise InputError(f"{kind} is not supported.", place, f"Supported are {supported}.")
    own_inputs = getattr(estimator, "feature_names_in_", None)
    return TreeEnsemble(
        names_or_positions(
            inputs,
            None if own_inputs is None else [str(n) for n in own_inputs],
            int(estimator.n_features_in_),
            "input",
            place,
        ),
        names_or_positions(outputs, class_names(estimator, len(base)), len(base), "output", place),
        tuple(trees),
        tuple(base),
        comparison="<=",
        arithmetic="float64",
        divisor=divisor,
        origin=Origin("sklearn", estimator, rounds=kind in BOOSTED + HISTOGRAM),
    )


def class_names(estimator: Any, count: int) -> list[str] | None:
    """Return the classes as labels: texts as they are, a whole number n as `#n`, the label with that number; else None."""
    classes = getattr(estimator, "classes_", None)
    listed = [] if classes is None else classes.tolist()
    if len(listed) != count or not listed:
        return None
    if all(isinstance(one, str) for one in listed):
        return list(listed)
    numbers = [int(one) for one in listed if isinstance(one, int | float) and one == int(one) >= 0]
    return [f"#{number}" for number in numbers] if len(numbers) == count else None


def _width(estimator: Any, where: Where) -> int:
    """Return the number of scores of a tree or forest."""
    if hasattr(estimator, "classes_"):
        if int(estimator.n_outputs_) != 1:
            raise InputError(
                f"a classifier of {estimator.n_outputs_} outputs is not supported.",
                where,
                "Train one output per classifier.",
            )
        return int(estimator.n_classes_)
    return int(estimator.n_outputs_)


def _tree(estimator: Any, output: int, scale: float, where: Where) -> Tree:
    inner = estimator.tree_
    count = int(inner.node_count)
    left = np.asarray(inner.children_left)
    leaf = left == -1
    nodes = inner.__getstate__()["nodes"]
    missing_left = nodes["missing_go_to_left"] if "missing_go_to_left" in nodes.dtype.names else np.zeros(count)
    values = np.asarray(inner.value, dtype=np.float64)
    return make_tree(
        output,
        np.where(leaf, -1, inner.feature),
        np.where(leaf, 0.0, inner.threshold),
        left,
        inner.children_right,
        values.reshape(count, -1) * scale if scale != 1.0 else values.reshape(count, -1),
        np.asarray(missing_left) != 0,
        MISSING_NAN,
    )


def _boosted(estimator: Any, where: Where) -> tuple[list[Tree], list[float]]:
    start = estimator.init_
    if not (isinstance(start, str) and start == "zero") and type(start).__name__ not in (
        "DummyClassifier",
        "DummyRegressor",
    ):
        raise InputError(
            f"the initial estimator {type(start).__name__} is not constant.", where, "Train with init=None or 'zero'."
        )
    zeros = np.zeros((1, int(estimator.n_features_in_)), dtype=np.float32)
    base = [float(value) for value in np.asarray(estimator._raw_predict_init(zeros), dtype=np.float64).reshape(-1)]
    binary = hasattr(estimator, "classes_") and len(base) == 1
    trees = [
        _tree(part, 1 if binary else k, float(estimator.learning_rate), where)
        for stage in estimator.estimators_
        for k, part in enumerate(stage)
    ]
    return trees, [JUST_BELOW_ZERO, *base] if binary else base


def _histogram(estimator: Any, where: Where) -> tuple[list[Tree], list[float]]:
    base = [float(value) for value in np.asarray(estimator._baseline_prediction, dtype=np.float64).reshape(-1)]
    binary = hasattr(estimator, "classes_") and len(base) == 1
    if getattr(estimator, "_preprocessor", None) is not None:
        raise InputError("the estimator encodes categories first.", where, "Encode the categories as numbers.")
    trees = []
    for stage in estimator._predictors:
        for k, predictor in enumerate(stage):
            nodes = predictor.nodes
            leaf = nodes["is_leaf"] != 0
            if (nodes["is_categorical"] != 0).any():
                raise InputError(
                    "a tree has categorical splits, which are not supported.",
                    where,
                    "Train with numeric features only.",
                )
            trees.append(
                make_tree(
                    1 if binary else k,
                    np.where(leaf, -1, nodes["feature_idx"]),
                    np.where(leaf, 0.0, nodes["num_threshold"]),
                    np.where(leaf, -1, nodes["left"].astype(np.int64)),
                    np.where(leaf, -1, nodes["right"].astype(np.int64)),
                    np.where(leaf, nodes["value"], 0.0),
                    nodes["missing_go_to_left"] != 0,
                    MISSING_NAN,
                )
            )
    return trees, [0.0, *base] if binary else base
