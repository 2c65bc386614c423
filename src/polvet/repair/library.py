"""The repaired policy asked by the library it came from: XGBoost, LightGBM, scikit-learn or onnxruntime, where installed.

`repair_checked` repairs until the library agrees that every fault is fixed: the margin is raised and the repair made again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.files import Figures
from polvet.kernel.compiled import Compiled
from polvet.policy.binding import Fitted
from polvet.policy.protocol import Policy, Rows, Scores, best_indices
from polvet.policy.save import save_policy
from polvet.policy.sklearn_network import perceptron_of
from polvet.policy.sklearn_save import estimator_of
from polvet.policy.trees import TreeEnsemble
from polvet.policy.unit_graph import AnyNetwork
from polvet.records.fault_files import Fault
from polvet.repair.demands import Applicability, fault_demands
from polvet.repair.repair import Left, Options, Repaired, repair

RAISES = 8
SLACK = 32.0  # roundings that a lead must outlast


@dataclass(frozen=True, slots=True)
class Agreement:
    """Whether the library confirms the repair; `library` is None where none is installed or the policy has none."""

    library: str | None
    confirmed: int
    raises: int


def library_of(policy: Policy) -> str | None:
    """Return the library that executes such a policy, if it is installed and the policy can be saved for it."""
    name: str | None = None
    if isinstance(policy, TreeEnsemble):
        if policy.origin is not None and policy.origin.kind != "xgboost":
            name = policy.origin.kind
        elif policy.arithmetic == "float32" and policy.comparison == "<" and not policy.divisor:
            name = "xgboost"
    elif isinstance(policy, AnyNetwork) and policy.archive is not None and policy.archive.kind == "scikit-learn":
        name = "sklearn"
    elif isinstance(policy, AnyNetwork) and find_spec("onnx") is not None:
        name = "onnxruntime"
    return name if name in _SCORERS and find_spec(name) is not None else None


def library_scores(policy: Policy, rows: Rows) -> Scores | None:
    """Return the scores as the library computes them from the saved policy; None where there is no library."""
    name = library_of(policy)
    if name is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / {"xgboost": "policy.json", "lightgbm": "policy.txt"}.get(name, "policy.onnx"))
        if name != "sklearn":
            save_policy(policy, file)
        return _SCORERS[name](policy, file, rows)


def _xgboost_scores(policy: Any, file: str, rows: Rows) -> Scores:
    import xgboost

    library: Any = xgboost
    booster = library.Booster()
    booster.load_model(file)
    booster.set_param({"nthread": 1})
    names = booster.feature_names
    margins = np.asarray(booster.predict(library.DMatrix(rows, feature_names=names), output_margin=True))
    return _with_first_output(margins, policy)


def _lightgbm_scores(policy: Any, file: str, rows: Rows) -> Scores:
    import lightgbm

    library: Any = lightgbm
    return _with_first_output(np.asarray(library.Booster(model_file=file).predict(rows, raw_score=True)), policy)


def _onnx_scores(policy: Any, file: str, rows: Rows) -> Scores:
    import onnxruntime

    library: Any = onnxruntime
    options = library.SessionOptions()
    options.intra_op_num_threads = 1
    session = library.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {session.get_inputs()[0].name: rows})[0]).reshape(
        len(rows), len(policy.outputs)
    )


def _sklearn_scores(policy: Any, file: str, rows: Rows) -> Scores:
    estimator = estimator_of(policy) if isinstance(policy, TreeEnsemble) else perceptron_of(policy)
    vars(estimator).pop("feature_names_in_", None)  # rows are arrays
    ask = next(name for name in ("decision_function", "predict_proba", "predict") if hasattr(estimator, name))
    return _with_first_output(np.asarray(getattr(estimator, ask)(rows)), policy)


def _with_first_output(margins: Scores, policy: Any) -> Scores:
    """Return [n, outputs]; a binary model has one margin, that of the second output against the first one's constant."""
    table = margins.reshape(len(margins), -1)
    if table.shape[1] == 1 and len(policy.outputs) == 2:
        table = np.concatenate([np.full_like(table, policy.base[0]), table], axis=1)
    return table


def _rounding(fitted: Fitted, faults: Sequence[Fault], program: Compiled) -> float:
    """Return a lead that rounding hardly ever eats up: libraries add single-precision numbers in orders of their own."""
    policy = fitted.policy
    if not faults or library_of(policy) is None:
        return 0.0
    scores = policy.scores(Applicability(fitted, program).rows([fault.state for fault in faults]))
    return float(SLACK * np.finfo(np.float32).eps * np.abs(scores).max(initial=0.0))


_SCORERS = {
    "xgboost": _xgboost_scores,
    "lightgbm": _lightgbm_scores,
    "sklearn": _sklearn_scores,
    "onnxruntime": _onnx_scores,
}


def repair_checked(
    fitted: Fitted,
    faults: Sequence[Fault],
    options: Options | None = None,
    *,
    budget: Budget = UNLIMITED,
    compiled: Compiled | None = None,
) -> tuple[Repaired, Agreement]:
    """Return a repair whose fixed faults the policy's library confirms; what it does not confirm is left."""
    program = compiled or Compiled(fitted.task.network)
    options = options or Options()
    margin = max(options.margin, _rounding(fitted, faults, program))
    for raises in range(RAISES):
        repaired = repair(fitted, faults, replace(options, margin=margin), budget=budget, compiled=program)
        name = library_of(repaired.policy)
        if name is None or not repaired.fixed:
            return repaired, Agreement(name, 0, raises)
        demands = fault_demands(Applicability(fitted, program), repaired.fixed, repaired.mode, margin)
        scores = library_scores(repaired.policy, demands.rows)
        if scores is None:
            raise AssertionError("the library was there a moment ago")
        choices = best_indices(repaired.policy, scores, demands.rows, demands.allowed)
        good = ~demands.rivals[np.arange(len(demands)), choices]
        if good.all():
            return repaired, Agreement(name, len(demands), raises)
        margin *= 4
    refuted = {fault for fault, agreed in zip(repaired.fixed, good.tolist(), strict=True) if not agreed}
    left = (
        *repaired.left,
        *(Left(fault, f"{name} still takes the old action") for fault in repaired.fixed if fault in refuted),
    )
    kept = tuple(fault for fault in repaired.fixed if fault not in refuted)
    return replace(repaired, fixed=kept, left=left), Agreement(name, len(kept), RAISES)


def repair_figures(repaired: Repaired, agreement: Agreement) -> Figures:
    """Return what a repair did as figures for people and files."""
    return {
        "faults_fixed": len(repaired.fixed),
        "faults_left": len(repaired.left),
        "objective": repaired.objective,
        "bound": repaired.bound,
        "gap": repaired.gap,
        "trees_added": repaired.trees_added,
        "units_added": repaired.units_added,
        "kept_states": repaired.retention.states,
        "kept_changed": repaired.retention.changed,
        "kept_changed_percent": 100 * repaired.retention.loss,
        "method": repaired.method,
        "mode": repaired.mode,
        "repair_seconds": repaired.seconds,
        "library": agreement.library,
        "library_confirmed": agreement.confirmed,
        "margin_raises": agreement.raises,
        "reasons": sorted({left.reason for left in repaired.left}),
    }
