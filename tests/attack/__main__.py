"""`python -m tests.attack --claims 10000 [--kind invariant] [--seed 1] [-o attack.json]`: false claims, and how many were accepted.

`--cross 5000` tries random worlds instead: what is accepted about one must agree with itself and with brute force.
`--fields` changes every field of certificates of all kinds. Exit code 1 where anything false was accepted, or anything broke.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.attack.cross import Found, cross
from tests.attack.strike import KINDS, strike
from tests.attack.systematic import Tried, attack_all, pieces_of

AT_ONCE = 25
"""Worlds that a process tries before it says what it found."""


def cross_claims(tasks: int, seed: int, workers: int, output: Path | None) -> tuple[dict, bool]:
    """What so many random worlds showed, and whether all was well; written as it comes in."""
    found, seeds = Found(), range(seed, seed + tasks)
    pieces = [seeds[k : k + AT_ONCE] for k in range(0, tasks, AT_ONCE)]
    with ProcessPoolExecutor(workers) as pool:
        for part in pool.map(cross, pieces):
            found.add(part)
            print(f"{found.tasks:6,} worlds, {found.facts:,} facts, {len(found.wrong)} wrong", flush=True)
            for one in part.wrong:
                print(f"    seed {one['seed']}: {one['what']}", flush=True)
            write({"seed": seed, **found.row()}, output)
    return {"seed": seed, **found.row()}, not found.wrong


def write(document: dict, output: Path | None) -> None:
    """Write what was found, if anybody wants it."""
    if output is not None:
        output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def all_fields(seed: int, workers: int) -> tuple[dict, bool]:
    """What changing every field of every kind showed, and whether all was well."""
    tried = Tried()
    with ProcessPoolExecutor(workers) as pool:
        for part in pool.map(attack_all, pieces_of(seed)):
            tried.add(part)
            print(f"{tried.count_all():8,} changed certificates, {len(tried.wrong)} wrong", flush=True)
    print(*tried.wrong, sep="\n")
    return {"seed": seed, "tried": tried.count_all(), "wrong": tried.wrong, "kinds": tried.rows()}, not tried.wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack")
    parser.add_argument("--claims", type=int, default=10_000, help="false claims in all, shared by the kinds")
    parser.add_argument("--kind", choices=sorted(KINDS), action="append", help="only this kind (may be repeated)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, help="write what was tried as JSON")
    parser.add_argument("--cross", type=int, metavar="N", help="try N random worlds instead")
    parser.add_argument("--fields", action="store_true", help="change every field of certificates of all kinds instead")
    parser.add_argument("--workers", type=int, default=1, help="processes, with --cross and --fields")
    given = parser.parse_args()
    if given.cross is not None or given.fields:
        document, good = (
            all_fields(given.seed, given.workers)
            if given.fields
            else cross_claims(given.cross, given.seed, given.workers, given.output)
        )
        write(document, given.output)
        return int(not good)
    kinds = given.kind or sorted(KINDS)
    rows = []
    for kind in kinds:
        begun = time.monotonic()
        found = strike(kind, -(-given.claims // len(kinds)), given.seed)
        print(f"{kind:14} {found.tried:7,} false claims tried, {len(found.accepted)} accepted", flush=True)
        for seed in sorted(set(found.accepted)):
            print(f"    repeat with: python -m tests.attack --kind {kind} --claims 1 --seed {seed}", flush=True)
        seconds = round(time.monotonic() - begun, 1)
        rows.append({"kind": kind, "tried": found.tried, "accepted": len(found.accepted), "seconds": seconds})
    tried, accepted = (sum(row[key] for row in rows) for key in ("tried", "accepted"))
    write({"seed": given.seed, "tried": tried, "accepted": accepted, "kinds": rows}, given.output)
    return int(accepted > 0)


if __name__ == "__main__":
    sys.exit(main())
