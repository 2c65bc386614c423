"""The graph of an ONNX file, node by node, written on a tape of columns (`polvet.policy.tape`).

A value that depends on the inputs is an array of column numbers in its ONNX shape, with a batch of one row: so whatever only moves
values (Reshape, Concat, Slice, Gather, Transpose, ...) is numpy on numbers. Only nodes behind the chosen output are read.
Ending   Softmax and LogSoftmax at the end keep the order of scores up to an enclosure, ArgMax keeps it exactly: they are dropped
Refused  by the node's operator and name: recurrent nodes, convolutions, Softmax within the network, anything else
         that is not in OPERATORS; float16; nodes that mix the rows of a batch
Float64  numbers are rounded to float32, and the graph is marked (`Tape.narrowed`); ends of clips and slopes must be float32 numbers
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from polvet.errors import InputError, Where
from polvet.policy.networks import MAX_PARAMETERS
from polvet.policy.tape import LEAST_NORMAL, SCALE, Tape

AGAIN = "Export the network in float32; docs/policies.md lists the operators that are read."
FLOAT, INT32, INT64, BOOL, FLOAT16, DOUBLE = 1, 6, 7, 9, 10, 11  # TensorProto's numbers
FLOAT_ENDINGS = ("Softmax", "LogSoftmax")
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
    attributes: dict[str, Any]
    opset: int
    shown: str
    place: Where

    def refuse(self, what: str, hint: str = AGAIN) -> InputError:
        """Return the error that the node is at fault."""
        return InputError(f"{self.shown} {what}", self.place, hint)

    def value(self, index: int) -> Value:
        """Return an operand that depends on the inputs."""
        found = self.operands[index] if index < len(self.operands) else None
        if not isinstance(found, Value):
            raise self.refuse(f"needs a value that depends on the inputs as operand {index}.")
        if found.ending:
            raise self.refuse(
                f"reads the result of {found.ending[-1]}.", "Softmax and ArgMax are read at the end only."
            )
        return found

    def floats(self, index: int) -> Value:
        """Return an operand that holds float32 values of the inputs."""
        found = self.value(index)
        if found.kind not in ("float", "bool"):
            raise self.refuse("computes with integers.", "Cast the inputs to float32 first.")
        return found

    def constant(self, index: int) -> Array | None:
        """Return a constant operand, None where it is absent."""
        found = self.operands[index] if index < len(self.operands) else None
        if isinstance(found, Value):
            raise self.refuse(f"has an operand {index} that depends on the inputs; only a constant is read there.")
        return found

    def numbers(self, index: int) -> Array | None:
        """Return a constant operand of float32 or float64 numbers, None where it is absent."""
        found = self.constant(index)
        if found is not None and found.dtype not in (np.float32, np.float64):
            raise self.refuse(
                f"has {found.dtype} numbers.", "float32 and float64 are read: export the network in float32."
            )
        return found

    def narrow(self, index: int) -> Array | None:
        """Return a constant operand of numbers that float32 holds, None where it is absent."""
        found = self.numbers(index)
        if found is not None and found.dtype == np.float64 and (found.astype(np.float32) != found).any():
            raise self.refuse("has float64 parameters that float32 does not hold.", "Export the network in float32.")
        return None if found is None else found.astype(np.float32)

    def integers(self, index: int, attribute: str) -> list[int] | None:
        """Return whole numbers given as an operand or, in older files, as an attribute; None where absent."""
        if attribute in self.attributes:
            given = self.attributes[attribute]
            return [int(given)] if isinstance(given, int) else [int(k) for k in given]
        found = self.constant(index)
        return None if found is None else [int(k) for k in np.asarray(found).reshape(-1)]

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis counted from the front, or raise an InputError; axis 0 holds the rows of a batch."""
        at = axis + rank if axis < 0 else axis
        if not 0 <= at < rank:
            raise self.refuse(f"has the axis {axis} where there are {rank}.")
        if at == 0:
            raise self.refuse("mixes the rows of a batch.", "Only networks that treat each row alone are read.")
        return at


