"""ONNX nodes whose operands are all constant, computed by numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polvet.policy.networks import MAX_PARAMETERS
from polvet.policy.onnx_call import BOOL, DOUBLE, FLOAT, INT32, INT64, Array, Call, Operand


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
            call.check_size(sum(part.size for part in given))
            return [np.concatenate(given, axis=call.attributes.get("axis", 0))]
        case "Gather":
            call.check_size(given[0].size, given[1].size)
            return [np.take(given[0], given[1], axis=call.attributes.get("axis", 0))]
        case "Slice":
            starts, ends = call.integers(1, "starts"), call.integers(2, "ends")
            axes = call.integers(3, "axes") or list(range(len(starts or [])))
            steps = call.integers(4, "steps") or [1] * len(axes)
            array = given[0]
            for start, end, axis, step in zip(starts or [], ends or [], axes, steps, strict=True):
                at = axis + array.ndim if axis < 0 else axis
                array = array[(slice(None),) * at + (slice(start, end, step),)]
            return [array]
    raise call.refuse("is applied to constants.", "Fold the constants before exporting.")
