"""A shield as people use it: which actions are allowed in a state, and one portable JSON file (`shield/1`).

Reading and asking need no solver; the model file is needed to check a shield, not to use it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polvet.errors import InputError, Where
from polvet.files import Json, read_json, write_whole
from polvet.numbers import LONG_DIGITS, exact
from polvet.worlds.observed import MADE_WITH

AGAIN = "Write the shield with polvet permit -o."

if TYPE_CHECKING:
    from polvet.mdp.sparse import Mask
    from polvet.model.task import Task
    from polvet.shield.per_action import Ruled
    from polvet.shield.permissive import Permitted
    from polvet.shield.randomised import Randomised
    from polvet.shield.world import World

FORMAT = "shield/1"
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Shield:
    """What each reachable state allows. A pre-shield masks the actions; a post-shield replaces a forbidden one.

    >>> shield = Shield(("x",), {(0,): ("go", "wait"), (1,): ("wait",)}, {(0,): Fraction(1, 10), (1,): Fraction(0)})
    >>> shield.allowed({"x": 1}), shield.mask({"x": 0}, ["jump", "go", "wait"]), shield.replace({"x": 1}, "go")
    (('wait',), [False, True, True], 'wait')
    """

    variables: tuple[str, ...]
    actions: Mapping[Key, tuple[str | None, ...]]
    values: Mapping[Key, Fraction]
    bound: Fraction = Fraction(1)
    document: Mapping[str, Any] = field(default_factory=dict)
    mixed: Mapping[Key, tuple[Mapping[str, Fraction], ...]] = field(default_factory=dict)
    risks: Mapping[Key, Mapping[str | None, Fraction]] = field(default_factory=dict)

    def key(self, state: Mapping[str, Any]) -> Key:
        """Return the state as the table holds it: one value per variable."""
        missing = [name for name in self.variables if name not in state]
        if missing:
            raise InputError(f"the state gives no value for {missing[0]}.", hint="Give every variable a value.")
        return tuple(state[name] for name in self.variables)

    def options_of(self, task: Task, world: World, where: Where) -> Mask:
        """Return which options of the world it allows; states it does not know allow nothing."""
        import numpy as np

        from polvet.records.state_json import state_to_json

        self.refuse_other(task, where)
        permitted = np.zeros(world.options, dtype=bool)
        starts = world.option_start.tolist()
        for number, state in enumerate(world.states or ()):
            actions = self.actions.get(self.key(state_to_json(task, state)), ())
            for option in range(starts[number], starts[number + 1]):
                permitted[option] = world.label_of(option) in actions
        return permitted

    def refuse_other(self, task: Task, where: Where) -> None:
        """Raise an InputError where the shield was not made for the task; where its runs start is left to the states it lists."""
        own, given = self.document.get("options", {}), task.options.to_json()
        differ = any(own.get(name) != given.get(name) for name in {*own, *given} - {"start", "mode"})
        if differ or self.document.get("model_sha256") != task.sha256:
            raise InputError("was made for another model.", where, "Use the model the shield was computed for.")

    @property
    def labels(self) -> frozenset[str]:
        """The model's labels, where the file lists them; else those that are allowed somewhere."""
        listed = self.document.get("labels", ())
        return frozenset(listed) | {
            label for allowed in self.actions.values() for label in allowed if label is not None
        }

    def show(self, key: Key) -> str:
        """Return a state as people write it."""
        return ",".join(f"{name}={value}" for name, value in zip(self.variables, key, strict=True))

    def unknown_state(self, key: Key, hint: str = "") -> InputError:
        """Return the error of a state that is not listed."""
        why = "It is not reached by allowed actions from the start states; start where the shield starts."
        return InputError(f"the shield does not know the state {self.show(key)}.", hint=f"{why} {hint}".strip())

    def allowed(self, state: Mapping[str, Any]) -> tuple[str | None, ...]:
        """Return the allowed actions; none where runs end. A state that no allowed run reaches is an InputError."""
        key = self.key(state)
        if key not in self.actions:
            raise self.unknown_state(key)
        return self.actions[key]

    def safest(self, key: Key) -> str | None:
        """Return the allowed label that a forbidden one is replaced by; None where nothing is to be chosen.

        It is the least risky one where the shield tells the risks of actions, else the one listed first.
        """
        risks = self.risks.get(key, {})
        return min(
            (label for label in self.actions[key] if label is not None), key=lambda a: risks.get(a, 0), default=None
        )

    def mask(self, state: Mapping[str, Any], labels: Sequence[str]) -> list[bool]:
        """Return for each label whether it is allowed: a pre-shield."""
        allowed = self.allowed(state)
        return [label in allowed for label in labels]

    def replace(self, state: Mapping[str, Any], action: str) -> str | None:
        """Return the action where it is allowed, else the `safest`: a post-shield."""
        allowed = self.allowed(state)
        return action if action in allowed or not allowed else self.safest(self.key(state))

    def mixtures(self, state: Mapping[str, Any]) -> tuple[Mapping[str, Fraction], ...]:
        """Return the distributions over actions that are allowed beside the actions, where the shield has some."""
        self.allowed(state)
        return self.mixed.get(self.key(state), ())

    def action_risks(self, state: Mapping[str, Any]) -> Mapping[str | None, Fraction]:
        """Return what each applicable action risks when the best is done ever after; only shields by a rule tell it."""
        self.allowed(state)
        return self.risks.get(self.key(state), {})

    @property
    def has_budget(self) -> bool:
        """Whether more is allowed than is listed, for a price: `polvet.shield.risk_budget`."""
        return "budget" in self.document.get("rule", {})

    def risk(self, state: Mapping[str, Any]) -> Fraction:
        """Return the greatest probability of failing from the state under any allowed actions."""
        self.allowed(state)
        return self.values[self.key(state)]

    def save(self, path: str | Path) -> None:
        """Write the shield as one JSON file."""
        write_whole(path, json.dumps(self.document, ensure_ascii=False) + "\n")


