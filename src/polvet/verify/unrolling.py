"""Bounded model checking as the paper does it: Z3 unrolls the model with one copy of the policy per step.

Source   section 8.2 of policy predicate abstraction (after Akintunde and others 2018, 2019)
Differs  simulation comes first: the shortest unsafe run it meets bounds the lengths that Z3 still has to refute. Z3 works in a
         process that is killed at the limit. What Z3 finds is executed; only an executed run is a verdict.
Cost     one copy of the policy per step
Limits   linear models over bounded integers; never proves more than "not within L steps"
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from polvet.files import Figures
from polvet.model.semantics import Semantics, State
from polvet.policy.compiled import Bound
from polvet.policy.runs import End, Run
from polvet.solvers.smtlib import affine_term, cell_formula, declare, disjunction, region_formula
from polvet.solvers.worker import SolverDied, SolverTimeout, Worker
from polvet.symbolic.linear import NotLinear
from polvet.symbolic.operators import SILENT, LinearTask, Transition, state_of
from polvet.verify.bmc import MOST_STEPS
from polvet.verify.fuzzing import find_unsafe_run
from polvet.verify.linearized import linearized
from polvet.verify.method import ONLY_FAIL, PLAIN_INPUTS, STRICT_BOUNDS, Method, Request
from polvet.verify.policy_smt import NotEncodable, chooses, encode_policy
from polvet.verify.verdicts import SafetyResult, Unknown, Unsafe

METHOD = "unrolling"


def unrolled(most_steps: int = MOST_STEPS) -> Method:
    """Return the method that finds a shortest unsafe run of at most so many steps, or says which length it refuted."""
    words = "the paper's `bmc`: Z3 unrolls the model, one copy of the policy per step; for comparison"
    return Method(METHOD, words, partial(_verify, most_steps=most_steps), (ONLY_FAIL,))


def _verify(bound: Bound, request: Request, *, most_steps: int) -> SafetyResult:
    budget = request.budget
    known = find_unsafe_run(bound, seed=request.seed, threads=request.parallelism.threads, budget=budget)
    longest = most_steps if known is None else min(most_steps, len(known.actions) - 1)
    figures: Figures = {"refuted_steps": -1, "simulated_run": None if known is None else len(known.actions)}
    reason = f"no unsafe run of up to {most_steps} steps; longer ones were not looked for"
    try:
        for need in (STRICT_BOUNDS, PLAIN_INPUTS):  # asked here: simulation comes first
            if (refusal := need.refusal(bound)) is not None:
                raise NotLinear(refusal)
        task = linearized(bound, budget)
        if isinstance(task, str):
            raise NotLinear(task)
        unrolled = Unrolling(bound, task)
        with Worker("polvet.solvers.z3_worker", megabytes=budget.megabytes) as z3:
            for steps in range(longest + 1):
                answer = z3.ask(
                    {"query": unrolled.query(steps), "values": unrolled.names(steps)}, budget.left_or_none()
                )
                if answer["answer"] == "sat":
                    run = unrolled.executed(answer["values"], steps)
                    if run is not None:
                        return Unsafe(run, METHOD, figures)
                    reason = f"an unsafe run of {steps} steps exists only within rounding of the scores (near-tie)"
                    break
                if answer["answer"] != "unsat":
                    reason = f"Z3 gave up at {steps} steps"
                    break
                figures["refuted_steps"] = steps
    except SolverTimeout:
        reason = f"{budget.reached('time')} after refuting {figures['refuted_steps']} steps"
    except (NotLinear, NotEncodable, SolverDied) as error:
        reason = f"unrolling does not apply: {error}"
    if known is not None:
        return Unsafe(known, METHOD, figures)
    return Unknown(reason, METHOD, figures)


class Unrolling:
    """Runs of a fixed number of steps as one formula; pieces are kept from length to length."""

    def __init__(self, bound: Bound, task: LinearTask) -> None:
        self.bound, self.task = bound, task
        self._steps: list[str] = []

    def names(self, steps: int) -> list[str]:
        """Return the names of all state variables of all steps."""
        return [name for step in range(steps + 1) for name in self._state(step)]

    def query(self, steps: int) -> str:
        """Return that a run of exactly so many steps leads from a start state to `fail`, ended nowhere before."""
        while len(self._steps) < steps:
            self._steps.append(self._step(len(self._steps)))
        first, last = self._state(0), self._state(steps)
        return "".join(
            [
                declare(self.names(steps)),
                f"(assert {region_formula(self.task.start, first)})\n",
                *self._steps[:steps],
                f"(assert {region_formula(self.task.fail, last)})\n",
            ]
        )

    def _state(self, step: int) -> list[str]:
        return [f"x{step}_{place}" for place in range(len(self.task.system.bounds.lower))]

    def _step(self, step: int) -> str:
        here, system = self._state(step), self.task.system
        policy = encode_policy(self.bound.fitted, system.bounds, here, f"p{step}")
        labelled = disjunction(region_formula(region, here) for region in system.applicable if region)
        chosen = {
            label: chooses(self.bound.fitted, system, policy, here, label) for label in range(len(system.applicable))
        }
        sure = disjunction(
            f"(and {region_formula(region, here)} {chosen[label]})" for label, region in enumerate(system.applicable)
        )
        moves = []
        for transition in system.transitions:
            # Silent operators move where the policy is not stuck, or where nothing else is enabled.
            may = f"(or (not {labelled}) {sure})" if transition.label == SILENT else chosen[transition.label]
            moves.append(f"(and {may} {self._moved(transition, step)})")
        going = f"(not {region_formula((*self.task.fail, *self.task.goal), here)})"
        return f"{policy.text}(assert {going})\n(assert {disjunction(moves)})\n"

    def _moved(self, transition: Transition, step: int) -> str:
        here, there = self._state(step), self._state(step + 1)
        updates = dict(transition.updates)
        parts = [cell_formula(transition.cell, here)]
        for place, name in enumerate(there):
            if place not in updates:
                parts.append(f"(= {name} {here[place]})")
                continue
            parts.append(f"(= {name} {affine_term(updates[place], here)})")
        return f"(and {' '.join(parts)})"

    def executed(self, values: dict[str, str], steps: int) -> Run | None:
        """Return the run if interpreter and policy make it, in the reference order of evaluation."""
        states = [
            state_of(self.bound.task.network, [int(values[name]) for name in self._state(step)])
            for step in range(steps + 1)
        ]
        return _run_through(self.bound, states)


def _run_through(bound: Bound, states: list[State]) -> Run | None:
    semantics = Semantics(bound.task.network)
    if not semantics.compile(bound.task.fail)(states[-1]):
        return None
    actions: list[str | None] = []
    for state, following in pairwise(states):
        step = next(_labels_to(bound, semantics, state, following), False)
        if step is False:
            return None
        actions.append(step if isinstance(step, str) else None)
    return Run(tuple(states), tuple(actions), End.FAIL)


def _labels_to(bound: Bound, semantics: Semantics, state: State, following: State) -> Iterator[str | None]:
    for move in bound.fitted.followed(state, semantics.moves(state)):
        if any(outcome.state == following for outcome in move.outcomes):
            yield move.label


UNROLLING = unrolled()
