"""What every policy is: named inputs, named outputs, scores for rows of inputs, and the choice the scores make.

A row holds one float32 per input, a mask one truth value per output. *Filtered* choice takes the best score among the
applicable outputs (a mask is given), *raw* choice the best of all (no mask); ties go to the lowest index.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

import polvet._core as _core
from polvet.errors import InputError, Where, suggest

Rows: TypeAlias = npt.NDArray[np.float32]
Scores: TypeAlias = npt.NDArray[Any]  # float32 or float64: the arithmetic the policy computes in
Mask: TypeAlias = npt.NDArray[np.bool_]
Choices: TypeAlias = npt.NDArray[np.int32]
Value: TypeAlias = bool | int | float

NOTHING_APPLICABLE = -1
"""What `choose` answers for a row whose mask has no True."""
MAX_NAMES = 1_000_000


class Policy(Protocol):
    """A policy as a scorer; `check_policy` states the laws it obeys."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The variables a row holds, in order."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The labels the scores belong to, in order."""

    def scores(self, rows: Rows) -> Scores:
        """Return one score per row and output."""

    def choose(self, rows: Rows, applicable: Mask | None = None) -> Choices:
        """Return for each row the index of the best applicable output, or NOTHING_APPLICABLE."""


AnyPolicy = TypeVar("AnyPolicy", bound=Policy)


def positional_names(count: int) -> tuple[str, ...]:
    """Return the names of inputs or outputs that a file leaves nameless.

    >>> positional_names(2)
    ('#0', '#1')
    """
    if count > MAX_NAMES:
        raise InputError(
            f"a policy with {count} inputs or outputs; at most {MAX_NAMES} are read.", hint="Use a smaller policy."
        )
    return tuple(f"#{index}" for index in range(count))


def has_positional_names(names: Sequence[str]) -> bool:
    """Return whether the names only count positions, so that a task must say what they stand for.

    >>> has_positional_names(("#0", "#1")), has_positional_names(("x", "#1"))
    (True, False)
    """
    return all(name == f"#{index}" for index, name in enumerate(names))


def numbered(names: Sequence[str]) -> list[int] | None:
    """Return the numbers of names such as `#2`; None where one is no such name.

    >>> numbered(("#0", "#2")), numbered(("x", "#1"))
    ([0, 2], None)
    """
    numbers = [int(name[1:]) for name in names if name[:1] == "#" and name[1:].isdecimal()]
    return numbers if numbers and len(numbers) == len(names) else None


def checked_names(names: Sequence[str], count: int, what: str, where: Where | str | None = None) -> tuple[str, ...]:
    """Return the names as a tuple, or raise an InputError: one per column, each a text, none twice."""
    if len(names) != count:
        raise InputError(
            f"the policy has {count} {what}s, but {len(names)} {what} names are given.",
            where,
            f"Name exactly the {count} {what}s, in the policy's order ([policy] in the task's file).",
        )
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str) or not name:
            raise InputError(f"the {what} name {name!r} is not a non-empty text.", where, "Give every column a name.")
        if name in seen:
            raise InputError(f"the {what} name '{name}' stands twice.", where, "Each name may stand once.")
        seen.add(name)
    return tuple(names)


def names_or_positions(
    given: Sequence[str] | None, own: Sequence[str] | None, count: int, what: str, where: Where | str | None
) -> tuple[str, ...]:
    """Return the names given by the caller, else the file's own, else positions."""
    chosen = given if given is not None else own
    return positional_names(count) if chosen is None else checked_names(chosen, count, what, where)


def renamed(policy: AnyPolicy, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None) -> AnyPolicy:
    """Return the same policy with other names for its inputs and outputs (networks and tree ensembles)."""
    rename = getattr(policy, "with_names", None)
    if rename is None:
        raise InputError(
            f"a {type(policy).__name__} names its inputs and outputs itself; they cannot be renamed.",
            hint="Leave inputs and outputs out of task.toml.",
        )
    result: AnyPolicy = rename(
        policy.inputs if inputs is None else inputs, policy.outputs if outputs is None else outputs
    )
    return result


