"""Starting up, before and after: CPU seconds of small commands in a reference build and in this one, in turns.

    python -m benchmarks.startup [--reference 8214df5] [--repeat 7] [-o benchmarks/results/startup.json]

Times are medians of whole processes; the interpreter alone and numpy stand beside them. Before is the tree as it was before commands
were imported when they are invoked.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.exploring import RESULTS
from benchmarks.quick import interpreter, reference_build
from polvet.domains.shipped import find_shipped

WORK: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Python alone", ("-c", "pass")),
    ("import numpy", ("-c", "import numpy")),
    ("import polvet", ("-c", "import polvet")),
    ("polvet --version", ("-m", "polvet", "--version")),
    ("polvet --help", ("-m", "polvet", "--help")),
    ("polvet info MODEL", ("-m", "polvet", "info", str(find_shipped("line-good").task.with_suffix(".jani")))),
)


@dataclass(frozen=True, slots=True)
class Row:
    """What one command takes, before and now, and how far its repetitions are apart."""

    work: str
    before: float
    now: float
    spread: float


def spent(words: tuple[str, ...], reference: Path | None) -> float:
    """Return the CPU seconds of one process."""
    command, environment, folder = interpreter(reference)
    begun = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*command, *words], capture_output=True, check=True, env=environment, cwd=folder)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime - begun.ru_utime - begun.ru_stime


def row(work: str, words: tuple[str, ...], reference: Path, repeat: int) -> Row:
    """Measure one command in turns; the first turn only fills caches."""
    pairs = [(spent(words, reference), spent(words, None)) for _ in range(repeat + 1)][1:]
    before, now = (statistics.median(pair[k] for pair in pairs) for k in (0, 1))
    spread = max(pair[1] for pair in pairs) - min(pair[1] for pair in pairs)
    return Row(work, round(before, 3), round(now, 3), round(spread, 3))


def table(rows: list[Row], reference: str, repeat: int) -> str:
    """Return the rows as Markdown."""
    lines = [
        f"Before is {reference}; CPU seconds of whole processes, medians of {repeat} in turns; spread is max - min of now.",
        "",
        "| work | before | now | spread |",
        "|---|---|---|---|",
    ]
    return "\n".join(
        [*lines, *(f"| {one.work} | {one.before:.3f} | {one.now:.3f} | {one.spread:.3f} |" for one in rows)]
    )


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", default="8214df5", help="a revision")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "startup.json")
    options = parser.parse_args()
    reference = reference_build(options.reference)
    rows = [row(work, words, reference, options.repeat) for work, words in WORK]
    about = {"reference": options.reference, "repeat": options.repeat, "rows": [asdict(one) for one in rows]}
    options.output.write_text(json.dumps(about, indent=1) + "\n")
    shown = table(rows, options.reference, options.repeat)
    options.output.with_suffix(".md").write_text(shown + "\n")
    print(shown)


if __name__ == "__main__":
    main()
