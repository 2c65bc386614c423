"""Policies back to files: each in the format it came from, or the one its kind has."""

from __future__ import annotations

from pathlib import Path

from polvet.errors import InputError
from polvet.policy.formats import FORMATS
from polvet.policy.protocol import Policy


def save_policy(policy: Policy, path: str | Path) -> None:
    """Write the policy to the file in the first format that says it writes such a policy under such a name.

    Networks become ONNX (by the ending `.nnet` or `.jani2nnet`, both of these; those read from a stable-baselines3 archive such an
    archive again, unless the ending is another), tree ensembles XGBoost JSON (UBJ by the
    ending `.ubj`) or, where they came from there, LightGBM text or a skops file; tables and rule lists keep their own formats (a table
    becomes an array by the ending `.npy` or `.npz`). A format that another package brings takes what came from it, or its own ending.
    """
    for one in (*FORMATS.brought().values(), *FORMATS.values()):
        if one.writes(policy, str(path)):
            one.write(policy, str(path))
            return
    raise InputError(f"a {type(policy).__name__} has no file format.", hint="Save the network or trees behind it.")
