"""Qualitative numeric problems as FOND problems in PDDL: strong-cyclic policies of these are policies that surely end in the goal.

Source   Bonet & Geffner, "Qualitative numeric planning: reductions and complexity", JAIR 2020: a stack of numbers that are being
         lowered. A number in the stack is not raised; what lowers numbers lowers one of the stack and resets the counters from its
         depth on; each push counts at the depth where it is made. So among fair runs of a strong-cyclic policy none goes on for ever
Differs  written from the paper; `bits` of the counters are a parameter: few may miss a solution, never invent one
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from polvet.policy.finite_memory.features import DOWN, FALSE, TRUE, UP, Pattern
from polvet.policy.finite_memory.qnp import Problem


def fond_domain(problem: Problem, bits: int) -> str:
    """Return the domain: the problem's actions, pushes and pops; as deep as there are numbers."""
    names, numeric = problem.features.names, problem.features.numeric
    numbers = [k for k, name in enumerate(names) if name in numeric]
    depths = range(1, len(numbers) + 1)
    actions: list[str] = []

    def action(name: str, needs: list[str], does: list[str]) -> None:
        actions.append(
            f" (:action {name} :parameters () :precondition (and {' '.join(needs)}) :effect (and {' '.join(does)}))"
        )

    for depth, k in product(range(len(numbers)), numbers):
        for bit in range(bits):
            ones = [f"(counter-{depth}-{b})" for b in range(bit)]
            needs = [f"(depth-{depth})", f"(not (in-{k}))", *ones, f"(not (counter-{depth}-{bit}))"]
            does = [f"(not (depth-{depth}))", f"(depth-{depth + 1})", f"(in-{k})", f"(at-{k}-{depth + 1})"]
            counted = [*(f"(not {one})" for one in ones), f"(counter-{depth}-{bit})"]
            action(f"push-{k}-{depth}-{bit}", needs, [*does, *counted])
        place = [f"(depth-{depth + 1})", f"(at-{k}-{depth + 1})", f"(in-{k})"]
        action(f"pop-{k}-{depth + 1}", place, [*(f"(not {one})" for one in place), f"(depth-{depth})"])
    for number, one in enumerate(problem.actions):
        needs = [_literal(k, value) for k, value in one.precondition.items()]
        needs += [f"(not (in-{k}))" for k, change in one.changes.items() if change == UP]
        lowered = [k for k, change in one.changes.items() if change == DOWN]
        needs += [f"(f{k})" for k in lowered if k not in one.precondition]
        does = [_literal(k, change in (UP, TRUE)) for k, change in one.changes.items() if change in (UP, TRUE, FALSE)]
        does += [f"(oneof (f{k}) (not (f{k})))" for k in lowered]
        for k, depth in product(lowered, depths):
            reset = [f"(not (counter-{d}-{b}))" for d in range(depth, len(numbers) + 1) for b in range(bits)]
            action(f"act-{number}-{k}-{depth}", [*needs, f"(at-{k}-{depth})"], [*does, *reset])
        if not lowered:
            action(f"act-{number}", needs, does)
    atoms = [f"f{k}" for k in range(len(names))] + [f"in-{k}" for k in numbers] + [f"depth-{d}" for d in (0, *depths)]
    atoms += [f"at-{k}-{d}" for k in numbers for d in depths]
    atoms += [f"counter-{d}-{b}" for d in (0, *depths) for b in range(bits)]
    listed = " ".join(f"({atom})" for atom in atoms)
    head = "(define (domain fond) (:requirements :non-deterministic :negative-preconditions)"
    return "\n".join([head, f" (:predicates {listed})", *actions, ")\n"])


def fond_problem(problem: Problem, start: Pattern) -> str:
    """Return the problem with this pattern of the features at the start."""
    true = " ".join(f"(f{k})" for k, value in enumerate(start) if value)
    goal: Mapping[int, bool] = problem.goal
    wanted = " ".join(_literal(k, value) for k, value in goal.items())
    return f"(define (problem p) (:domain fond) (:init (depth-0) {true}) (:goal (and {wanted})))\n"


def _literal(feature: int, value: bool) -> str:
    return f"(f{feature})" if value else f"(not (f{feature}))"