def checked_rows(policy: Policy, rows: npt.ArrayLike) -> Rows:
    """Return the rows as a contiguous float32 array [n, inputs], or raise an InputError on another shape."""
    array = np.ascontiguousarray(rows, dtype=np.float32)
    if array.ndim != 2 or array.shape[1] != len(policy.inputs):
        shape = " x ".join(map(str, array.shape)) or "a single number"
        raise InputError(
            f"the rows are {shape}; the policy reads n x {len(policy.inputs)}: {_shown(policy.inputs)}.",
            hint="Give one column per input, in that order.",
        )
    return array


def checked_mask(policy: Policy, rows: Rows, applicable: npt.ArrayLike | None) -> npt.NDArray[np.uint8] | None:
    """Return the mask as 0 and 1 in an array [n, outputs], or raise an InputError on another shape."""
    if applicable is None:
        return None
    mask = np.ascontiguousarray(applicable, dtype=np.bool_)
    if mask.shape != (len(rows), len(policy.outputs)):
        raise InputError(
            f"the mask has the shape {mask.shape}; it must be ({len(rows)}, {len(policy.outputs)}): "
            f"one row per state and one column per output: {_shown(policy.outputs)}.",
            hint="Give a mask of that shape.",
        )
    return mask.view(np.uint8)


def checked_choices(policy: Policy, choices: Choices, rows: Rows) -> Choices:
    """Return the kernel's choices, or raise an InputError that shows the first row with a score that is not a number."""
    broken = np.flatnonzero(choices == _core.SCORE_IS_NAN)
    if len(broken):
        row = rows[broken[0]]
        state = ", ".join(f"{name}={value:g}" for name, value in zip(policy.inputs[:20], row[:20], strict=True))
        raise InputError(
            f"the policy's score is not a number for the inputs {state}.", hint="Its values overflow there: scale them."
        )
    return choices


def best_indices(policy: Policy, scores: Scores, rows: Rows, applicable: npt.ArrayLike | None) -> Choices:
    """Return the filtered or raw choice from scores: the slow twin of the kernel's `best_index`, and what tables use."""
    mask = checked_mask(policy, rows, applicable)
    candidates = np.ones(scores.shape, dtype=np.bool_) if mask is None else mask.view(np.bool_)
    masked = np.where(candidates, scores, -np.inf)
    # The first applicable column wins among equals, also where every applicable score is minus infinity.
    at_best = candidates & (masked == masked.max(axis=1, keepdims=True, initial=-np.inf))
    best = np.where(at_best.any(axis=1), at_best.argmax(axis=1), NOTHING_APPLICABLE).astype(np.int32)
    best[(np.isnan(scores) & candidates).any(axis=1)] = _core.SCORE_IS_NAN
    return checked_choices(policy, best, rows)


def row_of(policy: Policy, state: Mapping[str, Value]) -> Rows:
    """Return the state as a row [1, inputs], each value rounded to the nearest float32; booleans are 0 and 1."""
    values: list[float] = []
    for name in policy.inputs:
        if name not in state:
            raise InputError(f"the policy reads '{name}', which the state does not have.", hint=suggest(name, state))
        values.append(float(state[name]))
    return np.array([values], dtype=np.float32)


def choose_label(policy: Policy, state: Mapping[str, Value], applicable: Collection[str] | None = None) -> str | None:
    """Return the label the policy chooses in a state: filtered among `applicable`, raw without; None where there is none."""
    mask = None
    if applicable is not None:
        mask = np.array([[label in applicable for label in policy.outputs]], dtype=np.bool_)
    choice = int(policy.choose(row_of(policy, state), mask)[0])
    return None if choice == NOTHING_APPLICABLE else policy.outputs[choice]


def _shown(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
