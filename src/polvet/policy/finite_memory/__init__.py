"""Finite-memory policies (generalized plans over counters): data, readers and writers; no termination test here."""

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
