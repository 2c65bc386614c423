"""False claims about parts of sketches: rankings of `features` where they run for ever, runs `between` control states where they end.

Which is which stands in the names of `tests/termination/sketches`; a planted loop gets what its right twin has, and the other way round.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from pathlib import Path

from polvet.check.checker import Subjects
from polvet.errors import Where
from polvet.policy.finite_memory.projection import single_rules
from polvet.policy.finite_memory.sketch import read_sketch
from polvet.termination.sketches import sketch_terminates

FOLDER = Path(__file__).resolve().parents[1] / "termination" / "sketches"
PAIRS = [path.stem.removesuffix("-looping") for path in sorted(FOLDER.glob("*-looping.txt"))]


@cache
def _certificate(name):
    """The engine's own evidence, without its copy of the plan."""
    path = FOLDER / f"{name}.txt"
    found, _ = sketch_terminates(read_sketch(path.read_text(), Where(str(path))))
    return {key: value for key, value in found.certificate.items() if key != "fmp"}


def false_rankings(rng, folder):
    """Yield rankings of some features for a sketch with a planted loop."""
    name = rng.choice(PAIRS)
    loop = FOLDER / f"{name}-looping.txt"
    right, names = _certificate(name), read_sketch(loop.read_text(), Where(str(loop))).features.names
    few = rng.sample(names, rng.randint(0, min(4, len(names))))
    for features in (right["features"], few, [*right["features"], *few], []):
        claim = {**right, "features": list(dict.fromkeys(features))}
        yield claim, Subjects(loop), nullcontext()
        yield {**claim, "components": []}, Subjects(loop), nullcontext()
    yield {**right, "between": []}, Subjects(loop), nullcontext()


def false_lassos(rng, folder):
    """Yield runs for ever between control states of a sketch that ends: those of its twin, and walks of rules that are not open."""
    name = rng.choice(PAIRS)
    right = FOLDER / f"{name}.txt"
    sketch = read_sketch(right.read_text(), Where(str(right)))
    twin = _certificate(f"{name}-looping")
    yield twin, Subjects(right), nullcontext()
    yield {**twin, "features": []}, Subjects(right), nullcontext()
    rule = rng.choice([rule for rule in single_rules(sketch) if rule.memory in (None, sketch.memory[0])])
    pattern = tuple(rule.conditions[0].get(k, rng.random() < 0.5) for k, _ in enumerate(sketch.features.names))
    places = [(sketch.memory[0], pattern)]
    for _ in range(rng.randint(0, 2)):
        after = tuple(bit if k not in rule.changes else rng.random() < 0.5 for k, bit in enumerate(pattern))
        places.append((rule.following or sketch.memory[0], after))
    between = [[memory, "".join("01"[bit] for bit in bits)] for memory, bits in dict.fromkeys(places)]
    edges = list(range(rng.randint(1, 3)))
    rng.shuffle(edges)
    named = zip(sketch.features.names, pattern, strict=True)
    values = {name: rng.choice([1, 5]) if bit else 0 for name, bit in named if name in sketch.features.numeric}
    for cycle in (edges, [0], [edges[0]] * 2):
        claim = {"kind": "lasso", "initial_valuation": values, "prefix": [], "cycle": [{"edges": cycle, "repeat": 1}]}
        yield {**claim, "between": between}, Subjects(right), nullcontext()
