"""A fault told to a person: the state, the action taken and where it may lead, what would have been safe, and the scores.

Shown     every applicable action with its verdict, its score and its outcomes, each outcome with its own verdict; for tree
          ensembles the leaf each tree reaches with the values it adds for the taken action and the best safe one; for
          networks the margin between the two and how much of it rounding may eat
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polvet.files import Json
from polvet.model.network import Variable
from polvet.model.semantics import State, show_value
from polvet.model.task import Task
from polvet.policy.compiled import Bound
from polvet.policy.rounding import rounding_bounds
from polvet.policy.trees import VECTOR, TreeEnsemble
from polvet.policy.unit_graph import AnyNetwork
from polvet.records.fault_files import Fault
from polvet.records.state_files import StateFormat
from polvet.safety.decide import Decider
from polvet.verdict import Verdict

SHOWN_LEAVES = 8


@dataclass(frozen=True, slots=True)
class OutcomeReport:
    """A state an action may lead to: with what probability, whether it is safe, and what differs from before."""

    state: State
    probability: float
    verdict: Verdict
    silent: bool
    changes: Mapping[str, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ActionReport:
    """An applicable action: taken or not, safe or not, its score (None: the policy has no output for it), its outcomes."""

    label: str
    taken: bool
    safe: bool
    score: float | None
    outcomes: tuple[OutcomeReport, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """What one tree says: its number, the leaf's node, and the values added for the taken and for the safe action."""

    tree: int
    node: int
    taken: float
    safe: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that is known about one fault."""

    task: Task
    fault: Fault
    actions: tuple[ActionReport, ...]
    best_safe: str | None  # the safe action with the highest score
    margin: float | None  # how much more the taken action scores than that
    rounding: float | None  # networks: how much of the margin other evaluation orders may eat
    leaves: tuple[Leaf, ...]  # trees: those that speak for the taken action most, first

    def lines(self) -> list[str]:
        """Return the explanation as text."""
        variables = self.task.network.variables
        lines = ["  the state", *_table(variables, self.fault.state), "  the actions"]
        for action in self.actions:
            mark = "taken" if action.taken else ""
            score = "no score" if action.score is None else f"score {action.score:.6g}"
            lines.append(f"    {action.label:24} {'safe' if action.safe else 'UNSAFE':6} {score} {mark}".rstrip())
            if action.taken or not action.safe:
                lines += [f"      -> {_outcome_line(outcome)}" for outcome in action.outcomes]
        if self.margin is not None:
            lines.append(f"  the policy prefers {self.fault.action} to {self.best_safe} by {self.margin:.6g}")
        if self.rounding is not None:
            lines.append(f"  rounding may move that margin by at most {self.rounding:.3g}")
        for leaf in self.leaves[:SHOWN_LEAVES]:
            lines.append(f"    tree {leaf.tree:3}, leaf {leaf.node:4}: {leaf.taken:+.6g} taken, {leaf.safe:+.6g} safe")
        if len(self.leaves) > SHOWN_LEAVES:
            lines.append(f"    ... and {len(self.leaves) - SHOWN_LEAVES} more trees that matter less")
        return lines

    def to_json(self) -> Json:
        """Return the explanation as JSON data."""
        write = StateFormat(self.task).write
        return {
            "state": write(self.fault.state),
            "action": self.fault.action,
            "safe_actions": list(self.fault.safe_actions),
            "actions": [
                {
                    "action": action.label,
                    "taken": action.taken,
                    "safe": action.safe,
                    "score": action.score,
                    "outcomes": [
                        {
                            "state": write(outcome.state),
                            "probability": outcome.probability,
                            "verdict": outcome.verdict.value,
                            "silent": outcome.silent,
                            "changes": {name: list(pair) for name, pair in outcome.changes.items()},
                        }
                        for outcome in action.outcomes
                    ],
                }
                for action in self.actions
            ],
            "best_safe": self.best_safe,
            "margin": self.margin,
            "rounding": self.rounding,
            "leaves": [{"tree": x.tree, "leaf": x.node, "taken": x.taken, "safe": x.safe} for x in self.leaves],
        }


def explain_fault(bound: Bound, decider: Decider, fault: Fault) -> Explanation:
    """Return the explanation of a fault; the decider (of the same task) says which outcomes are safe."""
    fitted = bound.fitted
    actions = tuple(_tell(bound, decider, fault, label) for label in bound.compiled.semantics.applicable(fault.state))
    safe = [action for action in actions if action.safe and action.score is not None]
    best = max(safe, key=lambda action: action.score or 0.0, default=None)
    taken = next(action for action in actions if action.taken)
    margin = None if best is None or taken.score is None else taken.score - (best.score or 0.0)
    rounding: float | None = None
    leaves: tuple[Leaf, ...] = ()
    if best is not None:
        outputs = [fitted.policy.outputs.index(label) for label in (fault.action, best.label)]
        row = fitted.row(fault.state)
        if isinstance(fitted.policy, AnyNetwork):
            rounding = float(rounding_bounds(fitted.policy, row)[0, outputs].sum())
        if isinstance(fitted.policy, TreeEnsemble):
            leaves = _leaves(fitted.policy, fault.state, row, outputs)
    return Explanation(bound.task, fault, actions, None if best is None else best.label, margin, rounding, leaves)


def _tell(bound: Bound, decider: Decider, fault: Fault, label: str) -> ActionReport:
    fitted, variables = bound.fitted, bound.task.network.variables
    moves = [move for move in bound.compiled.semantics.moves(fault.state) if move.label in (label, None)]
    chances: dict[tuple[State, bool], float] = {}
    for move in moves:
        for outcome in move.outcomes:
            key = outcome.state, move.label is None
            chances[key] = chances.get(key, 0.0) + float(outcome.probability) / len(moves)
    verdicts = [decided.verdict for decided in decider.decide([state for state, _ in chances])]
    outcomes = tuple(
        OutcomeReport(state, probability, verdict, silent, _changes(variables, fault.state, state))
        for ((state, silent), probability), verdict in zip(chances.items(), verdicts, strict=True)
    )
    score = None
    if label in fitted.policy.outputs and hasattr(fitted.policy, "scores"):
        score = float(fitted.policy.scores(fitted.row(fault.state))[0, fitted.policy.outputs.index(label)])
    safe = all(verdict is Verdict.SAFE for verdict in verdicts)
    return ActionReport(label, label == fault.action, safe, score, outcomes)


def _leaves(policy: TreeEnsemble, state: State, row: Any, outputs: Sequence[int]) -> tuple[Leaf, ...]:
    nodes = policy.leaf_nodes(row)[0].tolist()
    leaves = []
    for number, (tree, node) in enumerate(zip(policy.trees, nodes, strict=True)):
        if tree.output == VECTOR:
            taken, safe = (float(tree.values[node, output]) for output in outputs)
        else:
            taken, safe = (float(tree.values[node, 0]) if tree.output == output else 0.0 for output in outputs)
        if taken or safe:
            leaves.append(Leaf(number, node, taken, safe))
    return tuple(sorted(leaves, key=lambda leaf: (leaf.safe - leaf.taken, leaf.tree)))


def _changes(variables: Sequence[Variable], before: State, after: State) -> dict[str, tuple[str, str]]:
    return {
        v.name: (show_value(v, old), show_value(v, new))
        for v, old, new in zip(variables, before, after, strict=True)
        if old != new
    }


def _outcome_line(outcome: OutcomeReport) -> str:
    changed = ", ".join(f"{name} {old} -> {new}" for name, (old, new) in outcome.changes.items()) or "no change"
    silent = " (the environment moves)" if outcome.silent else ""
    return f"{outcome.verdict.value:6} {100 * outcome.probability:5.1f}%  {changed}{silent}"


def _table(variables: Sequence[Variable], state: State) -> list[str]:
    width = max(len(variable.name) for variable in variables)
    return [f"    {v.name:{width}}  {show_value(v, value)}" for v, value in zip(variables, state, strict=True)]
