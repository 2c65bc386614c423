"""What every policy must obey, checked on examples: the law for custom policies.

A policy is deterministic, gives one score per row and output, chooses what its scores say (filtered and raw, ties to the
lowest index), and gives a row the same answer alone and in company. With `library`, a function from rows to scores of the
library it came from, it also agrees with that, up to the rounding bound.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from polvet.budget import Budget
from polvet.choices import BrokenLaw
from polvet.errors import InputError
from polvet.kernel.starts import sample_starts
from polvet.model.task import Task
from polvet.policy.binding import Fitted, fit
from polvet.policy.compiled import compile_policy
from polvet.policy.protocol import Policy, Rows, best_indices, checked_names, checked_rows
from polvet.policy.rounding import rounding_bounds

MOST_STARTS, MOST_ROWS = 20, 200


def check_policy(
    policy: Policy,
    task: Task | None = None,
    *,
    rows: npt.ArrayLike | None = None,
    labels: tuple[str, ...] | None = None,
    variables: tuple[str, ...] | None = None,
    library: Callable[[Rows], npt.ArrayLike] | None = None,
    seed: int = 0,
) -> tuple[BrokenLaw, ...]:
    """Return the laws the policy breaks; empty means that none was seen broken.

    With a task, inputs and outputs must fit its model, as task.toml reads them, and examples are states around its starts.
    Without one `labels` and `variables` name those of the model. `rows` are example inputs of one's own (default without
    a task: random small integers).
    >>> from polvet.policy import CallablePolicy
    >>> check_policy(CallablePolicy(("x",), ("a", "b"), lambda state: [state["x"], 1]))
    ()
    """
    broken = _name_laws(policy, labels, variables)
    if broken:
        return tuple(broken)
    if task is not None:
        try:
            fitted = fit(task, policy)
        except InputError as error:
            return (BrokenLaw(str(error)),)
        policy = fitted.policy
        rows = _rows_around_starts(fitted, seed) if rows is None else rows
    rng = np.random.default_rng(seed)
    sample = rng.integers(-3, 12, size=(37, len(policy.inputs))) if rows is None else rows
    examples = checked_rows(policy, sample)
    scores = np.asarray(policy.scores(examples))
    if scores.shape != (len(examples), len(policy.outputs)):
        return (BrokenLaw(f"scores has the shape {scores.shape}, not ({len(examples)}, {len(policy.outputs)})"),)
    if scores.dtype not in (np.float32, np.float64):
        return (BrokenLaw(f"scores are {scores.dtype}, not float32 or float64"),)
    broken_laws = [*_score_laws(policy, examples, scores), *_choice_laws(policy, examples, scores, rng)]
    if library is not None:
        broken_laws += _library_law(policy, examples, scores, np.asarray(library(examples)))
    return tuple(broken_laws)


def _rows_around_starts(fitted: Fitted, seed: int) -> Rows:
    """Return the inputs in start states and in states near them, whatever is chosen there."""
    bound = compile_policy(fitted)
    starts = bound.compiled.pack(sample_starts(fitted.task, MOST_STARTS, seed=seed))
    space = bound.compiled.explore(starts, budget=Budget(states=MOST_ROWS))
    return bound.core.rows(space.states(0, min(len(space), MOST_ROWS)))


def _name_laws(policy: Policy, labels: tuple[str, ...] | None, variables: tuple[str, ...] | None) -> list[BrokenLaw]:
    broken = []
    for what, names, known in (("input", policy.inputs, variables), ("output", policy.outputs, labels)):
        try:
            checked_names(names, len(names), what)
        except InputError as error:
            broken.append(BrokenLaw(str(error)))
        if not names and what == "output":
            broken.append(BrokenLaw("the policy has no outputs"))
        broken += [
            BrokenLaw(f"the {what} '{name}' is not in the model") for name in names if known and name not in known
        ]
    return broken


def _score_laws(policy: Policy, rows: Rows, scores: npt.NDArray[np.floating]) -> list[BrokenLaw]:
    broken = []
    nan = np.isnan(scores).any(axis=1)
    if nan.any():
        broken.append(BrokenLaw("a score is not a number", _row(rows, nan)))
    again = _differs(np.asarray(policy.scores(rows)), scores)
    if again.any():
        broken.append(BrokenLaw("the same rows give other scores the second time", _row(rows, again)))
    alone = _differs(np.concatenate([np.asarray(policy.scores(rows[i : i + 1])) for i in range(len(rows))]), scores)
    if len(rows) and alone.any():
        broken.append(BrokenLaw("a row alone gives other scores than among others", _row(rows, alone)))
    turned = _differs(np.asarray(policy.scores(rows[::-1]))[::-1], scores)
    if turned.any():
        broken.append(BrokenLaw("the order of rows changes their scores", _row(rows, turned)))
    return broken


def _choice_laws(
    policy: Policy, rows: Rows, scores: npt.NDArray[np.floating], rng: np.random.Generator
) -> list[BrokenLaw]:
    if np.isnan(scores).any():
        return []
    broken = []
    some = rng.random(scores.shape) < 0.5
    for name, mask in (
        ("raw", None),
        ("filtered", some),
        ("filtered by nothing", np.zeros(scores.shape, dtype=np.bool_)),
    ):
        expected = best_indices(policy, scores, rows, mask)
        choices = np.asarray(policy.choose(rows, mask))
        if choices.shape != (len(rows),) or choices.dtype.kind != "i":
            broken.append(BrokenLaw(f"{name} choices have the shape {choices.shape} and type {choices.dtype}"))
        elif (wrong := choices != expected).any():
            broken.append(
                BrokenLaw(f"the {name} choice is not the best score with ties to the lowest", _row(rows, wrong))
            )
    return broken


def _library_law(
    policy: Policy, rows: Rows, scores: npt.NDArray[np.floating], library: npt.NDArray[np.floating]
) -> list[BrokenLaw]:
    if library.shape != scores.shape:
        return [BrokenLaw(f"the library's scores have the shape {library.shape}, the policy's {scores.shape}")]
    distance = np.abs(library.astype(np.float64) - scores.astype(np.float64))
    wrong = np.asarray(~(distance <= rounding_bounds(policy, rows)).all(axis=1))
    return [BrokenLaw("the library gives other scores", _row(rows, wrong))] if wrong.any() else []


def _differs(left: npt.NDArray[np.floating], right: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
    if left.shape != right.shape:
        return np.ones(len(right), dtype=np.bool_)
    return np.asarray(((left != right) & ~(np.isnan(left) & np.isnan(right))).any(axis=1))


def _row(rows: Rows, where: npt.NDArray[np.bool_]) -> tuple[float, ...]:
    return tuple(rows[int(np.argmax(where))].tolist())
