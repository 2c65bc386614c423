"""Finding a claim against certifying it: CPU seconds of both, for a large claim of every kind of certificate.

    python -m benchmarks.certify [--only invariant,repair] [-o benchmarks/results/certify.json]

`find` is the command that finds the claim and writes its certificate, in a process of its own, without the check that it makes by
itself before it says its verdict; `certify` is `polvet certify` in another one, from the file. Both include starting and reading.
Claims are about worlds written below (their sizes stand in the table), a network of `benchmarks.verification` and plans.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from tests.general.worlds import WORLDS

from benchmarks.termination import planted_plan, random_plan
from benchmarks.verification_policies import FOLDER
from polvet.check.checker import CHECKERS
from polvet.domains import generate
from polvet.jani.write import dump_model
from polvet.model.build import ModelBuilder
from polvet.policy.finite_memory import dump_fmp
from polvet.policy.finite_memory.build import Builder
from polvet.policy.networks import network_of
from polvet.policy.save import save_policy

RESULTS = Path(__file__).resolve().parent / "results"
LIMIT = 240
"""Seconds of the clock for each command."""
FIND = """
import sys
from polvet.check.checker import Accepted
import polvet.confirm.confirmation as confirmation
confirmation.check = lambda certificate, subjects, where: Accepted("not checked: only finding is measured")
from polvet.cli.app import run
sys.exit(run(sys.argv[1:]))
"""
CLI = "import sys\nfrom polvet.cli.app import run\nsys.exit(run(sys.argv[1:]))"
CERTIFY = "import sys\nfrom polvet.cli.app import run\nsys.exit(run(['certify', *sys.argv[1:]]))"

FIELD = """mdp
module field
  x : [0..{n}] init 1; y : [0..{n}] init 1; doomed : bool init false;
  [right] x<{n} & !doomed -> 0.9:(x'=x+1) + 0.1:true;
  [left] x>0 & !doomed -> (x'=x-1);
  [up] y<{n} & !doomed -> 0.9:(y'=y+1) + 0.1:(x'=max(x-1,0));
  [down] y>0 & !doomed -> (y'=y-1);
  [trip] !doomed & x>0 & y>0 -> (doomed'=true);
  [fall] doomed & y>0 -> (y'=y-1);
  [slide] doomed & y>0 & x<{n} -> (y'=y-1)&(x'=x+1);
endmodule
"""
SLOPE = """mdp
module slope
  x : [0..{n}] init 0; y : [0..{n}] init 0; lost : bool init false;
  [along] x<{n} & !lost -> 0.99:(x'=x+1) + 0.01:(lost'=true);
  [away] y<{n} & !lost -> 0.995:(y'=y+1) + 0.005:(lost'=true);
  [back] y>0 & x<{n} & !lost -> (y'=y-1)&(x'=x+1);
endmodule
"""
"""Whatever is chosen, somebody is lost now and then."""
KOAT = "(GOAL COMPLEXITY)\n(STARTTERM (FUNCTIONSYMBOLS f))\n(VAR A)\n(RULES\nf(A) -> Com_1(g(A))\ng(A) -> Com_1(g(A)) :|: A >= 1\n)"


@dataclass(frozen=True, slots=True)
class Claim:
    """A kind of certificate, what it speaks about, the words that find it, and those after `polvet certify FILE`."""

    kind: str
    about: str
    find: tuple[str, ...]
    certify: tuple[str, ...]
    output: str = "-o"


@dataclass(frozen=True, slots=True)
class Figures:
    """What one claim took; seconds are CPU time."""

    kind: str
    about: str
    bytes: int
    find: float
    certify: float
    accepted: bool

    @property
    def ratio(self) -> float:
        """Return how many times as long as finding certifying takes."""
        return self.certify / self.find


def field(folder: Path, name: str, n: int, start: str) -> str:
    """Write a field of (n + 1)^2 places, twice; return its task."""
    (folder / f"{name}.prism").write_text(FIELD.format(n=n))
    conditions = {"start": start, "fail": "doomed & y = 0", "goal": f"!doomed & x = {n} & y = {n}"}
    lines = [f'model = "{name}.prism"', *(f'{key} = "{value}"' for key, value in conditions.items() if value)]
    (folder / f"{name}.toml").write_text("\n".join(lines) + "\n")
    return f"{name}.toml"


def rules(folder: Path, name: str, n: int, *pairs: tuple[str, str]) -> str:
    """Write a rule list; return its file."""
    listed = [{"when": when.replace("N", str(n)), "action": action} for when, action in pairs]
    (folder / name).write_text(json.dumps({"format": "rules/1", "rules": listed}))
    return name


def claims_about_fields(folder: Path, n: int) -> Iterator[Claim]:
    """Yield claims about worlds that are enumerated, of (n + 1)^2 places."""
    one, all_ = field(folder, "one", n, ""), field(folder, "all", n, "!doomed")
    good = rules(folder, "good.json", n, ("x < N & x <= y", "right"), ("y < N", "up"), ("x < N", "right"))
    bad = rules(
        folder,
        "bad.json",
        n,
        ("doomed", "fall"),
        ("x >= N - 1 & y >= N - 1", "trip"),
        ("x < N & x <= y", "right"),
        ("y < N", "up"),
    )
    idle = rules(folder, "idle.json", n, ("x < N", "right"), ("true", "left"))
    size = f"field of {2 * (n + 1) ** 2:,} states"
    loop = ("--avoid", "stuck,deadlock,loop")
    yield Claim("safe-policy", size, ("decide", one, "--state", "x=1,y=1,doomed=false"), ("--task", one))
    yield Claim(
        "won-projection", size, ("decide", one, "--state", "x=1,y=1,doomed=false", "--sharpen"), ("--task", one)
    )
    yield Claim("unsafe-rank", size, ("decide", one, "--state", f"x=1,y={n},doomed=true"), ("--task", one))
    yield Claim(
        "safe-region", size, ("decide", field(folder, "every", n, "true"), "--region"), ("--task", "every.toml")
    )
    yield Claim("strong-cyclic", size, ("decide", all_, "--goal-reaching"), ("--task", all_))
    doomed = ("--state", f"x=1,y={n},doomed=true", "--goal-reaching")
    yield Claim("no-strong-cyclic", size, ("decide", one, *doomed), ("--task", one))
    small = field(folder, "small", 60, "")
    yield Claim("permissive", "field of 7,442 states", ("permit", small, "--bound", "0.1"), ("--task", small))
    yield Claim(
        "action-risk", "field of 7,442 states", ("permit", small, "--bound", "0.1", "--per-state"), ("--task", small)
    )
    (folder / "slope.prism").write_text(SLOPE.format(n=60))
    (folder / "slope.toml").write_text('model = "slope.prism"\nfail = "lost"\ngoal = "x = 60"\n')
    impossible = ("permit", "slope.toml", "--bound", "0.2")
    yield Claim("conflict", "slope of 7,442 states", impossible, ("--task", "slope.toml"), "--conflict")
    about_bad = ("--task", one, "--policy", bad)
    yield Claim("run", size, ("verify", one, bad), about_bad)
    about_all = ("--task", all_, "--policy", good)
    yield Claim("risk-bound", size, ("verify", all_, good, "--max-risk", "0.5"), about_all)
    yield Claim("risk-exceeds", size, ("verify", one, bad, "--max-risk", "0.5"), about_bad)
    yield Claim("sure-end", size, ("verify", all_, good, *loop), (*about_all, *loop))
    yield Claim("livelock", size, ("verify", one, idle, "--avoid", "loop"), ("--task", one, "--policy", idle))


def claims_about_policies(folder: Path) -> Iterator[Claim]:
    """Yield claims about networks, and about a repaired policy."""
    network = str(FOLDER / "blocksworld-6-ci-2x16.onnx")
    generate("blocksworld", n=6, cost=0).write(folder / "ci.jani")
    yield Claim(
        "invariant",
        "blocksworld-6-ci-2x16",
        ("verify", "ci.toml", network, "--method", "ic3"),
        ("--task", "ci.toml", "--policy", network),
    )
    spent(CLI, ("domains", "beluga", "jigs=7", "-o", "beluga.jani"), folder)
    lessons = ("--kind", "trees", "--teacher", "random", "--runs", "200", "-o", "beluga.json")
    spent(CLI, ("train", "beluga.toml", *lessons), folder)
    yield Claim(
        "reachable-set",
        "Beluga with 7 jigs, all that a poor policy reaches: 799,004 states",
        ("verify", "beluga.toml", "beluga.json", "--method", "explicit", "--fail", "false"),
        ("--task", "beluga.toml", "--policy", "beluga.json", "--fail", "false"),
    )
    model = ModelBuilder("cooling")
    reals = [model.real(f"t{k}", 0, 10, initial=4) for k in range(2)]
    model.edge("cool", to={t: t / 2 for t in reals})
    model.edge("mix", to={reals[0]: (reals[0] + reals[1]) / 2, reals[1]: (reals[0] + reals[1]) / 2})
    (folder / "cool.jani").write_text(dump_model(model.build()))
    (folder / "cool.toml").write_text('model = "cool.jani"\nfail = "t0 >= 9"\n')
    save_policy(
        network_of([([[0.3, -0.2], [0.1, 0.1]], [0.1, 0.0])], ["t0", "t1"], ["cool", "mix"]), folder / "cool.onnx"
    )
    yield Claim(
        "grid",
        "two temperatures",
        ("verify", "cool.toml", "cool.onnx", "--method", "grid"),
        ("--task", "cool.toml", "--policy", "cool.onnx"),
    )
    task = field(folder, "mend", 40, "!doomed & y > 0")
    table = {
        "format": "table/1",
        "inputs": ["x", "y", "doomed"],
        "outputs": ["right", "left", "up", "down", "trip", "fall", "slide"],
    }
    places = [(x, y) for x in range(41) for y in range(41)]
    table["rows"] = [
        {
            "state": {"x": x, "y": y, "doomed": False},
            "action": "trip" if x and y and (x + y) % 5 == 0 else "right" if x < 40 else "up",
        }
        for x, y in places
    ]
    table["default"] = "fall"
    (folder / "trips.json").write_text(json.dumps(table))
    find = ("repair", task, "trips.json", "--faults", "faults.json", "--certificate", "proof.json")
    yield Claim("repair", "table of 1,681 rows", find, ("--task", task, "--policy", "proof.json.policy"), "repair")


def claims_about_plans(folder: Path) -> Iterator[Claim]:
    """Yield claims about finite-memory policies, sketches and qualitative problems."""
    size = 5_000
    plans = {"ends": planted_plan(random.Random(1), size, 5), "runs": random_plan(random.Random(size + 5), size, 5, 2)}
    chain, star = Builder("q0"), Builder("q0")
    for k in range(size):
        chain = chain.edge(f"q{k}", f"q{k}", x=-1, guard="x > 0").edge(f"q{k}", f"q{k + 1}", guard="x == 0")
        star = star.edge("q0", f"q{k + 1}", guard="x == 0").edge(f"q{k + 1}", f"q{k + 1}", x=-1, guard="x > 0")
    plans |= {"chain": chain.build(), "star": star.edge("q0", "q0", x=-1, guard="x > 0").build()}
    plans["doubles"] = (
        Builder("a")
        .edge("a", "a", x=-1, y=2, guard="x > 0")
        .edge("a", "b", guard="x == 0 && y > 0")
        .edge("b", "b", x=1, y=-1, guard="y > 0")
        .edge("b", "a", guard="y == 0 && x > 0")
        .build()
    )
    for name, plan in plans.items():
        (folder / f"{name}.json").write_text(json.dumps(dump_fmp(plan)))
    (folder / "loop.koat").write_text(KOAT)
    about = f"{size:,} control states"
    yield Claim("lex-rank", f"{about}, 5 variables", ("terminates", "ends.json"), ("--task", "ends.json"))
    yield Claim("lasso", f"{about}, 5 variables", ("terminates", "runs.json"), ("--task", "runs.json"))
    reached = ("terminates", "chain.json", "--goal", f"state == q{size}")
    missed = ("terminates", "star.json", "--goal", f"x >= {size}")
    yield Claim("goal-reaching", about, reached, ("--task", "chain.json"))
    yield Claim("goal-missed", about, missed, ("--task", "star.json"))
    yield Claim("recurrent-set", "2 control states", ("terminates", "doubles.json"), ("--task", "doubles.json"))
    yield Claim("its-run", "2 locations", ("terminates", "loop.koat"), ("--task", "loop.koat"))
    blocks = WORLDS["blocks"]
    (folder / "domain.pddl").write_text(blocks.domain)
    problem = max((blocks.instance(seed) for seed in range(12)), key=len)
    (folder / "p.pddl").write_text(problem)
    (folder / "right.txt").write_text(blocks.policy)
    old, new = next((old, new) for old, new, kind in blocks.mistakes.values() if kind == "cycle")
    (folder / "wrong.txt").write_text(blocks.policy.replace(old, new))
    yield Claim("general", "blocks, the largest of 12", ("generalizes", "right.txt", "p.pddl"), ("--task", "right.txt"))
    yield Claim(
        "general-refuted", "blocks, the largest of 12", ("generalizes", "wrong.txt", "p.pddl"), ("--task", "wrong.txt")
    )
    (folder / "lower.qnp").write_text("lower\n1 n 1\n1 n 1\n1 n 0\n1\na\n1 n 1\n1 n 0\n")
    find = ("synthesize", "lower.qnp", "-o", "plan.json")
    yield Claim("solves", "1 variable", find, ("--task", "lower.qnp", "--policy", "plan.json"), "--certificate")


def spent(program: str, words: tuple[str, ...], folder: Path) -> tuple[int, float, str]:
    """Return the exit code, CPU seconds and what was said."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment,
        timeout=LIMIT,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.returncode, seconds, done.stdout[-300:] + done.stderr[-500:]


def measured(claim: Claim, folder: Path) -> Figures:
    """Find the claim and certify it."""
    file = folder / f"{claim.kind}.json"
    words, subjects = (*claim.find, claim.output, file.name), claim.certify
    if claim.output == "repair":
        file, words = folder / "proof.json", (*claim.find, "-o", "proof.json.policy")
        code, _, said = spent(FIND, ("faults", claim.find[1], claim.find[2], "-o", "faults.json"), folder)
    code, find, said = spent(FIND, words, folder)
    if not file.exists():
        raise ValueError(f"{claim.kind}: nothing was found (exit code {code}): {said}")
    kind = json.loads(file.read_text())["kind"]
    if kind != claim.kind:
        raise ValueError(f"{claim.kind}: a certificate of kind {kind} was found")
    code, certify, said = spent(CERTIFY, (file.name, *subjects), folder)
    if code:
        print(claim.kind, said, file=sys.stderr)
    return Figures(claim.kind, claim.about, file.stat().st_size, round(find, 2), round(certify, 2), code == 0)


def table(rows: list[Figures]) -> str:
    """Return the figures as Markdown."""
    lines = ["| kind | about | bytes | find, CPU s | certify, CPU s | certify / find |", "|---|---|---|---|---|---|"]
    for one in sorted(rows, key=lambda row: row.ratio):
        word = "" if one.accepted else " (not accepted)"
        lines.append(
            f"| {one.kind} | {one.about} | {one.bytes:,} | {one.find:.2f} | {one.certify:.2f} | {one.ratio:.2f}{word} |"
        )
    slower = [one.kind for one in rows if one.ratio > 1]
    lines += [
        "",
        f"{len(rows) - len(slower)} of {len(rows)} are certified in the time that finding takes; longer: {', '.join(slower) or 'none'}.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="kinds, with commas; the others keep the figures they have")
    parser.add_argument("--places", type=int, default=300, help="of the field's sides")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "certify.json")
    options = parser.parse_args()
    wanted = set(options.only.split(",")) if options.only else set(CHECKERS)
    rows = {}
    if options.output.exists():
        kept = json.loads(options.output.read_text())["rows"]
        rows = {one["kind"]: Figures(**one) for one in kept if one["kind"] not in wanted}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        about_fields = partial(claims_about_fields, n=options.places)
        for claims in (about_fields, claims_about_policies, claims_about_plans):
            for claim in claims(folder):
                if claim.kind in wanted:
                    try:
                        rows[claim.kind] = measured(claim, folder)
                    except (ValueError, subprocess.TimeoutExpired) as failure:  # said, and listed as missing
                        print(failure, flush=True)
                        continue
                    print(rows[claim.kind], flush=True)
    missing = sorted(set(CHECKERS) - set(rows))
    options.output.write_text(
        json.dumps({"missing": missing, "rows": [asdict(one) for one in rows.values()]}, indent=1) + "\n"
    )
    options.output.with_suffix(".md").write_text(table(list(rows.values())) + "\n")
    print(table(list(rows.values())))


if __name__ == "__main__":
    main()