class Walk:
    """The nodes read so far: what each name stands for."""

    def __init__(self, constants: dict[str, Array], where: Where, opset: int) -> None:
        self.values: dict[str, Operand] = dict(constants)
        self.where, self.opset = where, opset
        self.tape: Tape | None = None

    def start(self, name: str, shape: Sequence[int], kind: str) -> None:
        """Begin with the graph's input, of this shape without the batch."""
        width = 1
        for size in shape:
            width *= size
        self.tape = Tape(width, self.where)
        self.values[name] = Value(np.arange(width, dtype=np.int32).reshape((1, *shape)), kind)

    def node(self, onnx: Any, node: Any, place: Where) -> None:
        """Take in one node."""
        shown = f"the node '{node.name or place.path[-1]}' ({node.op_type})"
        if node.op_type in RECURRENT:
            raise InputError(
                f"{shown} has a memory, which is no part of a state.", place, "Recurrent policies are not read."
            )
        handler = OPERATORS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if handler is None:
            domain = f" of the domain '{node.domain}'" if node.domain else ""
            raise InputError(f"{shown}{domain} is not supported.", place, AGAIN)
        for name in node.input:
            if name and name not in self.values:
                raise InputError(f"{shown} reads '{name}', which is not known.", place, "Nothing before it makes that value.")  # fmt: skip
        attributes = {}
        for entry in node.attribute:
            try:
                attributes[entry.name] = onnx.helper.get_attribute_value(entry)
            except ValueError:
                raise InputError(f"{shown} has the damaged attribute '{entry.name}'.", place, AGAIN) from None
        operands = tuple(self.values[name] if name else None for name in node.input)
        call = Call(node.op_type, operands, attributes, self.opset, shown, place)
        assert self.tape is not None
        if node.op_type != "Shape" and not any(isinstance(operand, Value) for operand in operands):
            made: list[Operand] = list(folded(call, len(node.output)))
        else:
            try:
                found = handler(self.tape, call)
            except (ValueError, IndexError, TypeError) as error:  # shapes that do not fit
                raise call.refuse(f"cannot be read: {error}.") from None
            made = list(found) if isinstance(found, tuple) else [found]
        for name, result in zip(node.output, made, strict=False):
            if name in self.values and name:
                raise InputError(f"{shown} makes '{name}' a second time.", place, AGAIN)
            self.values[name] = result


Handler: TypeAlias = Callable[[Tape, Call], Operand | tuple[Operand, ...]]


def _like(value: Value, columns: npt.NDArray[np.int32]) -> Value:
    return Value(columns.reshape(value.columns.shape))


# -- affine


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
    made = [_dense(tape, call, vector, weights.T, zero, 0) for vector in vectors]
    return Value(np.stack(made).reshape(*x.columns.shape[:-1], weights.shape[1]))


def _spread(call: Call, value: Value, shape: tuple[int, ...]) -> npt.NDArray[np.int32]:
    if shape[0] != 1:
        raise call.refuse("mixes the rows of a batch.", "Only networks that treat each row alone are read.")
    return np.broadcast_to(value.columns, shape).reshape(-1)


def _pair(call: Call) -> tuple[Value | Array, Value | Array, tuple[int, ...]]:
    """Return the two operands of a binary node and the shape they broadcast to."""
    found: list[Value | Array] = []
    for index in (0, 1):
        operand = call.operands[index] if index < len(call.operands) else None
        if operand is None:
            raise call.refuse(f"has no operand {index}.")
        if isinstance(operand, Value):
            found.append(call.floats(index))
        else:
            numbers = call.numbers(index)
            assert numbers is not None
            found.append(numbers)
    shapes = [part.columns.shape if isinstance(part, Value) else part.shape for part in found]
    shape = np.broadcast_shapes(*shapes)
    if np.prod(shape, dtype=np.float64) > MAX_PARAMETERS:
        raise call.refuse(f"makes values of the shape {shape}.", "It is too large.")
    return found[0], found[1], shape


