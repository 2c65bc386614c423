"""A fitted policy as the last item of a flat text: all its numbers, and nothing that a library would have to be asked."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from polvet.errors import InputError, Where
from polvet.evidence.flat_text import Piece, Terms, double, word
from polvet.evidence.flat_world import Span, span_of_value, spans_of
from polvet.model.arithmetic import Value
from polvet.model.expressions import (
    EQUALITY,
    ORDER,
    Binary,
    BoolLiteral,
    Conditional,
    Expression,
    Name,
    Unary,
    names,
    rebuild,
)
from polvet.model.infix import parse_expression
from polvet.model.network import Kind
from polvet.model.semantics import Semantics, State
from polvet.policy.binding import Fitted
from polvet.policy.conditions import InfixCondition
from polvet.policy.inputs import Input, InputFunction, kind_over
from polvet.policy.networks import Network
from polvet.policy.rounding import possible_choices
from polvet.policy.rules import Rules
from polvet.policy.tables import Table
from polvet.policy.trees import MISSING_ZERO, VECTOR, Tree, TreeEnsemble
from polvet.policy.unit_graph import Affine, AnyNetwork, Node, Product, Unit

FOLDED = 4
"""So many roundings more where a library may multiply constant factors into weights."""
WHOLE = 2**24
"""Integers up to it are float32 numbers."""


def policy_item(fitted: Fitted, terms: Terms, states: Iterable[State]) -> list[Piece]:
    """Return the item of the policy; of a Python function what it answers in the given states."""
    policy = fitted.policy
    if fitted.by_execution:
        return _item("answers", fitted, terms, [[line] for line in _answers(fitted, states)], reads=False)
    if isinstance(policy, TreeEnsemble):
        return _item("forest", fitted, terms, [[line] for line in _forest(policy)])
    if isinstance(policy, AnyNetwork):
        return _item("network", fitted, terms, [[line] for line in _network(policy)])
    if isinstance(policy, Table):
        return _item("table", fitted, terms, [[line] for line in _table(policy, _labels(fitted))])
    if isinstance(policy, Rules):
        return _item("rules", fitted, terms, _rules(policy, fitted, terms), reads=False)
    raise InputError(
        f"a {type(policy).__name__} is no kind of policy that a flat text has.",
        hint="Save it as trees, a network, a table or rules.",
    )


def _item(
    kind: str, fitted: Fitted, terms: Terms, parts: Sequence[Sequence[Piece]], *, reads: bool = True
) -> list[Piece]:
    item: list[Piece] = [f"(policy {kind}"]
    if reads:
        item.append("\n  (inputs")
        for one in fitted.inputs:
            assert not isinstance(one, InputFunction)
            expression = Name(fitted.task.network.variables[one].name) if isinstance(one, int) else one
            item += [" ", terms.of(expression)]
        item.append(")")
    item.append(f"\n  (labels {' '.join(_labels(fitted))})")
    for part in parts:
        item += ["\n  ", *part]
    return [*item, ")"]


def _labels(fitted: Fitted) -> list[str]:
    return [word(name) for name in fitted.names]


def _numbers(values: npt.NDArray[Any] | Sequence[float]) -> list[str]:
    return [double(value) for value in np.asarray(values, dtype=np.float64).tolist()]


# -- trees


def _forest(policy: TreeEnsemble) -> Iterator[str]:
    yield f"(arithmetic {policy.arithmetic} {policy.comparison})"
    yield f"(base {' '.join(_numbers(policy.base))})"
    if policy.divisor:
        yield f"(divide {double(policy.divisor)})"
    for index, tree in enumerate(policy.trees):
        output = "*" if tree.output == VECTOR else tree.output
        yield f"(tree {output} {_tree(tree, policy.comparison, index)})"


def _tree(tree: Tree, comparison: str, index: int) -> str:
    features, left, right = tree.feature.tolist(), tree.left.tolist(), tree.right.tolist()
    thresholds = [_threshold(value, comparison) for value in tree.threshold.tolist()]
    leaves = [" ".join(_numbers(row)) for row in tree.values]
    zero = np.where(tree.missing == MISSING_ZERO, np.where(tree.default_left, " left)", " right)"), ")").tolist()
    pieces: list[str] = []
    pending: list[int | str] = [0]
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            pieces.append(node)
        elif features[node] < 0:
            pieces.append(f"({leaves[node]})" if tree.output == VECTOR else leaves[node])
        elif (threshold := thresholds[node]) is None:
            if zero[node] != ")":
                raise InputError(
                    f"node {node} of tree {index} tells zeros from infinite inputs, which a flat text cannot say.",
                    hint="Train without zero_as_missing.",
                )
            pending.append(left[node] if comparison == "<=" else right[node])
        else:
            pieces.append(f"({features[node]} {threshold} ")
            pending += (zero[node], right[node], " ", left[node])
    return "".join(pieces)


def _threshold(value: float, comparison: str) -> str | None:
    """Return the threshold, an infinite one as a finite one that float32 numbers compare alike with; None: it tells none apart."""
    if not math.isinf(value):
        return double(value)
    if (value > 0) == (comparison == "<="):  # everything is at most infinite, and nothing is less than that
        return None
    return double(math.copysign(2.0**128, value))


# -- networks


def _network(policy: AnyNetwork) -> Iterator[str]:
    nodes, scores = _nodes(policy)
    owner = np.repeat(np.arange(-1, len(nodes)), [len(policy.inputs), *(node.size for node in nodes)])
    factors = [isinstance(node, Affine) and not node.is_shared and node.columns.shape[1] == 1 for node in nodes]
    beside = [set(owner[node.reads].tolist()) - {-1} for node in nodes]
    folds = [factor or any(factors[one] for one in beside[k]) for k, factor in enumerate(factors)]
    for k, factor in enumerate(factors):
        for one in beside[k] if factor else ():
            folds[one] = True
    for node, folded in zip(nodes, folds, strict=True):
        match node:
            case Affine():
                yield _affine(node, node.roundings + FOLDED * folded)
            case Unit(name, columns, a, b):
                ends = (["*" if math.isinf(end) else _shortest(end) for end in ends.tolist()] for ends in (a, b))
                yield f"(apply {name} {' '.join(f'({c} {d} {e})' for c, d, e in zip(columns.tolist(), *ends, strict=True))})"
            case Product(left, right):
                pairs = " ".join(f"({c} {d})" for c, d in zip(left.tolist(), right.tolist(), strict=True))
                yield f"(product {FOLDED} {pairs})"
    yield f"(scores {' '.join(map(str, scores))})"
    if policy.softmax:
        yield "(softmax)"


def _nodes(policy: AnyNetwork) -> tuple[Sequence[Node], Sequence[int]]:
    """Return the network as a graph of units, and the columns of its scores."""
    if not isinstance(policy, Network):
        return policy.nodes, policy.score_columns.tolist()
    nodes: list[Node] = []
    columns = np.arange(len(policy.inputs), dtype=np.int32)
    for layer in policy.layers:
        if nodes:
            zeros = np.zeros(len(columns), dtype=np.float32)
            nodes.append(Unit("clip", columns, zeros, np.full_like(zeros, np.inf)))
            columns = columns + len(columns)
        nodes.append(Affine(columns, layer.weights, layer.bias, np.abs(layer.bias)))
        columns = np.arange(len(layer.bias), dtype=np.int32) + columns[-1] + 1
    return nodes, columns.tolist()


def _affine(node: Affine, roundings: int) -> str:
    heads = zip(_numbers(node.bias), _numbers(node.sizes), strict=True)
    if node.is_shared:
        rows = (f"(row {' '.join((*head, *_numbers(row)))})" for head, row in zip(heads, node.weights, strict=True))
        shared = f" (reads {' '.join(map(str, node.columns.tolist()))})"
    else:
        rows = (
            f"(row {' '.join((*head, *(f'({c} {w})' for c, w in zip(places, _numbers(row), strict=True))))})"
            for head, places, row in zip(heads, node.columns.tolist(), node.weights, strict=True)
        )
        shared = ""
    return "\n    ".join([f"(affine {roundings}{shared}", *rows]) + ")"


# -- tables, rules, answers


def _table(policy: Table, labels: Sequence[str]) -> Iterator[str]:
    for key, scores in sorted(policy.rows.items()):
        if not all(map(math.isfinite, scores)):
            raise InputError(f"the table's scores {list(scores)[:8]} are not all finite.", hint="Write finite scores.")
        yield f"(row ({' '.join(map(_shortest, key))}) {_said(scores, labels)})"
    if policy.default is not None:
        yield f"(default {_said([float(k == policy.default) for k in range(len(labels))], labels)})"


def _said(scores: Sequence[float], labels: Sequence[str]) -> str:
    """Return a label where it has the score 1 and all others 0, else the scores."""
    if scores.count(0.0) == len(scores) - 1 and 1.0 in scores and (label := labels[scores.index(1.0)]) != "-":
        return label
    return f"(scores {' '.join(map(_shortest, scores))})"


def _shortest(value: float) -> str:
    return str(int(value)) if value.is_integer() else double(value)


def _rules(policy: Rules, fitted: Fitted, terms: Terms) -> list[list[Piece]]:
    known = {name: _input(fitted, name, one) for name, one in zip(policy.inputs, fitted.inputs, strict=True)}
    truths = {name for name, one in known.items() if kind_over(fitted.task.network, one) is Kind.BOOL}
    labels = dict(zip(policy.outputs, _labels(fitted), strict=True))
    lines: list[list[Piece]] = []
    for index, rule in enumerate(policy.rules):
        where = Where("rules").at(index).at("when")
        condition = parse_expression(rule.when, where)
        if not isinstance(rule.condition, InfixCondition) or not _is_truth(condition, truths):
            raise InputError(f"'{rule.when[:60]}' is not read as a truth value.", where, "Write a comparison.")
        if labels[rule.action] == "-":
            raise InputError(f"no operator has the label '{rule.action}'.", where, "Leave the rule out.")
        lines.append(["(rule ", terms.of(_substituted(condition, known)), f" {labels[rule.action]})"])
    return lines


def _input(fitted: Fitted, name: str, one: Input) -> Expression:
    """Return what a rule reads by a name: a variable, or an expression that is the same when its variables are float32 numbers."""
    network = fitted.task.network
    assert not isinstance(one, InputFunction)
    if isinstance(one, int):
        return Name(network.variables[one].name)
    spans = spans_of(network)
    spread: list[Span | None] = [spans.get(variable) for variable in names(one)]
    if kind_over(network, one) is Kind.INT:
        spread.append(span_of_value(one, spans))
    reals = {variable.name for variable in network.variables if variable.kind is Kind.REAL}
    narrow = all(both is not None and max(map(abs, both)) <= WHOLE for both in spread)
    if not narrow or names(one) & reals or kind_over(network, one) is Kind.REAL:
        raise InputError(
            f"the rules read '{name}', a computed number that a float32 may round, which a flat text cannot say.",
            hint="Compare it in the model, or use a table or trees.",
        )
    return one


def _is_truth(condition: Expression, truths: Collection[str]) -> bool:
    """Return whether a condition surely is a truth value, and not a number that only counts as one."""
    match condition:
        case BoolLiteral() | Unary("¬", _):
            return True
        case Name(name):
            return name in truths
        case Binary("∧" | "∨" | "⇒", left, right) | Conditional(_, left, right):
            return _is_truth(left, truths) and _is_truth(right, truths)
        case Binary(operator, _, _):
            return operator in (*EQUALITY, *ORDER)
        case _:
            return False


def _substituted(condition: Expression, known: Mapping[str, Expression]) -> Expression:
    if isinstance(condition, Name):
        return known[condition.name]
    return rebuild(condition, lambda part: _substituted(part, known))


def _answers(fitted: Fitted, states: Iterable[State]) -> Iterator[str]:
    """Yield what the function answers in each state in which it is asked."""
    semantics, labels = Semantics(fitted.task.network), _labels(fitted)
    asked = sorted(set(states))
    if not asked:
        raise InputError(
            "the policy, or an input of it, is a Python function: what it answers can only be written for given states.",
            hint="Give the states, or save the policy as trees, a network, a table or rules.",
        )
    for state in asked:
        if not (applicable := {move.label for move in semantics.moves(state)} - {None}):
            continue
        chosen = np.flatnonzero(possible_choices(fitted.policy, fitted.row(state), fitted.mask(applicable))[0])
        if len(chosen) != 1:
            raise InputError(
                f"the policy's choice in state {semantics.show(state)} depends on the order of its additions.",
                hint="Use inputs that are expressions in the place of Python functions.",
            )
        yield f"(answer ({' '.join(map(value, state))}) {labels[chosen[0]]})"


def value(given: Value) -> str:
    """Return a variable's value as a text has it."""
    return double(given) if isinstance(given, float) else str(int(given))
