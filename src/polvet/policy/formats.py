"""The formats of policies' files by name, in the order in which people are told of them: each ends the file it names.

A package brings one of its own by an entry point of the group `polvet.policy_formats`: `name = "module:VALUE"`. It is asked about files
that no format of polvet knows, and may write only what it says it writes; `check_policy_format` states the laws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polvet.choices import Registry, listed

if TYPE_CHECKING:
    from polvet.policy.format import PolicyFormat

FORMATS: Registry[PolicyFormat] = Registry(
    "policy",
    {
        "onnx": "polvet.policy.onnx_file:ONNX",
        "xgboost": "polvet.policy.xgboost_file:XGBOOST",
        "lightgbm": "polvet.policy.lightgbm_file:LIGHTGBM",
        "skops": "polvet.policy.skops_file:SKOPS",
        "stable-baselines3": "polvet.policy.stable_baselines:STABLE_BASELINES",
        "nnet": "polvet.policy.nnet:NNET",
        "jani2nnet": "polvet.policy.nnet:JANI2NNET",
        "mogym": "polvet.policy.mogym:MOGYM",
        "table": "polvet.policy.tables:TABLE",
        "rules": "polvet.policy.rules:RULES",
        "numpy": "polvet.policy.arrays:NUMPY",
    },
    kind="polvet.policy.format:PolicyFormat",
    group="polvet.policy_formats",
)


def readable() -> str:
    """Return what is read, as errors say it."""
    own = [FORMATS[name].help for name in FORMATS]
    brought = [one.help for one in FORMATS.brought().values()]
    return f"It reads {listed([*own, *brought, 'file.py:function'])}."