def _numbers(constant: Value | Array, shape: tuple[int, ...]) -> Array:
    assert not isinstance(constant, Value)
    return np.broadcast_to(constant, shape).reshape(-1)


def _add(tape: Tape, call: Call) -> Value:
    left, right, shape = _pair(call)
    sign = -1.0 if call.operator == "Sub" else 1.0
    if isinstance(left, Value) and isinstance(right, Value):
        made = tape.total([_spread(call, left, shape), _spread(call, right, shape)], [1.0, sign])
    elif isinstance(left, Value):
        made = tape.scaled(_spread(call, left, shape), 1.0, sign * _numbers(right, shape))
    else:
        assert isinstance(right, Value)
        made = tape.scaled(_spread(call, right, shape), sign, _numbers(left, shape))
    return Value(made.reshape(shape))


def _mul(tape: Tape, call: Call) -> Value:
    left, right, shape = _pair(call)
    if isinstance(left, Value) and isinstance(right, Value):
        made = tape.product(_spread(call, left, shape), _spread(call, right, shape))
    else:
        value, constant = (left, right) if isinstance(left, Value) else (right, left)
        assert isinstance(value, Value)
        made = tape.scaled(_spread(call, value, shape), _numbers(constant, shape))
    return Value(made.reshape(shape))


def _div(tape: Tape, call: Call) -> Value:
    left, right, shape = _pair(call)
    if isinstance(right, Value):
        if isinstance(left, Value):
            return Value(tape.quotient(_spread(call, left, shape), _spread(call, right, shape)).reshape(shape))
        inverse = tape.unit("reciprocal", _spread(call, right, shape))
        return Value(tape.scaled(inverse, _numbers(left, shape)).reshape(shape))
    assert isinstance(left, Value)
    divisor = _numbers(right, shape).astype(np.float64)
    if not (divisor != 0).all():
        raise call.refuse("divides by zero.")
    return Value(tape.scaled(_spread(call, left, shape), 1 / divisor).reshape(shape))


def _neg(tape: Tape, call: Call) -> Value:
    x = call.floats(0)
    return _like(x, tape.scaled(x.columns, -1.0))


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
    return _like(x, made)


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
    made = tape.affine(flat[0] if len(flat) == 1 else flat, weights, None, None, roundings)
    keep = call.attributes.get("keepdims", 1)
    shape = [1 if axis in at else size for axis, size in enumerate(x.columns.shape) if keep or axis not in at]
    return Value(made.reshape(shape))


def _layer_norm(tape: Tape, call: Call) -> Value:
    """Its definition: (x - mean) / sqrt(variance + epsilon) * scale + bias, over the last axis."""
    x, scale, bias = call.floats(0), call.numbers(1), call.numbers(2)
    axis = call.axis(int(call.attributes.get("axis", -1)), x.columns.ndim)
    if axis != x.columns.ndim - 1 or scale is None:
        raise call.refuse("is read over the last axis only.")

    def step(operator: str, *operands: Operand, **attributes: Any) -> Value:
        handler = OPERATORS[operator]
        made = handler(tape, Call(operator, operands, attributes, 13, call.shown, call.place))
        assert isinstance(made, Value)
        return made

    centred = step("Sub", x, step("ReduceMean", x, axes=[-1]))
    variance = step("ReduceMean", step("Pow", centred, np.array(2, dtype=np.float32)), axes=[-1])
    deviation = step("Sqrt", step("Add", variance, np.array(call.attributes.get("epsilon", 1e-5), dtype=np.float32)))
    scaled = step("Mul", step("Div", centred, deviation), scale)
    return scaled if bias is None else step("Add", scaled, bias)


# -- units

SIMPLE = {
    "Tanh": "tanh", "Sigmoid": "sigmoid", "Softplus": "softplus", "Softsign": "softsign", "Exp": "exp", "Erf": "erf",
    "Abs": "abs", "HardSwish": "hard_swish", "Mish": "mish", "Sqrt": "sqrt", "Reciprocal": "reciprocal",
}  # fmt: skip


