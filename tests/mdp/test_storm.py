"""Published values of the Quantitative Verification Benchmark Set, on matrices that Storm builds from JANI."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polvet.mdp import SparseMdp, solve

BENCHMARKS = Path(__file__).resolve().parents[3] / "shared" / "benchmarks"
pytestmark = pytest.mark.peer
KINDS = {
    "prob-reach",
    "exp-reward",
    "exp-steps",
    "prob-reach-reward-bounded",
    "prob-reach-step-bounded",
    "exp-reward-step-bounded",
}


def entries(most_states: int) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """The reference entries, grouped by file and parameters."""
    file = BENCHMARKS / "reference.json"
    if not file.is_file():
        return []
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in json.loads(file.read_text(encoding="utf-8")):
        states = entry.get("full_states") or entry["states"] or math.inf
        if entry["collection"] != "qvbs" or entry["type"] not in KINDS or entry["value"] is None:
            continue
        if states > most_states:
            continue
        if entry.get("model_type") in {"dtmc", "mdp"}:
            groups.setdefault((entry["file"], json.dumps(entry["parameters"])), []).append(entry)
    return [(name, parameters, group) for (name, parameters), group in sorted(groups.items())]


def check_value(lower: float, upper: float, value: Any) -> None:
    if isinstance(value, dict) and "num" in value:
        exact = Fraction(int(value["num"]), int(value["den"]))
        assert Fraction(lower) <= exact <= Fraction(upper)
        return
    if isinstance(value, dict):
        value = value["approx"]
    if isinstance(value, bool):
        assert (lower == upper == 1) == value
        return
    number = float(Fraction(value)) if isinstance(value, str) and value[0].isdigit() else float(value)
    if math.isinf(number):
        assert lower == number
    else:
        assert lower * (1 - 1e-4) <= number <= upper * (1 + 1e-4), "published to about five digits"


def check_group(file: str, parameters: str, group: list[dict[str, Any]]) -> None:
    stormpy = pytest.importorskip("stormpy")
    from benchmarks.mdp import query_of, sparse_of

    wanted = {entry["property"]: entry["value"] for entry in group}
    jani, properties = stormpy.parse_jani_model(str(BENCHMARKS / file))
    jani, properties = stormpy.instantiate_constants(jani, json.loads(parameters), properties)
    properties = [p for p in properties if p.get_name() in wanted]
    model = stormpy.build_model(jani, properties)
    mdp = sparse_of(model)
    mdp.validate()
    for prop in properties:
        query = query_of(model, prop.get_raw_formula(), default_minimise=True)
        if query is None:
            continue
        value = solve(mdp, query)
        assert value.limit is None
        assert value.relative_gap <= 1e-6
        check_value(value.lower, value.upper, wanted[prop.get_name()])


def exact_of(mdp: SparseMdp) -> SparseMdp:
    """The model with each double read as the simple fraction it came from."""
    distinct, index = np.unique(mdp.probability, return_inverse=True)
    fractions = tuple(Fraction(p).limit_denominator(10**7) for p in distinct.tolist())
    return replace(
        mdp,
        probability=np.array([float(p) for p in fractions])[index],
        probability_index=index.astype(np.uint32),
        fractions=fractions,
        exact_rewards={
            name: [Fraction(x).limit_denominator(10**6) for x in values.tolist()]
            for name, values in mdp.rewards.items()
        },
    )


TINY = [
    (file, parameters, entry)
    for file, parameters, group in entries(1_500)
    for entry in group
    if isinstance(entry["value"], dict) and "num" in entry["value"] and "step-bounded" not in entry["type"]
]


@pytest.mark.parametrize(
    ("file", "parameters", "entry"), TINY, ids=[f"{Path(f).stem} {p} {e['property']}" for f, p, e in TINY]
)
def test_exact_mode_gives_the_published_fraction(file: str, parameters: str, entry: dict[str, Any]) -> None:
    stormpy = pytest.importorskip("stormpy")
    from benchmarks.mdp import query_of, sparse_of

    jani, properties = stormpy.parse_jani_model(str(BENCHMARKS / file))
    jani, properties = stormpy.instantiate_constants(jani, json.loads(parameters), properties)
    (wanted,) = [p for p in properties if p.get_name() == entry["property"]]
    model = stormpy.build_model(jani, [wanted])
    query = query_of(model, wanted.get_raw_formula(), default_minimise=True)
    assert query is not None
    value = solve(exact_of(sparse_of(model)), query, exact=True)
    assert value.exact == Fraction(int(entry["value"]["num"]), int(entry["value"]["den"]))


SMALL = [entry for entry in entries(3_000) if '"B": 1000000' not in entry[1]]  # a million steps take some seconds
LARGER = [entry for entry in entries(60_000) if entry not in SMALL]


@pytest.mark.parametrize(("file", "parameters", "group"), SMALL, ids=[f"{Path(f).stem} {p}" for f, p, _ in SMALL])
def test_published_values_lie_inside_the_bounds(file: str, parameters: str, group: list[dict[str, Any]]) -> None:
    check_group(file, parameters, group)


@pytest.mark.slow
@pytest.mark.parametrize(("file", "parameters", "group"), LARGER, ids=[f"{Path(f).stem} {p}" for f, p, _ in LARGER])
def test_published_values_of_larger_models_lie_inside_the_bounds(
    file: str, parameters: str, group: list[dict[str, Any]]
) -> None:
    check_group(file, parameters, group)
