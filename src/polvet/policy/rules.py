"""Rule lists (`rules/1`): the first rule whose condition holds names the label.

Conditions are written in the model room's infix language (`policy/conditions.py`).
The labels' order (for ties and masks) is the order of first mention. A state that no rule matches is an InputError.
Filtered choice where the matched label is not applicable: all others have score 0, so the lowest applicable one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polvet.errors import InputError, Where
from polvet.files import refuse_unknown_keys, write_whole
from polvet.policy.conditions import Condition, ConditionParser, model_condition
from polvet.policy.format import Content, Names, PolicyFormat
from polvet.policy.protocol import Choices, Mask, Policy, Rows, Scores, Value, best_indices, checked_names, checked_rows
from polvet.policy.signatures import SIGNATURES

KEYS = ("format", "comment", "rules")
RULE_KEYS = ("when", "action")


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """`action` where `when` holds; `condition` is `when`, parsed."""

    when: str
    action: str
    condition: Condition


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """A rule list as a policy; `booleans` are the inputs whose 0 and 1 are handed to conditions as false and true."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rules: tuple[Rule, ...]
    booleans: frozenset[str] = frozenset()

    def scores(self, rows: Rows) -> Scores:
        """Return 1 for the label of the first rule that matches and 0 for all others."""
        rows = checked_rows(self, rows)
        result = np.zeros((len(rows), len(self.outputs)), dtype=np.float32)
        for index, row in enumerate(rows.tolist()):
            state = {name: self._value(name, value) for name, value in zip(self.inputs, row, strict=True)}
            result[index, self.outputs.index(self.action(state))] = 1.0
        return result

    def choose(self, rows: Rows, applicable: Mask | None = None) -> Choices:
        """Return for each row the index of the best applicable output, or NOTHING_APPLICABLE."""
        rows = checked_rows(self, rows)
        return best_indices(self, self.scores(rows), rows, applicable)

    def action(self, state: Mapping[str, Value]) -> str:
        """Return the label of the first rule that matches, or raise an InputError that shows the state."""
        for rule in self.rules:
            if rule.condition(state):
                return rule.action
        shown = ", ".join(f"{name}={value}" for name, value in state.items())
        raise InputError(f"no rule matches {shown}.", hint='Add a last rule with "when": "true".')

    def _value(self, name: str, value: float) -> Value:
        if name in self.booleans:
            return bool(value)
        return int(value) if value.is_integer() else value


def rules_from_json(
    document: Any,
    where: Where,
    parse: ConditionParser = model_condition,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    booleans: Iterable[str] = (),
) -> Rules:
    """Return the rule list of a `rules/1` document, or raise an InputError with the JSON path."""
    refuse_unknown_keys(document, KEYS, where)
    entries = document.get("rules")
    if not isinstance(entries, list) or not entries:
        raise InputError(
            "'rules' must be a list with at least one rule.",
            where.at("rules"),
            'Write {"when": "x >= 3", "action": "a"} for each rule.',
        )
    rules: list[Rule] = []
    for index, entry in enumerate(entries):
        place = where.at("rules").at(index)
        if (
            not isinstance(entry, dict)
            or not isinstance(entry.get("when"), str)
            or not isinstance(entry.get("action"), str)
        ):
            raise InputError(
                "a rule is an object with the texts 'when' and 'action'.",
                place,
                'Write {"when": "x >= 3", "action": "a"} for each rule.',
            )
        refuse_unknown_keys(entry, RULE_KEYS, place)
        rules.append(Rule(entry["when"], entry["action"], parse(entry["when"], place.at("when"))))
    variables = tuple(dict.fromkeys(name for rule in rules for name in rule.condition.variables))
    actions = tuple(dict.fromkeys(rule.action for rule in rules))
    columns = variables if inputs is None else checked_names(inputs, len(inputs), "input", where)
    labels = actions if outputs is None else checked_names(outputs, len(outputs), "output", where)
    for name in variables:
        if name not in columns:
            raise InputError(
                f"the rules read '{name}', which is not among the inputs.", where.at("rules"), "Add it to 'inputs'."
            )
    for index, rule in enumerate(rules):
        if rule.action not in labels:
            raise InputError(
                f"'{rule.action}' is not among the outputs.",
                where.at("rules").at(index).at("action"),
                "Add it to 'outputs'.",
            )
    return Rules(columns, labels, tuple(rules), frozenset(booleans))


def save_rules(rules: Rules, path: str) -> None:
    """Write the rule list as `rules/1`."""
    entries = [{"when": rule.when, "action": rule.action} for rule in rules.rules]
    write_whole(path, json.dumps({"format": "rules/1", "rules": entries}, ensure_ascii=False, indent=1) + "\n")


def _read(content: Content, names: Names) -> Rules:
    source = content.document, content.where, names.parse_condition
    return rules_from_json(*source, inputs=names.inputs, outputs=names.outputs, booleans=names.booleans)


def _write(policy: Policy, path: str) -> None:
    assert isinstance(policy, Rules)
    save_rules(policy, path)


RULES = PolicyFormat(
    "rules",
    "rules/1",
    'JSON with `"format": "rules/1"`',
    "in the file",
    detects=SIGNATURES["rules"],
    read=_read,
    writes=lambda policy, path: isinstance(policy, Rules),
    write=_write,
    saved="yes",
)
