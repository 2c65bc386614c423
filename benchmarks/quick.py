"""Did something get slower? A handful of kinds of work against a reference build, interleaved in one run, in CPU time.

The reference is a revision of this repository (the last release, or --reference REVISION), built once into `build/reference/`. Two
processes, one of each build, take turns with every job (`quick_jobs.py`), so that a noisy machine is noisy for both. A job counts as
slower when the ratio of the best times and the median of the ratios of neighbours are both above the limit; then, before it is said,
it is measured twice as often again. Answers are compared, too. Exit code 1: something is slower, or answers differ.
    python -m benchmarks.quick [--reference v0.1.0] [--repeat 5] [--only explore,check] [--models FOLDER] [--limit 1.1] [-o FILE]
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import asdict, dataclass, field
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from polvet.domains import generate

ROOT = Path(__file__).resolve().parents[1]
BEFORE_RELEASES = "bc6de03"
"""The reference as long as no release is tagged: the revision before this file."""
TASKS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("beluga", {"jigs": 6}),
    ("blocksworld", {"n": 7}),
    ("one-way-line", {"n": 15, "p": 10}),
)
NETWORKS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("racetrack-corner-2x16", "racetrack", {"map": "corner"}),
    ("blocksworld-4-ci-2x16", "blocksworld", {"n": 4, "cost": 0}),
)
"""Policies of `benchmarks/policies`, and their tasks."""


def default_reference() -> str:
    """Return the last tagged release, or the revision before this file."""
    tagged = _git("describe", "--tags", "--abbrev=0", check=False)
    return tagged or BEFORE_RELEASES


def _git(*words: str, check: bool = True) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise SystemExit(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def reference_build(revision: str) -> Path:
    """Return the folder with the revision's source and its package in `site`; built where it is not there yet."""
    full = _git("rev-parse", "--verify", f"{revision}^{{commit}}")
    folder = ROOT / "build" / "reference" / full[:12]
    if not (folder / "site" / "polvet").exists():
        print(f"== building the reference {revision} into {folder} (once; a few minutes)", file=sys.stderr)
        archive = subprocess.run(["git", "-C", str(ROOT), "archive", full], capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        install = ["pip", "install", "-q", "--disable-pip-version-check", "--no-build-isolation", "--no-deps"]
        subprocess.run([sys.executable, "-m", *install, "--target", "site", "."], cwd=folder, check=True)
        if missing := _missing(folder / "site"):
            subprocess.run([sys.executable, "-m", *install[:-1], "--target", "site", *missing], cwd=folder, check=True)
    if not (folder / "benchmarks" / "quick_jobs.py").exists():  # older than this comparison: it runs today's jobs
        for name in ("quick_jobs.py", "exploring.py"):
            (folder / "benchmarks" / name).write_text((ROOT / "benchmarks" / name).read_text())
    return folder


def _missing(site: Path) -> list[str]:
    """Return what the package there needs, extras aside, and this environment does not have."""
    (package,) = distributions(name="polvet", path=[str(site)])
    needed = [text.split(";")[0].strip() for text in package.requires or () if "extra ==" not in text]
    return [one for one in needed if not any(distributions(name=re.split(r"[^\w.-]", one)[0]))]


def interpreter(reference: Path | None) -> tuple[list[str], dict[str, str], Path]:
    """Return the words, the environment and the folder that start Python in the reference build, or in this one."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["OMP_NUM_THREADS"] = "1"
    if reference is None:
        return [sys.executable], environment, ROOT
    # Without `site`, because an editable install of this tree puts itself before every path.
    others = [path for path in sys.path if path and Path(path) not in (ROOT, ROOT / "src")]
    paths = os.pathsep.join([str(reference / "site"), *others])
    return [sys.executable, "-S"], {**environment, "PYTHONPATH": paths}, reference


class Build:
    """A process that runs jobs in one build."""

    def __init__(self, arguments: list[str], reference: Path | None = None) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (as long as the process)
        command, environment, where = interpreter(reference)
        self.process = subprocess.Popen(
            [*command, "-m", "benchmarks.quick_jobs", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, cwd=where, env=environment,
        )  # fmt: skip
        self.jobs: list[str] = self._answer()

    def run(self, job: str) -> tuple[float, Any]:
        """Return the CPU seconds and the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(job + "\n")
        self.process.stdin.flush()
        seconds, answer = self._answer()
        return seconds, answer

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.errors.seek(0)
            raise SystemExit(f"{' '.join(map(str, self.process.args))}\n{self.errors.read()[-4000:]}")
        return json.loads(line)


@dataclass(slots=True)
class Comparison:
    """The times of one job, by turns."""

    job: str
    before: list[float] = field(default_factory=list)
    now: list[float] = field(default_factory=list)
    same: bool = True

    def measure(self, reference: Build, current: Build, repeat: int) -> None:
        """Add measurements; the one who begins changes every time."""
        for turn in range(repeat):
            order = ((reference, self.before), (current, self.now))
            answers = []
            for build, times in order if turn % 2 == 0 else order[::-1]:
                seconds, answer = build.run(self.job)
                times.append(seconds)
                answers.append(answer)
            self.same = self.same and answers[0] == answers[1]

    @property
    def ratio(self) -> float:
        """Return the median of the ratios of neighbours: above 1 is slower than the reference."""
        return statistics.median(now / before for now, before in zip(self.now, self.before, strict=True))

    def is_slower(self, limit: float) -> bool:
        """Whether both the median and the best times are above the limit."""
        return self.ratio > limit and min(self.now) / min(self.before) > limit

    @property
    def spread(self) -> float:
        """Return how far apart the middle half of the ratios is."""
        ratios = sorted(now / before for now, before in zip(self.now, self.before, strict=True))
        return ratios[-1 - len(ratios) // 4] - ratios[len(ratios) // 4]


def table(rows: list[Comparison], limit: float) -> str:
    """Return the comparison as Markdown."""
    lines = [
        "| work | reference, CPU s | now, CPU s | now / reference | spread | |",
        "|---|---|---|---|---|---|",
    ]
    for one in rows:
        word = "answers differ" if not one.same else "**slower**" if one.is_slower(limit) else ""
        lines.append(
            f"| {one.job} | {min(one.before):.3f} | {min(one.now):.3f} | {one.ratio:.2f} | {one.spread:.2f} | {word} |"
        )
    kinds = dict.fromkeys(one.job.split()[0] for one in rows)
    medians = (f"{kind} {statistics.median(r.ratio for r in rows if r.job.startswith(kind)):.2f}" for kind in kinds)
    return "\n".join([*lines, "", f"Medians: {', '.join(medians)}."])


def main() -> None:
    """Compare and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", default=None, help="a tag or revision (default: the last release)")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", default="", help="jobs whose names hold one of these words, with commas")
    parser.add_argument("--models", type=Path, default=None, help="a folder with the models of benchmarks.exploring")
    parser.add_argument("--limit", type=float, default=1.1)
    parser.add_argument("-o", "--output", type=Path, default=None)
    given = parser.parse_args()
    revision = given.reference or default_reference()
    reference_folder = reference_build(revision)
    begun = time.monotonic()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for domain, options in TASKS:
            generate(domain, **options).write(Path(folder) / f"{domain}.jani")
        (Path(folder) / "policies").mkdir()
        for policy, domain, options in NETWORKS:
            generate(domain, **options).write(Path(folder) / "policies" / f"{policy}.jani")
            shutil.copy(ROOT / "benchmarks" / "policies" / f"{policy}.onnx", Path(folder) / "policies")
        arguments = [folder, *([str(given.models.resolve())] if given.models else [])]
        reference, current = Build(arguments, reference_folder), Build(arguments)
        words = given.only.split(",")
        for job in current.jobs:
            if job not in reference.jobs or not any(word in job for word in words):
                continue
            one = Comparison(job)
            one.measure(reference, current, given.repeat)
            if one.is_slower(given.limit):
                one.measure(reference, current, 2 * given.repeat)
            rows.append(one)
            print(f"{job}: {one.ratio:.2f}", file=sys.stderr, flush=True)
    shown = table(rows, given.limit)
    print(f"Against {revision}, {given.repeat} repetitions in turns, {time.monotonic() - begun:.0f} s.\n\n{shown}")
    if given.output:
        about = {"reference": revision, "repeat": given.repeat, "limit": given.limit, "load": os.getloadavg()[0]}
        rated = [{**asdict(one), "ratio": one.ratio, "slower": one.is_slower(given.limit)} for one in rows]
        given.output.write_text(json.dumps({**about, "rows": rated}, indent=1) + "\n")
        given.output.with_suffix(".md").write_text(shown + "\n")
    if any(one.is_slower(given.limit) or not one.same for one in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
