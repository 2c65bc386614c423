"""Slicing: variables that influence neither the policy, nor guards, nor the ends of runs are left out, and runs are brought back.

Source   the cone of influence of Clarke, Grumberg and Peled, Model Checking, MIT Press 1999, chapter 13; the policy
         predicate abstraction paper removes the costs that a cost-ignoring policy does not see
Differs  a variable that shares a conjunct of the start condition with a kept one is kept, so that start states project exactly
Limits   with operators disabled out of bounds every variable counts, and nothing is left out
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polvet.errors import InputError
from polvet.kernel.starts import Starts
from polvet.model.arithmetic import Value
from polvet.model.expressions import Binary, Expression, Name, conjunction, conjuncts, literal, names
from polvet.model.restrict import reads, steering, targets
from polvet.model.semantics import Semantics, State
from polvet.model.tables import TableMoves
from polvet.model.task import Task
from polvet.policy.binding import Fitted
from polvet.policy.compiled import Bound, compile_policy
from polvet.policy.inputs import variables_read
from polvet.policy.restrict import restrict_fitted
from polvet.policy.runs import Run


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """A bound policy over the variables that matter, and the way back to all of them."""

    whole: Bound
    bound: Bound
    kept: tuple[str, ...] | None  # None: nothing is left out

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return the names of the variables that do not matter."""
        if self.kept is None:
            return ()
        return tuple(v.name for v in self.whole.task.network.variables if v.name not in self.kept)

    def lift(self, run: Run) -> Run:
        """Return a run over all variables whose kept part is the given one; errors in the left-out part are raised."""
        if self.kept is None:
            return run
        task = self.whole.task
        semantics = Semantics(task.network)
        kept = set(self.kept)
        places = [k for k, variable in enumerate(task.network.variables) if variable.name in kept]
        states = [_whole_start(task, places, run.states[0])]
        for action, following in zip(run.actions, run.states[1:], strict=True):
            outcomes = (
                outcome.state
                for move in semantics.moves(states[-1])
                if move.label == action
                for outcome in move.outcomes
            )
            states.append(next(state for state in outcomes if tuple(state[k] for k in places) == following))
        return Run(tuple(states), run.actions, run.end)


def sliced(bound: Bound) -> Slice:
    """Return the policy over the variables that matter."""
    if bound.task.network.disables_out_of_bounds:
        return Slice(bound, bound, None)
    keep = relevant_variables(bound.fitted)
    if all(variable.name in keep for variable in bound.task.network.variables):
        return Slice(bound, bound, None)
    fitted = restrict_fitted(bound.fitted, keep)
    kept = tuple(v.name for v in (*fitted.task.network.variables, *fitted.task.network.scratch))
    return Slice(bound, compile_policy(fitted), kept)


def relevant_variables(fitted: Fitted) -> set[str]:
    """Return the names of the variables (scratch ones too) on which runs of the policy depend."""
    task = fitted.task
    network = task.network
    own = {variable.name for variable in (*network.variables, *network.scratch)}
    relevant = variables_read(network, fitted.inputs)
    for expression in steering(task):
        relevant |= names(expression) & own
    links: list[tuple[set[str], set[str]]] = []  # if one of the first matters, all of the second do
    edges = (
        () if isinstance(network.edges, TableMoves) else network.edges
    )  # a table writes constants: they read nothing
    for edge in edges:
        for branch in edge.branches:
            for update in branch.updates:
                written = targets(update)
                links.append((written, written | (reads(update) & own)))
    condition = task.start if task.start is not None else network.initial_condition
    links += [(read, read) for part in conjuncts(condition) if (read := names(part) & own)]
    changed = True
    while changed:
        changed = False
        for causes, effects in links:
            if causes & relevant and not effects <= relevant:
                relevant |= effects
                changed = True
    return relevant


def _whole_start(task: Task, places: Sequence[int], part: State) -> State:
    """Return a start state of the task with these values at those places."""
    variables = task.network.variables
    fixed = [_equals(variables[place].name, value) for place, value in zip(places, part, strict=True)]
    if task.start is not None:
        starts = Starts(task.network, conjunction(task.start, *fixed))
    else:
        network = task.network
        starts = Starts(network, conjunction(network.initial_condition, *fixed), initial=True)
    if starts.count == 0:
        raise InputError("no state satisfies the start condition.", hint="Weaken it.")
    if starts.count is not None:
        return starts.state(0)
    import random

    return starts.sample(1, random.Random(0))[0]


def _equals(name: str, value: Value) -> Expression:
    return Binary("=", Name(name), literal(value))
