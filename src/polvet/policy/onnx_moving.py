"""ONNX operators that only move values: numpy on column numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from polvet.policy.onnx_call import Array, Call, Handler, Operand, Value
from polvet.policy.tape import Tape


def _moved(value: Value, columns: npt.NDArray[np.int32], call: Call) -> Value:
    if columns.ndim and columns.shape[0] != 1 and "ArgMax" not in value.ending:
        raise call.refuse("mixes the rows of a batch.", "Only networks that treat each row alone are read.")
    return Value(columns, value.kind, value.ending)


def _pass(tape: Tape, call: Call) -> Operand:
    return call.operands[0]


def _dropout(tape: Tape, call: Call) -> Operand:
    training = call.constant(2)
    if training is not None and np.asarray(training).any():
        raise call.refuse("is in training mode, where it is random.", "Call .eval() before exporting.")
    return call.operands[0]


def _reshape(tape: Tape, call: Call) -> Value:
    operand = call.operands[0]
    assert isinstance(operand, Value)
    if "ArgMax" in operand.ending:
        return operand
    shape = call.integers(1, "shape")
    if shape is None:
        raise call.refuse("has no shape.")
    if not call.attributes.get("allowzero", 0):
        shape = [operand.columns.shape[axis] if size == 0 else size for axis, size in enumerate(shape)]
    return _moved(operand, operand.columns.reshape(shape), call)


def _flatten(tape: Tape, call: Call) -> Value:
    x = call.value(0)
    axis = call.attributes.get("axis", 1)
    if (axis + x.columns.ndim if axis < 0 else axis) != 1:
        raise call.refuse(f"has the axis {axis}; only 1 is read.")
    return _moved(x, x.columns.reshape(1, -1), call)


def _squeeze(tape: Tape, call: Call) -> Value:
    operand = call.operands[0]
    assert isinstance(operand, Value)
    if "ArgMax" in operand.ending:
        return operand
    axes = call.integers(1, "axes")
    if axes is None:
        raise call.refuse("does not say which axes it squeezes.")
    change = np.squeeze if call.operator == "Squeeze" else np.expand_dims
    if call.operator == "Squeeze":
        axes = [call.axis(axis, operand.columns.ndim) for axis in axes]
    return _moved(operand, change(operand.columns, tuple(axes)), call)


def _transpose(tape: Tape, call: Call) -> Value:
    x = call.value(0)
    perm = call.attributes.get("perm", tuple(reversed(range(x.columns.ndim))))
    if not perm or perm[0] != 0:
        raise call.refuse("moves the rows of a batch.", "Only networks that treat each row alone are read.")
    return Value(x.columns.transpose(perm), x.kind)


def _concat(tape: Tape, call: Call) -> Value:
    parts = []
    for index, operand in enumerate(call.operands):
        if not isinstance(operand, Value):
            raise call.refuse("joins values with constants.", "Add constants to the bias instead.")
        parts.append(call.floats(index))
    axis = call.axis(int(call.attributes.get("axis", 1)), parts[0].columns.ndim)
    call.check_size(sum(part.columns.size for part in parts))
    return Value(np.concatenate([part.columns for part in parts], axis=axis))


def _split(tape: Tape, call: Call) -> tuple[Operand, ...]:
    x = call.value(0)
    axis = call.axis(int(call.attributes.get("axis", 0)), x.columns.ndim)
    sizes = call.integers(1, "split")
    total = x.columns.shape[axis]
    if sizes is None:
        count = call.attributes.get("num_outputs")
        if not isinstance(count, int) or not 0 < count <= total:
            raise call.refuse(f"does not say where it splits {total} values (num_outputs is {count}).")
        chunk = -(-total // count)
        sizes = [min(chunk, total - k * chunk) for k in range(count)]
    if sum(sizes) != total or min(sizes) < 0:
        raise call.refuse(f"splits {total} values into {sizes}.")
    ends = np.cumsum(sizes)[:-1]
    return tuple(Value(part, x.kind) for part in np.split(x.columns, ends, axis=axis))


def _slice(tape: Tape, call: Call) -> Value:
    x = call.value(0)
    starts, ends = call.integers(1, "starts"), call.integers(2, "ends")
    if starts is None or ends is None:
        raise call.refuse("does not say where it begins and ends.")
    axes = call.integers(3, "axes") or list(range(len(starts)))
    steps = call.integers(4, "steps") or [1] * len(starts)
    columns = x.columns
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = axis + columns.ndim if axis < 0 else axis
        if at == 0 and (start != 0 or end < 2**31 - 1 or step != 1):
            raise call.refuse("cuts the rows of a batch.", "Only networks that treat each row alone are read.")
        stop = None if step < 0 and end < -columns.shape[at] else end
        columns = columns[(slice(None),) * at + (slice(start, stop, step),)]
    return Value(columns, x.kind)


def _shape(tape: Tape, call: Call) -> Array:
    operand = call.operands[0]
    return np.array(operand.columns.shape if isinstance(operand, Value) else np.shape(operand), dtype=np.int64)  # type: ignore[arg-type]


def _where(tape: Tape, call: Call) -> Value:
    """Only softplus with its straight end: Where(x > 20, x, softplus(x))."""
    condition, straight, curved = (call.operands[k] if k < len(call.operands) else None for k in range(3))
    if isinstance(condition, Value) and isinstance(straight, Value) and isinstance(curved, Value):
        inner = tape._unit_of(curved.columns.reshape(-1))
        if (
            condition.kind == "above 20"
            and inner is not None
            and inner.name == "softplus"
            and np.array_equal(inner.columns, straight.columns.reshape(-1))
            and np.array_equal(condition.columns, straight.columns)
        ):
            return curved
    raise call.refuse("is read as a part of softplus only.")


def _greater(tape: Tape, call: Call) -> Value:
    x, limit = call.floats(0), call.numbers(1)
    if limit is None or limit.size != 1 or float(limit.reshape(-1)[0]) < 15:
        raise call.refuse("is read as a part of softplus only.")
    return Value(x.columns, "above 20")


MOVING: dict[str, Handler] = {
    "Identity": _pass,
    "Dropout": _dropout,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _squeeze,
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Shape": _shape,
    "Where": _where,
    "Greater": _greater,
    "Constant": _pass,
}
