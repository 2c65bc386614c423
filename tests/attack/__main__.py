"""`python -m tests.attack --claims 10000 [--kind invariant] [--seed 1]`: false claims, and how many were accepted (0, or exit 1)."""

from __future__ import annotations

import argparse
import sys

from tests.attack.strike import KINDS, strike


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack")
    parser.add_argument("--claims", type=int, default=10_000, help="false claims in all, shared by the kinds")
    parser.add_argument("--kind", choices=sorted(KINDS), action="append", help="only this kind (may be repeated)")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    kinds = given.kind or sorted(KINDS)
    accepted = 0
    for kind in kinds:
        found = strike(kind, -(-given.claims // len(kinds)), given.seed)
        print(f"{kind:14} {found.tried:7,} false claims tried, {len(found.accepted)} accepted", flush=True)
        for seed in sorted(set(found.accepted)):
            print(f"    repeat with: python -m tests.attack --kind {kind} --claims 1 --seed {seed}", flush=True)
        accepted += len(found.accepted)
    return int(accepted > 0)


if __name__ == "__main__":
    sys.exit(main())
