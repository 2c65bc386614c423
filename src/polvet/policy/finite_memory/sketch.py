"""Policy sketches: rules C -> E over boolean and numeric features, and the finite-memory policies that they make.

Source   Bonet & Geffner, "General policies, representations, and planning width", AAAI 2021; Drexler, Seipp, Geffner,
         "Learning sketches for decomposing planning problems into subproblems of bounded width", ICAPS 2022; memory
         states, registers and calls: Bonet, Drexler, Geffner, "On policy reuse", ICAPS 2024
`sketch_lines` and `sketch_brackets` read the two spellings. A sketch terminates if no execution of its rules, from any
valuation, goes on for ever: every pattern of the features is initial, with the first memory state where it has memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, Where
from polvet.policy.finite_memory.features import (
    Features,
    Rule,
    build_from_rules,
    contradictions,
    parse_condition,
    pattern_of,
    zeros_of,
)
from polvet.policy.finite_memory.fmp import FiniteMemoryPolicy
from polvet.policy.finite_memory.sketch_brackets import is_bracketed, read_bracketed
from polvet.policy.finite_memory.sketch_lines import read_lines

MAX_FEATURES = 14
"""Of a sketch that is expanded: `projection` needs no such limit."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """The rules of a sketch over its features; every rule that is open may be followed."""

    name: str
    features: Features
    rules: tuple[Rule, ...]
    memory: tuple[str, ...]  # the memory states, the initial one first; one without a name where there is no memory
    where: Where


def is_sketch(text: str) -> bool:
    """Return whether the text is a sketch, in lines or in brackets."""
    return is_bracketed(text) or any("->" in line for line in text.splitlines())


def read_sketch(text: str, where: Where) -> Sketch:
    """Return the sketch that the text is, in either spelling, or raise an InputError with the line."""
    name = Path(where.file).name
    if is_bracketed(text):
        features, rules, memory = read_bracketed(text, where)
        return Sketch(name, features, rules, memory, where)
    features, rules = read_lines(text, where)
    return Sketch(name, features, rules, ("",), where)


def parse_sketch(text: str, where: Where, budget: Budget = UNLIMITED) -> FiniteMemoryPolicy:
    """Return the policy of the sketch that the text is."""
    return expand(read_sketch(text, where), budget)


def expand(sketch: Sketch, budget: Budget = UNLIMITED) -> FiniteMemoryPolicy:
    """Return the policy of a sketch: one control state per memory state, boolean valuation and zero pattern."""
    names = sketch.features.names
    if len(names) > MAX_FEATURES:
        raise InputError(
            f"{len(names)} features make too many control states; at most {MAX_FEATURES} for this question.",
            sketch.where,
            "Ask for termination alone (--method auto, without --goal, --export), or use fewer features.",
        )
    starts = [(sketch.memory[0], pattern) for pattern in product([False, True], repeat=len(names))]
    return build_from_rules(
        sketch.features,
        sketch.rules,
        starts,
        [],
        first_match=False,
        name=sketch.name,
        where=sketch.where,
        budget=budget,
    )


def region_of(sketch: Sketch, condition: str, states: Iterable[str]) -> str:
    """Return a condition over features (`n = 0, !H`) as a region of these control states, each with its zero pattern.

    A text that names control states itself is left as it is.
    """
    if "state" in condition.split():
        return condition
    conjunctions = parse_condition(condition, sketch.features, sketch.where)
    patterns = {state: pattern_of(sketch.features, state) for state in states}
    cases = [
        " && ".join([f"state == {state}", *(str(atom) for atom in zeros_of(sketch.features, pattern))])
        for state, pattern in patterns.items()
        if any(all(pattern[i] == value for i, value in one.items()) for one in conjunctions)
    ]
    if not cases:
        raise InputError(f"'{condition}' holds nowhere.", sketch.where, "Change the condition.")
    return " || ".join(cases)


def goal_of(sketch: Sketch, condition: str, states: Sequence[str]) -> str:
    """Return the goal as a region of the expanded policy, which also stops in a contradiction."""
    beside = (f"state == {state} && {atom}" for state, atom in contradictions(sketch.features, states))
    return " || ".join([region_of(sketch, condition, states), *beside])
