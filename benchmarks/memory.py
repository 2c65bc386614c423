"""Bytes per state and exploring, before and after, for states of 1, 2, 4 and 8 words: a reference build and this one in turns.

    python -m benchmarks.memory [--reference acdcb5d] [--repeat 3] [-o benchmarks/results/memory.json]

Bytes are those that the store of states and its index have asked for at the end; seconds are CPU time, best of the repetitions. The
states themselves are compared, number by number. The models of 8 words are written below: all others known here are narrower.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.exploring import BENCHMARKS, RESULTS
from benchmarks.quick import interpreter, reference_build

MODELS: tuple[tuple[str, dict[str, object]], ...] = (
    ("qvbs/dtmc/nand/nand.jani", {"N": 40, "K": 3}),
    ("qvbs/mdp/wlan/wlan.5.jani", {"COL": 0}),
    ("qvbs/mdp/zeroconf/zeroconf.jani", {"N": 1000, "K": 8, "reset": False}),
    ("qvbs/dtmc/crowds/crowds.jani", {"TotalRuns": 5, "CrowdSize": 20}),
    ("qvbs/mdp/echoring/echoring.jani", {"ITERATIONS": 50}),
)
SIDES = {"counters": (17, 17, 17, 17, 1, 1, 1, 1), "one side": (1, 1, 1, 1, 17, 17, 17, 17)}
"""Eight counters of 60 bits, by how far they count: 1.7 million states, and as many with all that moves in one half."""
PROBE = """
import hashlib, json, sys, time
from polvet.kernel.compiled import Compiled
from polvet.model.instantiate import instantiate
from polvet.worlds.formats import load_model
model = load_model(sys.argv[1])
compiled = Compiled(instantiate(model, json.loads(sys.argv[2])))
begun = time.process_time()
space = compiled.explore()
spent = time.process_time() - begun
print(json.dumps([len(space), compiled.program.words, space.bytes, spent, hashlib.sha256(space.states().tobytes()).hexdigest()]))
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One model: bytes per state, and CPU seconds of exploring, before and now."""

    model: str
    states: int
    words: int
    before: float
    now: float
    seconds_before: float
    seconds_now: float
    same: bool


def counters(steps: tuple[int, ...]) -> str:
    """Return a model of counters that count so many steps each."""
    variables = [f"  x{k} : [0..{2**60 - 1}] init 0;" for k in range(len(steps))]
    commands = [f"  [up{k}] x{k} < {most} -> (x{k}'=x{k}+1);" for k, most in enumerate(steps)]
    return "\n".join(["mdp", "module counters", *variables, *commands, "endmodule", ""])


def explored(path: Path, constants: dict[str, object], reference: Path | None) -> tuple[int, int, int, float, str]:
    """Return states, words, bytes, CPU seconds and the digest of all states in their order."""
    command, environment, folder = interpreter(reference)
    words = [*command, "-c", PROBE, str(path), json.dumps(constants)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment, cwd=folder)
    states, width, size, seconds, digest = json.loads(done.stdout)
    return states, width, size, seconds, digest


def row(name: str, path: Path, constants: dict[str, object], reference: Path, repeat: int) -> Row:
    """Measure one model in turns."""
    pairs = [(explored(path, constants, reference), explored(path, constants, None)) for _ in range(repeat)]
    (states, words, size_before, _, digest_before), (_, _, size_now, _, digest_now) = pairs[-1]
    best = [round(min(pair[k][3] for pair in pairs), 3) for k in (0, 1)]
    per_state = [round(size / states, 1) for size in (size_before, size_now)]
    return Row(name, states, words, *per_state, *best, digest_before == digest_now)


def table(rows: list[Row], reference: str, repeat: int) -> str:
    """Return the rows as Markdown."""
    lines = [
        f"Before is {reference}; best CPU seconds of {repeat} in turns, one thread.",
        "",
        "| model | states | words | bytes/state before | now | CPU s before | now | same numbers |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.model} | {one.states:,} | {one.words} | {one.before:.1f} | {one.now:.1f} | {one.seconds_before:.2f} "
        f"| {one.seconds_now:.2f} | {'yes' if one.same else 'NO'} |"
        for one in rows
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", default="acdcb5d", help="a revision")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "memory.json")
    options = parser.parse_args()
    reference = reference_build(options.reference)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        models = [(Path(file).stem, BENCHMARKS / file, constants) for file, constants in MODELS]
        for name, steps in SIDES.items():
            path = Path(folder) / f"{name.replace(' ', '-')}.prism"
            path.write_text(counters(steps))
            models.append((name, path, {}))
        for name, path, constants in models:
            rows.append(row(name, path, constants, reference, options.repeat))
            print(rows[-1], flush=True)
    about = {"reference": options.reference, "repeat": options.repeat, "rows": [asdict(one) for one in rows]}
    options.output.write_text(json.dumps(about, indent=1) + "\n")
    options.output.with_suffix(".md").write_text(table(rows, options.reference, options.repeat) + "\n")
    print(table(rows, options.reference, options.repeat))


if __name__ == "__main__":
    main()
