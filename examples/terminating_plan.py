"""Does a hand-written generalized plan end, from every state? Ask, check the evidence, and mend the plan.

The plan clears a block x: unstack what is above it, put it somewhere. `n` counts the blocks above x, `m` those elsewhere.
Run: python examples/terminating_plan.py
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import polvet
from polvet.policy.finite_memory import Builder, FiniteMemoryPolicy, dump_fmp
from polvet.report import make_report


def careless() -> FiniteMemoryPolicy:
    """Put the block down anywhere: perhaps on x again."""
    plan = Builder("look", name="clear x, carelessly")
    plan.edge("look", "holding", n=-1)
    plan.edge("holding", "look", m=1)
    plan.edge("holding", "look", n=1)
    return plan.build()


def careful() -> FiniteMemoryPolicy:
    """Put the block down elsewhere, then tidy up what lies there."""
    plan = Builder("look", name="clear x, carefully")
    plan.edge("look", "holding", n=-1)
    plan.edge("holding", "look", m=1)
    plan.edge("look", "tidy")
    plan.edge("tidy", "tidy", m=-1)
    return plan.build()


def main() -> None:
    """Tell the story."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("out/plan"))
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    for number, plan in enumerate((careless(), careful())):
        file = folder / f"plan-{number}.json"
        file.write_text(json.dumps(dump_fmp(plan)))
        result = polvet.terminates(file)
        print(f"{plan.name}: {result.verdict.value}")
        if isinstance(result, polvet.Unknown):
            continue
        certificate = result.save(folder / f"certificate-{number}.json")
        print("  checker:", polvet.certify(certificate, file))
        (folder / f"report-{number}.html").write_text(make_report(certificate, task=file))


if __name__ == "__main__":
    main()
