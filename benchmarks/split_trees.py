"""Certificates that carry their search: sizes, and how long finding and checking takes, before and now, of the ten largest.

    python -m benchmarks.split_trees [--reference 8214df5] [--repeat 3] [--seconds 60]

The reference is the last revision whose checker of an `invariant` searched for itself what its split tree says now. One run: finding with
today's engine, then both checkers by turns, each in a process of its own; times are CPU seconds without starting Python. The reference
is given the same certificate without its tree; of a `grid` it is the same file, which it rejects where its own sets of states are too wide
for it: then nothing stands beside. *Find* is the proof and the search for its tree; all times include reading the task and the policy.
Networks are the largest of `benchmarks.verification` and random ones, tree ensembles are random (lines) and trained
(`benchmarks.teachers`); the ten largest certificates are compared.
Results: benchmarks/results/split-trees.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.verify.line_policies import random_line_policy

from benchmarks.quick import interpreter, reference_build
from benchmarks.teachers import policy_of, rows
from benchmarks.verification_policies import FOLDER
from polvet.domains import generate
from polvet.model.task import Task
from polvet.policy.networks import Network, network_of
from polvet.policy.save import save_policy

RESULTS = Path(__file__).resolve().parent / "results"
MOST = 10
NETWORKS: dict[str, dict[str, Any]] = {
    "transport-10-15-2x64": {"locations": 10, "packages": 15},
    "blocksworld-6-ca-2x16": {"n": 6},
    "blocksworld-8-ca-2x64": {"n": 8},
    "racetrack-corner-2x32": {"map": "corner"},
}
"""Of each set of `benchmarks.verification` the one with the largest certificate, and what it is about."""
RANDOM_NETWORKS = (3, 10, 80, 84)
LINES = (("one-way-line", 10, 8, 1), ("two-way-line", 10, 8, 1), ("two-way-line", 20, 15, 6))
"""Domain, places, packages and seed, with `park`."""
TRAINED = ("Bouncing Ball (0.01)", "Bouncing Ball (0.05)", "Inverted Pendulum (0.01)")
FIND = """
import json, sys, time
from polvet.budget import Budget
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import compile_policy
from polvet.sources import load_task
from polvet.verify.certificates import certificate_of
from polvet.verify.portfolio import verify
from polvet.verify.verdicts import Safe
task, policy, method, seconds, output = sys.argv[1:]
budget = Budget(float(seconds), clock=time.process_time)
begun = time.process_time()
bound = compile_policy(load_fitted(load_task(task), policy))
result = verify(bound, method=method, budget=budget)
proved = time.process_time()
certificate = certificate_of(bound, result, budget) if isinstance(result, Safe) else None
searched = time.process_time()
with open(output, "w") as file:
    json.dump(certificate, file)
print(json.dumps([proved - begun, searched - proved]))
"""
CHECK = """
import json, sys, time
from pathlib import Path
try:
    from polvet.check.checker import Accepted, Subjects, check_file
except ImportError:
    from polvet.evidence.check import Accepted, Subjects, check_file
import {module}
begun = time.process_time()
answer = check_file(sys.argv[1], Subjects(Path(sys.argv[2]), Path(sys.argv[3])))
print(json.dumps([time.process_time() - begun, isinstance(answer, Accepted)]))
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A policy of a task, by their files, and the method that proves it."""

    name: str
    task: Path
    policy: Path
    method: str = "ic3"


@dataclass(frozen=True, slots=True)
class Figures:
    """One certificate; seconds are medians of CPU time, `nodes` is None where there is no split tree."""

    instance: str
    kind: str
    nodes: int | None
    bytes: int
    bytes_before: int
    prove_seconds: float
    search_seconds: float
    check_seconds: float
    check_seconds_before: float
    accepted: bool
    accepted_before: bool

    @property
    def find_seconds(self) -> float:
        """Return how long finding took, the tree included."""
        return self.prove_seconds + self.search_seconds


def cases(folder: Path) -> Iterator[Case]:
    """Yield the policies; what they are about is written into the folder."""
    for name, options in NETWORKS.items():
        generate(name.split("-")[0], **options).write(folder / f"{name}.jani")
        yield Case(name, folder / f"{name}.toml", FOLDER / f"{name}.onnx")
    for seed in RANDOM_NETWORKS:
        made = generate("transport", locations=10, packages=15)
        name = f"transport-10-15-random-{seed}"
        made.write(folder / f"{name}.jani")
        save_policy(random_network(made.task(), seed), folder / f"{name}.onnx")
        yield Case(name, folder / f"{name}.toml", folder / f"{name}.onnx")
    for line, places, packages, seed in LINES:
        made = generate(line, n=places, p=packages, park=True)
        name = f"{line}-{places}-{packages}-trees-{seed}"
        made.write(folder / f"{name}.jani")
        save_policy(random_line_policy(made.task(), seed), folder / f"{name}.json")
        yield Case(name, folder / f"{name}.toml", folder / f"{name}.json")
    for row in rows():
        if row.name in TRAINED:
            yield Case(row.slug + "-trees", *policy_of(row, folder), "grid")


def random_network(task: Task, seed: int) -> Network:
    """Return a random network of two layers of 16 on Transport with 10 locations and 15 packages."""
    names = [variable.name for variable in task.network.variables][:-1]
    rng = np.random.default_rng(seed)
    sizes = ((16, len(names), 0.4), (16, 16, 0.35), (4, 16, 0.35))
    layers = [(rng.normal(size=(rows, columns)) * scale, rng.normal(size=rows) * 0.5) for rows, columns, scale in sizes]
    return network_of(layers, names, list(task.network.labels))


def spent(program: str, words: tuple[Any, ...], reference: Path | None = None) -> Any:
    """Return what the program says, in this build or in the reference."""
    command, environment, where = interpreter(reference)
    done = subprocess.run(
        [*command, "-c", program, *map(str, words)], capture_output=True, text=True, cwd=where, env=environment
    )
    if done.returncode:
        raise SystemExit(f"{words[0]}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


@dataclass(frozen=True, slots=True)
class Found:
    """A certificate, and the seconds of its proof and of the search for its tree."""

    certificate: dict[str, Any]
    proved: float
    searched: float


def find(case: Case, folder: Path, seconds: float) -> Found | None:
    """Return the case's certificate; None where the policy is not proved within the limit."""
    file = folder / f"{case.name}.certificate.json"
    proved, searched = spent(FIND, (case.task, case.policy, case.method, seconds, file))
    certificate = json.loads(file.read_text())
    return None if certificate is None else Found(certificate, proved, searched)


