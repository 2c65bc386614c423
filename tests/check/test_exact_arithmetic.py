"""No fixed-width or floating arithmetic decides in the trusted base, but where a reason says why nothing wraps or is lost.

What is looked for: numbers made doubles, or integers of fixed width, without an error where they do not fit; true division; running sums
and sums of products in numpy, which wrap silently; and any product in a module that holds integers in arrays (`Ints`), where nothing tells
what is one. `np.array(..., dtype=np.int64)` of Python's integers raises instead, and sums of two are not looked for.
Each function that does such a thing stands in `REASONS`, with how often it does and why it may. The list is checked both ways.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

import polvet

SOURCE = Path(polvet.__file__).parent
MODEL = ("arithmetic", "evaluate", "folding", "possible", "restrict", "semantics")
DECIDES = [*sorted((SOURCE / "check").glob("*.py")), *(SOURCE / "model" / f"{name}.py" for name in MODEL)]
FLOATS = {"float64", "float32", "float16", "longdouble", "float"}
FIXED = {"int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "int", "intp"}
WRAPPING = {"prod", "cumprod", "cumsum", "dot", "matmul", "einsum"}
REASONS = {
    "it decides a warning alone": {"check/never:is_never": 2},
    "guards and assignments compute constants in doubles, as they compute variables": {
        "model/folding:_computed": 1,
        "model/folding:_double_of": 1,
    },
    "it is only shown in a claim's text": {
        "check/conflict:check_conflict": 1,
        "check/permissive:check_permissive": 1,
        "check/risk_bound:check_risk_bound": 1,
        "check/risk_bound:check_risk_exceeds": 1,
    },
    "the numbers are Python's integers": {
        "check/invariant_conditions:expanded": 1,
        "check/invariant_rows:is_contradiction": 4,
        "check/invariant_rows:row_between": 1,
        "check/invariant_states:Pool.add": 1,
        "check/invariant_tree:read_tree": 1,
        "check/listed_actions:ListedActions.__init__": 3,
        "check/listed_states:_words": 1,
        "check/lost_boxes:_keeps": 2,
        "check/permissive_bulk:scaled": 1,
    },
    "what cannot be below 2^63 is read with Python's integers, or not in bulk": {
        "check/listed_actions:ListedActions.leads_to": 6,
        "check/listed_moves:ListedMoves._candidates": 6,
        "check/permissive_bulk:BulkShield._expected": 4,
        "check/risk_bound:_Expectations.of": 3,
    },
    "the numbers are fractions": {
        "check/bulk:Bulk._operators": 1,
        "check/risk_bound:_expected": 1,
        "check/listed_states:chance_of": 1,
        "check/model_errors:_rational": 1,
        "check/model_errors:_size": 1,
        "model/possible:_Reading._combined": 1,
        "model/semantics:Semantics._distribution": 1,
    },
    "what a model means: reals are doubles, and an operation without a finite result is an error": {
        "model/arithmetic:_divide": 4,
        "model/arithmetic:_log": 3,
        "model/arithmetic:_power": 2,
        "model/arithmetic:_real_of": 1,
        "model/arithmetic:_same_kind": 2,
        "model/arithmetic:_trigonometric": 12,
        "model/evaluate:compile_expression.build": 2,
        "model/semantics:Semantics._rows": 1,
        "model/semantics:_stored": 1,
        "check/all_starts:_range": 2,
        "check/flow:Moves._ends": 2,
    },
    "what a policy means: its inputs and scores are float32 numbers, or the double that is written": {
        "check/bulk:Bulk._choices": 1,
        "check/invariant_states:Judge.many": 3,
        "check/listed_bounds:wins": 1,
        "check/listed_bounds:TableBounds.__init__": 2,
        "check/policy_bounds:TreeBounds.scores": 7,
        "check/repair:_check_fault": 1,
    },
    "values to try, which are tested before they are believed": {
        "check/all_starts:check_some_start": 3,
        "check/returning:_halves": 2,
        "check/flow:Moves.boxes": 2,
    },
    "the interval says nothing where the number is not exactly a double": {
        "check/all_starts:_bounds": 3,
        "check/all_starts:_interval": 2,
        "check/all_starts:_joined": 6,
        "check/box_view:_interval": 6,
        "check/invariant_tree:wide_rows": 3,
        "check/start_region:_column": 1,
    },
    "integers below 2^40 (`read_space`) or 2^52 (`ListedStates`, `Points`), which doubles hold": {
        "check/bulk:_at": 1,
        "check/grid:_numbers": 1,
        "check/invariant:_check_starts": 1,
        "check/invariant_errors:_is_possible": 2,
        "check/invariant_guards:Guards.truth": 2,
        "check/invariant_obligations:_obligations": 2,
        "check/invariant_states:Judge._landed": 3,
        "check/invariant_tree:Follower._holds": 2,
        "check/invariant_tree:Follower.beaten": 2,
        "check/invariant_ways:entered_boxes": 2,
        "check/listed_moves:ListedMoves._targets": 1,
        "check/listed_moves:ListedMoves._values": 1,
        "check/listed_moves:_shape": 2,
        "check/lost_boxes:Pieces.values": 2,
        "check/lost_boxes:_image": 4,
    },
    "the sum of a row is at most 2^60 in any state (`row_between`)": {
        "check/invariant_obligations:_holds_in": 2,
        "check/invariant_rows:Claim.holds": 1,
        "check/invariant_rows:contract": 2,
        "check/invariant_rows:merged": 1,
        "check/invariant_states:all_points": 5,
        "check/invariant_tree:Follower._left": 1,
    },
    "doubles bound the integers beside them, and a claim is rejected where these come near 2^52": {
        "check/lost_boxes:_falls": 8
    },
    "a product of doubles that is only compared with a small number": {
        "check/returning:_step": 1,
        "check/grid:_read": 2,
        "check/invariant_tree:Follower._check_leaves": 2,
        "check/listed_bounds:TableBounds.losers": 4,
    },
    "it counts what is held in memory": {
        "check/grid:cells_between": 4,
        "check/invariant_states:points_of": 2,
        "check/permissive_bulk:reaches": 1,
        "check/returning:inside_of": 1,
        "check/returning:inside_of.all_listed": 4,
        "check/returning:_followed": 1,
        "check/unit_bounds:UnitBounds.__init__": 1,
    },
    "keys of states are meant modulo 2^64: each has one, and what differs in one variable differs there": {
        "check/listed_states:ListedStates._joined": 3,
        "check/listed_states:ListedStates._numbers": 2,
        "check/listed_states:ListedStates.find_numbers": 3,
        "check/bulk:Bulk._targets": 3,
    },
    "intervals and forms of reals and scores are enclosures, wider than rounding can reach": {
        "check/affine_forms:_quotient": 8,
        "check/affine_forms:_rounding": 1,
        "check/affine_forms:between": 2,
        "check/affine_forms:value_of": 4,
        "check/chances:_bounds": 2,
        "check/chances:_combined": 4,
        "check/flow:_ends": 4,
        "check/narrowing:_narrow": 1,
        "check/narrowing:cut": 1,
        "check/policy_bounds:NetworkBounds.__init__": 5,
        "check/policy_bounds:NetworkBounds._errors": 3,
        "check/policy_bounds:NetworkBounds._greatest": 5,
        "check/policy_bounds:NetworkBounds._unheard": 5,
        "check/policy_bounds:_with_row": 1,
        "check/state_sets:Sets.within": 4,
        "check/unit_bounds:_Boxes._affine": 2,
        "check/unit_bounds:_Boxes._spread_affine": 2,
        "check/unit_bounds:_Boxes._spread_product": 2,
        "check/unit_bounds:_Boxes._sums": 1,
        "check/unit_bounds:_Boxes._unit": 1,
        "check/unit_bounds:_Boxes.greatest": 4,
        "check/unit_bounds:_best_slope": 1,
        "check/unit_bounds:_cell_slack": 1,
        "check/unit_bounds:_lines": 1,
        "check/unit_bounds:_step_lines": 2,
        "check/unit_bounds:_with_row": 1,
    },
}
"""By reason: the functions, and how many such operations each has. Whoever adds one says why it may be there, or uses Python's integers."""


