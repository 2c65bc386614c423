"""Tree ensembles grown by XGBoost (extra `trees`): one thread and a seed, so that equal lessons give equal ensembles."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from polvet.budget import UNLIMITED, Budget
from polvet.errors import MissingExtra, Where
from polvet.files import parse_json
from polvet.policy.decimals import nearest_float32
from polvet.policy.protocol import Rows
from polvet.policy.trees import TreeEnsemble
from polvet.policy.xgboost_file import ensemble_from_xgboost


@dataclass(frozen=True, slots=True)
class Growth:
    """How an ensemble is grown."""

    depth: int = 8
    rounds: int = 40
    learning_rate: float = 0.4
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """The ensemble, and its loss after each round."""

    policy: TreeEnsemble
    losses: tuple[float, ...]


def grow(
    rows: Rows,
    right: ArrayLike,
    names: tuple[tuple[str, ...], tuple[str, ...]],
    growth: Growth,
    *,
    objective: Any = None,
    budget: Budget = UNLIMITED,
) -> Grown:
    """Return an ensemble that learnt the right output of each row; `names` of its inputs and outputs, `objective` as XGBoost takes it."""
    try:
        import xgboost
    except ImportError:
        raise MissingExtra("xgboost", "trees") from None

    class Watch(xgboost.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            budget.check()
            return False

    inputs, outputs = names
    data = xgboost.DMatrix(rows, label=right, nthread=1)
    losses: dict[str, Any] = {}
    booster = xgboost.train(
        {
            "objective": "multi:softprob",  # the kind of model that is saved, whatever it is trained by
            "num_class": max(2, len(outputs)),
            "max_depth": growth.depth,
            "learning_rate": growth.learning_rate,
            "seed": growth.seed,
            "nthread": 1,
            "tree_method": "hist",
            "verbosity": 0,
        },
        data,
        num_boost_round=growth.rounds,
        obj=objective,
        evals=[(data, "lessons")] if objective is None else None,
        evals_result=losses,
        verbose_eval=False,
        callbacks=[Watch()],
    )
    booster.set_attr(**{"polvet.inputs": json.dumps(list(inputs)), "polvet.outputs": json.dumps(list(outputs))})
    where = Where("the trained ensemble")
    text = bytes(booster.save_raw("json")).decode()
    document = parse_json(text, where, parse_constant=float, parse_float=nearest_float32)
    course = losses["lessons"]["mlogloss"] if objective is None else []
    return Grown(ensemble_from_xgboost(document, where, inputs, outputs), tuple(course))
