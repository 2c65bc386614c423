"""Tree ensembles by imitation: XGBoost learns which label the teacher takes, from the states of the teacher's runs.

Source   the paper on safety debugging trains its ensembles so: 1,000 teacher runs from random starts, depth 5, 20 rounds,
         learning rate 0.4
Differs  the teacher is a scheduler by value iteration where the state space is small, else any policy or random choice
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, MissingExtra, Where
from polvet.files import parse_json
from polvet.policy.decimals import nearest_float32
from polvet.policy.trees import TreeEnsemble
from polvet.policy.xgboost_file import ensemble_from_xgboost


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """How the ensemble is grown; the defaults are the paper's."""

    depth: int = 5
    rounds: int = 20
    learning_rate: float = 0.4
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Imitated:
    """The ensemble, how often it agrees with its lessons, and the loss after each round."""

    policy: TreeEnsemble
    accuracy: float
    curve: tuple[float, ...]


def imitate(
    rows: NDArray[np.float32],
    taught: NDArray[np.int64],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    options: TreeOptions | None = None,
    budget: Budget = UNLIMITED,
) -> Imitated:
    """Return an ensemble that learnt from rows to take the taught outputs."""
    chosen = options or TreeOptions()
    if not len(rows):
        raise InputError(
            "there is nothing to learn from: no run of the teacher makes a decision.",
            hint="Give more --runs, or another --teacher.",
        )
    xgboost = _xgboost()

    class Watch(xgboost.callback.TrainingCallback):  # type: ignore[name-defined, misc]
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            budget.check()
            return False

    data = xgboost.DMatrix(rows, label=taught, nthread=1)
    losses: dict[str, Any] = {}
    booster = xgboost.train(
        {
            "objective": "multi:softprob",
            "num_class": max(2, len(outputs)),
            "max_depth": chosen.depth,
            "learning_rate": chosen.learning_rate,
            "seed": chosen.seed,
            "nthread": 1,
            "tree_method": "hist",
            "verbosity": 0,
        },
        data,
        num_boost_round=chosen.rounds,
        evals=[(data, "lessons")],
        evals_result=losses,
        verbose_eval=False,
        callbacks=[Watch()],
    )
    booster.set_attr(**{"polvet.inputs": json.dumps(list(inputs)), "polvet.outputs": json.dumps(list(outputs))})
    where = Where("the trained ensemble")
    text = bytes(booster.save_raw("json")).decode()
    document = parse_json(text, where, parse_constant=float, parse_float=nearest_float32)
    policy = ensemble_from_xgboost(document, where, inputs, outputs)
    accuracy = float((policy.choose(rows) == taught).mean())
    return Imitated(policy, accuracy, tuple(round(loss, 6) for loss in losses["lessons"]["mlogloss"]))


def _xgboost() -> Any:
    try:
        import xgboost
    except ImportError:
        raise MissingExtra("xgboost", "trees") from None
    return xgboost
