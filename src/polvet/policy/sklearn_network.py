"""scikit-learn's MLPClassifier as a network, and back: `predict` takes the best probability of its softmax.

Arithmetic  float64 weights are read as float32 ones, with the rounding of each in the bounds (`policy/unit_graph.py`)
Binary      one score against 0; the network has two outputs, the first with the constant score 0
Saved       with another last layer, as skops; every other number stays as it is
Refused     several labels at once
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from polvet.errors import InputError, Where
from polvet.policy.networks import Archive
from polvet.policy.protocol import names_or_positions
from polvet.policy.sklearn_trees import class_names
from polvet.policy.tape import Tape
from polvet.policy.unit_graph import AnyNetwork, Columns, dense_layers

UNITS = {"logistic": "sigmoid", "tanh": "tanh"}


def network_from_perceptron(
    estimator: Any, where: Where, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
) -> AnyNetwork:
    """Return the network of a fitted MLPClassifier."""
    if not hasattr(estimator, "coefs_"):
        raise InputError("MLPClassifier is not fitted.", where, "Call fit before saving.")
    if estimator.out_activation_ not in ("softmax", "logistic") or len(estimator.classes_) != max(
        2, estimator.n_outputs_
    ):
        raise InputError("a classifier of several labels at once is not supported.", where, "Train one label.")
    tape = Tape(int(estimator.n_features_in_), where)
    columns: Columns = np.arange(tape.inputs, dtype=np.int32)
    last = len(estimator.coefs_) - 1
    binary = estimator.n_outputs_ == 1
    for index, (matrix, bias) in enumerate(zip(estimator.coefs_, estimator.intercepts_, strict=True)):
        if index == last and binary:
            matrix, bias = np.hstack([np.zeros_like(matrix), matrix]), np.append(np.zeros_like(bias), bias)
        columns = tape.affine(columns, matrix.T, bias)
        if index == last:
            break
        if estimator.activation == "relu":
            columns = tape.relu(columns)
        elif estimator.activation != "identity":
            columns = tape.unit(UNITS[estimator.activation], columns)
    own_inputs = getattr(estimator, "feature_names_in_", None)
    policy = tape.policy(
        columns,
        names_or_positions(inputs, None if own_inputs is None else list(own_inputs), tape.inputs, "input", where),
        names_or_positions(outputs, class_names(estimator, len(columns)), len(columns), "output", where),
        softmax=True,
    )
    return replace(policy, archive=Archive("scikit-learn", estimator, f"coefs_[{last}]", binary))


def perceptron_of(network: AnyNetwork) -> Any:
    """Return a copy of the MLPClassifier that the network was read from, with the network's last layer."""
    archive = network.archive
    if archive is None or archive.kind != "scikit-learn":
        raise InputError("this network does not come from scikit-learn.", hint="Save it as .onnx.")
    estimator = copy.deepcopy(archive.document)
    weights, bias = dense_layers(network)[-1]
    if archive.against_zero:
        if weights[0].any() or bias[0]:
            raise InputError("the first of two scores is not 0 everywhere.", hint="Save it as .onnx.")
        weights, bias = weights[1:], bias[1:]
    old = estimator.coefs_[-1]
    if weights.T.shape != old.shape:
        raise InputError("the repaired network has another shape than the estimator.", hint="Save it as .onnx.")
    if not np.array_equal(old.astype(np.float32), weights.T) or not np.array_equal(
        estimator.intercepts_[-1].astype(np.float32), bias
    ):  # an unchanged layer keeps its float64 digits
        estimator.coefs_[-1] = weights.T.astype(old.dtype)
        estimator.intercepts_[-1] = bias.astype(old.dtype)
    return estimator
