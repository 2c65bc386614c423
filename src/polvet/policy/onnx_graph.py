"""The graph of an ONNX file, node by node, written on a tape of columns (`polvet.policy.tape`).

A value that depends on the inputs is an array of column numbers in its ONNX shape, with a batch of one row: so whatever only moves
values (Reshape, Concat, Slice, Gather, Transpose, ...) is numpy on numbers. Only nodes behind the chosen output are read.
Ending   Softmax and LogSoftmax at the end keep the order of scores up to an enclosure, ArgMax keeps it exactly: they are dropped
Refused  by the node's operator and name: recurrent nodes, convolutions, Softmax within the network, anything else
         that is not in OPERATORS; float16; nodes that mix the rows of a batch
Float64  numbers are rounded to float32, and the graph is marked (`Tape.narrowed`); ends of clips and slopes must be float32 numbers
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polvet.errors import InputError, Where
from polvet.policy.onnx_affine import AFFINE
from polvet.policy.onnx_call import AGAIN, RECURRENT, Array, Call, Handler, Operand, Value
from polvet.policy.onnx_constants import folded
from polvet.policy.onnx_discrete import DISCRETE
from polvet.policy.onnx_moving import MOVING
from polvet.policy.onnx_units import UNIT_OPERATORS
from polvet.policy.tape import Tape


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
                raise InputError(
                    f"{shown} reads '{name}', which is not known.", place, "Nothing before it makes that value."
                )
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
                results = handler(self.tape, call)
            except (ValueError, IndexError, TypeError) as error:  # shapes that do not fit
                raise call.refuse(f"cannot be read: {error}.") from None
            made = list(results) if isinstance(results, tuple) else [results]
        for name, result in zip(node.output, made, strict=False):
            if name in self.values and name:
                raise InputError(f"{shown} makes '{name}' a second time.", place, AGAIN)
            self.values[name] = result


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
    **AFFINE,
    **UNIT_OPERATORS,
    **DISCRETE,
    **MOVING,
    "LayerNormalization": _layer_norm,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "ArgMax": _argmax,
}
