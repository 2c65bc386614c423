"""How far one machine goes, and what a cluster buys: fuzzing, evaluation and deciding by 1, 2, ... workers of a Ray cluster.

Each command works on the same chunks with every number of workers and gives the same results (asserted). CPU seconds, which a busy
machine does not change: of one process without Ray, of the same work in chunks, of the head while a cluster works (`head`), and of the
head for one empty chunk. Wall-clock seconds beside them are those of the machine as it was. The model
    T(w) = c / min(w, n) + h
has c, the CPU seconds of all n chunks, and h, the head's own; a cluster is worth it while c / w is above h.
    python -m benchmarks.scale [--workers 1 2] [--repeat 3] [-o benchmarks/results/scale.json]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from polvet.domains.shipped import find_shipped
from polvet.fuzz.rounds import Fuzzer, RoundOptions, Target, run_campaign
from polvet.kernel.starts import Starts
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import compile_policy
from polvet.policy.runs import MAX_STEPS, simulate
from polvet.safety.batch import CREW_PORTION, decide_many
from polvet.safety.decide import Decider
from polvet.sources import load_task
from polvet.workers.parcel import Parcel, open_parcel, pack
from polvet.workers.protocol import Crew, Here
from polvet.workers.simulation import RUNS_PER_CHUNK, simulate_by

RESULTS = Path(__file__).parent / "results"
EMPTY = 300
Job = Callable[[Crew | None], Any]


def nothing(parcel: Parcel, chunk: int) -> int:
    """A chunk without work: what is left is its way there and back."""
    return chunk


def warm(parcel: Parcel, chunk: int) -> int:
    """Open the parcel: a worker does so once."""
    open_parcel(parcel)
    return chunk


def jobs() -> dict[str, tuple[Job, int, Parcel]]:
    """Return the work by name, with its number of chunks and its parcel; a job returns what must not change."""
    line = find_shipped("line-faulty")
    found: dict[str, tuple[Job, int, Parcel]] = {}

    fitted = load_fitted(load_task(line.task), line.policy)
    bound = compile_policy(fitted)
    options = RoundOptions(seed=1, starts=1024)

    def fuzz(crew: Crew | None) -> Any:
        campaign = run_campaign(Fuzzer(bound, options), Target(runs=60_000, unsafe_runs=10**9), crew=crew)
        return campaign.tried, campaign.rounds, len(campaign.runs), dict(campaign.ends)

    rounds = fuzz(None)[1]
    found["fuzz: rounds of 1,024 starts"] = fuzz, rounds, pack(load_task(line.task), policy=line.policy)

    starts = bound.compiled.pack_starts(Starts.of(bound.task))
    each = 1_000

    def runs(crew: Crew | None) -> Any:
        if crew is None:
            batch = simulate(bound, starts, runs_per_start=each, seed=1)
        else:
            batch = simulate_by(crew, starts, runs_per_start=each, max_steps=MAX_STEPS, seed=1)
        return batch.steps, batch.ends.tobytes(), batch.lengths.tobytes()

    chunks = -(-len(starts) // max(1, RUNS_PER_CHUNK // each))
    found[f"evaluate: {RUNS_PER_CHUNK:,} runs"] = runs, chunks, pack(load_task(line.task), policy=line.policy)

    decider = Decider(bound.task, share=False, algorithm="ipi")
    space = decider.compiled.explore(starts)
    states = decider.compiled.unpack(space.states(0, min(len(space), 40_000)))

    def decide(crew: Crew | None) -> Any:
        return [(one.verdict, one.expanded) for one in decide_many(decider, states, crew=crew).decided]

    found[f"decide: {CREW_PORTION:,} states"] = decide, -(-len(states) // CREW_PORTION), pack(load_task(line.task))
    return found


def cost_of(job: Job, crew: Crew | None, repeat: int) -> tuple[float, float, Any]:
    """Return the least CPU seconds of this process and the least wall-clock seconds of some repetitions, and the result."""
    cpu, wall, result = [], [], None
    for _ in range(repeat):
        begun, clock = time.monotonic(), time.process_time()
        result = job(crew)
        cpu.append(time.process_time() - clock)
        wall.append(time.monotonic() - begun)
    return min(cpu), min(wall), result


def measure(counts: list[int], repeat: int) -> dict[str, Any]:
    """Return the rows and what an empty chunk costs, for each number of workers."""
    os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's workers step back otherwise, where others work as well
    import ray

    from polvet.workers.ray_cluster import RayCluster

    work = jobs()
    rows: list[dict[str, Any]] = []
    alone = {}
    for name, (job, chunks, parcel) in work.items():
        plain, wall, result = cost_of(job, None, repeat)
        here, _, same = cost_of(job, Crew(Here(), parcel), repeat)
        assert same == result
        alone[name] = result
        rows.append(
            {"work": name, "chunks": chunks, "alone": plain, "alone_wall": wall, "chunked": here, "workers": {}}
        )
    empty: dict[str, float] = {}
    opening: dict[str, float] = {}
    for count in counts:
        begun = time.monotonic()
        ray.init(address="local", num_cpus=count, include_dashboard=False, log_to_driver=False, logging_level=40)
        cluster = RayCluster(ray)
        parcel = next(iter(work.values()))[2]
        list(cluster.map(nothing, parcel, range(4 * count)))
        opening[str(count)] = time.monotonic() - begun
        clock = time.process_time()
        list(cluster.map(nothing, parcel, range(EMPTY)))
        empty[str(count)] = (time.process_time() - clock) / EMPTY
        for row in rows:
            job, _, parcel = work[row["work"]]
            list(Crew(cluster, parcel).map(warm, range(4 * count)))
            head, wall, result = cost_of(job, Crew(cluster, parcel), repeat)
            assert result == alone[row["work"]]
            row["workers"][str(count)] = {"head": head, "wall": wall}
        ray.shutdown()
    return {
        "rows": rows,
        "empty_chunk": empty,
        "start_wall": opening,
        "load": os.getloadavg()[0],
        "cores": os.cpu_count(),
    }


def modelled(row: dict[str, Any], workers: int) -> float:
    """Return T(w): the chunks side by side, the head's work one after the other."""
    head = max(one["head"] for one in row["workers"].values())
    return float(row["chunked"] / min(workers, row["chunks"]) + head)


