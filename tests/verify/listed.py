"""Random tables and rule lists over a few bounded integers."""

from __future__ import annotations

from itertools import product

from polvet.errors import Where
from polvet.policy.rules import rules_from_json
from polvet.policy.tables import Table


def random_table(rng, names, tops, labels):
    """A table of all states or of some, with a default where some are missing; scores with ties, or Q-values."""
    inputs = sorted(rng.choice(len(names), rng.integers(1, len(names) + 1), replace=False).tolist())
    points = list(product(*(range(tops[k] + 1) for k in inputs)))
    share = rng.choice([0.1, 0.6, 1.0])
    kept = [point for point in points if rng.random() < share or share == 1.0]
    ties = rng.random() < 0.5
    rows = {
        tuple(map(float, point)): tuple(map(float, rng.integers(0, 3, len(labels)) if ties else rng.normal(size=len(labels))))
        for point in kept
    }  # fmt: skip
    return Table(
        tuple(names[k] for k in inputs), tuple(labels), rows, None if share == 1.0 else int(rng.integers(len(labels)))
    )


def random_rules(rng, names, tops, labels):
    """Rules over boxes, sums, remainders and fractions, the last without a condition."""
    rules = []
    for _ in range(rng.integers(1, 6)):
        one, other = rng.choice(len(names), 2)
        x, y, at = names[one], names[other], int(rng.integers(0, tops[one] + 1))
        shapes = [
            f"{x} >= {at}", f"{x} == {at}", f"{x} != {at} && {y} < {at}", f"{x} + {y} > {at}", f"{x} >= {at} || {y} >= {at}",
            f"{x} % 2 == 0", f"{x} > {at}.5", f"!({x} <= {at})", f"2 * {x} - {y} <= {at}", f"{x} / 2 >= 1",
        ]  # fmt: skip
        rules.append({"when": str(rng.choice(shapes)), "action": str(rng.choice(labels))})
    rules.append({"when": "true", "action": str(rng.choice(labels))})
    return rules_from_json({"format": "rules/1", "rules": rules}, Where("rules"), inputs=names, outputs=labels)
