"""How far one machine goes, and what a cluster buys: fuzzing, evaluation and deciding by 1, 2, ... workers of a Ray cluster.

Each command works on the same chunks with every number of workers and writes the same results (asserted). Measured: the seconds
of one process without Ray, the seconds with w workers after the cluster is up, and what an empty chunk costs. The model
    T(w) = a + n * (c / min(w, n) + o)
has the head's own work a, n chunks of c seconds each, and o seconds of the head's time per chunk (packing, order, merging).
    python -m benchmarks.scale [--workers 1 2] [--repeat 3] [-o benchmarks/results/scale.json]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from polvet.domains.shipped import find_shipped
from polvet.fuzz.rounds import Budget, Fuzzer, RoundOptions, run_campaign
from polvet.kernel.starts import Starts
from polvet.load import TaskOptions, load_task
from polvet.policy.binding import load_fitted
from polvet.policy.runs import simulate
from polvet.safety.batch import CREW_PORTION, decide_many
from polvet.safety.decide import Decider
from polvet.workers.parcel import Parcel, pack
from polvet.workers.protocol import Crew, Here
from polvet.workers.simulation import RUNS_PER_CHUNK, simulate_by

RESULTS = Path(__file__).parent / "results"
Job = Callable[[Crew | None], Any]


def nothing(parcel: Parcel, chunk: int) -> int:
    """A chunk without work: what is left is its way there and back."""
    return chunk


def jobs() -> dict[str, tuple[Job, int, Parcel]]:
    """Return the work by name, with its number of chunks and its parcel; a job returns what must not change."""
    line, bird = find_shipped("line-faulty"), find_shipped("bird")
    found: dict[str, tuple[Job, int, Parcel]] = {}

    fitted = load_fitted(load_task(line.task), line.policy)
    bound = fitted.compile()
    options = RoundOptions(seed=1, starts=2048)

    def fuzz(crew: Crew | None) -> Any:
        campaign = run_campaign(Fuzzer(bound, options), Budget(runs=260_000, unsafe_runs=10**9), crew=crew)
        return campaign.tried, campaign.rounds, len(campaign.runs), dict(campaign.ends)

    rounds = fuzz(None)[1]
    found["fuzz: rounds of 2,048 starts"] = fuzz, rounds, pack(line.task, TaskOptions(), policy=line.policy)

    flying = load_fitted(load_task(bird.task), bird.policy).compile()
    starts = flying.compiled.pack_starts(Starts.of(flying.task), 200)
    each = 1_000

    def runs(crew: Crew | None) -> Any:
        if crew is None:
            batch = simulate(flying, starts, runs_per_start=each, max_steps=500, seed=1)
        else:
            batch = simulate_by(crew, starts, runs_per_start=each, max_steps=500, seed=1)
        return batch.steps, batch.ends.tobytes(), batch.lengths.tobytes()

    chunks = -(-len(starts) // max(1, RUNS_PER_CHUNK // each))
    found[f"evaluate: {RUNS_PER_CHUNK:,} runs of 500 steps"] = runs, chunks, pack(bird.task, TaskOptions(), policy=bird.policy)

    task = load_task(bird.task)
    decider = Decider(task, share=False, algorithm="ipi")
    states = decider.compiled.unpack(decider.compiled.explore().states(0, 12_000))

    def decide(crew: Crew | None) -> Any:
        return [(one.verdict, one.expanded) for one in decide_many(decider, states, crew=crew).decided]

    found[f"decide: {CREW_PORTION:,} states"] = decide, -(-len(states) // CREW_PORTION), pack(bird.task, TaskOptions())
    return found


def seconds_of(job: Job, crew: Crew | None, repeat: int) -> tuple[float, Any]:
    """Return the median of some repetitions and the result."""
    spent, result = [], None
    for _ in range(repeat):
        begun = time.monotonic()
        result = job(crew)
        spent.append(time.monotonic() - begun)
    return median(spent), result


def measure(counts: list[int], repeat: int) -> dict[str, Any]:
    """Return the rows and what an empty chunk costs, for each number of workers."""
    import ray

    from polvet.workers.ray_cluster import RayCluster

    work = jobs()
    rows: list[dict[str, Any]] = []
    alone = {}
    for name, (job, chunks, parcel) in work.items():
        plain, result = seconds_of(job, None, repeat)
        here, same = seconds_of(job, Crew(Here(), parcel), repeat)
        assert same == result
        alone[name] = result
        rows.append({"work": name, "chunks": chunks, "one process": plain, "in chunks": here, "workers": {}})
    empty: dict[str, float] = {}
    opening: dict[str, float] = {}
    for count in counts:
        begun = time.monotonic()
        ray.init(address="local", num_cpus=count, include_dashboard=False, log_to_driver=False, logging_level=40)
        cluster = RayCluster(ray)
        parcel = next(iter(work.values()))[2]
        list(cluster.map(nothing, parcel, range(4 * count)))
        opening[str(count)] = time.monotonic() - begun
        begun = time.monotonic()
        list(cluster.map(nothing, parcel, range(500)))
        empty[str(count)] = (time.monotonic() - begun) / 500
        for row in rows:
            job, _, parcel = work[row["work"]]
            job(Crew(cluster, parcel))  # every worker opens the parcel
            spent, result = seconds_of(job, Crew(cluster, parcel), repeat)
            assert result == alone[row["work"]]
            row["workers"][str(count)] = spent
        ray.shutdown()
    return {"rows": rows, "empty_chunk_seconds": empty, "start_seconds": opening}


def modelled(row: dict[str, Any], overhead: float, workers: int) -> float:
    """Return T(w): chunks in parallel, their overhead at the head one after the other."""
    n = row["chunks"]
    return float(row["in chunks"] / min(workers, n) + n * overhead)


def markdown(found: dict[str, Any]) -> str:
    """Return the tables."""
    counts = sorted({int(count) for row in found["rows"] for count in row["workers"]})
    overhead = max(found["empty_chunk_seconds"].values())
    shown = [16, 64, 256]
    head = ["work", "chunks", "one process", *(f"{count} workers" for count in counts)]
    head += [f"model, {count} workers" for count in (*counts, *shown)]
    lines = ["# One machine and a cluster", "", "Seconds, medians. " + f"An empty chunk costs {1000 * overhead:.1f} ms; "
             f"a cluster on this machine is up after {max(found['start_seconds'].values()):.1f} s.", ""]  # fmt: skip
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in found["rows"]:
        cells = [row["work"], str(row["chunks"]), f"{row['one process']:.2f}"]
        cells += [f"{row['workers'][str(count)]:.2f}" for count in counts]
        cells += [f"{modelled(row, overhead, count):.2f}" for count in (*counts, *shown)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("-o", default=str(RESULTS / "scale.json"))
    given = parser.parse_args()
    found = measure(given.workers, given.repeat)
    file = Path(given.o)
    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    file.with_suffix(".md").write_text(markdown(found), encoding="utf-8")
    print(markdown(found))


if __name__ == "__main__":
    main()