def to_document(task: Task, world: World, result: Permitted, bound: Fraction) -> Json:
    """Return the shield as it is written: reachable states, allowed labels, exact risks; it is its own certificate."""
    from polvet.records.state_json import state_to_json

    if world.states is None:
        raise ValueError("the world was not built from a model: it has no named states")
    permitted = set(result.sub.options.tolist())
    starts = world.option_start.tolist()
    rows = []
    for place, state in enumerate(result.sub.states.tolist()):
        allowed = [world.label_of(o) for o in range(starts[state], starts[state + 1]) if o in permitted]
        named = state_to_json(task, world.states[state])
        rows.append({"state": named, "allowed": allowed, "value": str(result.values[place])})
    return _document(task, rows, result, bound)


def to_mixed_document(task: Task, world: World, shield: Randomised, bound: Fraction) -> Json:
    """Return a shield with distributions: beside `allowed` a state may have `mixed`, weights of labels."""
    from polvet.records.state_json import state_to_json

    assert world.states is not None
    starts = world.option_start.tolist()
    rows = []
    for state, value in shield.values.items():
        mine = [o for o in range(starts[state], starts[state + 1]) if shield.permitted[o]]
        named = state_to_json(task, world.states[state])
        row: Json = {"state": named, "allowed": [world.label_of(o) for o in mine], "value": str(value)}
        if mixtures := shield.mixed.get(state, ()):
            row["mixed"] = [{str(world.label_of(o)): str(w) for o, w in one.items()} for one in mixtures]
        rows.append(row)
    return _document(task, rows, replace(shield.pure, exact=shield.exact), bound)


def to_ruled_document(task: Task, world: World, ruled: Ruled) -> Json:
    """Return a shield by a rule: every state of the world, with its least risk and the risk of every applicable label."""
    rule = ruled.rule
    worst = max(ruled.result.values[int(s)] for s in world.mdp.initial)
    bound = rule.threshold if rule.kind == "budget" else worst
    document = to_document(task, world, ruled.result, bound)
    starts = world.option_start.tolist()
    for state, row in enumerate(document["states"]):
        mine = range(starts[state], starts[state + 1])
        row |= {"least": str(ruled.least[state]), "risks": [[world.label_of(o), str(ruled.risks[o])] for o in mine]}
    within = {} if rule.horizon is None else {"horizon": rule.horizon}
    return {**document, "kind": "action-risk", "rule": {rule.kind: str(rule.threshold)}, **within}


