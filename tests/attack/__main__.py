"""`python -m tests.attack --claims 10000 [--kind invariant] [--seed 1] [-o attack.json]`: false claims, and how many were accepted.

Exit code 1 where it was any.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from tests.attack.strike import KINDS, strike


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack")
    parser.add_argument("--claims", type=int, default=10_000, help="false claims in all, shared by the kinds")
    parser.add_argument("--kind", choices=sorted(KINDS), action="append", help="only this kind (may be repeated)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, help="write what was tried as JSON")
    given = parser.parse_args()
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
    if given.output is not None:
        document = {"seed": given.seed, "tried": tried, "accepted": accepted, "kinds": rows}
        given.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return int(accepted > 0)


if __name__ == "__main__":
    sys.exit(main())
