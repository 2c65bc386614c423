"""Finite-memory policies (generalized plans over counters): data, readers and writers; no termination test here."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polvet.policy.finite_memory.build import Builder, parse_guard
    from polvet.policy.finite_memory.draw import to_graphviz, to_mermaid
    from polvet.policy.finite_memory.edge_list import parse_edge_list
    from polvet.policy.finite_memory.fmp import (
        ALWAYS,
        NO_EFFECT,
        Atom,
        Choice,
        Conjunction,
        Edge,
        EdgeId,
        Effect,
        FiniteMemoryPolicy,
        Guard,
        Valuation,
        Variable,
        check_fmp,
    )
    from polvet.policy.finite_memory.fmp_json import dump_fmp, parse_fmp, portable
    from polvet.policy.finite_memory.load import load_fmp
    from polvet.policy.finite_memory.primitive import Multigraph, Node, Primitive, Unfolding, Window, normalise

_HOMES = {
    "ALWAYS": "fmp",
    "Atom": "fmp",
    "Builder": "build",
    "Choice": "fmp",
    "Conjunction": "fmp",
    "Edge": "fmp",
    "EdgeId": "fmp",
    "Effect": "fmp",
    "FiniteMemoryPolicy": "fmp",
    "Guard": "fmp",
    "Multigraph": "primitive",
    "NO_EFFECT": "fmp",
    "Node": "primitive",
    "Primitive": "primitive",
    "Unfolding": "primitive",
    "Valuation": "fmp",
    "Variable": "fmp",
    "Window": "primitive",
    "check_fmp": "fmp",
    "dump_fmp": "fmp_json",
    "load_fmp": "load",
    "normalise": "primitive",
    "parse_edge_list": "edge_list",
    "parse_fmp": "fmp_json",
    "parse_guard": "build",
    "portable": "fmp_json",
    "to_graphviz": "draw",
    "to_mermaid": "draw",
}

__all__ = [
    "ALWAYS",
    "NO_EFFECT",
    "Atom",
    "Builder",
    "Choice",
    "Conjunction",
    "Edge",
    "EdgeId",
    "Effect",
    "FiniteMemoryPolicy",
    "Guard",
    "Multigraph",
    "Node",
    "Primitive",
    "Unfolding",
    "Valuation",
    "Variable",
    "Window",
    "check_fmp",
    "dump_fmp",
    "load_fmp",
    "normalise",
    "parse_edge_list",
    "parse_fmp",
    "parse_guard",
    "portable",
    "to_graphviz",
    "to_mermaid",
]


def __getattr__(name: str) -> Any:
    """Return a public name from its module, at first use: who reads plans does not load what draws or builds them."""
    if name in _HOMES:
        return getattr(import_module(f"polvet.policy.finite_memory.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'polvet.policy.finite_memory' has no attribute '{name}'")