def _simple(tape: Tape, call: Call) -> Value:
    x = call.floats(0)
    return _like(x, tape.unit(SIMPLE[call.operator], x.columns))


def _relu(tape: Tape, call: Call) -> Value:
    x = call.floats(0)
    return _like(x, tape.relu(x.columns))


def _gelu(tape: Tape, call: Call) -> Value:
    x = call.floats(0)
    how = call.attributes.get("approximate", b"none")
    if how not in (b"none", b"tanh", "none", "tanh"):
        raise call.refuse(f"has the approximation {how!r}.")
    return _like(x, tape.unit("gelu" if how in (b"none", "none") else "gelu_tanh", x.columns))


def _leaky(tape: Tape, call: Call) -> Value:
    x = call.floats(0)
    return _like(x, tape.unit("leaky", x.columns, call.attributes.get("alpha", 0.01)))


def _prelu(tape: Tape, call: Call) -> Value:
    x, slope = call.floats(0), call.narrow(1)
    if slope is None:
        raise call.refuse("has no slope.")
    return _like(x, tape.unit("leaky", x.columns, np.broadcast_to(slope, x.columns.shape)))


def _elu(tape: Tape, call: Call) -> Value:
    x = call.floats(0)
    if call.operator == "Selu":
        return _like(x, tape.unit("elu", x.columns, call.attributes.get("alpha", 1.67326319217681884765625),
                                  call.attributes.get("gamma", 1.05070102214813232421875)))  # fmt: skip
    alpha = call.attributes.get("alpha", 1.0)
    if call.operator == "Celu" and alpha != 1:
        raise call.refuse(f"has alpha = {alpha}; only 1 is read.")
    return _like(x, tape.unit("elu", x.columns, alpha, 1.0))


def _clip(tape: Tape, call: Call) -> Value:
    x = call.floats(0)
    ends = []
    for index, name, absent in ((1, "min", -inf), (2, "max", inf)):
        given = call.attributes[name] if name in call.attributes else call.narrow(index)
        ends.append(np.float32(absent) if given is None else np.asarray(given, dtype=np.float32))
    return _like(x, tape.unit("clip", x.columns, ends[0], ends[1]))


def _extremum(tape: Tape, call: Call) -> Value:
    values = [operand for operand in call.operands if isinstance(operand, Value)]
    if len(values) != 1 or not len(call.operands):
        raise call.refuse("compares values that both depend on the inputs.", "Min and Max are read with constants.")
    at = call.operands.index(values[0])
    x = call.floats(at)
    constants = [call.narrow(index) for index in range(len(call.operands)) if index != at]
    shape = np.broadcast_shapes(x.columns.shape, *(part.shape for part in constants if part is not None))
    columns = _spread(call, x, shape)
    for part in constants:
        end = _numbers(np.asarray(part), shape)
        columns = tape.unit("clip", columns, *((end, inf) if call.operator == "Max" else (-inf, end)))
    return Value(columns.reshape(shape))


def _hard_sigmoid(tape: Tape, call: Call) -> Value:
    x = call.floats(0)
    alpha, beta = np.float32(call.attributes.get("alpha", 0.2)), np.float32(call.attributes.get("beta", 0.5))
    return _like(x, tape.unit("clip", tape.scaled(x.columns, alpha, beta), 0.0, 1.0))


def _power(tape: Tape, call: Call) -> Value:
    x, exponent = call.floats(0), call.constant(1)
    if exponent is None or exponent.size != 1 or float(exponent.reshape(-1)[0]) != 2:
        raise call.refuse("is read with the exponent 2 only.")
    return _like(x, tape.unit("square", x.columns))


# -- discrete inputs


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
    found = call.value(number)
    if found.kind not in ("int", "cut"):
        raise call.refuse("compares floats for equality.", "Only whole inputs are told apart so.")
    return found


