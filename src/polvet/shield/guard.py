"""A shield over numbered actions, as environments have them: masks, replacements, and states that it does not know.

Labels are checked before the first step: each must be one of the model's, and every listed state must leave an action open. What a
state that is not listed allows is the user's choice (`unknown`), and every such visit is counted:
`error`    the run stops with an InputError that names the state
`forbid`   nothing: the episode is cut off there, before anything is done
`nearest`  what the nearest listed state allows (sum of the differences, the least risky of equals): no proof covers it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polvet import _core
from polvet.choices import one_of
from polvet.errors import InputError, Where, did_you_mean
from polvet.shield.file import Key, Shield
from polvet.shield.risk_budget import RiskBudget

if TYPE_CHECKING:
    from polvet.shield.abstraction import Beside

UNKNOWN = ("error", "forbid", "nearest")
EXAMPLES = 5
EACH_STEP = "each step as it is made; not how likely outcomes are"
NO_STATE = InputError(
    "the shield must know the state and the labels.", hint="Give state_of (observation -> model state) and labels."
)
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Ruling:
    """What is open in a state: which actions, and the one that stands in for the others (None: nothing may be done)."""

    mask: NDArray[np.bool_]
    instead: int | None
    known: bool = True

    def take(self, action: int) -> int | None:
        """Return the action where it is open, else the one that stands in for it."""
        return action if self.mask[action] else self.instead


@dataclass(frozen=True, slots=True)
class ShieldReport:
    """What a shield did in a training run: `unknown` visits to states that it does not list, and some of these states."""

    steps: int
    replaced: int
    unknown: int
    unknown_states: int
    examples: tuple[Mapping[str, Any], ...]
    compared: str = ""  # of the environment with the world that the shield is for

    def __str__(self) -> str:
        return (
            f"{self.steps:,} steps, {self.replaced:,} actions replaced, "
            f"{self.unknown:,} visits to {self.unknown_states:,} states that the shield does not know"
            + (f"; compared with its world: {self.compared}" if self.compared else "")
        )


class Guard:
    """A shield, the label of each numbered action, and what happens where the shield has nothing to say."""

    def __init__(
        self,
        shield: Shield,
        labels: Sequence[str],
        *,
        actions: int | None = None,
        unknown: str = "error",
        beside: Beside | None = None,
    ) -> None:
        self.shield, self.labels, self.beside = shield, tuple(labels), beside
        self.compared = "nothing, for its task is not given" if beside is None else EACH_STEP
        self._followed: set[tuple[Key, int, Key, bool | None]] = set()
        self.unknown = one_of(unknown, UNKNOWN, "unknown")
        _check_labels(shield, self.labels, actions)
        self.steps = self.replaced = 0
        self.missed: Counter[Key] = Counter()
        self._keys = list(shield.actions)
        self._masks, self._instead = self._compile()
        self._places = {key: place for place, key in enumerate(self._keys)}
        self._columns = _Columns(self._keys)
        self._table: _core.ShieldTable | None = None

    def rule(self, state: Mapping[str, Any], run: RiskBudget | None = None) -> Ruling:
        """Return what is open in the state, also for what the run can pay; a visit to one that is not listed is counted."""
        key = self.shield.key(state)
        place = self._places.get(key)
        if place is None:
            return self._rule_unknown(key)
        ruling = self._ruling(place)
        if run is None or not self.shield.actions[key]:
            return ruling
        open_ = run.allowed(state)
        return Ruling(ruling.mask | np.array([label in open_ for label in self.labels]), ruling.instead)

    def follow(self, before: Mapping[str, Any], action: int, after: Mapping[str, Any], ended: bool | None) -> None:
        """Refuse a step that the shield's world does not have (ended=None: it was cut off).

        Where states that are not listed are no error, steps to them are none.
        """
        if self.beside is None:
            return
        step = (first := self.shield.key(before)), action, (then := self.shield.key(after)), ended
        if step in self._followed or first not in self.shield.actions:
            return
        if self.unknown != "error" and then not in self.shield.actions and not ended:
            return
        state, reached = (
            self.beside.place(dict(zip(self.shield.variables, key, strict=True))) for key in (first, then)
        )
        outcome = None if self.beside.is_over(state) else self.beside.follow(state, self.labels[action], reached, ended)
        if isinstance(outcome, str):
            raise other_world(outcome)
        self._followed.add(step)

    def numbers(self, actions: Any) -> NDArray[np.int64]:
        """Return numbers of actions as the masks are indexed; one that is no action's is refused, not counted from the end."""
        numbers = np.asarray(actions).reshape(-1).astype(np.int64)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(self.labels):
            wrong = next(one for one in numbers.tolist() if not 0 <= one < len(self.labels))
            raise InputError(f"there is no action {wrong}.", Where("step"), f"Give 0 to {len(self.labels) - 1}.")
        return numbers

    def number(self, rows: Rows) -> None:
        """Make the kernel's table of the listed states, in their order, as rows of numbers."""
        self._table = _core.ShieldTable(rows, self._masks.view(np.uint8))

    def rule_rows(self, rows: Rows, masks: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Take from the masks what is forbidden in the states (one row each), in one call of the kernel.

        Returns what stands in for a forbidden action (-1: nothing may be done) and whether the state is listed.
        """
        if self.shield.has_budget:
            raise InputError(
                "a shield with a budget remembers what a run has spent.",
                Where("shield"),
                "Wrap each environment by itself, not the vector of them.",
            )
        if self._table is None:
            self.number(self._columns.rows())
        assert self._table is not None
        places = np.empty(len(rows), dtype=np.int64)
        self._table.mask(np.ascontiguousarray(rows, dtype=np.int64), masks.view(np.uint8), places)
        known = places >= 0
        instead = np.where(known, self._instead[places], -1)
        for row in np.flatnonzero(~known).tolist():
            ruling = self._rule_unknown(self._columns.key(rows[row]))
            masks[row] = ruling.mask
            instead[row] = -1 if ruling.instead is None else ruling.instead
        return instead, known

    def rows_of(self, states: Any) -> Rows:
        """Return states, given as rows of numbers in the order of the shield's variables, as the kernel reads them."""
        given = np.asarray(states)
        if given.ndim != 2 or given.shape[1] != len(self.shield.variables):
            raise InputError(
                f"the states have the shape {given.shape}.",
                Where("state_of"),
                f"Give one row per environment: {', '.join(self.shield.variables)}.",
            )
        return self._columns.bits(given)

    def report(self) -> ShieldReport:
        """Return what was counted so far."""
        some = [dict(zip(self.shield.variables, key, strict=True)) for key, _ in self.missed.most_common(EXAMPLES)]
        return ShieldReport(
            self.steps, self.replaced, self.missed.total(), len(self.missed), tuple(some), self.compared
        )

    def _ruling(self, place: int) -> Ruling:
        return Ruling(self._masks[place], int(self._instead[place]))

    def _rule_unknown(self, key: Key) -> Ruling:
        self.missed[key] += 1
        if self.unknown == "nearest":
            ruling = self._ruling(self._nearest(key))
            return Ruling(ruling.mask, ruling.instead, known=False)
        if self.unknown == "forbid":
            return Ruling(np.zeros(len(self.labels), dtype=np.bool_), None, known=False)
        raise self.shield.unknown_state(key, "Give unknown='forbid' or 'nearest' to go on.")

    def _nearest(self, key: Key) -> int:
        running = np.array([place for place, one in enumerate(self._keys) if self.shield.actions[one]], dtype=np.int64)
        if not len(running):
            raise self.shield.unknown_state(key, "The shield allows nothing anywhere.")
        distance = self._columns.distances(key)[running]
        closest = running[distance == distance.min()].tolist()
        nearest: int = min(closest, key=lambda place: (self.shield.values[self._keys[place]], place))
        return nearest

    def _compile(self) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return the mask of every listed state, everything where nobody chooses, and what stands in for the rest."""
        number = {label: place for place, label in enumerate(self.labels)}
        masks = np.zeros((len(self._keys), len(self.labels)), dtype=np.bool_)
        instead = np.zeros(len(self._keys), dtype=np.int64)
        for place, key in enumerate(self._keys):
            allowed = self.shield.actions[key]
            if not allowed or allowed == (
                None,
            ):  # the run has ended, or only the environment moves: any action will do
                masks[place] = True
                continue
            named = [number[label] for label in allowed if label in number]
            if not named:
                shown = self.shield.show(key)
                raise InputError(
                    f"no action is open in {shown}: it allows {', '.join(map(str, allowed))}.",
                    Where("labels"),
                    "Give these labels actions of the environment.",
                )
            masks[place, named] = True
            safest = self.shield.safest(key)
            instead[place] = number.get(safest, named[0]) if safest is not None else named[0]
        return masks, instead


class _Columns:
    """States as the kernel's table holds them: integers and truth values as such, reals by their bits."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self.keys = keys
        values = list(zip(*keys, strict=True))
        self.real = np.array([any(isinstance(value, float) for value in column) for column in values], dtype=np.bool_)
        self.named = np.array([not all(map(_is_number, column)) for column in values], dtype=np.bool_)

    def distances(self, key: Key) -> NDArray[np.float64]:
        """Return how far each listed state is: the sum of the differences, 1 for another name."""
        total = np.zeros(len(self.keys))
        for column, (named, mine) in enumerate(zip(self.named, key, strict=True)):
            others = [one[column] for one in self.keys]
            if named:
                total += np.array([value != mine for value in others])
            else:
                total += np.abs(np.array(others, dtype=np.float64) - float(mine))
        return total

    def rows(self) -> Rows:
        """Return the listed states; those with locations by name have no numbers here."""
        if self.named.any():
            raise InputError(
                "the shield's states name locations.",
                Where("shield"),
                "Wrap each environment by itself, not the vector of them.",
            )
        rows = np.zeros((len(self.keys), len(self.real)), dtype=np.int64)
        for column, real in enumerate(self.real):
            values = [key[column] for key in self.keys]
            rows[:, column] = _bits(np.array(values)) if real else [int(value) for value in values]
        return rows

    def bits(self, given: NDArray[Any]) -> Rows:
        """Return rows of numbers as the table holds them."""
        rows = np.ascontiguousarray(given).astype(np.int64)
        for column in np.flatnonzero(self.real).tolist():
            rows[:, column] = _bits(given[:, column])
        return rows

    def key(self, row: Rows) -> Key:
        """Return the state of a row."""
        reals = np.ascontiguousarray(row).view(np.float64)
        return tuple(float(reals[k]) if real else int(row[k]) for k, real in enumerate(self.real))


def _bits(values: NDArray[Any]) -> NDArray[np.int64]:
    return (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.int64)  # -0.0 is 0.0


def _is_number(value: Any) -> bool:
    return not isinstance(value, str) or value.lstrip("-").isdigit()  # large integers stand as text


def other_world(what: str) -> InputError:
    """Return the error of an environment that does what the shield's world does not."""
    hint = (
        "Compute the shield for this environment, or correct state_of and labels (task.check_abstraction tries them)."
    )
    return InputError(f"the environment is not the world that the shield is for: {what}.", Where("env"), hint)


def labels_of(env: Any, labels: Sequence[str] | None) -> tuple[str, ...]:
    """Return the labels of the environment's actions: as given, or as an environment made of a model knows them."""
    own = labels if labels is not None else getattr(env, "labels", None)
    if own is None:
        raise NO_STATE
    if isinstance(own, str) or not all(isinstance(label, str) for label in own):
        raise InputError("is no list of labels.", Where("labels"), 'Give the label of each action: ("left", "right").')
    return tuple(own)


def _check_labels(shield: Shield, labels: tuple[str, ...], actions: int | None) -> None:
    where = Where("labels")
    if actions is not None and len(labels) != actions:
        raise InputError(f"{len(labels)} labels for {actions} actions.", where, "Give the label of each action.")
    if len(set(labels)) < len(labels):
        raise InputError("a label stands twice.", where, "Give each action a label of its own.")
    for label in labels:
        if label not in shield.labels:
            near = did_you_mean(label, shield.labels)
            raise InputError(
                f"the shield has no label '{label}'.", where, near or f"It has {', '.join(sorted(shield.labels))}."
            )
