"""The page of the evaluation of policy predicate abstraction: tables and pictures made of the rows that were measured.

`page` and `pictures` are all that others need; `benchmarks.predicate_abstraction` measures, and says what is what in the paper.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from statistics import geometric_mean
from typing import Any

from polvet.verify.methods import BOXES, PAPER_CONFIGURATIONS, TEST_CONFIGURATIONS

PLAIN = "PA"
SOLVERS = (BOXES, PLAIN, *PAPER_CONFIGURATIONS)
TESTS = tuple(TEST_CONFIGURATIONS)
AROUND, RELAXED = "BnB(Mar)", "Mar"
PAPER_LENGTHS = {  # Table 2: shortest unsafe run, seconds, greatest length checked in 12 h, for 16, 32 and 64 neurons
    "racetrack-barto-small": (("3", "36.9", "12"), ("3", "40.1", "11"), ("3", "316.5", "7")),
    "blocksworld-6-ca": (("-", "-", "6"), ("-", "-", "5"), ("-", "-", "4")),
    "blocksworld-8-ci": (("-", "-", "5"), ("-", "-", "5"), ("-", "-", "4")),
    "sliding-tiles-8-ci": (("2", "72.8", "7"), ("-", "-", "3"), ("-", "-", "0")),
    "sliding-tiles-8-ca": (("-", "-", "3"), ("-", "-", "3"), ("-", "-", "0")),
    "transport-10-15": (("1", "57.0", "2"), ("1", "20548.0", "1"), ("-", "-", "0")),
}
TABLE_1 = {  # relaxed tests, exact tests, and what sections 9.1 and 9.2 say of the outcome
    BOXES: ("boxes", "branch and bound", ""),
    PLAIN: ("-", "-", "cheaper on small sets of predicates, dearer on large ones"),
    "Base": ("-", "Z3", "hopeless: only a few points"),
    "Mar+Z3": ("Marabou", "Z3", "much better, still quite ineffective"),
    "Mar+Z3(Mar)": ("Marabou", "Z3, activations fixed by Marabou", "can be substantially better"),
    "BnB(Mar)": ("Marabou", "branch and bound around Marabou", "the key to scalability"),
    "Mar": ("Marabou", "-", "BnB(Mar) is only mildly less effective"),
}
NAMES = {"growth": "Fig. 1 and Table 1 (CPU)", "tests": "Fig. 2 (CPU)", "starts": "section 9.3", "lengths": "Table 2"}
COLOURS = ("#1b6ca8", "#555555", "#c0392b", "#e67e22", "#8e44ad", "#3d8b37", "#b7950b")
FIGURES = {"seconds": "seconds", "states": "abstract states"}


def page(rows: Sequence[dict[str, Any]], versions: str) -> str:
    """Return the figures as Markdown."""
    seconds = {part: sorted({row["limit"] for row in rows if row["part"] == part}) for part in NAMES}
    limits = "; ".join(
        f"{NAMES[part]} {', '.join(f'{one:g}' for one in each)} s" for part, each in seconds.items() if each
    )
    lines = [
        "# Policy predicate abstraction, the evaluation",
        "",
        f"`python -m benchmarks.predicate_abstraction`; one thread, {versions}. `-`: not within the limit; empty: "
        "not measured, nor are larger sets than those in a table (a solver that reached the limit at two smaller sets in a row is "
        "not asked). "
        f"Limits per cell, everybody alike: {limits} (the paper: 12 h and 4 GB). "
        "PA: predicate abstraction without the policy; boxes: our own engine.",
        "",
        "Differs: policies and instances are made anew from the paper's description (theirs are not published with it); networks "
        "imitate a careful rule or (`-dqn`) learn by deep Q-learning, with 1 at goals and -1 at fails (`-short`: for 40,000 steps, not "
        "300,000; `-shaped`: with a potential for packages delivered or loaded); conserved sums of a model are known to everybody. Where "
        "all inputs of a network have one value it is evaluated; Marabou is not asked, as it denies many choices there that are made. "
        "Not reproduced: the paper's Fig. 1 is drawn without figures, so that only what its text says can be compared; with 6 and 8 "
        "blocks, 8 tiles and Transport 10-15 beyond the smallest sets, the explicit list "
        "of abstract states does not fit limits of seconds, so that smaller instances stand beside them.",
    ]
    growth = [row for row in rows if row["part"] == "growth"]
    lines += [*configurations_table(growth), "", agreement(growth), *starts_table(rows)]
    for name in dict.fromkeys(row["instance"] for row in growth):
        lines += growth_tables(name, [row for row in growth if row["instance"] == name])
    lines += tests_tables([row for row in rows if row["part"] == "tests"])
    lines += lengths_table([row for row in rows if row["part"] == "lengths"])
    return "\n".join(lines) + "\n"


def pictures(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the file and the text of each picture that the page shows."""
    growth, tests = (
        [row for row in rows if row["part"] == part and row["share"] is not None] for part in ("growth", "tests")
    )
    for name in dict.fromkeys(row["instance"] for row in growth):
        mine = [row for row in growth if row["instance"] == name]
        curves = {solver: curve_of([row for row in mine if row["solver"] == solver]) for solver in SOLVERS}
        for key, title in FIGURES.items():
            if is_drawn(curves, key):
                yield picture_file(name, key), growth_picture(f"{name}: {title}", curves, key)
    for name in dict.fromkeys(row["instance"] for row in tests):
        curves = curves_of_tests([row for row in tests if row["instance"] == name])
        if is_drawn(curves, "seconds"):
            yield picture_file(name, "tests"), growth_picture(f"{name}: seconds with tests", curves, "seconds")


