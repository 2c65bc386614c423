"""Policies: named inputs to one score per label, loaded from what people train with; knows no model and no run."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polvet.policy.callables import CallablePolicy
    from polvet.policy.format import Content, Names, PolicyFormat
    from polvet.policy.format_laws import check_policy_format
    from polvet.policy.laws import check_policy
    from polvet.policy.load import load_policy
    from polvet.policy.networks import Layer, Network
    from polvet.policy.protocol import Policy, choose_label, has_positional_names, renamed
    from polvet.policy.rounding import near_ties, possible_choices, rounding_bounds
    from polvet.policy.rules import Rules
    from polvet.policy.save import save_policy
    from polvet.policy.tables import Table
    from polvet.policy.trees import Tree, TreeEnsemble

_HOMES = {
    "CallablePolicy": "callables",
    "Content": "format",
    "Layer": "networks",
    "Names": "format",
    "Network": "networks",
    "Policy": "protocol",
    "PolicyFormat": "format",
    "Rules": "rules",
    "Table": "tables",
    "Tree": "trees",
    "TreeEnsemble": "trees",
    "check_policy": "laws",
    "check_policy_format": "format_laws",
    "choose_label": "protocol",
    "has_positional_names": "protocol",
    "load_policy": "load",
    "near_ties": "rounding",
    "possible_choices": "rounding",
    "renamed": "protocol",
    "rounding_bounds": "rounding",
    "save_policy": "save",
}

__all__ = [
    "CallablePolicy",
    "Content",
    "Layer",
    "Names",
    "Network",
    "Policy",
    "PolicyFormat",
    "Rules",
    "Table",
    "Tree",
    "TreeEnsemble",
    "check_policy",
    "check_policy_format",
    "choose_label",
    "has_positional_names",
    "load_policy",
    "near_ties",
    "possible_choices",
    "renamed",
    "rounding_bounds",
    "save_policy",
]


def __getattr__(name: str) -> Any:
    """Return a public name from its module, at first use: finite-memory policies live here, too, and need none of them."""
    if name in _HOMES:
        return getattr(import_module(f"polvet.policy.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'polvet.policy' has no attribute '{name}'")
