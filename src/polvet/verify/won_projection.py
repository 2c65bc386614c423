"""States that are safe because a game over a few variables is won, with evidence: a table that takes no exit, and an invariant.

The restricted game (safety/restrictions.py) says which combinations of the few variables that decide `fail` are won whatever the others
hold, and `safety/exits.py` which actions may lead out of these. The table prefers all other actions; what is not won is blocked.
The checker (check/won_projection.py) knows no game: it follows the table as it follows any policy.
Cost     one game and one split tree, however many states are asked about
Limits   those of exits: linear models, what is assigned to the few variables depends on them alone. Of states that are not won, and of
         unsafe ones, it says nothing
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polvet.budget import UNLIMITED, Budget
from polvet.check.arena import Arena
from polvet.check.invariant import check_steps
from polvet.check.invariant_claim import read_question
from polvet.check.invariant_errors import possible_errors
from polvet.check.invariant_tree import Follower, read_tree
from polvet.check.won_projection import fitted_table
from polvet.errors import InputError, LimitReached
from polvet.files import Json
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.records.certificate_files import Certificate, certificate_head, conditions_of
from polvet.records.state_json import Malformed, state_to_json
from polvet.safety import Decider, Verdict, prove
from polvet.safety.exits import Exits, boxes_around, find_exits, least_of
from polvet.symbolic.conserved import unchanging_sums
from polvet.symbolic.linear import NotLinear
from polvet.symbolic.operators import LinearTask, linear_task
from polvet.verify.linearized import stopped_after
from polvet.verify.split_tree import search_tree


@dataclass(frozen=True, slots=True, eq=False)
class WonProjection:
    """The won combinations of a few variables, and what may lead out of them."""

    task: Task
    linear: LinearTask
    exits: Exits

    def holds(self, state: State) -> bool:
        """Return whether the state is won."""
        variables = self.task.network.variables
        key = tuple(int(state[k]) - least_of(variables[k]) for k in self.exits.variables)
        return bool(self.exits.won[key])

    def prove(self, states: Sequence[State], *, budget: Budget = UNLIMITED) -> Certificate:
        """Return the certificate that the states, which are won, are safe: listed where rules are broken in others that are won."""
        task, distinct = self.task, list(dict.fromkeys(states))
        certificate = {
            **certificate_head("won-projection", task),
            **conditions_of(task),
            "start": list(range(len(distinct))),
            "states": [{"state": state_to_json(task, state)} for state in distinct],
            "policy": self.table(),
            "rows": self._rows(distinct),
            "blocked": self._blocked(),
        }
        arena = Arena.of(task, budget=budget)
        question = read_question(arena, fitted_table(arena, certificate["policy"]), certificate)
        with stopped_after(budget):
            certificate["tree"] = search_tree(question, starts=False)
            try:
                if possible_errors(question):  # in a state that no run need reach
                    check_steps(question, Follower(question, read_tree(certificate)))
            except (Malformed, InputError):
                return prove(Decider(task, algorithm="lazy", share=True), distinct, Verdict.SAFE, budget=budget)
        return certificate

    def table(self) -> Json:
        """Return the policy that takes no exit, as a document; where nothing is an exit, any action will do."""
        network = self.task.network
        names = [network.variables[k].name for k in self.exits.variables]
        labels = list(network.labels)
        some = self.exits.labels.any(axis=1)
        rows = [
            {"state": dict(zip(names, cell, strict=True)), "scores": [0 if out else 1 for out in exits]}
            for cell, exits in zip(self.exits.cells[some].tolist(), self.exits.labels[some].tolist(), strict=True)
        ]
        return {"format": "table/1", "inputs": names, "outputs": labels, "rows": rows, "default": labels[0]}

    def _blocked(self) -> list[dict[str, list[int]]]:
        variables = [self.task.network.variables[k] for k in self.exits.variables]
        return [
            {
                variable.name: [low + least_of(variable), high + least_of(variable)]
                for variable, low, high in zip(variables, lows, highs, strict=True)
            }
            for lows, highs in boxes_around(~self.exits.won)
        ]

    def _rows(self, states: Sequence[State]) -> list[Json]:
        """Return the sums that no operator changes, between the least and the greatest value in these states."""
        variables = self.task.network.variables
        points = [tuple(int(value) for value in state) for state in states]
        rows = []
        for row in unchanging_sums(self.linear):
            values = [row.value(point) for point in points]
            rows.append(
                {
                    "terms": {variables[place].name: factor for place, factor in row.terms},
                    "marks": [[variables[place].name, value, factor] for place, value, factor in row.marks],
                    "lower": min(values),
                    "upper": max(values),
                }
            )
        return rows


def find_won(task: Task, *, budget: Budget = UNLIMITED) -> WonProjection | str:
    """Return what is won whatever most of the variables hold, or why nothing is known to be."""
    if task.avoid.deadlock or not task.network.labels:
        return "smaller games know no other failure than fail" if task.avoid.deadlock else "the model has no labels"
    try:
        with stopped_after(budget):
            linear = linear_task(task)
            return WonProjection(task, linear, find_exits(task, linear=linear, budget=budget))
    except NotLinear as refusal:
        return refusal.why
    except LimitReached as limit:
        return str(limit)
