"""Where the benchmarks stand, and a small model to start from."""

import copy
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[3] / "shared" / "benchmarks"

needs_benchmarks = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="the benchmarks are not here")

_DOCUMENT: dict[str, Any] = {
    "jani-version": 1,
    "name": "tiny",
    "type": "mdp",
    "metadata": {"author": "a test"},
    "features": ["arrays", "derived-operators", "functions"],
    "actions": [{"name": "go"}, {"name": "stay"}],
    "constants": [
        {"name": "N", "type": "int"},
        {"name": "M", "type": "int", "value": {"op": "+", "left": "N", "right": 1}},
    ],
    "variables": [
        {
            "name": "x",
            "type": {"kind": "bounded", "base": "int", "lower-bound": 0, "upper-bound": "M"},
            "initial-value": 0,
        },
        {"name": "b", "type": "bool", "initial-value": False},
        {"name": "r", "type": "real", "initial-value": 0, "transient": True},
        {
            "name": "a",
            "type": {"kind": "array", "base": "int"},
            "initial-value": {"op": "ac", "var": "i", "length": 3, "exp": "i"},
        },
    ],
    "functions": [
        {
            "name": "twice",
            "type": "int",
            "parameters": [{"name": "p", "type": "int"}],
            "body": {"op": "*", "left": 2, "right": "p"},
        }
    ],
    "restrict-initial": {"exp": True},
    "properties": [
        {
            "name": "reach",
            "comment": "whether it arrives",
            "expression": {
                "op": "filter",
                "fun": "max",
                "values": {
                    "op": "Pmax",
                    "exp": {"op": "U", "left": True, "right": {"op": "=", "left": "x", "right": "N"}},
                },
                "states": {"op": "initial"},
            },
        },
        {
            "name": "task",
            "expression": {
                "op": "PA",
                "start": {"op": "state-condition", "exp": {"op": "=", "left": "x", "right": 0}},
                "reach": {
                    "op": "state-condition",
                    "exp": "b",
                    "locations": [{"automaton": "A", "index": 0, "location": "l"}],
                },
                "objective": {
                    "op": "objective",
                    "goal": {"op": "state-condition", "exp": {"op": "≥", "left": "x", "right": "N"}},
                },
                "predicates": [{"op": "≤", "left": 1, "right": "x"}, "b"],
            },
        },
    ],
    "automata": [
        {
            "name": "A",
            "variables": [{"name": "y", "type": "int", "initial-value": 0}],
            "locations": [{"name": "l", "transient-values": [{"ref": "r", "value": 0.5}]}, {"name": "k"}],
            "initial-locations": ["l"],
            "edges": [
                {
                    "location": "l",
                    "action": "go",
                    "guard": {"exp": {"op": "<", "left": "x", "right": "N"}},
                    "destinations": [
                        {
                            "location": "k",
                            "probability": {"exp": 0.25},
                            "assignments": [
                                {"ref": "x", "value": {"op": "+", "left": "x", "right": 1}},
                                {"ref": {"op": "aa", "exp": "a", "index": 0}, "value": "x", "index": 1},
                            ],
                        },
                        {"location": "l", "probability": {"exp": {"op": "-", "left": 1, "right": 0.25}}},
                    ],
                },
                {
                    "location": "k",
                    "action": "stay",
                    "destinations": [
                        {
                            "location": "l",
                            "assignments": [
                                {"ref": "y", "value": {"op": "call", "function": "twice", "args": ["x"]}},
                                {"ref": "b", "value": {"op": "ite", "if": "b", "then": False, "else": True}},
                            ],
                        }
                    ],
                },
            ],
        },
        {"name": "B", "locations": [{"name": "o"}], "initial-locations": ["o"], "edges": []},
    ],
    "system": {
        "elements": [{"automaton": "A"}, {"automaton": "B", "input-enable": ["stay"]}],
        "syncs": [
            {"synchronise": ["go", None], "result": "go"},
            {"synchronise": ["stay", "stay"]},
        ],
    },
}  # fmt: skip


def tiny_document() -> dict[str, Any]:
    """Return a fresh JANI document that uses a little of everything; tests break it as they like."""
    return copy.deepcopy(_DOCUMENT)
