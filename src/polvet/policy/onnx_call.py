"""What a node of an ONNX file is read with: its operands, values as column numbers, and the words to refuse it.

A value that depends on the inputs is an array of column numbers in its ONNX shape, with a batch of one row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from polvet.errors import InputError, Where
from polvet.files import Json
from polvet.policy.tape import Tape

AGAIN = "Export the network in float32; docs/policies.md lists the operators that are read."
FLOAT, INT32, INT64, BOOL, FLOAT16, DOUBLE = 1, 6, 7, 9, 10, 11  # TensorProto's numbers
FLOAT_ENDINGS = ("Softmax", "LogSoftmax")
MOST_VALUES = 1 << 22
RECURRENT = ("LSTM", "GRU", "RNN", "Loop", "Scan")
Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """Column numbers in the shape of an ONNX value, the batch first; `kind` is float, int, cut (a float cut to an integer) or bool."""

    columns: npt.NDArray[np.int32]
    kind: str = "float"
    ending: tuple[str, ...] = ()  # what was dropped behind these scores


Operand: TypeAlias = Value | Array | None


@dataclass(frozen=True, slots=True)
class Call:
    """One node with its operands at hand."""

    operator: str
    operands: tuple[Operand, ...]
    attributes: Json
    opset: int
    shown: str
    place: Where

    def refuse(self, what: str, hint: str = AGAIN) -> InputError:
        """Return the error that the node is at fault."""
        return InputError(f"{self.shown} {what}", self.place, hint)

    def value(self, index: int) -> Value:
        """Return an operand that depends on the inputs."""
        operand = self.operands[index] if index < len(self.operands) else None
        if not isinstance(operand, Value):
            raise self.refuse(f"needs a value that depends on the inputs as operand {index}.")
        if operand.ending:
            raise self.refuse(
                f"reads the result of {operand.ending[-1]}.", "Softmax and ArgMax are read at the end only."
            )
        return operand

    def floats(self, index: int) -> Value:
        """Return an operand that holds float32 values of the inputs."""
        value = self.value(index)
        if value.kind not in ("float", "bool"):
            raise self.refuse("computes with integers.", "Cast the inputs to float32 first.")
        return value

    def constant(self, index: int) -> Array | None:
        """Return a constant operand, None where it is absent."""
        operand = self.operands[index] if index < len(self.operands) else None
        if isinstance(operand, Value):
            raise self.refuse(f"has an operand {index} that depends on the inputs; only a constant is read there.")
        return operand

    def numbers(self, index: int) -> Array | None:
        """Return a constant operand of float32 or float64 numbers, None where it is absent."""
        array = self.constant(index)
        if array is not None and array.dtype not in (np.float32, np.float64):
            raise self.refuse(
                f"has {array.dtype} numbers.", "float32 and float64 are read: export the network in float32."
            )
        return array

    def narrow(self, index: int) -> Array | None:
        """Return a constant operand of numbers that float32 holds, None where it is absent."""
        array = self.numbers(index)
        if array is not None and array.dtype == np.float64 and (array.astype(np.float32) != array).any():
            raise self.refuse("has float64 parameters that float32 does not hold.", "Export the network in float32.")
        return None if array is None else array.astype(np.float32)

    def check_size(self, *sizes: int) -> None:
        """Raise an InputError where the node would make more values than a network may have; the sizes are multiplied."""
        if prod(sizes) > MOST_VALUES:
            raise self.refuse(f"makes {prod(sizes)} values.", f"At most {MOST_VALUES} are read.")

    def integers(self, index: int, attribute: str) -> list[int] | None:
        """Return whole numbers given as an operand or, in older files, as an attribute; None where absent."""
        if attribute in self.attributes:
            given = self.attributes[attribute]
            return [int(given)] if isinstance(given, int) else [int(k) for k in given]
        array = self.constant(index)
        return None if array is None else [int(k) for k in np.asarray(array).reshape(-1)]

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis counted from the front, or raise an InputError; axis 0 holds the rows of a batch."""
        at = axis + rank if axis < 0 else axis
        if not 0 <= at < rank:
            raise self.refuse(f"has the axis {axis} where there are {rank}.")
        if at == 0:
            raise self.refuse("mixes the rows of a batch.", "Only networks that treat each row alone are read.")
        return at


Handler: TypeAlias = Callable[[Tape, Call], Operand | tuple[Operand, ...]]


def like(value: Value, columns: npt.NDArray[np.int32]) -> Value:
    """Return columns in the shape of another value."""
    return Value(columns.reshape(value.columns.shape))


def spread(call: Call, value: Value, shape: tuple[int, ...]) -> npt.NDArray[np.int32]:
    """Return the columns of a value that is broadcast to the shape, in a row."""
    if shape[0] != 1:
        raise call.refuse("mixes the rows of a batch.", "Only networks that treat each row alone are read.")
    call.check_size(*shape)
    return np.broadcast_to(value.columns, shape).reshape(-1)


def flat_numbers(constant: Value | Array, shape: tuple[int, ...]) -> Array:
    """Return the numbers of a constant that is broadcast to the shape, in a row."""
    assert not isinstance(constant, Value)
    return np.broadcast_to(constant, shape).reshape(-1)
