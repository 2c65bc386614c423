"""Goal faults, faults relative to a bound on the risk, and verdicts about the risk: brute force says the same on random worlds.

    python -m tests.debug [--worlds 500] [-o benchmarks/results/fault-worlds.json]

The tests do the same on fewer worlds; what is compared, and with what, is said there. A world that differs ends this with its assertion.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from fractions import Fraction
from pathlib import Path

from tests.debug import test_goal_faults as goal
from tests.debug import test_risk_faults as risk
from tests.verify import test_risk_bound as verdicts

CHANCES = {"1": Fraction(1), "0.9": Fraction("0.9"), "0.5": Fraction("0.5"), "best": None}


def main() -> None:
    """Compare, and write how much was compared."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=500)
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/fault-worlds.json"))
    options = parser.parse_args()
    found = {"worlds": options.worlds, "goal_faults": {}, "risk_faults": 0, "risk_verdicts": 0, "differences": 0}
    for case in goal.worlds(options.worlds):
        for name, least in CHANCES.items():
            faults = len(goal.compared(case, least).faults)
            found["goal_faults"][name] = found["goal_faults"].get(name, 0) + faults
    with tempfile.TemporaryDirectory() as folder:
        for world in risk.worlds(Path(folder), options.worlds):
            found["risk_faults"] += risk.compared(*world)[0]
        for world, bound, bounds in verdicts.worlds(Path(folder), options.worlds):
            for most in bounds:
                verdicts.compared(world, bound, most)
                found["risk_verdicts"] += 1
    options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