def measured(case: Case, first: Found, folder: Path, reference: Path, repeat: int, seconds: float) -> Figures:
    """Check the certificate of a case by turns, and find it again for each turn but the first."""
    file, bare = folder / f"{case.name}.certificate.json", folder / f"{case.name}.before.json"
    certificate = first.certificate
    kind = certificate["kind"]
    bare.write_text(json.dumps({key: value for key, value in certificate.items() if key != "tree"}))
    times: dict[str, list[float]] = {"prove": [], "search": [], "now": [], "before": []}
    answers: dict[str, bool] = {}
    for turn in range(repeat):
        one = find(case, folder, seconds) if turn else first
        assert one is not None, case.name
        before = spent(CHECK.format(module=f"polvet.evidence.{kind}"), (bare, case.task, case.policy), reference)
        now = spent(CHECK.format(module=f"polvet.check.{kind}"), (file, case.task, case.policy))
        for key, taken in (("prove", one.proved), ("search", one.searched), ("now", now[0]), ("before", before[0])):
            times[key].append(taken)
        answers |= {"now": now[1], "before": before[1]}
    median = {key: round(statistics.median(taken), 2) for key, taken in times.items()}
    return Figures(
        case.name, kind, certificate.get("tree", {}).get("nodes"), file.stat().st_size, bare.stat().st_size,
        median["prove"], median["search"], median["now"], median["before"], answers["now"], answers["before"],
    )  # fmt: skip


def table(compared: list[Figures], revision: str, repeat: int) -> str:
    """Return the comparison as Markdown."""
    lines = [
        "# Certificates that carry their search",
        "",
        f"`python -m benchmarks.split_trees`: before is {revision}; CPU seconds, medians of {repeat} by turns. *Find* is the",
        f"proof and the search for its split tree. The {MOST} largest certificates. Where nothing",
        "stands in the columns of before, that checker rejects the certificate: its sets of real values are too wide for the cells.",
        "",
        "| certificate | kind | nodes | bytes before | bytes | find | check before | check | check / before | check / find |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for one in compared:
        nodes = "" if one.nodes is None else f"{one.nodes:,}"
        words = "" if one.accepted else " (not accepted)"
        before, ratio = f"{one.check_seconds_before:.2f}", f"{one.check_seconds / one.check_seconds_before:.2f}"
        if not one.accepted_before:
            before = ratio = ""
        lines.append(
            f"| {one.instance}{words} | {one.kind} | {nodes} | {one.bytes_before:,} | {one.bytes:,} | {one.find_seconds:.2f} | "
            f"{before} | {one.check_seconds:.2f} | {ratio} | {one.check_seconds / one.find_seconds:.2f} |"
        )
    within = sum(one.check_seconds <= one.find_seconds for one in compared)
    lines += ["", f"{within} of {len(compared)} are checked in no more than the time that finding took."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", default="8214df5", help="a revision")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds for each proof with its tree")
    parser.add_argument("--most", type=int, default=MOST, help="how many are compared")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "split-trees.json")
    given = parser.parse_args()
    reference = reference_build(given.reference)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sizes: list[tuple[int, Case, Found]] = []
        for case in cases(folder):
            one = find(case, folder, given.seconds)
            size = 0 if one is None else len(json.dumps(one.certificate))
            print(case.name, "not proved" if one is None else f"{size:,} bytes", flush=True)
            sizes += [] if one is None else [(size, case, one)]
        compared = []
        for _, case, one in sorted(sizes, key=lambda entry: -entry[0])[: given.most]:
            compared.append(measured(case, one, folder, reference, given.repeat, given.seconds))
            print(compared[-1], flush=True)
    report = {"reference": given.reference, "repeat": given.repeat, "seconds": given.seconds}
    given.output.write_text(json.dumps({**report, "rows": [asdict(one) for one in compared]}, indent=1) + "\n")
    given.output.with_suffix(".md").write_text(table(compared, given.reference, given.repeat))
    print(table(compared, given.reference, given.repeat))


if __name__ == "__main__":
    main()
