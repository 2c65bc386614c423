"""ONNX operators that are sums and products: matrices, biases, normalisation, means."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from polvet.policy.networks import MAX_PARAMETERS
from polvet.policy.onnx_call import Array, Call, Handler, Value, flat_numbers, like, spread
from polvet.policy.tape import LEAST_NORMAL, SCALE, Tape


def _gemm(tape: Tape, call: Call) -> Value:
    x, weights, bias = call.floats(0), call.numbers(1), call.operands[2] if len(call.operands) > 2 else None
    if weights is None or weights.ndim != 2 or x.columns.ndim != 2 or call.attributes.get("transA", 0):
        raise call.refuse("must multiply the data [batch, values] by a matrix.")
    if isinstance(bias, Value):
        raise call.refuse("adds values that depend on the inputs; a constant bias is read.")
    bias = call.numbers(2)
    matrix = weights if call.attributes.get("transB", 0) else weights.T
    alpha, beta = np.float32(call.attributes.get("alpha", 1.0)), np.float32(call.attributes.get("beta", 1.0))
    if alpha != 1 and ((np.abs(matrix * alpha) < LEAST_NORMAL) & (matrix != 0)).any():
        raise call.refuse("has weights below 2^-126, where float32 loses its digits.", SCALE)
    shift = np.zeros(len(matrix), dtype=np.float32)
    if bias is not None:
        shift = np.broadcast_to(bias, (1, len(matrix))).reshape(-1)
    return Value(_dense(tape, call, x.columns[0], matrix * alpha, shift * beta, 0 if alpha == beta == 1 else 4)[None])


def _dense(tape: Tape, call: Call, columns: npt.NDArray[np.int32], matrix: Array, bias: Array, roundings: int) -> Any:
    if matrix.shape[1] != len(columns) or not matrix.size:
        raise call.refuse(f"takes {matrix.shape[1]} values, {len(columns)} arrive.")
    return tape.affine(columns, matrix, bias, None, roundings)


def _matmul(tape: Tape, call: Call) -> Value:
    x, weights = call.floats(0), call.numbers(1)
    if weights is None or weights.ndim != 2 or x.columns.ndim < 2:
        raise call.refuse("must have the data on the left and a matrix on the right.")
    vectors = x.columns.reshape(-1, x.columns.shape[-1])
    zero = np.zeros(weights.shape[1], dtype=np.float32)
    rows = [_dense(tape, call, vector, weights.T, zero, 0) for vector in vectors]
    return Value(np.stack(rows).reshape(*x.columns.shape[:-1], weights.shape[1]))


def _pair(call: Call) -> tuple[Value | Array, Value | Array, tuple[int, ...]]:
    """Return the two operands of a binary node and the shape they broadcast to."""
    operands: list[Value | Array] = []
    for index in (0, 1):
        operand = call.operands[index] if index < len(call.operands) else None
        if operand is None:
            raise call.refuse(f"has no operand {index}.")
        if isinstance(operand, Value):
            operands.append(call.floats(index))
        else:
            numbers = call.numbers(index)
            assert numbers is not None
            operands.append(numbers)
    shapes = [part.columns.shape if isinstance(part, Value) else part.shape for part in operands]
    shape = np.broadcast_shapes(*shapes)
    if np.prod(shape, dtype=np.float64) > MAX_PARAMETERS:
        raise call.refuse(f"makes values of the shape {shape}.", "It is too large.")
    return operands[0], operands[1], shape


def _add(tape: Tape, call: Call) -> Value:
    left, right, shape = _pair(call)
    sign = -1.0 if call.operator == "Sub" else 1.0
    if isinstance(left, Value) and isinstance(right, Value):
        columns = tape.total([spread(call, left, shape), spread(call, right, shape)], [1.0, sign])
    elif isinstance(left, Value):
        columns = tape.scaled(spread(call, left, shape), 1.0, sign * flat_numbers(right, shape))
    else:
        assert isinstance(right, Value)
        columns = tape.scaled(spread(call, right, shape), sign, flat_numbers(left, shape))
    return Value(columns.reshape(shape))


def _mul(tape: Tape, call: Call) -> Value:
    left, right, shape = _pair(call)
    if isinstance(left, Value) and isinstance(right, Value):
        columns = tape.product(spread(call, left, shape), spread(call, right, shape))
    else:
        value, constant = (left, right) if isinstance(left, Value) else (right, left)
        assert isinstance(value, Value)
        columns = tape.scaled(spread(call, value, shape), flat_numbers(constant, shape))
    return Value(columns.reshape(shape))


def _div(tape: Tape, call: Call) -> Value:
    left, right, shape = _pair(call)
    if isinstance(right, Value):
        if isinstance(left, Value):
            return Value(tape.quotient(spread(call, left, shape), spread(call, right, shape)).reshape(shape))
        inverse = tape.unit("reciprocal", spread(call, right, shape))
        return Value(tape.scaled(inverse, flat_numbers(left, shape)).reshape(shape))
    assert isinstance(left, Value)
    divisor = flat_numbers(right, shape).astype(np.float64)
    if not (divisor != 0).all():
        raise call.refuse("divides by zero.")
    return Value(tape.scaled(spread(call, left, shape), 1 / divisor).reshape(shape))


def _neg(tape: Tape, call: Call) -> Value:
    x = call.floats(0)
    return like(x, tape.scaled(x.columns, -1.0))


def _batch_norm(tape: Tape, call: Call) -> Value:
    x = call.floats(0)
    if call.attributes.get("training_mode", 0) or (call.opset < 7 and not call.attributes.get("is_test", 0)):
        raise call.refuse("is in training mode.", "Call .eval() before exporting.")
    parts = [call.numbers(index) for index in (1, 2, 3, 4)]
    if any(part is None for part in parts):
        raise call.refuse("lacks its statistics.")
    shape = (1, -1, *(1,) * (x.columns.ndim - 2))
    scale, shift, mean, variance = (
        np.broadcast_to(np.asarray(part, dtype=np.float64).reshape(shape), x.columns.shape).reshape(-1)
        for part in parts
    )
    spread = variance + np.float32(call.attributes.get("epsilon", 1e-5))
    if not (spread > 0).all():
        raise call.refuse("has a variance that is not positive.")
    made = tape.normalised(x.columns, mean, np.sqrt(spread), scale, shift)
    return like(x, made)


def _reduce(tape: Tape, call: Call) -> Value:
    x = call.floats(0)
    rank = x.columns.ndim
    axes = call.integers(1, "axes")
    if axes is None:
        if call.attributes.get("noop_with_empty_axes", 0):
            return x
        raise call.refuse("mixes the rows of a batch.", "Name the axes to be reduced.")
    at = tuple(sorted({call.axis(axis, rank) for axis in axes}))
    rest = tuple(axis for axis in range(rank) if axis not in at)
    groups = x.columns.transpose(*rest, *at).reshape(*(x.columns.shape[axis] for axis in rest), -1)
    count = groups.shape[-1]
    flat = groups.reshape(-1, count)
    share = np.float32(1) if call.operator == "ReduceSum" else np.float32(1 / count)
    roundings = 0 if float(share) * count == 1 or call.operator == "ReduceSum" else 2
    weights = np.full(flat.shape, share, dtype=np.float32)
    around = tape.centred(flat.reshape(-1))
    if around is not None:
        # A variance: libraries that know the pattern take the mean of squares minus the square of the mean instead. Each
        # square is added and taken away again, which is nothing, but is counted among what rounding may do.
        squares = tape.unit("square", around).reshape(flat.shape)
        flat = np.concatenate([np.repeat(squares, 2, axis=1), flat], axis=1)
        weights = np.concatenate([np.tile([share, -share], (len(flat), count)), weights], axis=1)
    sums = tape.affine(flat[0] if len(flat) == 1 else flat, weights, None, None, roundings)
    keep = call.attributes.get("keepdims", 1)
    shape = [1 if axis in at else size for axis, size in enumerate(x.columns.shape) if keep or axis not in at]
    return Value(sums.reshape(shape))


AFFINE: dict[str, Handler] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Add": _add,
    "Sub": _add,
    "Mul": _mul,
    "Div": _div,
    "Neg": _neg,
    "BatchNormalization": _batch_norm,
    "ReduceMean": _reduce,
    "ReduceSum": _reduce,
}
