"""What a policy may choose in a state: exactly for trees, tables, rules and answers; for networks whatever some execution may choose."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from struct import pack, unpack
from typing import Any, TypeAlias

from .text import Item, Rejected, Unreadable, integer, name, number
from .world import ARITHMETIC_ERRORS, ModelFault, State, World

Outputs: TypeAlias = list[int]
Scorer: TypeAlias = Callable[[State, Outputs], Outputs]  # of the outputs that may be chosen, those that may be the best


class Chooser:
    """The policy of a text, and what its labels mean: filtered or raw, applicable or stuck."""

    def __init__(self, world: World) -> None:
        if world.policy is None:
            raise Unreadable("the claim is about a policy, and the text has none")
        kind, *parts = world.policy
        if world.says("choose", "arg-max", "sampled") == "sampled" and (kind != "network" or ["softmax"] not in parts):
            raise Unreadable(
                "only a network that ends with a softmax is sampled: each of its labels has a probability above 0"
            )
        self.world = world
        self.filtered = world.says("applicable", "filtered", "raw") == "filtered"
        self.sampled = world.says("choose", "arg-max", "sampled") == "sampled"
        self.labels = [None if label == "-" else name(label) for label in part(parts, "labels")]
        if kind == "network":
            self._scorer: Scorer = import_module(".networks", __package__).network(world, parts, self.labels)
        else:
            self._scorer = _first_of_the_greatest(EXACT[kind](world, parts, self.labels))

    def choose(self, state: State, applicable: Collection[str | None]) -> tuple[list[str | None], bool]:
        """Return the applicable labels that may be chosen, and whether the policy may be stuck."""
        outputs = [
            k for k, label in enumerate(self.labels) if not self.filtered or (label is not None and label in applicable)
        ]
        best = {self.labels[k] for k in (outputs if self.sampled or not outputs else self._scorer(state, outputs))}
        return [label for label in best if label in applicable], not best or any(
            label not in applicable for label in best
        )

    def executed(self, state: State, applicable: Collection[str | None]) -> list[str | None]:
        """Return the labels that are chosen for certain, at most one unless the policy is sampled; Rejected at a near tie."""
        labels, stuck = self.choose(state, applicable)
        if not self.sampled and (len(labels) > 1 or (labels and stuck)):
            raise Rejected(f"ties: what the policy chooses is not certain in {self.world.show(state)}")
        return labels


def part(parts: Sequence[Item], key: str) -> list[Item]:
    """Return what follows the key in the only part that begins with it."""
    (found,) = (part[1:] for part in parts if part[0] == key)
    return list(found)


def to_float32(value: float) -> float:
    """Return the nearest float32, infinite beyond them."""
    try:
        return float(unpack("f", pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def row_of(world: World, parts: Sequence[Item]) -> Callable[[State], list[float]]:
    """Return the function from a state to the policy's inputs."""
    functions = [world.compile(expression) for expression in part(parts, "inputs")]

    def row(state: State) -> list[float]:
        try:
            return [to_float32(float(function(state))) for function in functions]
        except (ModelFault, *ARITHMETIC_ERRORS) as fault:
            raise ModelFault(f"an input of the policy: {fault}, in {world.show(state)}") from None

    return row


Scores: TypeAlias = Callable[[State], list[float]]


def _first_of_the_greatest(scores_of: Scores) -> Scorer:
    def best(state: State, outputs: Outputs) -> Outputs:
        scores = scores_of(state)
        if any(math.isnan(scores[k]) for k in outputs):
            raise ModelFault("a score of the policy is not a number")
        return [max(outputs, key=lambda k: (scores[k], -k))]

    return best


