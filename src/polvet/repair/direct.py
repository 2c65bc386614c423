"""Repair of tables and rule lists: the row or rule of the fault is written down.

Tables   the fault's row keeps its scores, but its best target is raised above its rivals
Rules    a rule for the fault's state alone is put first. The order of labels is the order of first mention, which decides ties:
         rules that never match, one per label, keep it. A label that no rule named before is taken only where none else would do:
         naming it also makes it the choice in states where it alone is applicable and the list was stuck before
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile

import numpy as np

from polvet.errors import Where
from polvet.files import Json
from polvet.model.arithmetic import Value
from polvet.model.expressions import Binary, Name, conjunction, literal
from polvet.model.infix import dump_expression
from polvet.model.semantics import State
from polvet.policy.binding import Fitted
from polvet.policy.conditions import model_condition
from polvet.policy.inputs import truth_values
from polvet.policy.rules import Rules, rules_from_json
from polvet.policy.tables import Table
from polvet.records.fault_files import Fault
from polvet.repair.demands import Applicability, Demands, Mode
from polvet.repair.method import Change, Method, Request

NEVER = "false"


def repair_table(table: Table, demands: Demands) -> tuple[Table, float]:
    """Return the table with the demands' rows changed, and the L1 change of its scores."""
    rows = dict(table.rows)
    old = table.scores(demands.rows)
    change = 0.0
    for _ in range(len(table.outputs) + 1):  # equal rows with several demands may need several turns
        wrong = np.flatnonzero(~demands.met_by(Table(table.inputs, table.outputs, rows, table.default)))
        for k in wrong.tolist():
            if not demands.targets[k].any():
                continue
            key = tuple(demands.rows[k].tolist())
            scores = list(rows.get(key, old[k].tolist()))
            target = int(np.where(demands.targets[k], scores, -np.inf).argmax())
            raised = max(scores[c] for c in np.flatnonzero(demands.rivals[k])) + 1.0
            scores[target], change = raised, change + raised - scores[target]
            rows[key] = tuple(scores)
    return Table(table.inputs, table.outputs, rows, table.default), change


def repair_rules(fitted: Fitted, rules: Rules, faults: Sequence[Fault], mode: Mode, known: Applicability) -> Rules:
    """Return the rule list with a rule for every fault that it does not yet avoid."""
    reading = fitted.task.reading
    new = []
    for fault, labels in zip(faults, _applicable(known, [fault.state for fault in faults]), strict=True):
        chosen = fitted.choose(fault.state, labels)
        served = [label for label in fault.safe_actions if label in labels]
        if mode == "avoid":
            served += [label for label in labels if label not in (fault.action, *served)]
            if chosen != fault.action and chosen is not None:
                continue
        if reading.outputs is not None:
            served = [label for label in served if label in reading.outputs]
        served.sort(key=lambda label: label not in rules.outputs)
        if served and chosen not in served:
            new.append({"when": _only(fitted, fault.state), "action": served[0]})
    if not new:
        return rules
    old: list[dict[str, str]] = [{"when": rule.when, "action": rule.action} for rule in rules.rules]
    order = [{"when": NEVER, "action": label} for label in rules.outputs]
    if reading.outputs is not None:
        order = []
    else:
        old = list(dropwhile(lambda rule: rule["when"] == NEVER, old))  # of an earlier repair
    booleans = truth_values(fitted.task.network, reading.expressions)
    document: Json = {"format": "rules/1", "rules": [*order, *new, *old]}
    where = Where("repaired rules")
    return rules_from_json(
        document, where, model_condition, inputs=reading.inputs, outputs=reading.outputs, booleans=booleans
    )


def _applicable(known: Applicability, states: Sequence[State]) -> list[list[str]]:
    """Return the applicable labels of each state, also those that the policy has no output for."""
    labels = known.fitted.task.network.labels
    applicable = []
    for words in known.compiled.pack(states):
        moves = known.compiled.machine.moves(words) or []
        applicable.append([labels[k] for k in sorted({move[0] for move in moves if move[0] >= 0})])
    return applicable


def _only(fitted: Fitted, state: State) -> str:
    """Return a condition that holds in this state alone, as far as the policy may read it."""
    readable = fitted.task.reading.inputs
    tests = [
        Binary("=", Name(variable.name), literal(_as_read(value)))
        for variable, value in zip(fitted.task.network.variables, state, strict=True)
        if readable is None or variable.name in readable
    ]
    row = fitted.row(state)[0]
    truths = set(truth_values(fitted.task.network, fitted.task.reading.expressions))
    for name, one, value in zip(fitted.policy.inputs, fitted.inputs, row.tolist(), strict=True):
        if not isinstance(one, int):
            tests.append(Binary("=", Name(name), literal(bool(value) if name in truths else value)))
    return dump_expression(conjunction(*tests))


def _as_read(value: Value) -> bool | int | float:
    """Return the value as a row holds it: reals are rounded to float32."""
    return value if isinstance(value, int) else float(np.float32(float(value)))


def _direct(request: Request) -> Change:
    if isinstance(request.policy, Rules):
        rules = repair_rules(request.fitted, request.policy, request.faults, request.mode, request.known)
        return Change(rules, 0.0)
    return Change(*repair_table(request.policy, request.demands))


DIRECT = Method("direct", "the row, or a rule put first (`repair/direct.py`)", (Table, Rules), _direct)