def picture_file(name: str, what: str) -> str:
    """Return the name of the file of a picture."""
    return f"predicate-abstraction-{name}-{what}.svg"


def is_drawn(curves: dict[str, list[dict[str, Any]]], key: str) -> bool:
    """Return whether there is anything to draw."""
    return any(row.get(key) and "stopped" not in row for rows in curves.values() for row in rows)


def curves_of_tests(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return Fig. 2 of an instance: a curve for each configuration around BnB(Mar)."""
    return {one: curve_of([row for row in rows if (row["solver"], row["tests"]) == (AROUND, one)]) for one in TESTS}


def growth_tables(name: str, mine: Sequence[dict[str, Any]]) -> list[str]:
    """Return Fig. 1 of an instance."""
    lines = ["", f"## Fig. 1: {name}", ""]
    if mine[0]["share"] is None:
        return [*lines, f"Not measured: {mine[0]['stopped']}."]
    lines += [
        "| share of predicates | " + " | ".join(SOLVERS) + " | abstract states (PA) | starts | proved safe |",
        "|---" * (len(SOLVERS) + 4) + "|",
    ]
    for share, count in sorted({(row["share"], row["predicates"]) for row in mine}):
        here = {row["solver"]: row for row in mine if row["share"] == share}
        ours, plain = here.get(BOXES, {}), here.get(PLAIN, {})
        sizes = f"{ours.get('states', '-')} ({plain.get('states', '-')}) | {ours.get('starts', '-')} | {ours.get('proved', '-')}"
        cells = " | ".join(cell_text(here.get(solver)) for solver in SOLVERS)
        lines.append(f"| {share:.2f} ({count}) | {cells} | {sizes} |")
    for key in FIGURES:
        if is_drawn({name: list(mine)}, key):
            lines += ["", f"![{picture_file(name, key)}]({picture_file(name, key)})"]
    return lines


def lengths_table(lengths: Sequence[dict[str, Any]]) -> list[str]:
    """Return Table 2, and explicit enumeration and our portfolio beside it."""
    if not lengths:
        return []
    lines = [
        "",
        "## Table 2: bounded model checking, explicit enumeration, and `auto`",
        "",
        "*Refuted*: the greatest length without an unsafe run; *all*: a frame equals the next one, which is a proof. The paper's: "
        "shortest unsafe run, its seconds, greatest length refuted.",
        "",
        "| instance | bmc: run | refuted | CPU s | unrolling (Z3): run | refuted | CPU s | the paper's three "
        "| explicit | states | auto |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["instance"] for row in lengths):
        here = {row["solver"]: row for row in lengths if row["instance"] == name}
        if len(here) < len(("bmc", "unrolling", "explicit", "auto")):
            continue  # not all have answered yet
        explicit, auto = here["explicit"], here["auto"]
        family, width = re.match(r"(.*)-2x(\d+)", name).groups()  # type: ignore[union-attr]
        paper = PAPER_LENGTHS.get(family)
        theirs = ", ".join(paper[("16", "32", "64").index(width)]) if paper else ""
        cells = [
            name, *length_cells(here["bmc"]), *length_cells(here["unrolling"]), theirs,
            f"{explicit['verdict']} {explicit['seconds']:.2f}", explicit["states"] or "-",
            f"{auto['verdict']} {auto['seconds']:.2f}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def growth_picture(heading: str, curves: dict[str, list[dict[str, Any]]], key: str) -> str:
    """Return an SVG: a figure over the share of all predicates, logarithmic, one line per curve; what did not end is left out."""
    left, right, top, bottom = 55, 430, 30, 260
    values = [row[key] for rows in curves.values() for row in rows if row.get(key)]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 1e-9)
    high = max(high, low + 1)

    def x(share: float) -> float:
        return left + (right - left) * share

    def y(value: float) -> float:
        return bottom - (bottom - top) * (math.log10(value) - low) / (high - low)

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="560" height="310" font-family="sans-serif" font-size="11">',
        '<rect width="560" height="310" fill="white"/>',
        f'<text x="{left}" y="18" font-size="13">{heading}</text>',
        f'<text x="{(left + right) / 2}" y="{bottom + 32}" text-anchor="middle">share of all predicates</text>',
    ]
    for power in range(low, high + 1):
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y(10**power):.1f}" y2="{y(10**power):.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y(10**power) + 4:.1f}" text-anchor="end">1e{power}</text>')
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts.append(f'<line x1="{x(share):.1f}" x2="{x(share):.1f}" y1="{top}" y2="{bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{x(share):.1f}" y="{bottom + 14}" text-anchor="middle">{share:g}</text>')
    for k, (name, rows) in enumerate(curves.items()):
        points = [(x(row["share"]), y(row[key])) for row in rows if row.get(key) and "stopped" not in row]
        if points:
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[k]}" stroke-width="1.5"/>')
            parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.5" fill="{COLOURS[k]}"/>' for a, b in points]
        parts.append(f'<text x="{right + 12}" y="{top + 14 * k + 10}" fill="{COLOURS[k]}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def cell_text(row: dict[str, Any] | None) -> str:
    """Return a cell of a table: seconds, or a dash where the limit came first; empty where it was not asked."""
    if row is None or row["seconds"] is None:
        return ""
    return "-" if "stopped" in row else f"{row['seconds']:.2f}"


def configurations_table(growth: Sequence[dict[str, Any]]) -> list[str]:
    """Return Table 1 with what became of each configuration: cells answered, and seconds on cells that it and BnB(Mar) both answer."""
    cells: dict[Any, dict[str, dict[str, Any]]] = {}
    for row in growth:
        if row["share"] is not None:
            cells.setdefault((row["instance"], row["predicates"]), {})[row["solver"]] = row
    whole = [here for here in cells.values() if set(SOLVERS) <= set(here)]
    lines = [
        "",
        "## Table 1: the configurations, over all sets of predicates of Fig. 1",
        "",
        f"*Answered*: of {len(whole)} pairs of an instance and a set of predicates. *Times BnB(Mar)*: "
        "geometric mean of the ratio of CPU seconds, on the pairs that both answer. What was not asked counts as not answered.",
        "",
        "| configuration | relaxed test | exact test | answered | times BnB(Mar) | on pairs | the paper says |",
        "|---|---|---|---:|---:|---:|---|",
    ]
    for solver in SOLVERS:
        answered = [here for here in whole if "stopped" not in here[solver]]
        both = [here for here in answered if "stopped" not in here["BnB(Mar)"]]
        ratios = [max(here[solver]["seconds"], 0.001) / max(here["BnB(Mar)"]["seconds"], 0.001) for here in both]
        mean = f"{geometric_mean(ratios):.3g}" if ratios else "-"
        lines.append(
            f"| {solver} | {' | '.join(TABLE_1[solver][:2])} | {len(answered)} | {mean} | {len(both)} | {TABLE_1[solver][2]} |"
        )
    return lines


def curve_of(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows from few predicates to all."""
    return sorted(rows, key=lambda row: row["share"])


def agreement(growth: Sequence[dict[str, Any]]) -> str:
    """Return how often exact configurations build what our engine builds, and that the relaxed one builds no less."""
    cells: dict[Any, dict[str, dict[str, Any]]] = {}
    for row in growth:
        if "stopped" not in row and row["solver"] != PLAIN:
            cells.setdefault((row["instance"], row["predicates"]), {})[row["solver"]] = row
    pairs = [(solver, row, here[BOXES]) for here in cells.values() for solver, row in here.items() if BOXES in here]
    sizes = ("states", "starts", "proved", "unsafe")
    exact = [(row, ours) for solver, row, ours in pairs if solver not in (BOXES, RELAXED)]
    same = sum(all(row[size] == ours[size] for size in sizes) for row, ours in exact)
    relaxed = [(row, ours) for solver, row, ours in pairs if solver == RELAXED]
    covering = sum(row["states"] >= ours["states"] for row, ours in relaxed)
    return (
        "An exact configuration of the paper that answers builds as many abstract states, and proves as many starts, as our engine: on "
        f"{same} of {len(exact)} cells. Mar, which is not exact, builds at least as many on {covering} of {len(relaxed)}."
    )


def tests_tables(tests: Sequence[dict[str, Any]]) -> list[str]:
    """Return Fig. 2: CPU seconds over the sets of Fig. 1, and how tests change them on small and on large sets."""
    if not tests:
        return []
    lines = [
        "",
        "## Fig. 2: selection and applicability tests (appendix E, Table 2)",
        "",
        "`polvet verify --configuration No-Sel-Rel-App`, and so on: BnB(Mar) with tests of whether the policy selects a label in an "
        "abstract state, and of whether it applies an operator there, over the reals (*Rel*) or after that exactly (*Ex*). Below: "
        "geometric mean of the CPU seconds in parts of those of No-Sel-No-App, on sets that both answer, of at most half of all "
        "predicates (*small*) and of more (*large*); below 1 a test helps. The paper: they *may improve performance for larger predicate "
        "sets*, especially No-Sel-Rel-App, and for smaller ones they *usually decrease performance*. `boxes` knows no relaxation: it "
        "makes relaxed tests exactly.",
        "",
        "| configuration | " + " | ".join(f"{who}: small | sets | large | sets" for who in (AROUND, BOXES)) + " |",
        "|---" * 9 + "|",
    ]
    for name in TESTS[1:]:
        cells = [mean_ratio(tests, who, name, large) for who in (AROUND, BOXES) for large in (False, True)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    for name in dict.fromkeys(row["instance"] for row in tests):
        mine = [row for row in tests if row["instance"] == name]
        heads = [f"{one} ({who})" for who in (AROUND, BOXES) for one in TESTS]
        lines += [
            "",
            f"### Fig. 2: {name}",
            "",
            "| share of predicates | " + " | ".join(heads) + " |",
            "|---" * 11 + "|",
        ]
        for share, count in sorted({(row["share"], row["predicates"]) for row in mine}):
            here = {(row["solver"], row["tests"]): row for row in mine if row["share"] == share}
            cells = " | ".join(cell_text(here.get((who, one))) for who in (AROUND, BOXES) for one in TESTS)
            lines.append(f"| {share:.2f} ({count}) | {cells} |")
        if is_drawn(curves_of_tests(mine), "seconds"):
            lines += ["", f"![{picture_file(name, 'tests')}]({picture_file(name, 'tests')})"]
    return lines


def mean_ratio(tests: Sequence[dict[str, Any]], solver: str, name: str, large: bool) -> str:
    """Return how much longer it takes with tests than without, on small or on large sets, and on how many sets that is known."""
    cells: dict[Any, dict[str, float]] = {}
    for row in tests:
        if row["solver"] == solver and (row["share"] > 0.5) == large and "stopped" not in row:
            cells.setdefault((row["instance"], row["share"]), {})[row["tests"]] = max(row["seconds"], 0.001)
    ratios = [here[name] / here[TESTS[0]] for here in cells.values() if {name, TESTS[0]} <= set(here)]
    return f"{geometric_mean(ratios):.2f} | {len(ratios)}" if ratios else "- | 0"


def starts_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return what section 9.3 asks: start states proved safe although the policy is not safe from everywhere."""
    mine = [row for row in rows if row["part"] == "starts"]
    if not mine:
        return []
    return [
        "",
        "## Section 9.3: start states proved safe, policies that are unsafe included",
        "",
        "`polvet verify --region`: start states of the model, not abstract ones, each proved in one certificate, or shown "
        "unsafe by a run. `-few`: trained on a few samples of the "
        "rule. The paper proves 4,839 of 4,900 abstract start states of the 8-puzzle and all of Blocksworld.",
        "",
        "| policy | start states | proved safe | shown unsafe | open | certificate | CPU s |",
        "|---|---:|---:|---:|---:|---|---:|",
        *(
            f"| {row['instance']} | {told(row['starts'])} | {told(row['proved'])} | {told(row['failing'])} | {open_starts(row)} "
            f"| {'yes' if row['certificate'] else '-'} | {row['seconds']:.2f} |"
            for row in mine
        ),
    ]


def length_cells(row: dict[str, Any]) -> list[str]:
    """Return the shortest unsafe run, the greatest length refuted, and the seconds of a search by lengths."""
    run = "-" if row["steps"] is None else str(row["steps"])
    refuted = "all" if row["verdict"] == "safe" else "-" if row["refuted"] < 0 else str(row["refuted"])
    return [run, refuted, f"{row['seconds']:.2f}"]


def told(count: int | None) -> str:
    """Return a count, or a dash where it is not known."""
    return "-" if count is None else f"{count:,}"


def open_starts(row: dict[str, Any]) -> str:
    """Return how many start states are neither proved nor shown unsafe."""
    parts = [row["starts"], row["proved"], row["failing"]]
    return "-" if None in parts else f"{parts[0] - parts[1] - parts[2]:,}"
