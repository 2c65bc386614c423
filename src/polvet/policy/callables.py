"""Python functions as policies: a state in, a label or one score per label out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polvet.errors import InputError, suggest
from polvet.policy.protocol import Choices, Mask, Rows, Scores, Value, best_indices, checked_names, checked_rows


@dataclass(frozen=True, slots=True, eq=False)
class CallablePolicy:
    """A function of a state (`{"x": 3}`, whole numbers as int) that returns a label, its number, or the scores of all labels.

    >>> policy = CallablePolicy(("x",), ("stay", "go"), lambda state: "go" if state["x"] > 2 else "stay")
    >>> policy.choose(np.array([[1], [3]], dtype=np.float32)).tolist()
    [0, 1]
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    function: Callable[[Mapping[str, Value]], str | int | Sequence[float]]
    booleans: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        checked_names(self.inputs, len(self.inputs), "input")
        checked_names(self.outputs, len(self.outputs), "output")

    def scores(self, rows: Rows) -> Scores:
        """Return the function's scores, or 1 for its label and 0 for the others."""
        rows = checked_rows(self, rows)
        result = np.zeros((len(rows), len(self.outputs)))
        for index, row in enumerate(rows.tolist()):
            answer = self.function({name: self._value(name, v) for name, v in zip(self.inputs, row, strict=True)})
            if isinstance(answer, int | np.integer) and not isinstance(answer, bool):
                answer = self._label(int(answer))
            if isinstance(answer, str):
                if answer not in self.outputs:
                    raise InputError(
                        f"the policy function answers '{answer}', which is not one of its labels.",
                        hint=suggest(answer, self.outputs),
                    )
                result[index, self.outputs.index(answer)] = 1.0
            else:
                scores = _as_scores(answer)
                if scores.shape != (len(self.outputs),):
                    raise InputError(
                        f"the policy function answers scores of shape {scores.shape}; {len(self.outputs)} are needed.",
                        hint="Return one score per output.",
                    )
                result[index] = scores
        return result

    def choose(self, rows: Rows, applicable: Mask | None = None) -> Choices:
        """Return for each row the index of the best applicable output, or NOTHING_APPLICABLE."""
        rows = checked_rows(self, rows)
        return best_indices(self, self.scores(rows), rows, applicable)

    def _label(self, number: int) -> str:
        if not 0 <= number < len(self.outputs):
            raise InputError(
                f"the policy function answers {number}; it has {len(self.outputs)} labels, numbered from 0.",
                hint="Return a label, its number, or one score per label.",
            )
        return self.outputs[number]

    def _value(self, name: str, value: float) -> Value:
        if name in self.booleans:
            return bool(value)
        return int(value) if value.is_integer() else value


def _as_scores(answer: Any) -> Scores:
    try:
        scores = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError):
        scores = np.zeros(())
    if scores.ndim == 0:
        raise InputError(
            f"the policy function answers {str(answer)[:60]}.",
            hint="Return a label, its number, or one score per label.",
        )
    return scores