def narrow_operations(tree):
    """Yield (function, line, what) for everything in a module that may lose or wrap a number without an error."""
    arrays = any(isinstance(node, ast.Name) and node.id in ("Ints", "Whole") for node in ast.walk(tree))
    for node, function in _with_functions(tree):
        if (what := _narrow(node, arrays)) is not None:
            yield function, node.lineno, what


def _narrow(node, arrays):
    match node:
        case (
            ast.BinOp(op=ast.Mult() | ast.Pow() | ast.LShift())
            | ast.AugAssign(op=ast.Mult() | ast.Pow() | ast.LShift())
        ):
            return "a product" if arrays and not _is_list_or_number(node) else None
        case ast.BinOp(op=ast.Div()):
            return "true division"
        case ast.BinOp(op=ast.MatMult()):
            return "sums of products"
        case ast.Call(func=ast.Name(id="float")):
            return "float()"
        case ast.Call(func=ast.Attribute(attr="astype"), args=[kind, *_]) if _name(kind) in FLOATS | FIXED:
            return f"astype {_name(kind)}"
        case ast.Call(func=ast.Attribute(attr=name)) if name in WRAPPING and not _is_exact(node):
            return name
        case ast.keyword(arg="dtype", value=kind) if _name(kind) in FLOATS:
            return f"dtype {_name(kind)}"
    return None


