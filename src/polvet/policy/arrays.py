"""Q-tables as numpy arrays (`.npy`, `.npz` with one array): an axis per input, indexed by the input's value from 0, as tables.

Floats   the last axis holds the scores of the labels
Integers the number of the chosen label, or, with one axis more than there are inputs, scores
Arrays of Python objects are pickles and never read.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from polvet.errors import InputError, Where
from polvet.files import write_whole
from polvet.policy.archives import open_archive, read_member
from polvet.policy.format import PolicyFormat
from polvet.policy.protocol import Policy, names_or_positions
from polvet.policy.signatures import SIGNATURES
from polvet.policy.tables import Table

MOST_STATES = 2_000_000
MOST_SCORES = 32_000_000


def table_from_numpy(
    data: bytes, where: Where, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
) -> Table:
    """Return the table in the bytes of a `.npy` or `.npz` file."""
    if data.startswith(b"PK"):
        archive = open_archive(data, where)
        names = archive.namelist()
        if len(names) != 1:
            raise InputError(
                f"holds the arrays {', '.join(name.removesuffix('.npy') for name in names)}.",
                where,
                "Save one array: np.savez(file, policy=array).",
            )
        data = read_member(archive, names[0], where)
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception as error:  # numpy evaluates the head of the file as a text of Python's: tokenizer, types, memory
        raise InputError(f"is not a readable array of numbers ({error}).", where, "Save it with np.save.") from None
    return table_from_array(array, where, inputs, outputs)


def table_from_array(
    array: npt.NDArray[Any],
    where: Where,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
) -> Table:
    """Return the table that an array holds.

    >>> table = table_from_array(np.array([[0.5, 1.0], [2.0, 0.0]]), Where("q"), ["x"], ["stay", "go"])
    >>> table.choose(np.array([[0], [1]], dtype=np.float32)).tolist()
    [1, 0]
    """
    if array.dtype.kind not in "fiub" or array.ndim == 0 or array.size == 0:
        raise InputError(f"is an array of {array.dtype} with shape {array.shape}.", where, "Give numbers, by state.")
    numbers = array.dtype.kind != "f" and (inputs is None or array.ndim != len(inputs) + 1)
    axes = array.shape if numbers else array.shape[:-1]
    if inputs is not None and len(axes) != len(inputs):
        raise InputError(
            f"the array of shape {array.shape} has {len(axes)} axes of states; the policy reads {', '.join(inputs)}.",
            where,
            "Give an axis for each input, then one of scores; or name the inputs in task.toml.",
        )
    if np.prod(axes, dtype=np.float64) > MOST_STATES:
        raise InputError(f"the array lists more than {MOST_STATES:,} states.", where, "Give a function or a network.")
    if not np.isfinite(array.astype(np.float64)).all():
        raise InputError("the array holds a score that is not finite.", where, "Give finite scores.")
    width = (len(outputs) if outputs is not None else int(array.max()) + 1) if numbers else int(array.shape[-1])
    if numbers and not 0 <= int(array.min()) <= int(array.max()) < width:
        worst = int(array.max()) if int(array.max()) >= width else int(array.min())
        raise InputError(f"there is no action {worst}.", where, f"Number the {width} labels from 0.")
    if array.size * width > MOST_SCORES and numbers:
        raise InputError(f"the array speaks of {width:,} actions.", where, "Number the labels from 0.")
    chosen = array.reshape(-1, 1) == np.arange(width) if numbers else array.reshape(-1, width)
    flat = chosen.astype(np.float64).tolist()
    keys = product(*(map(float, range(size)) for size in axes))
    return Table(
        names_or_positions(inputs, None, len(axes), "input", where),
        names_or_positions(outputs, None, width, "output", where),
        {key: tuple(row) for key, row in zip(keys, flat, strict=True)},
    )


def array_of(table: Table) -> npt.NDArray[np.float64]:
    """Return the table as an array of scores; it must list every state from 0 up to the last."""
    keys = np.array(list(table.rows), dtype=np.float64)
    sizes = tuple(int(top) + 1 for top in keys.max(axis=0)) if len(keys) else ()
    if table.default is not None or not len(keys) or (keys < 0).any() or np.prod(sizes) != len(keys):
        raise InputError("the table does not list every state of an array.", hint="Save it as .json (table/1).")
    scores = np.zeros((*sizes, len(table.outputs)))
    scores[tuple(keys.T.astype(np.int64))] = np.array(list(table.rows.values()))
    return scores


def save_array(table: Table, path: str) -> None:
    """Write the table as an array of scores, `.npy` or `.npz`."""
    stored = io.BytesIO()
    if path.endswith(".npz"):
        np.savez(stored, policy=array_of(table))
    else:
        np.save(stored, array_of(table), allow_pickle=False)
    write_whole(path, stored.getvalue())


def _write(policy: Policy, path: str) -> None:
    assert isinstance(policy, Table)
    save_array(policy, path)


NUMPY = PolicyFormat(
    "numpy",
    "a Q-table as numpy's .npy or .npz",
    "the first bytes; only `.npy` in the archive",
    "none",
    detects=SIGNATURES["numpy"],
    read=lambda content, names: table_from_numpy(content.data, content.where, *names.both),
    writes=lambda policy, path: isinstance(policy, Table) and path.endswith((".npy", ".npz")),
    write=_write,
    saved="yes, by the ending",
)
