"""Policies back to files: each in the format it came from, or the one its kind has."""

from __future__ import annotations

from pathlib import Path

from polvet.errors import InputError
from polvet.policy.arrays import save_array
from polvet.policy.lightgbm_file import save_lightgbm
from polvet.policy.networks import Network
from polvet.policy.nnet import save_nnet
from polvet.policy.onnx_file import save_onnx
from polvet.policy.protocol import Policy
from polvet.policy.rules import Rules, save_rules
from polvet.policy.sklearn_network import save_perceptron
from polvet.policy.sklearn_save import save_sklearn
from polvet.policy.stable_baselines import save_stable_baselines
from polvet.policy.tables import Table, save_table
from polvet.policy.trees import TreeEnsemble
from polvet.policy.unit_graph import UnitGraph
from polvet.policy.xgboost_file import save_xgboost


def save_policy(policy: Policy, path: str | Path) -> None:
    """Write the policy to the file in a format that fits its kind.

    Networks become ONNX (by the ending `.nnet` or `.jani2nnet`, both of these; those read from a stable-baselines3 archive such an
    archive again, unless the ending is another), tree ensembles XGBoost JSON (UBJ by the
    ending `.ubj`) or, where they came from there, LightGBM text or a skops file; tables and rule lists keep their own formats (a table
    becomes an array by the ending `.npy` or `.npz`).
    """
    file = str(path)
    match policy:
        case Network() | UnitGraph() if file.endswith(".zip"):
            save_stable_baselines(policy, file)
        case Network() | UnitGraph() if file.endswith(".skops"):
            save_perceptron(policy, file)
        case UnitGraph():
            if file.endswith(".nnet"):
                raise InputError("a .nnet file holds ReLU networks only.", hint="Save the policy as .onnx.")
            save_onnx(policy, file)
        case Network():
            if file.endswith((".nnet", ".jani2nnet")):
                save_nnet(policy, file)
            else:
                save_onnx(policy, file)
        case TreeEnsemble():
            if policy.origin is not None and policy.origin.kind == "lightgbm":
                save_lightgbm(policy, file)
            elif policy.origin is not None and policy.origin.kind == "sklearn":
                save_sklearn(policy, file)
            else:
                save_xgboost(policy, file)
        case Table() if file.endswith((".npy", ".npz")):
            save_array(policy, file)
        case Table():
            save_table(policy, file)
        case Rules():
            save_rules(policy, file)
        case _:
            raise InputError(
                f"a {type(policy).__name__} has no file format.", hint="Save the network or trees behind it."
            )