def _one_hot(tape: Tape, call: Call) -> Value:
    x, depth, values = _index(call, 0), call.constant(1), call.constant(2)
    if depth is None or depth.size != 1 or values is None or values.size != 2:
        raise call.refuse("needs a depth and two values.")
    count, (off, on) = int(depth.reshape(-1)[0]), (float(k) for k in values.reshape(-1))
    axis = call.attributes.get("axis", -1)
    if not 0 < count <= MAX_PARAMETERS or axis not in (-1, x.columns.ndim):
        raise call.refuse(f"has the depth {count} and the axis {axis}.")
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
    columns, given = _spread(call, x, shape), np.broadcast_to(numbers, shape).reshape(-1)
    return Value(tape.unit("equal", columns, given, given).reshape(shape), "bool")


def _gather(tape: Tape, call: Call) -> Value:
    axis = call.attributes.get("axis", 0)
    if isinstance(call.operands[1], Value):
        table, index = call.numbers(0), _index(call, 1)
        if table is None or table.ndim != 2 or axis != 0:
            raise call.refuse("looks values up in something that is not a matrix of constants.")
        rows = len(table)
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
    return Value(np.take(x.columns, chosen, axis=call.axis(axis, x.columns.ndim)), x.kind)


# -- moving values


def _moved(value: Value, columns: npt.NDArray[np.int32], call: Call) -> Value:
    if columns.ndim and columns.shape[0] != 1 and "ArgMax" not in value.ending:
        raise call.refuse("mixes the rows of a batch.", "Only networks that treat each row alone are read.")
    return Value(columns, value.kind, value.ending)


def _pass(tape: Tape, call: Call) -> Operand:
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
    return Value(np.concatenate([part.columns for part in parts], axis=axis))


def _split(tape: Tape, call: Call) -> tuple[Operand, ...]:
    x = call.value(0)
    axis = call.axis(int(call.attributes.get("axis", 0)), x.columns.ndim)
    sizes = call.integers(1, "split")
    total = x.columns.shape[axis]
    if sizes is None:
        count = call.attributes.get("num_outputs")
        if not count:
            raise call.refuse("does not say where it splits.")
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
        if at == 0 and (start != 0 or end < 1 or step != 1):
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
            condition.kind == "above 20" and inner is not None and inner.name == "softplus"
            and np.array_equal(inner.columns, straight.columns.reshape(-1))
            and np.array_equal(condition.columns, straight.columns)
        ):  # fmt: skip
            return curved
    raise call.refuse("is read as a part of softplus only.")


def _greater(tape: Tape, call: Call) -> Value:
    x, limit = call.floats(0), call.numbers(1)
    if limit is None or limit.size != 1 or float(limit.reshape(-1)[0]) < 15:
        raise call.refuse("is read as a part of softplus only.")
    return Value(x.columns, "above 20")


# -- the end


def _softmax(tape: Tape, call: Call) -> Value:
    operand = call.operands[0]
    assert isinstance(operand, Value)
    _last_axis(call, operand, 1 if call.opset < 13 else -1)
    return Value(call.floats(0).columns, "float", (call.operator,))


def _argmax(tape: Tape, call: Call) -> Value:
    operand = call.operands[0]
    assert isinstance(operand, Value)
    if "ArgMax" in operand.ending:
        raise call.refuse("follows another ArgMax.")
    _last_axis(call, operand, 0)
    if call.attributes.get("select_last_index", 0):
        raise call.refuse("takes the last of equal scores; polvet takes the first.")
    return Value(operand.columns, "int", (*operand.ending, "ArgMax"))


def _last_axis(call: Call, operand: Value, default: int) -> None:
    axis = call.axis(int(call.attributes.get("axis", default)), operand.columns.ndim)
    if operand.columns.size != operand.columns.shape[axis]:
        raise call.refuse(f"has the axis {axis} of a value of the shape {operand.columns.shape}.")


