"""The work that `benchmarks.quick` measures: run in the build under test and in the reference build, by a process of each.

Each build runs the jobs of its own revision, so that a renamed function breaks nothing; jobs of one name do the same work and
return the same answer. Everything comes with the package or is written below; models of the Quantitative Verification
Benchmark Set join where the folder is given.
    python -m benchmarks.quick_jobs FOLDER [MODELS]    reads names of jobs, one a line, and writes [CPU seconds, answer]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.exploring import MODELS, exact
from polvet.domains.shipped import find_shipped
from polvet.front.properties import property_of_task
from polvet.fuzz.rounds import Fuzzer, RoundOptions, Target, run_campaign
from polvet.kernel.compiled import Compiled
from polvet.kernel.starts import Starts
from polvet.mdp.build import build
from polvet.mdp.check import check_property
from polvet.model.instantiate import instantiate
from polvet.model.task import TaskOptions
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import Bound, compile_policy
from polvet.policy.runs import simulate
from polvet.safety.decide import Decider
from polvet.sources import load_task
from polvet.verify.explicit import Search
from polvet.worlds.formats import load_model

RING = """mdp
const int N = 60;
module leader
  turn : [1..3] init 1; sent : [0..N] init 0;
  [go1] turn=1 & sent<N -> 0.9:(turn'=2)&(sent'=sent+1) + 0.1:(turn'=3);
  [go2] turn=2 -> (turn'=3);
  [go3] turn=3 -> 0.5:(turn'=1) + 0.5:(turn'=2);
endmodule
module one
  a : [0..N] init 0; busy1 : bool init false;
  [go1] !busy1 -> (busy1'=true);
  [work1] busy1 & a<N -> 0.8:(a'=a+1)&(busy1'=false) + 0.2:(busy1'=false);
endmodule
module two
  b : [0..5] init 0; busy2 : bool init false;
  [go2] !busy2 -> (busy2'=true);
  [work2] busy2 -> 0.7:(b'=min(b+1,5))&(busy2'=false) + 0.3:(b'=max(b-1,0))&(busy2'=false);
endmodule
module three
  c : [0..3] init 0;
  [go3] c<3 -> 0.5:(c'=c+1) + 0.5:(c'=0);
  [rest] c=3 -> (c'=0);
endmodule
"""
POLICIES = {"line-good": (80, 500), "bird": (1_000, 10_000), "blocks": (1, 30_000)}
"""How often the whole policy is verified in one measurement, and how many runs are made from each start."""
NETWORKS = (40, 200)
"""The same for networks, with their tasks in the folder `policies`."""
MAX_STEPS = 200
Job = Callable[[], Any]


def model_jobs(name: str, path: Path, constants: dict[str, Any], wanted: str) -> Iterator[tuple[str, Job]]:
    """Explore, build and check one model; answers are numbers of states and bounds."""
    model = load_model(path)
    values = exact(constants, model)
    network = instantiate(model, values)
    compiled = Compiled(network)
    yield f"explore {name}", lambda: len(compiled.explore())
    yield f"build {name}", lambda: build(network).mdp.states

    def check() -> Any:
        task = load_task(path, TaskOptions(constants=values))
        found = check_property(task.network, property_of_task(task, wanted))
        return [float(f"{found.lower:.5g}"), float(f"{found.upper:.5g}")]

    yield f"check {name}", check


def policy_jobs(name: str, task: Path, policy: Path) -> Iterator[tuple[str, Job]]:
    """Verify explicitly, simulate and fuzz a policy."""
    bound = compile_policy(load_fitted(load_task(task), policy))
    starts = bound.compiled.pack_starts(Starts.of(bound.task))
    loops, runs = POLICIES.get(name, NETWORKS)

    def verify() -> Any:
        return [Search(bound).go_on().figures["states"] for _ in range(loops)]

    yield f"verify {name}", verify
    yield f"simulate {name}", lambda: simulate(bound, starts, runs_per_start=runs, max_steps=MAX_STEPS, seed=1).steps
    yield f"fuzz {name}", lambda: fuzz(bound)


def fuzz(bound: Bound) -> Any:
    """Return how many runs were tried, and how they ended."""
    campaign = run_campaign(
        Fuzzer(bound, RoundOptions(seed=1, max_steps=MAX_STEPS)), Target(runs=16_000, unsafe_runs=10**9)
    )
    return campaign.tried, sorted(campaign.ends.items())


def decide_jobs(name: str, task_file: Path) -> Iterator[tuple[str, Job]]:
    """Decide every start state, with the two searches that matter most."""
    task = load_task(task_file)
    states = Compiled(task.network).pack_starts(Starts.of(task), limit=16_000)
    for algorithm, share, first in (("lazy", True, len(states)), ("ipi", False, 2_000)):

        def decide(algorithm: str = algorithm, share: bool = share, first: int = first) -> Any:
            decider = Decider(task, algorithm=algorithm, share=share)
            return sum(int(known) for known in decider.known_packed(states[:first]))

        yield f"decide {name} {algorithm}", decide


def jobs(folder: Path, models: Path | None) -> dict[str, Job]:
    """Return all jobs; `folder` holds what the build under test has generated for both."""
    ring = folder / "ring.prism"
    ring.write_text(RING)
    found = dict(model_jobs("ring", ring, {}, "Pmax=? [F (a=N)]"))
    for name in POLICIES:
        shipped = find_shipped(name)
        found |= policy_jobs(name, shipped.task, shipped.policy)
    for policy in sorted((folder / "policies").glob("*.onnx")):
        found |= policy_jobs(policy.stem, policy.with_suffix(".toml"), policy)
    for task in sorted(folder.glob("*.toml")):
        found |= decide_jobs(task.stem, task)
    for file, constants, wanted in MODELS if models else ():
        assert models is not None
        found |= model_jobs(Path(file).stem, models / file, constants, wanted)
    return found


def main() -> None:
    """Run the jobs that are asked for."""
    models = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    known = jobs(Path(sys.argv[1]), models)
    print(json.dumps(list(known)), flush=True)
    for line in sys.stdin:
        begun = time.process_time()
        answer = known[line.strip()]()
        print(json.dumps([time.process_time() - begun, answer]), flush=True)


if __name__ == "__main__":
    main()