def markdown(found: dict[str, Any]) -> str:
    """Return the table."""
    counts = sorted({int(count) for row in found["rows"] for count in row["workers"]})
    shown = [2, 8, 32]
    head = ["work", "chunks", "one process, CPU s", "in chunks, CPU s", "head, CPU s", "one process, wall s"]
    head += [f"{count} worker{'s' * (count > 1)}, wall s" for count in counts]
    head += [f"model, {count} workers" for count in shown]
    empty, start = max(found["empty_chunk"].values()), max(found["start_wall"].values())
    lines = [
        "# One machine and a cluster", "",
        f"An empty chunk costs the head {1000 * empty:.2f} ms of CPU time; a cluster on this machine was up after {start:.0f} s.",
        f"Measured on {found['cores']} cores with a load of {found['load']:.0f}: wall-clock seconds are those of a machine that did",
        "other things as well, CPU seconds are not touched by that.", "",
        "| " + " | ".join(head) + " |", "|" + "---|" * len(head),
    ]  # fmt: skip
    for row in found["rows"]:
        most = max(one["head"] for one in row["workers"].values())
        cells = [row["work"], str(row["chunks"]), f"{row['alone']:.2f}", f"{row['chunked']:.2f}", f"{most:.2f}"]
        cells += [f"{row['alone_wall']:.2f}", *(f"{row['workers'][str(count)]['wall']:.2f}" for count in counts)]
        cells += [f"{modelled(row, count):.2f}" for count in shown]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("-o", default=str(RESULTS / "scale.json"))
    given = parser.parse_args()
    found = measure(given.workers, given.repeat)
    file = Path(given.o)
    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    file.with_suffix(".md").write_text(markdown(found), encoding="utf-8")
    print(markdown(found))


if __name__ == "__main__":
    main()
