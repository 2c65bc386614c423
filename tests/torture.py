"""A long random test with a bound on its time: `make torture`, or `python -m tests.torture --seconds 1200 --seed 1`.

Blows fall in turn until the time is over. Each draws a random world, plan or policy from its own seed, asks an engine, and holds
the answer against brute force, the slow interpreter, Z3, or `polvet certify`; others kill commands and go on with them, or feed
damaged files. What fails is printed with the line that repeats it: `python -m tests.torture --only BLOW --seed SEED`.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

import numpy as np

from polvet.cli.app import run
from polvet.debug.faults import all_faults
from polvet.domains import generate
from polvet.domains.shipped import SHIPPED, find_shipped
from polvet.fuzz.rounds import Fuzzer, RoundOptions, Target, run_campaign
from polvet.policy.binding import fit
from polvet.policy.compiled import compile_policy
from polvet.policy.finite_memory import dump_fmp
from polvet.policy.save import save_policy
from polvet.repair.repair import Options, repair
from polvet.safety.decide import Decider
from polvet.shield import Impossible, permit
from polvet.termination.decide import terminates
from polvet.verdict import Verdict
from polvet.verify.methods import METHODS
from polvet.verify.replay import replay
from tests.debug.oracle import random_case
from tests.evidence.families import FAMILIES, STRATEGIES, drawn
from tests.evidence.test_flatten import check_family, check_unless_refused
from tests.repair.ensembles import random_ensemble, random_faults
from tests.repair.test_trees import TASK as GRID
from tests.repair.test_trees import is_fixed
from tests.safety.games import SEARCHES, random_game
from tests.safety.test_algorithms import expected
from tests.shield import oracle as shields
from tests.shield.test_permissive import bounds_of
from tests.termination.plans import random_plan, sustains_by_z3
from tests.termination.test_complete import check
from tests.verify.cases import CASES, KINDS
from tests.verify.oracle import random_policy
from tests.verify.test_agreement import contradictions

Blow = Callable[[int], str]
"""Takes a seed, raises where something is wrong, and returns what it looked at."""
DONE, FOUND, UNKNOWN, INPUT = 0, 10, 20, 30


def polvet(*arguments: object, codes: tuple[int, ...] = (DONE, FOUND)) -> tuple[int, str]:
    """Run a command in this process; any other ending than these codes is a failure."""
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        code = run([str(argument) for argument in arguments])
    told = " ".join(map(str, arguments))
    assert code in codes, f"polvet {told}: exit code {code}\n{errors.getvalue()[-2000:]}"
    return code, out.getvalue()


def decide_games(seed: int) -> str:
    rng = random.Random(seed)
    for _ in range(50):
        game = random_game(rng, most=rng.choice([8, 14, 30]))
        wanted = expected(game)
        for algorithm in SEARCHES:
            if algorithm != "tarjan" or len(game.actions) <= 14:
                for share in (False, True):
                    order = rng.choice(["app", "random", "last"])
                    assert game.verdicts(algorithm, share=share, order=order, seed=seed) == wanted, (algorithm, game)
    return "50 games"


def find_faults(seed: int) -> str:
    case = random_case(seed)
    if case is None:
        return "no case"
    bound = compile_policy(case.fitted)
    found = all_faults(bound, Decider(case.task))
    wanted = case.faults(case.reached())
    seen = {fault.state: replace(fault, unsafe_outcomes=tuple(sorted(fault.unsafe_outcomes))) for fault in found.faults}
    assert seen == wanted
    assert set(found.unsafe_starts) == case.starts & case.unsafe
    if case.starts:
        options = RoundOptions(seed, starts=32, max_steps=40)
        for one in run_campaign(Fuzzer(bound, options), Target(runs=200)).runs:
            replay(bound, one)
            assert one.states[0] in case.starts
    return f"{len(wanted)} faults"


def verify_policies(seed: int) -> str:
    rng = random.Random(seed)
    case, kind, mode = rng.choice(CASES), rng.choice(KINDS), rng.choice(["filtered", "raw"])
    found, decided = contradictions(case, kind, mode, seed, (rng.choice(sorted(METHODS)), "auto"))
    assert not found, found
    return f"{case[0]}, {kind}, {mode}: {decided} verdicts"


def certify_verdicts(seed: int) -> str:
    """Commands, from files to certificates that the checker accepts; and certificates of other policies, which it rejects."""
    rng = random.Random(seed)
    name, values = rng.choice([case for case in CASES if case[0] not in ("racetrack", "janitor")])
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        model = here / "world.jani"
        polvet("domains", name, *(f"{key}={_text(value)}" for key, value in values.items()), "-o", model)
        task = here / "world.toml"
        loaded = generate(name, **values).task()
        names = [variable.name for variable in loaded.network.variables if not variable.is_location]
        kind = rng.choice(["network", "trees"])
        chance = np.random.default_rng(seed)
        policies = []
        for number in range(2):
            policies.append(here / f"policy{number}{'.onnx' if kind == 'network' else '.json'}")
            save_policy(random_policy(kind, chance, names, list(loaded.network.labels)), policies[-1])
        proof = here / "proof.json"
        code, out = polvet("verify", task, policies[0], "--time-limit", "5", "--seed", seed, "-o", proof, "--json",
                           codes=(DONE, FOUND, UNKNOWN))  # fmt: skip
        if code != UNKNOWN:
            assert polvet("certify", proof, "--task", task, "--policy", policies[0])[0] == DONE, out
            assert polvet("certify", proof, "--task", task, "--policy", policies[1])[0] == FOUND
        if polvet("decide", task, "--all-starts", "--certificates", here / "why", codes=(DONE, FOUND)):
            for file in (here / "why").glob("*.json"):
                assert polvet("certify", file, "--task", task)[0] == DONE
    return f"{name}, {kind}"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def repair_ensembles(seed: int) -> str:
    rng = np.random.default_rng(seed)
    kind = str(rng.choice(["scalar", "vector", "double", "binary"]))
    fitted = fit(GRID, random_ensemble(rng, kind))
    faults = random_faults(rng, fitted, int(rng.integers(1, 12)))
    method, mode = str(rng.choice(["leaves", "penalty"])), str(rng.choice(["safe", "avoid"]))
    made = repair(fitted, faults, Options(method=method, mode=mode))
    assert not made.left
    assert all(is_fixed(made.policy, fault, mode) for fault in faults)
    return f"{len(faults)} faults, {kind}, {method}"


def permit_worlds(seed: int) -> str:
    rng = random.Random(seed)
    world, choices, fail = shields.random_world(rng, states=rng.choice([4, 5, 6]))
    bound = bounds_of(rng, choices, fail)
    result = permit(world, bound, attempts=3, rng=rng)
    least = shields.least(choices, fail)
    if isinstance(result, Impossible):
        assert least > bound
        return "impossible"
    sets = shields.sets_of(world, result.permitted)
    assert least <= bound
    assert result.risk == shields.worst(choices, sets, fail) <= bound
    assert shields.addable(choices, sets, fail, bound) is None
    return f"{result.count} actions"


def end_plans(seed: int) -> str:
    rng = random.Random(seed)
    plan = random_plan(rng, states=(1, 5), variables=(1, 3), highest=rng.choice([1, 2, 3]), bounds=rng.random() < 0.5)
    result = terminates(plan, seed=seed)
    check(plan, result)
    assert sustains_by_z3(plan) == (result.verdict is Verdict.NONTERMINATING)
    with tempfile.TemporaryDirectory() as folder:
        file, proof = Path(folder) / "plan.json", Path(folder) / "proof.json"
        file.write_text(json.dumps(dump_fmp(plan)))
        polvet("terminates", file, "-o", proof)
        assert polvet("certify", proof, "--task", file)[0] == DONE
    return result.verdict.value


def kill_and_resume(seed: int) -> str:
    """A command that is killed again and again writes in the end what one writes that was left alone."""
    rng = random.Random(seed)
    line = find_shipped("line-faulty")
    runs = str(rng.choice([3000, 6000]))
    deaths = 0
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, killed in (("alone", False), ("killed", True)):
            file = Path(folder) / name / "runs.jsonl"
            command = [sys.executable, "-m", "polvet", "fuzz", str(line.task), str(line.policy), "--runs", runs,
                       "--round", "128", "--seed", str(seed), "-o", str(file)]  # fmt: skip
            for attempt in itertools.count():
                process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                try:
                    _, errors = process.communicate(timeout=rng.uniform(0.8, 4) if killed and attempt < 6 else 300)
                    assert process.returncode == FOUND, errors
                    break
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                    deaths += 1
            files.append([(path.name, path.read_bytes()) for path in sorted(file.parent.iterdir())])
        assert files[0] == files[1]
    return f"{deaths} deaths"


HOSTILE = ("info", "explore", "evaluate", "verify", "fuzz", "certify", "terminates", "report", "permit", "repair")


def feed_damaged_files(seed: int) -> str:
    """Damaged files are read or refused with exit code 30; nothing crashes, hangs or is our bug."""
    rng = random.Random(seed)
    shipped = find_shipped(rng.choice(sorted(SHIPPED)))
    told: Counter[int] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        document = Path(shipped.task).read_text()
        model = next(iter(Path(shipped.task).parent.glob(f"{Path(shipped.task).stem}.jani")))
        for source in (model, Path(shipped.policy)):
            (here / source.name).write_bytes(source.read_bytes())
        (here / "task.toml").write_text(document)
        target = here / rng.choice([model.name, Path(shipped.policy).name, "task.toml"])
        target.write_bytes(damaged(rng, target.read_bytes()))
        policy = here / Path(shipped.policy).name
        for command in rng.sample(HOSTILE, 4):
            given: list[object] = [command, here / "task.toml"]
            if command in ("evaluate", "verify", "fuzz", "repair"):
                given.append(policy)
            if command in ("certify", "terminates", "report"):
                given[1] = target
            extra = {"evaluate": ["--starts", "20", "--runs", "2"], "fuzz": ["--runs", "100"], "permit": ["--bound", "0.5"],
                     "repair": ["--faults", target], "report": ["-o", here / "report.html"]}.get(command, [])  # fmt: skip
            if command not in ("info", "certify", "report"):
                extra += ["--time-limit", "2"]
            if command in ("explore", "evaluate", "verify", "permit"):
                extra += ["--max-states", "20000", "--memory-limit", "2000"]
            arguments = [str(part) for part in (*given, *extra)]
            child = subprocess.run(
                [sys.executable, "-m", "polvet", *arguments], capture_output=True, text=True, timeout=120
            )
            told[child.returncode] += 1
            assert child.returncode in (DONE, FOUND, UNKNOWN, INPUT), f"{arguments}: {child.stderr[-2000:]}"
            if child.returncode == INPUT:
                lines = child.stderr.splitlines()  # warnings come first
                assert any(line.startswith("polvet: ") for line in lines), f"{arguments}: {child.stderr[:2000]}"
                assert "Traceback" not in child.stderr
    return f"exit codes {dict(told)}"


def damaged(rng: random.Random, data: bytes) -> bytes:
    """The bytes with something wrong: cut, flipped, doubled, with absurd numbers or texts in them."""
    content = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        place = rng.randrange(max(1, len(content)))
        match rng.randrange(6):
            case 0:
                del content[place:]
            case 1 if content:
                content[place] ^= 1 << rng.randrange(8)
            case 2:
                content[place:place] = content[place : place + rng.randrange(200)]
            case 3:
                content[place:place] = rng.choice(
                    [b"1e999", b"99999999999999999999", b"-1", b"null", b"NaN", b'"\xff"', b"{" * 999]
                )
            case 4:
                del content[place : place + rng.randrange(1, 60)]
            case _:
                content[place:place] = rng.choice(
                    [b"<script>alert(1)</script>", b"../../../etc/passwd", b"\x00" * 9, "é🙂".encode()]
                )
    return bytes(content)


def flatten_worlds(seed: int) -> str:
    for name in FAMILIES:
        check_family(name, seed)
    for name in STRATEGIES:
        drawn(name, seed, 5, check_unless_refused)
    return f"{len(FAMILIES) + 5 * len(STRATEGIES)} worlds"


BLOWS: dict[str, Blow] = {
    blow.__name__: blow
    for blow in (decide_games, find_faults, verify_policies, repair_ensembles, permit_worlds, end_plans, flatten_worlds, certify_verdicts,
                 feed_damaged_files, kill_and_resume)
}  # fmt: skip
RARE = {"kill_and_resume": 25, "feed_damaged_files": 3, "certify_verdicts": 3}
"""Blows that take seconds fall only in every so manieth turn."""


def torture(seconds: float, seed: int, only: str | None, say: Callable[[str], object] = print) -> int:
    """Strike until the time is over; return how many blows went wrong."""
    begun, struck, failed = time.monotonic(), Counter[str](), 0
    spent: Counter[str] = Counter()
    chosen = {only: BLOWS[only]} if only is not None else BLOWS
    for turn in itertools.count():
        for name, blow in chosen.items():
            if time.monotonic() - begun > seconds and (turn or only is None):
                for known in chosen:
                    say(f"{known:20} {struck[known]:7,} times, {spent[known]:8.1f} s")
                say(f"{sum(struck.values()):,} blows in {time.monotonic() - begun:.0f} s, {failed} went wrong")
                return failed
            if only is None and turn % RARE.get(name, 1):
                continue
            number = seed + turn
            clock = time.monotonic()
            try:
                blow(number)
            except Exception:
                failed += 1
                say(traceback.format_exc())
                say(f"again: python -m tests.torture --seconds 0 --only {name} --seed {number}")
            struck[name] += 1
            spent[name] += time.monotonic() - clock
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("TORTURE_SECONDS", "1200")))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", choices=sorted(BLOWS))
    given = parser.parse_args()
    sys.stdout.write(f"seed {given.seed}\n")
    failed = torture(given.seconds, given.seed, given.only, lambda text: print(text, flush=True))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