def _is_list_or_number(node):
    """`[0] * n` is a list, and `2 * 2**30` is one of Python's integers."""
    sides = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.value]
    return any(isinstance(side, ast.List | ast.ListComp) for side in sides) or all(
        isinstance(side, ast.Constant) for side in sides
    )


def _name(kind):
    return getattr(kind, "attr", getattr(kind, "id", getattr(kind, "value", None)))


def _is_exact(call):
    """`math.prod` is one of Python's integers."""
    return isinstance(call.func.value, ast.Name) and call.func.value.id == "math"


def _with_functions(tree, inside="(module)"):
    for child in ast.iter_child_nodes(tree):
        here = inside
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            here = child.name if inside == "(module)" else f"{inside}.{child.name}"
        if isinstance(child, ast.keyword):
            child.lineno = child.value.lineno
        yield child, here
        yield from _with_functions(child, here)


def _operations(files):
    found, lines = Counter(), {}
    for file in files:
        for function, line, what in narrow_operations(ast.parse(file.read_text(encoding="utf-8"))):
            name = f"{file.parent.name}/{file.stem}:{function}"
            found[name] += 1
            lines.setdefault(name, []).append(f"line {line}: {what}")
    return found, lines


def test_nothing_that_decides_wraps_or_rounds_but_for_a_reason():
    found, lines = _operations(DECIDES)
    allowed = Counter({name: count for names in REASONS.values() for name, count in names.items()})
    assert len(allowed) == sum(map(len, REASONS.values())), "a function has one reason"
    more = {name: lines[name] for name in found if found[name] > allowed[name]}
    assert more == {}, "say in REASONS why these can neither wrap nor round, or use Python's integers or fractions"
    assert {name: count for name, count in allowed.items() if found[name] < count} == {}, "these are not there any more"


@pytest.mark.parametrize(
    "text",
    [
        "low = float(bound)",
        "total = points @ row",
        "half = a / b",
        "values = column.astype(np.int64)",
        "values = column.astype('float64')",
        "values = np.array(bounds, dtype=np.float64)",
        "count = np.prod(sizes)",
        "count = sizes.prod(axis=1)",
        "ends = np.cumsum(widths)",
        "rank: Ints = slope * value",
        "Ints; rank *= slope",
    ],
)
def test_the_lint_sees_what_may_wrap_or_round(text):
    assert list(narrow_operations(ast.parse(f"def decide():\n    {text}\n"))) == [("decide", 2, _any)]


@pytest.mark.parametrize(
    "text", ["low = int(bound)", "n = math.prod(sizes)", "n = prod(sizes)", "a = np.array(rows, dtype=np.int64)"]
)
def test_the_lint_lets_exact_integers_be(text):
    assert list(narrow_operations(ast.parse(f"def decide():\n    {text}\n"))) == []


class _Any:
    def __eq__(self, other):
        return True


_any = _Any()