def _forest(world: World, parts: Sequence[Item], labels: Sequence[Any]) -> Scores:
    row, (precision, comparison) = row_of(world, parts), part(parts, "arithmetic")
    narrow, strict = {"float32": True, "float64": False}[precision], {"<": True, "<=": False}[comparison]
    base, inputs = [float(number(word)) for word in part(parts, "base")], len(part(parts, "inputs"))
    divisor = float(number(part(parts, "divide")[0])) if any(one[0] == "divide" for one in parts) else None

    def node(item: Item, leaf: int) -> Any:
        """Return the values of a leaf as a list; of an inner node its input, threshold, children, and perhaps where zero goes."""
        if isinstance(item, str):
            item = [item]
        if len(item) == leaf and not isinstance(item[-1], list):
            return [float(number(word)) for word in item]
        place, threshold, low, high, *zero = item
        if not 0 <= integer(place) < inputs:
            raise Unreadable(f"a tree reads the input {place}, which is not there")
        left, right = node(low, leaf), node(high, leaf)
        return (
            integer(place),
            float(number(threshold)),
            left,
            right,
            *({"left": left, "right": right}[word] for word in zero),
        )

    trees = []
    for output, root in (one[1:] for one in parts if one[0] == "tree"):
        outputs = [*range(len(labels))] if output == "*" else [integer(output)]
        if not 0 <= outputs[0] < len(labels):
            raise Unreadable(f"a tree adds to the output {output}, which is not there")
        trees.append((outputs, node(root, len(outputs))))
    if len(base) != len(labels):
        raise Unreadable("the policy does not have one base score per output")

    def scores(state: State) -> list[float]:
        values, sums = row(state), list(base)
        for outputs, here in trees:
            while isinstance(here, tuple):
                x = values[here[0]]
                is_left = x < here[1] if strict else x <= here[1]
                here = here[4] if len(here) > 4 and abs(x) <= ALMOST_ZERO else here[2] if is_left else here[3]
            for k, leaf in zip(outputs, here, strict=True):
                # A float64 sum of two float32 numbers, rounded once more, is their float32 sum.
                sums[k] = to_float32(sums[k] + leaf) if narrow else sums[k] + leaf
        return sums if divisor is None else [total / divisor for total in sums]

    return scores


ALMOST_ZERO = to_float32(1e-35)


def _table(world: World, parts: Sequence[Item], labels: Sequence[Any]) -> Scores:
    row, rows = row_of(world, parts), {}
    for key, said in (one[1:] for one in parts if one[0] == "row"):
        values = tuple(to_float32(float(number(word))) for word in key)
        if values in rows or len(values) != len(part(parts, "inputs")):
            raise Unreadable(f"the row {key} stands twice, or does not have one value for each input")
        rows[values] = _said(labels, said)
    defaults = [_said(labels, one[1]) for one in parts if one[0] == "default"]
    return lambda state: rows.get(tuple(row(state))) or _known(defaults, world, state)


def _rules(world: World, parts: Sequence[Item], labels: Sequence[Any]) -> Scores:
    rules = [(world.compile(one[1]), _one_for(labels, one[2])) for one in parts if one[0] == "rule"]

    def scores(state: State) -> list[float]:
        near = [to_float32(float(value)) for value in state]
        read = [int(value) if value.is_integer() else value for value in near]
        return next((said for condition, said in rules if condition(read)), None) or _known([], world, state)

    return scores


def _answers(world: World, parts: Sequence[Item], labels: Sequence[Any]) -> Scores:
    answers = {world.checked(one[1]): _one_for(labels, one[2]) for one in parts if one[0] == "answer"}
    return lambda state: _known([answers[state]] if state in answers else [], world, state)


def _said(labels: Sequence[Any], said: Item) -> list[float]:
    scores = [float(number(word)) for word in said[1:]] if isinstance(said, list) else _one_for(labels, said)
    if len(scores) != len(labels):
        raise Unreadable(f"{said} does not give one score per output")
    return scores


def _one_for(labels: Sequence[Any], label: Item) -> list[float]:
    place = labels.index(None if label == "-" else name(label))
    return [float(k == place) for k in range(len(labels))]


def _known(answers: list[list[float]], world: World, state: State) -> list[float]:
    if not answers:
        raise ModelFault(f"the policy says nothing of {world.show(state)}")
    return answers[0]


EXACT = {"forest": _forest, "table": _table, "rules": _rules, "answers": _answers}
