"""The library a policy came from agrees: XGBoost, LightGBM and onnxruntime see every fault fixed."""

from __future__ import annotations

import numpy as np
import pytest

from polvet.policy.binding import fit, load_fitted
from polvet.policy.networks import network_of
from polvet.policy.save import save_policy
from polvet.records.fault_files import Fault
from polvet.repair.library import library_scores, repair_checked
from polvet.repair.repair import Options
from tests.repair.ensembles import LABELS, SIZE, applicable, grid_task, random_faults

TASK = grid_task()
ROWS = np.array([(x, y) for x in range(SIZE) for y in range(SIZE)], dtype=np.float32)


def trained(kind, tmp_path, seed=0):
    """A small model of the library, as it saves it."""
    rng = np.random.default_rng(seed)
    wanted = rng.integers(0, 2 if "binary" in kind else 3, len(ROWS))
    if kind.startswith("lightgbm"):
        lightgbm = pytest.importorskip("lightgbm")
        options = {"num_leaves": 4, "min_data_in_leaf": 1, "min_data_in_bin": 1, "verbose": -1, "num_threads": 1}
        options |= {"objective": "binary"} if "binary" in kind else {"objective": "multiclass", "num_class": 3}
        booster = lightgbm.train(options, lightgbm.Dataset(ROWS, wanted), 5)
        booster.save_model(str(tmp_path / "p.txt"))
        return tmp_path / "p.txt"
    xgboost = pytest.importorskip("xgboost")
    options = {"max_depth": 2, "nthread": 1}
    options |= {"objective": "binary:logistic"} if "binary" in kind else {"objective": "multi:softprob", "num_class": 3}
    if "vector" in kind:
        options |= {"multi_strategy": "multi_output_tree", "tree_method": "hist"}
    file = tmp_path / ("p.ubj" if "ubj" in kind else "p.json")
    xgboost.train(options, xgboost.DMatrix(ROWS, wanted), 5).save_model(str(file))
    return file


KINDS = ["xgboost", "xgboost-ubj", "xgboost-binary", "xgboost-vector", "lightgbm", "lightgbm-binary"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["leaves", "penalty"])
@pytest.mark.parametrize("mode", ["safe", "avoid"])
def test_the_library_confirms_every_fixed_fault(kind, method, mode, tmp_path):
    from dataclasses import replace

    from polvet.model.task import PolicyReading

    labels = LABELS[:2] if "binary" in kind else LABELS
    task = replace(TASK, reading=PolicyReading("filtered", ("x", "y"), labels))
    fitted = load_fitted(task, trained(kind, tmp_path))
    faults = random_faults(np.random.default_rng(1), fitted, 9)
    made, agreement = repair_checked(
        fitted, faults, Options(method=method, mode=mode, keep=[(0, 0), (1, 1)], max_goal_loss=0.0)
    )
    assert not made.left
    assert agreement.library == kind.split("-")[0]
    assert agreement.confirmed == len(faults)
    out = tmp_path / ("repaired" + (".ubj" if "ubj" in kind else ".json"))
    save_policy(made.policy, out)
    again = load_fitted(task, out)
    assert np.array_equal(again.policy.scores(ROWS), made.policy.scores(ROWS))
    theirs = library_scores(made.policy, ROWS)
    assert np.array_equal(theirs.argmax(axis=1), made.policy.scores(ROWS).argmax(axis=1))
    for fault in faults:
        label = again.choose(fault.state, applicable(fault.state))
        assert label in fault.safe_actions if mode == "safe" else label != fault.action


def test_conflicts_are_separated_in_a_lightgbm_model_by_whole_rounds(tmp_path):
    from dataclasses import replace

    from polvet.model.task import PolicyReading

    task = replace(TASK, reading=PolicyReading("filtered", ("x", "y"), LABELS))
    fitted = load_fitted(task, trained("lightgbm", tmp_path))
    faults = []
    for state in [(x, y) for x in range(SIZE - 1) for y in range(SIZE - 1)]:
        chosen = fitted.choose(state, list(LABELS))
        others = [label for label in LABELS if label != chosen]
        faults.append(Fault(state, chosen, (others[sum(state) % 2],), ()))
    made, agreement = repair_checked(fitted, faults)
    assert not made.left
    assert made.trees_added > 0
    assert agreement.confirmed == len(faults)


@pytest.mark.parametrize("method", ["last-layer", "units"])
def test_onnxruntime_confirms_every_fixed_fault(method):
    pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(2)
    layers = [(rng.normal(size=(16, 2)), rng.normal(size=16)), (rng.normal(size=(16, 16)), rng.normal(size=16))]
    network = network_of([*layers, (rng.normal(size=(3, 16)), rng.normal(size=3))], ("x", "y"), LABELS)
    fitted = fit(TASK, network)
    faults = random_faults(rng, fitted, 12)
    made, agreement = repair_checked(fitted, faults, Options(method=method))
    assert not made.left
    assert (agreement.library, agreement.confirmed) == ("onnxruntime", len(faults))


def test_a_penalty_is_added_only_where_the_fault_remains(tmp_path):
    fitted = load_fitted(TASK, trained("xgboost", tmp_path))
    faults = random_faults(np.random.default_rng(1), fitted, 9)
    made, _ = repair_checked(fitted, faults, Options(method="penalty"))
    assert made.trees_added > 0
    again, _ = repair_checked(fit(fitted.task, made.policy), faults, Options(method="penalty"))
    assert again.trees_added == 0
    assert len(again.fixed) == len(faults)