def _document(task: Task, rows: list[Json], result: Permitted, bound: Fraction) -> Json:
    document: Json = {
        "format": FORMAT,
        "kind": "permissive",
        "model_sha256": task.sha256,
        "task_sha256": task.sha256,
        "bound": str(bound),
        "values": "exact" if result.exact else "upper-bounds",
        "maximal": result.maximal,
        "labels": list(task.network.labels),
        "states": rows,
    }
    if options := task.options.to_json():
        document["options"] = options
    if made := dict(task.network.model.metadata).get(MADE_WITH):
        document[MADE_WITH] = made
    return document


def load_shield(path: str | Path) -> Shield:
    """Return the shield in the file."""
    return read_shield(read_json(path), Where(str(path)))


def read_shield(document: Any, where: Where) -> Shield:
    """Return the shield of a `shield/1` document; anything malformed is an InputError with its place."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError("is no shield.", where, f'It needs "format": "{FORMAT}".')
    rows = document.get("states")
    if not isinstance(rows, list) or not rows:
        raise InputError("'states' is not a list of states.", where.at("states"), AGAIN)
    bound = _fraction(document.get("bound"), where.at("bound"))
    variables: tuple[str, ...] | None = None
    actions: dict[Key, tuple[str | None, ...]] = {}
    values: dict[Key, Fraction] = {}
    mixed: dict[Key, tuple[Mapping[str, Fraction], ...]] = {}
    risks: dict[Key, Mapping[str | None, Fraction]] = {}
    for place, row in enumerate(rows):
        here = where.at("states").at(place)
        state = row.get("state") if isinstance(row, dict) else None
        allowed = row.get("allowed") if isinstance(row, dict) else None
        if not isinstance(state, dict) or not isinstance(allowed, list):
            raise InputError("has no 'state' and 'allowed'.", here, AGAIN)
        if not all(action is None or isinstance(action, str) for action in allowed):
            raise InputError("an allowed action is no label.", here.at("allowed"), AGAIN)
        variables = variables or tuple(state)
        if set(state) != set(variables):
            raise InputError("names other variables than the first state.", here.at("state"), AGAIN)
        key = tuple(state[name] for name in variables)
        if key in actions:
            raise InputError("stands twice.", here, AGAIN)
        actions[key] = tuple(allowed)
        values[key] = _fraction(row.get("value"), here.at("value"))
        if "mixed" in row:
            mixed[key] = _mixtures(row["mixed"], here.at("mixed"))
        if "risks" in row:
            risks[key] = _risks(row["risks"], here.at("risks"))
    assert variables is not None
    return Shield(variables, actions, values, bound, document, mixed, risks)


def _risks(items: Any, where: Where) -> Mapping[str | None, Fraction]:
    if not isinstance(items, list) or not all(
        isinstance(one, list) and len(one) == 2 and (one[0] is None or isinstance(one[0], str)) for one in items
    ):
        raise InputError("is not a list of labels with their risks.", where, 'Each is a pair: ["go", "1/2"].')
    return {label: _fraction(risk, where) for label, risk in items}


def _mixtures(items: Any, where: Where) -> tuple[Mapping[str, Fraction], ...]:
    if not isinstance(items, list) or not all(isinstance(one, dict) and one for one in items):
        raise InputError(
            "is not a list of distributions.", where, 'Each is an object of labels and weights: {"go": "1/2", ...}.'
        )
    mixtures = [{label: _fraction(weight, where) for label, weight in one.items()} for one in items]
    if any(sum(one.values()) != 1 or min(one.values()) < 0 for one in mixtures):
        raise InputError(
            "the weights of a distribution do not sum to 1.", where, "Write the shield again with polvet permit."
        )
    return tuple(mixtures)


def make_shield(task: Task, world: World, result: Permitted, bound: Fraction) -> Shield:
    """Return the shield of a permissive scheduler."""
    return read_shield(to_document(task, world, result, bound), Where("shield"))


def _fraction(value: Any, where: Where) -> Fraction:
    number = exact(value, digits=LONG_DIGITS) if isinstance(value, str) else None
    if number is None:
        raise InputError("is no fraction.", where, 'Write it as text: "3/25".')
    return Fraction(number)