OPERATORS: dict[str, Handler] = {
    "Gemm": _gemm, "MatMul": _matmul, "Add": _add, "Sub": _add, "Mul": _mul, "Div": _div, "Neg": _neg,
    "BatchNormalization": _batch_norm, "LayerNormalization": _layer_norm, "ReduceMean": _reduce, "ReduceSum": _reduce,
    **dict.fromkeys(SIMPLE, _simple), "Relu": _relu, "Gelu": _gelu, "LeakyRelu": _leaky, "PRelu": _prelu, "Elu": _elu,
    "Selu": _elu, "Celu": _elu, "Clip": _clip, "Min": _extremum, "Max": _extremum, "HardSigmoid": _hard_sigmoid,
    "Pow": _power, "Cast": _cast, "OneHot": _one_hot, "Equal": _equal, "Gather": _gather, "Identity": _pass,
    "Dropout": _pass, "Reshape": _reshape, "Flatten": _flatten, "Squeeze": _squeeze, "Unsqueeze": _squeeze,
    "Transpose": _transpose, "Concat": _concat, "Split": _split, "Slice": _slice, "Shape": _shape, "Where": _where,
    "Greater": _greater, "Softmax": _softmax, "LogSoftmax": _softmax, "ArgMax": _argmax, "Constant": _pass,
}  # fmt: skip


# -- constants


def folded(call: Call, outputs: int) -> Sequence[Operand]:
    """Return the values of a node whose operands are all constant."""
    given = [np.asarray(operand) for operand in call.operands if operand is not None]
    try:
        with np.errstate(all="ignore"):
            return _folded(call, given, outputs)
    except (ValueError, IndexError, TypeError, ZeroDivisionError) as error:
        raise call.refuse(f"cannot be computed: {error}.") from None


def _folded(call: Call, given: list[Array], outputs: int) -> Sequence[Operand]:
    match call.operator:
        case "Identity":
            return [given[0]]
        case "Transpose":
            return [np.transpose(given[0], call.attributes.get("perm"))]
        case "Reshape":
            shape = [given[0].shape[i] if n == 0 else int(n) for i, n in enumerate(given[1].tolist())]
            return [given[0].reshape(shape)]
        case "Cast" if call.attributes.get("to") in (FLOAT, DOUBLE, INT64, INT32, BOOL):
            types = {FLOAT: np.float32, DOUBLE: np.float64, INT64: np.int64, INT32: np.int32, BOOL: np.bool_}
            return [given[0].astype(types[call.attributes["to"]])]
        case "Squeeze" | "Unsqueeze":
            axes = call.integers(1, "axes")
            change = np.squeeze if call.operator == "Squeeze" else np.expand_dims
            return [change(given[0], None if axes is None else tuple(axes))]  # type: ignore[arg-type]
        case "Add" | "Sub" | "Mul" | "Div":
            if given[0].dtype != given[1].dtype:
                raise call.refuse(f"computes with {given[0].dtype} and {given[1].dtype}.")
            if np.prod(np.broadcast_shapes(given[0].shape, given[1].shape), dtype=np.float64) > MAX_PARAMETERS:
                raise call.refuse("makes a constant that is too large.")
            compute = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}.get(call.operator)
            if compute is None:
                compute = np.divide if given[0].dtype.kind == "f" else np.floor_divide
            return [compute(given[0], given[1])]
        case "Sqrt":
            return [np.sqrt(given[0])]
        case "Neg":
            return [np.negative(given[0])]
        case "Concat":
            return [np.concatenate(given, axis=call.attributes.get("axis", 0))]
        case "Gather":
            return [np.take(given[0], given[1], axis=call.attributes.get("axis", 0))]
        case "Slice":
            starts, ends = call.integers(1, "starts"), call.integers(2, "ends")
            axes = call.integers(3, "axes") or list(range(len(starts or [])))
            steps = call.integers(4, "steps") or [1] * len(axes)
            found = given[0]
            for start, end, axis, step in zip(starts or [], ends or [], axes, steps, strict=True):
                at = axis + found.ndim if axis < 0 else axis
                found = found[(slice(None),) * at + (slice(start, end, step),)]
            return [found]
    raise call.refuse("is applied to constants.", "Fold the constants before exporting.")
