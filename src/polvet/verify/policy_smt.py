"""A policy as SMT-LIB text over exact rationals: scores of each output, and when an output may be chosen.

Networks    z = W x + b with the stored weights exactly, h = ite(z > 0, z, 0)
Trees       sums of nested ite
Tables      nested ite over the rows
SOUND       floating-point scores are within `margin` / 2 of the exact ones, so an output that any evaluation chooses satisfies
            score[chosen] + margin >= score[other]. Where the margin is 0, ties go to the lowest index, exactly.
Limits      integers up to 2^24 as inputs (exact in float32); no rule lists and no Python functions: `NotEncodable`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count

from polvet.policy.binding import Fitted
from polvet.policy.networks import Network
from polvet.policy.tables import Table
from polvet.policy.trees import MISSING_ZERO, VECTOR, Tree, TreeEnsemble
from polvet.solvers.smtlib import conjunction, declare, number, region_formula, total
from polvet.symbolic.cells import Box
from polvet.symbolic.operators import LinearNetwork

EXACT_INPUT = 2**24
MOST_TABLE_ROWS = 5_000


class NotEncodable(Exception):
    """The policy has no SMT encoding; the text says why."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """One copy of the policy: text that declares and defines, and the names of the scores."""

    text: str
    scores: tuple[str, ...]
    margin: Fraction
    before_relu: tuple[str, ...] = ()


def encode_policy(fitted: Fitted, bounds: Box, names: Sequence[str], prefix: str) -> Encoding:
    """Return the policy over the state of these names; fresh names begin with the prefix."""
    inputs = [names[place] for place in fitted.variables]
    largest = max(
        (abs(end) for place in fitted.variables for end in (bounds.lower[place], bounds.upper[place])), default=0
    )
    if largest > EXACT_INPUT:
        raise NotEncodable(f"an input may be as large as {largest}, beyond what float32 holds exactly")
    match fitted.policy:
        case Network() as network:
            return _network(network, inputs, prefix, float(largest))
        case TreeEnsemble() as ensemble:
            return _trees(ensemble, inputs, prefix)
        case Table() as table:
            return _table(table, inputs, prefix)
        case other:
            raise NotEncodable(f"a {type(other).__name__} has no encoding for a solver")


def _network(network: Network, inputs: Sequence[str], prefix: str, largest: float) -> Encoding:
    margin = 2 * Fraction(network.kernel.coarse_bound(largest))
    values = [f"(to_real {name})" for name in inputs]
    lines: list[str] = []
    before: list[str] = []
    for depth, layer in enumerate(network.layers):
        last = depth + 1 == len(network.layers)
        sums = [f"{prefix}z{depth}_{k}" for k in range(len(layer.bias))]
        lines.append(declare(sums, "Real"))
        for name, row, bias in zip(sums, layer.weights.tolist(), layer.bias.tolist(), strict=True):
            parts = [f"(* {number(Fraction(w))} {value})" for w, value in zip(row, values, strict=True) if w != 0]
            lines.append(f"(assert (= {name} {total([*parts, number(Fraction(bias))])}))\n")
        if last:
            return Encoding("".join(lines), tuple(sums), margin, tuple(before))
        before += sums
        values = [f"{prefix}h{depth}_{k}" for k in range(len(layer.bias))]
        lines.append(declare(values, "Real"))
        lines += [f"(assert (= {h} (ite (> {z} 0.0) {z} 0.0)))\n" for h, z in zip(values, sums, strict=True)]
    raise AssertionError("a network has layers")


def _trees(ensemble: TreeEnsemble, inputs: Sequence[str], prefix: str) -> Encoding:
    outputs = len(ensemble.outputs)
    if any((tree.missing == MISSING_ZERO).any() for tree in ensemble.trees):
        raise NotEncodable("zero counts as missing in these trees")
    parts: list[list[str]] = [[number(Fraction(base))] for base in ensemble.base]
    size = [abs(base) for base in ensemble.base]
    for tree in ensemble.trees:
        for column in range(outputs) if tree.output == VECTOR else (0,):
            to = column if tree.output == VECTOR else tree.output
            parts[to].append(_tree(tree, 0, column, inputs, ensemble.comparison))
            size[to] += float(abs(tree.values[tree.leaves, column]).max(initial=0.0))
    scores = [f"{prefix}s{k}" for k in range(outputs)]
    lines = [declare(scores, "Real")]
    for name, mine in zip(scores, parts, strict=True):
        lines.append(f"(assert (= {name} {total(mine)}))\n")
    # SOUND: n sums of numbers whose absolute values add up to S are off by at most n u S (1 + n u), u the unit roundoff;
    # twice that covers the second factor and the division of an average. Both scores may be off, hence the factor 2.
    unit = Fraction(1, 2**24 if ensemble.arithmetic == "float32" else 2**53)
    steps = max((len(mine) for mine in parts), default=1) + 1
    margin = 2 * 2 * steps * unit * Fraction(max(size, default=0.0))
    return Encoding("".join(lines), tuple(scores), margin)


def _tree(tree: Tree, node: int, column: int, inputs: Sequence[str], comparison: str) -> str:
    feature = int(tree.feature[node])
    if feature < 0:
        return number(Fraction(float(tree.values[node, column])))
    test = f"({comparison} (to_real {inputs[feature]}) {number(Fraction(float(tree.threshold[node])))})"
    left = _tree(tree, int(tree.left[node]), column, inputs, comparison)
    right = _tree(tree, int(tree.right[node]), column, inputs, comparison)
    return f"(ite {test} {left} {right})"


def _table(table: Table, inputs: Sequence[str], prefix: str) -> Encoding:
    if len(table.rows) > MOST_TABLE_ROWS or table.default is None:
        raise NotEncodable("the table is too large, or has no default")
    fallback = [Fraction(int(k == table.default)) for k in range(len(table.outputs))]
    scores = [f"{prefix}s{k}" for k in range(len(table.outputs))]
    values = [number(value) for value in fallback]
    for key, row in table.rows.items():
        if any(not value.is_integer() for value in key):
            continue
        match = conjunction(f"(= {name} {number(int(value))})" for name, value in zip(inputs, key, strict=True))
        values = [f"(ite {match} {number(Fraction(mine))} {rest})" for mine, rest in zip(row, values, strict=True)]
    lines = [declare(scores, "Real")]
    lines += [f"(assert (= {name} {value}))\n" for name, value in zip(scores, values, strict=True)]
    return Encoding("".join(lines), tuple(scores), Fraction(0))


def chooses(fitted: Fitted, system: LinearNetwork, encoding: Encoding, names: Sequence[str], label: int) -> str:
    """Return that the policy may choose the label of that number (its applicability is the guard's affair)."""
    if label not in fitted.labels:
        return "false"
    mine = fitted.labels.index(label)
    parts = []
    for other, score in zip(count(), encoding.scores):
        if other == mine:
            continue
        if encoding.margin > 0:
            wins = f"(>= (+ {encoding.scores[mine]} {number(encoding.margin)}) {score})"
        else:
            wins = f"({'>' if other < mine else '>='} {encoding.scores[mine]} {score})"
        if fitted.filtered:
            there = fitted.labels[other]
            if there < 0:
                continue
            wins = f"(or (not {region_formula(system.applicable[there], names)}) {wins})"
        parts.append(wins)
    return conjunction(parts)
