"""Policies: named inputs to one score per label, loaded from what people train with; knows no model and no run."""

from polvet.policy.callables import CallablePolicy
from polvet.policy.laws import BrokenLaw, check_policy
from polvet.policy.load import load_policy
from polvet.policy.networks import Layer, Network
from polvet.policy.protocol import Policy, choose_label, has_positional_names, positional_names, renamed
from polvet.policy.rounding import near_ties, rounding_bounds
from polvet.policy.rules import Rules
from polvet.policy.save import save_policy
from polvet.policy.tables import Table
from polvet.policy.trees import Tree, TreeEnsemble

__all__ = [
    "BrokenLaw",
    "CallablePolicy",
    "Layer",
    "Network",
    "Policy",
    "Rules",
    "Table",
    "Tree",
    "TreeEnsemble",
    "check_policy",
    "choose_label",
    "has_positional_names",
    "load_policy",
    "near_ties",
    "positional_names",
    "renamed",
    "rounding_bounds",
    "save_policy",
]
