"""ONNX operators on whole inputs: casts, one-hot, comparisons for equality, tables by index."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from polvet.policy.networks import MAX_PARAMETERS
from polvet.policy.onnx_call import (
    AGAIN,
    DOUBLE,
    FLOAT,
    FLOAT16,
    INT32,
    INT64,
    Array,
    Call,
    Handler,
    Operand,
    Value,
    spread,
)
from polvet.policy.tape import Tape


def _cast(tape: Tape, call: Call) -> Operand:
    operand, to = call.operands[0], call.attributes.get("to")
    assert isinstance(operand, Value)
    if "ArgMax" in operand.ending:
        return operand  # an index stays an index
    if to == FLOAT16:
        raise call.refuse("casts to float16; float32 and float64 are read.", AGAIN)
    if to in (FLOAT, DOUBLE):
        tape.narrowed |= to == DOUBLE
        if operand.kind == "cut":
            raise call.refuse("brings back a float that was cut to an integer.", "Cast the inputs once.")
        if to == FLOAT and tape.narrowed and not operand.ending and operand.columns.max() >= tape.inputs:
            rounded = tape.scaled(operand.columns, 1.0, roundings=2)  # of what may be a float64 value
            return Value(rounded.reshape(operand.columns.shape), "float")
        return Value(operand.columns, "float", operand.ending)
    if to in (INT32, INT64):
        return Value(operand.columns, "cut" if operand.kind == "float" else operand.kind, operand.ending)
    raise call.refuse(f"casts to the type {to}.")


def _index(call: Call, number: int) -> Value:
    value = call.value(number)
    if value.kind not in ("int", "cut"):
        raise call.refuse("compares floats for equality.", "Only whole inputs are told apart so.")
    return value


def _one_hot(tape: Tape, call: Call) -> Value:
    x, depth, values = _index(call, 0), call.constant(1), call.constant(2)
    if depth is None or depth.size != 1 or values is None or values.size != 2:
        raise call.refuse("needs a depth and two values.")
    count, (off, on) = int(depth.reshape(-1)[0]), (float(k) for k in values.reshape(-1))
    axis = call.attributes.get("axis", -1)
    if not 0 < count <= MAX_PARAMETERS or axis not in (-1, x.columns.ndim):
        raise call.refuse(f"has the depth {count} and the axis {axis}.")
    call.check_size(x.columns.size, count)
    made = _told_apart(tape, x, np.arange(count), np.arange(count) - count)
    if (off, on) != (0.0, 1.0):
        made = tape.scaled(made, np.float32(on - off), np.float32(off))
    return Value(made.reshape(*x.columns.shape, count), "float" if values.dtype == np.float32 else "bool")


def _told_apart(tape: Tape, x: Value, first: Array, second: Array) -> npt.NDArray[np.int32]:
    """Write for each column of x and each number whether x is that number (or the second one)."""
    flat = x.columns.reshape(-1)
    columns = np.repeat(flat, len(first))
    return tape.unit("equal", columns, np.tile(first, len(flat)), np.tile(second, len(flat)))


def _equal(tape: Tape, call: Call) -> Value:
    at = 0 if isinstance(call.operands[0], Value) else 1
    x, numbers = _index(call, at), call.constant(1 - at)
    if numbers is None:
        raise call.refuse("has one operand only.")
    shape = np.broadcast_shapes(x.columns.shape, numbers.shape)
    columns, given = spread(call, x, shape), np.broadcast_to(numbers, shape).reshape(-1)
    return Value(tape.unit("equal", columns, given, given).reshape(shape), "bool")


def _gather(tape: Tape, call: Call) -> Value:
    axis = call.attributes.get("axis", 0)
    if isinstance(call.operands[1], Value):
        table, index = call.numbers(0), _index(call, 1)
        if table is None or table.ndim != 2 or axis != 0:
            raise call.refuse("looks values up in something that is not a matrix of constants.")
        rows = len(table)
        call.check_size(index.columns.size, rows + table.shape[1])
        made = []
        for column in index.columns.reshape(-1):
            marks = _told_apart(
                tape, Value(np.array([column], dtype=np.int32)), np.arange(rows), np.arange(rows) - rows
            )
            made.append(tape.affine(marks, table.T))
        return Value(np.stack(made).reshape(*index.columns.shape, table.shape[1]))
    x, chosen = call.value(0), call.constant(1)
    if chosen is None:
        raise call.refuse("has no indices.")
    call.check_size(x.columns.size, chosen.size)
    return Value(np.take(x.columns, chosen, axis=call.axis(axis, x.columns.ndim)), x.kind)


DISCRETE: dict[str, Handler] = {"Cast": _cast, "OneHot": _one_hot, "Equal": _equal, "Gather": _gather}
