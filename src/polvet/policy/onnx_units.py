"""ONNX operators that are functions of one value: activations, clips, powers."""

from __future__ import annotations

from math import inf

import numpy as np

from polvet.policy.onnx_call import Call, Handler, Value, flat_numbers, like, spread
from polvet.policy.tape import Tape

SIMPLE = {
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Exp": "exp",
    "Erf": "erf",
    "Abs": "abs",
    "HardSwish": "hard_swish",
    "Mish": "mish",
    "Sqrt": "sqrt",
    "Reciprocal": "reciprocal",
}


def _simple(tape: Tape, call: Call) -> Value:
    x = call.floats(0)
    return like(x, tape.unit(SIMPLE[call.operator], x.columns))


def _relu(tape: Tape, call: Call) -> Value:
    x = call.floats(0)
    return like(x, tape.relu(x.columns))


def _gelu(tape: Tape, call: Call) -> Value:
    x = call.floats(0)
    how = call.attributes.get("approximate", b"none")
    if how not in (b"none", b"tanh", "none", "tanh"):
        raise call.refuse(f"has the approximation {how!r}.")
    return like(x, tape.unit("gelu" if how in (b"none", "none") else "gelu_tanh", x.columns))


def _leaky(tape: Tape, call: Call) -> Value:
    x = call.floats(0)
    return like(x, tape.unit("leaky", x.columns, call.attributes.get("alpha", 0.01)))


def _prelu(tape: Tape, call: Call) -> Value:
    x, slope = call.floats(0), call.narrow(1)
    if slope is None:
        raise call.refuse("has no slope.")
    return like(x, tape.unit("leaky", x.columns, np.broadcast_to(slope, x.columns.shape)))


def _elu(tape: Tape, call: Call) -> Value:
    x = call.floats(0)
    if call.operator == "Selu":
        return like(
            x,
            tape.unit(
                "elu",
                x.columns,
                call.attributes.get("alpha", 1.67326319217681884765625),
                call.attributes.get("gamma", 1.05070102214813232421875),
            ),
        )
    alpha = call.attributes.get("alpha", 1.0)
    if call.operator == "Celu" and alpha != 1:
        raise call.refuse(f"has alpha = {alpha}; only 1 is read.")
    return like(x, tape.unit("elu", x.columns, alpha, 1.0))


def _clip(tape: Tape, call: Call) -> Value:
    x = call.floats(0)
    ends = []
    for index, name, absent in ((1, "min", -inf), (2, "max", inf)):
        given = call.attributes[name] if name in call.attributes else call.narrow(index)
        ends.append(np.float32(absent) if given is None else np.asarray(given, dtype=np.float32))
    return like(x, tape.unit("clip", x.columns, ends[0], ends[1]))


def _extremum(tape: Tape, call: Call) -> Value:
    values = [operand for operand in call.operands if isinstance(operand, Value)]
    if len(values) != 1 or not len(call.operands):
        raise call.refuse("compares values that both depend on the inputs.", "Min and Max are read with constants.")
    at = call.operands.index(values[0])
    x = call.floats(at)
    constants = [call.narrow(index) for index in range(len(call.operands)) if index != at]
    shape = np.broadcast_shapes(x.columns.shape, *(part.shape for part in constants if part is not None))
    columns = spread(call, x, shape)
    for part in constants:
        end = flat_numbers(np.asarray(part), shape)
        columns = tape.unit("clip", columns, *((end, inf) if call.operator == "Max" else (-inf, end)))
    return Value(columns.reshape(shape))


def _hard_sigmoid(tape: Tape, call: Call) -> Value:
    x = call.floats(0)
    alpha, beta = np.float32(call.attributes.get("alpha", 0.2)), np.float32(call.attributes.get("beta", 0.5))
    return like(x, tape.unit("clip", tape.scaled(x.columns, alpha, beta), 0.0, 1.0))


def _power(tape: Tape, call: Call) -> Value:
    x, exponent = call.floats(0), call.constant(1)
    if exponent is None or exponent.size != 1 or float(exponent.reshape(-1)[0]) != 2:
        raise call.refuse("is read with the exponent 2 only.")
    return like(x, tape.unit("square", x.columns))


UNIT_OPERATORS: dict[str, Handler] = {
    **dict.fromkeys(SIMPLE, _simple),
    "Relu": _relu,
    "Gelu": _gelu,
    "LeakyRelu": _leaky,
    "PRelu": _prelu,
    "Elu": _elu,
    "Selu": _elu,
    "Celu": _elu,
    "Clip": _clip,
    "Min": _extremum,
    "Max": _extremum,
    "HardSigmoid": _hard_sigmoid,
    "Pow": _power,
}
