"""Draw the pictures of docs/termination.md: a plan that GenSieve proves in two rounds, as the paper's figures show such proofs.

`python -m docs.draw_rounds` writes docs/rounds.svg and docs/lasso.svg. `python -m docs.draw_rounds FOLDER` draws every edge list of a
folder (the published ones, for example, which have no licence and are not copied here) into out/rounds, to be laid beside the paper.
"""

from __future__ import annotations

import sys
from pathlib import Path

from polvet.cli.app import run
from polvet.errors import Where
from polvet.policy.finite_memory import load_fmp, parse_edge_list

HERE = Path(__file__).resolve().parent
PLAN = """load load {"label": "crates-2"}
load drive {"label": "crates-1"}
drive load {"label": "fuel+6"}
drive sort {"label": "fuel-2"}
sort drive {"label": "fuel-3"}
sort stack {"label": "fuel+1"}
stack sort {"label": "fuel-2"}
stack stack {"label": "fuel-1"}
"""
LOOP = PLAN.replace("fuel-3", "fuel+3")


def draw(text: str, place: Path, *options: str) -> None:
    """Draw the edge list; its file stands beside the picture for as long as that takes."""
    plan = place.with_suffix(".txt")
    parse_edge_list(text, Where(str(plan)))
    plan.write_text(text)
    run(["terminates", str(plan), "--draw", str(place), *options])
    plan.unlink()


def main(folders: list[str]) -> None:
    """Draw the page's own pictures, or those of the folders."""
    if not folders:
        draw(PLAN, HERE / "rounds.svg", "--method", "gensieve")
        draw(LOOP, HERE / "lasso.svg")
    for folder in folders:
        for file in sorted(Path(folder).glob("*.txt")):
            out = Path("out/rounds") / f"{file.stem}.svg"
            out.parent.mkdir(parents=True, exist_ok=True)
            if "{" in file.read_text() and load_fmp(file).edges:
                run(["terminates", str(file), "--draw", str(out), "--method", "gensieve"])


if __name__ == "__main__":
    main(sys.argv[1:])
