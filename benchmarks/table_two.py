"""Table 2 of the paper on safety debugging by the paper's own recipe: competent teachers, its repairs, all of its columns.

    python -m benchmarks.table_two [--rows TEXT] [--seconds S] [--folder DIR] [--inputs] [--page]

Input    1,000 runs of a competent teacher (`competent_teachers.py`), 20 rounds of depth 5, learning rate 0.4; where that policy is
         unsafe from fewer than 1% of the starts, a second one that learns from a careless teacher
Paper    the paper's loop: `--method milp --repair-mode avoid --keep 0`, nothing retained, no fence; NoVer.: its policy when verification
         was first asked; Penalty: the input policy with a penalty tree for each of its faults
Polvet   `polvet debug` as it is
Figures  10,000 starts to debug and 10,000 others to evaluate on (control: 1,000, as each run has 1,000 steps; Beluga with 8 jigs:
         300, as deciding one order takes a third of a second; teachers: a tenth of these)
         %Unsafe by searching everything the policy reaches, else by runs;
         %Goal by 10 runs of each start, exact where there is one run or the Markov chain is small
Every part of a row is kept as soon as it is there, and campaigns go on where they were cut: kill it and start it again. Each campaign
may use the same CPU seconds: its limit by the clock is as much longer as the machine is busy, and what it used is told.
Results: benchmarks/results/table-two.{json,md,svg}; `--inputs` stops before the campaigns, `--parts` adds penalty trees and parts of
the faults, `--longer` goes on with campaigns that met their limit, `--page` writes the page again. Several may run at once.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.competent_teachers import RUNS as LESSONS
from benchmarks.competent_teachers import careless_teacher, learn, max_steps, teacher_of
from benchmarks.fault_fractions import curves, fractions, parts_table
from benchmarks.teachers import Row, rows
from polvet.budget import Budget
from polvet.debug.evaluate import StartSample, disjoint_starts, evaluate
from polvet.files import write_whole
from polvet.model.task import Task
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import compile_policy
from polvet.policy.save import save_policy
from polvet.records.fault_files import Fault, read_faults
from polvet.repair.library import repair_checked
from polvet.repair.repair import Options
from polvet.sources import load_task

FILE = Path(__file__).resolve().parent / "results" / "table-two.json"
RUNS = 10
PAPER = ("--method", "milp", "--repair-mode", "avoid", "--keep", "0", "--max-goal-loss", "200")
LOOPS: dict[str, tuple[str, ...]] = {"paper": PAPER, "polvet": ()}
FIRST = ("1 way line (15", "2 way line (15", "1 way line (17", "2 way line (17", "1 way line (20", "2 way line (20", "Beluga (3",
         "Beluga (4", "Bouncing Ball (0.5", "Inverted Pendulum (0.1", "Follow Car (0.4", "Transport", "1 way line (30", "2 way line (30",
         "Beluga (5", "Bouncing", "Inverted", "Follow", "1 way", "2 way", "8Blocks", "Beluga (6")  # fmt: skip
"""Rows that are small or decide quickly come first."""
CARELESS = ", careless teacher"
HARDLY = 1.0
"""Per cent of unsafe starts below which the careless teacher's policy stands beside."""
Figures = dict[str, Any]
CAUSES: dict[tuple[str, ...], str] = {
    (
        "8Blocks CA",
    ): "costs multiply the states that the policy reaches, beyond what is searched: starts stay undecided unless a proof "
    "covers them, and there was no time for one",
    (
        "Beluga (8 Jigs)",
    ): "deciding the states on runs from 300 orders alone takes longer; `--method retrain` makes such a policy safe "
    "from all orders ([table](generalising.md))",
    (
        "1 way line (30, 20) Icy",
        "1 way line (40, 25) Icy",
    ): "from most starts no policy is safe, which was not decided in this time",
    (
        "Inverted Pendulum (0.01)",
        "Follow Car (0.01)",
    ): "fault analysis reaches the memory limit (the paper's ran out of memory, too)",
}
"""What keeps rows from their bar, where that was looked into."""
INPUTS = "benchmark|teacher %Unsafe|%Goal|input %Unsafe|open|input %Goal|remarks"
QUALITY = (
    "benchmark|%Unsafe input|NoVer.|paper|open|Penalty|polvet|open|%Goal input|NoVer.|paper|Penalty|polvet"
    "|met: paper|met: polvet"
)
ONE_LOOP = "faults|trees added|iterations|verified|fuzz s|faults s|repair s|verify s|CPU s|outcome"
EFFORT = f"benchmark|{ONE_LOOP}|polvet: {ONE_LOOP}"
TEXTS = ("benchmark", "met: paper", "met: polvet", "remarks", "outcome")


@dataclass
class Bench:
    """One row under way: what is known of it, how it is kept, and whether its teacher is careless."""

    row: Row
    folder: Path
    seconds: float
    known: Figures
    keep: Callable[[], None]
    careless: bool = False
    spent_before: dict[str, float] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        """The row as a file name."""
        return f"{self.row.slug}-careless" if self.careless else self.row.slug

    def once(self, key: str, work: Callable[[], Any]) -> Any:
        """Return what is known under the key; what is not is made now, and kept."""
        if key not in self.known:
            self.known[key] = work()
            self.keep()
            print(self.row.name, key, json.dumps(self.known[key])[:300], flush=True)
        return self.known[key]

    @cached_property
    def files(self) -> tuple[Path, Path, Path | None]:
        """The task, the input policy, and its teacher where that is a file."""
        teacher = careless_teacher(self.row) if self.careless else teacher_of(self.row)
        if teacher is None:
            raise SystemExit(f"{self.row.name}: no careless teacher")
        return learn(self.row, self.folder, self.slug, teacher)

    @cached_property
    def task(self) -> Task:
        return load_task(self.files[0])

    @cached_property
    def starts(self) -> StartSample:
        """The start states to evaluate on."""
        return disjoint_starts(self.task, starts_of(self.row), 0)[1]

    def look(self) -> float:
        """Judge the teacher and the input policy; return %Unsafe."""
        if "input" not in self.known:
            _, policy, teacher = self.files
            if teacher is not None:
                some = replace(self.starts, states=self.starts.states[: max(24, starts_of(self.row) // 10)])
                self.once("teacher", partial(self.judge, teacher, some))
            self.once("input", partial(self.judge, policy))
        return float(self.known["input"]["unsafe"])

    def run(self) -> None:
        """Measure whatever of the campaigns is not known yet."""
        self.known.setdefault("seconds", self.seconds)
        for loop, flags in LOOPS.items():
            figures = self.once(loop, partial(self.debug, loop, flags))
            self.once(f"{loop}: final", partial(self.judge, self.campaign(loop) / "policy.json"))
            number = figures["unverified"]
            if number is not None:
                self.once(f"{loop}: unverified", partial(self.judge, self.campaign(loop) / f"policies/{number}.json"))

    def divide(self) -> None:
        """Measure what penalty trees, and what parts of the faults are good for."""
        if "paper" not in self.known or {"penalty", "fractions"} <= self.known.keys():
            return
        faults = self.faults("paper")
        if faults:
            self.once("penalty", lambda: self.penalty(faults))
            self.once("fractions", lambda: self.parts(faults))

    def go_on(self) -> None:
        """Forget what campaigns that met their limit came to, so that they go on with more time."""
        for loop in LOOPS:
            figures = self.known.get(loop)
            if figures and figures["outcome"] in ("limit", "improved") and met(self.known, loop) == "no":
                self.known["seconds"] = max(self.seconds, self.known["seconds"])
                self.spent_before[loop] = figures["cpu_seconds"]
                for key in (
                    loop,
                    f"{loop}: final",
                    f"{loop}: unverified",
                    *(("penalty", "fractions") if loop == "paper" else ()),
                ):
                    self.known.pop(key, None)

    def campaign(self, loop: str) -> Path:
        """Return the folder of the loop's campaign."""
        return self.folder / f"{self.slug}-{loop}"

    def judge(self, policy: Path, starts: StartSample | None = None) -> Figures:
        """Return %Unsafe, %Goal and the undecided starts of the policy."""
        starts = starts or self.starts
        bound = compile_policy(load_fitted(self.task, policy))
        twin = self._judged_before(bound.fitted.sha256)
        if twin is not None:
            return twin
        found = evaluate(bound, starts, runs=RUNS, max_steps=max_steps(self.row), budget=Budget(600, 3_000, 4_000_000))
        if found.batch.limit is not None:
            raise SystemExit(f"{self.row.name}: {found.batch.limit}")
        return {
            "unsafe": 100 * found.unsafe, "open": found.open, "goal": 100 * found.goal, "goal_exact": found.goal_is_exact,
            "starts": len(starts.states), "same_starts": self.starts.complete, "policy": bound.fitted.sha256,
        }  # fmt: skip

    def _judged_before(self, sha256: str | None) -> Figures | None:
        same = (one for one in self.known.values() if isinstance(one, dict) and one.get("policy") == sha256)
        return next(same, None)

    def debug(self, loop: str, flags: tuple[str, ...]) -> Figures:
        """Return the course of one campaign, begun or gone on with."""
        task, policy, _ = self.files
        before = _cpu_of_children()
        done = subprocess.run(
            [
                sys.executable, "-m", "polvet", "debug", str(task), str(policy), "-o", str(self.campaign(loop)),
                "--max-steps", str(max_steps(self.row)), "--time-limit", f"{self.seconds * slowness():.0f}",
                "--memory-limit", "3000", "--workers", "1", "--starts", str(starts_of(self.row)), *flags,
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        used = _cpu_of_children() - before
        ended = self.campaign(loop) / "outcome.json"
        if done.returncode not in (0, 10, 11, 20) or not ended.exists():
            raise SystemExit(f"{self.row.name}: {done.stderr}")  # cut before it could end: it goes on next time
        answer, steps = json.loads(ended.read_text()), self.steps(loop)
        verified = [step for step in steps if step["step"] == "verify"]
        fences = [step for step in steps if step["step"] == "strengthen" and step["reason"] is None]
        return {
            "outcome": answer["outcome"], "reason": answer["reason"], "faults": len(self.faults(loop)),
            "iterations": 1 + max(step["iteration"] for step in steps), "verifications": len(verified),
            "unverified": verified[0]["iteration"] if verified else None,
            "trees_added": sum(step.get("trees_added") or 0 for step in steps) + sum(step["fence_trees"] or 0 for step in fences),
            "unsafe_starts": max((step.get("unsafe_starts") or 0 for step in steps), default=0),
            "cpu_seconds": round(used + self.spent_before.get(loop, 0.0), 1), "seconds": self.spent(loop),
            "method": verified[-1]["method"] if verified else None,
        }  # fmt: skip

    def steps(self, loop: str) -> list[Figures]:
        """Return the figures of the campaign's steps."""
        return [json.loads(line) for line in (self.campaign(loop) / "figures.jsonl").read_text().splitlines()]

    def spent(self, loop: str) -> dict[str, float]:
        """Return the seconds of the steps that were finished, by what they are for."""
        total = dict.fromkeys(("fuzz", "faults", "repair", "verify", "evaluate"), 0.0)
        for step in self.steps(loop):
            match step["step"]:
                case "search":
                    total["fuzz"] += step["fuzz_seconds"]
                    total["faults"] += step["seconds"] - step["fuzz_seconds"]
                case "repair" | "strengthen":
                    total["repair"] += step["seconds"]
                case "verify" | "prove":
                    total["verify"] += step["seconds"]
                case _:
                    total["evaluate"] += step["seconds"]
        return {name: round(value, 2) for name, value in total.items()}

    def faults(self, loop: str) -> list[Fault]:
        """Return every fault that the campaign found, each state with each action that was at fault."""
        files = sorted((self.campaign(loop) / "faults").glob("*.json"))
        every = [fault for file in files for fault in read_faults(self.task, file).faults]
        return list({(fault.state, fault.action): fault for fault in every}.values())

    def penalty(self, faults: list[Fault]) -> Figures:
        """Return the input policy with a penalty tree for each fault."""
        fitted = load_fitted(self.task, self.files[1])
        made = repair_checked(fitted, faults, Options("penalty", "avoid"))[0]
        file = self.campaign("penalty").with_suffix(".json")
        save_policy(made.policy, file)
        return {**self.judge(file), "trees_added": made.trees_added}

    def parts(self, faults: list[Fault]) -> list[dict[str, float]]:
        """Return what parts of the faults are good for, by the paper's repair."""
        fitted = load_fitted(self.task, self.files[1])
        return fractions(
            fitted, faults, Options("milp", "avoid"), max_steps=max_steps(self.row), seconds=self.seconds * slowness()
        )


def starts_of(row: Row) -> int:
    """Return how many starts are debugged on, and how many others are evaluated on."""
    control = "tau" in "".join(row.domain)
    return 1_000 if control else 300 if row.name == "Beluga (8 Jigs)" else 10_000


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


BEGUN = time.monotonic()


def slowness() -> float:
    """Return how many seconds pass by the clock for one of this benchmark's work, since it began: 1 where nobody else is busy."""
    begun, used = time.monotonic(), time.process_time()
    while time.process_time() - used < 0.5:
        pass
    now = (time.monotonic() - begun) / (time.process_time() - used)
    ever = (time.monotonic() - BEGUN) / (time.process_time() + _cpu_of_children())
    return max(1.0, (now + ever) / 2)


def remarks(one: Figures) -> str:
    """Return what must be known to read the row."""
    first, said = one["input"], []
    if first["unsafe"] == 0:
        said.append("no unsafe start is known" if first["open"] else "never unsafe: nothing to repair")
    if first["goal"] < 5:
        said.append("input below 5% of the goal")
    if "paper" in one and (one["paper"]["unsafe_starts"] or one["paper"]["outcome"] == "stopped"):
        said.append("from some start no policy is safe")
    return "; ".join(said)


def met(one: Figures, loop: str) -> str:
    """Return whether the loop left hardly anything unsafe, undecided starts counted as unsafe, and kept the goal; '-': nothing to show."""
    if one["input"]["unsafe"] == 0:
        return "-"
    final, outcome = one[f"{loop}: final"], one[loop]["outcome"]
    if outcome == "stopped":  # from some start no policy is safe
        return "-"
    unsafe = 0.0 if outcome.startswith("safe") else final["unsafe"] + 100 * final["open"] / final["starts"]
    repaired = (
        unsafe <= 1 and unsafe < one["input"]["unsafe"]
    )  # a policy that hardly ever failed must fail less often still
    return "yes" if repaired and final["goal"] >= one["input"]["goal"] - 1 else "no"


def page(found: dict[str, Figures]) -> str:
    """Return the table as Markdown, the paper's figures in brackets."""
    judged = [name for name in _names() if "input" in found.get(name, {})]
    names = campaigns(found)
    recipe = [name for name in judged if not name.endswith(CARELESS)]
    never = [name for name in recipe if found[name]["input"]["unsafe"] == 0]
    reach = [name for name in recipe if _reaches(name, found[name])]
    seconds = sorted({found[name]["seconds"] for name in names})
    lines = [
        "# Table 2 by the paper's recipe",
        "",
        f"`python -m benchmarks.table_two`. Input policies imitate {LESSONS:,} runs of a competent teacher: 20 rounds of depth 5, learning",
        "rate 0.4. *paper*: its loop (big-M program with HiGHS, any other action than the faulty one, nothing retained, no fence);",
        "*NoVer.*: its policy when verification was first asked; *Penalty*: the input policy with penalty trees for the same faults;",
        "*polvet*: `polvet debug` as it is. The paper's figures stand in brackets.",
        "",
        "What differs from the paper: the teachers (hand-written, or optimal; the paper's networks are not public), and so the policies;",
        "where fuzzing finds fewer than 100 new faults, or the policy reaches at most 500,000 states, everything it reaches from the",
        "debugging starts is searched; HiGHS instead of Gurobi, 2 minutes for each program; verification is a portfolio, not PPA alone;",
        f"a campaign has {seconds[0]:g} to 20 CPU seconds, one thread, not 72 hours; some that missed their bar went on, with up to",
        f"{seconds[-1]:g} more (what was used is told: limits are by the clock of a busy machine, made longer by how busy it is);",
        "1,000 starts instead of 10,000 for control, 300 for Beluga with 8 jigs, and a tenth of all these to judge teachers on;",
        "%Goal counts runs of at most 300 steps (ice on two ways: 1,000; control: 1,200), 10 of each start or more.",
        "",
        f"Of {len(_rows())} rows, the input policies of {len(recipe)} were judged. {len(reach)} of them reach the goal as often as",
        f"the paper's, or at most one point less often. Of {len(never)} no unsafe start is known: with this teacher the",
        f"recipe leaves nothing to repair. Where fewer than {HARDLY:g}% of the starts are unsafe, *careless teacher* stands beside: the",
        "same recipe with a teacher that reaches the goal as well and does not look at `fail` where it matters, as a network does not that",
        "is trained to reach the goal (`benchmarks/competent_teachers.py` says how each is careless).",
        "",
        *_counts(found, names),
        "",
        "## Input policies",
        "",
        _head(INPUTS),
        *(_input(name, found[name]) for name in judged),
        "",
        "## %Unsafe and %Goal",
        "",
        _head(QUALITY),
        *(_quality(name, found[name]) for name in names),
        "",
        "`open`: starts that neither a run shows unsafe nor a search within its limits safe; 0 where a proof covers all.",
        "",
        "## Effort",
        "",
        "Seconds of finished steps by the clock of a busy machine, CPU seconds of the whole campaign. In brackets the paper's",
        "fault analysis / Gurobi / verification.",
        "",
        _head(EFFORT),
        *(_effort(name, found[name]) for name in names),
        "",
    ]
    parted = {name: found[name]["fractions"] for name in names if "fractions" in found[name]}
    if parted:
        lines += [
            "## Parts of the faults",
            "",
            "The input policy, repaired once by the paper's program with a part of its campaign's faults (the paper's Figs. 2 to 4):",
            "%Unsafe / %Goal on 1,000 starts / CPU seconds of the repair. Undecided starts do not count here.",
            "",
            *parts_table(parted, seconds=True),
            "",
            "![%Unsafe, %Goal and seconds over the part of the faults](table-two.svg)",
            "",
        ]
    lines += _not_met(found, names)
    waiting = [name for name in judged if name not in names and found[name]["input"]["unsafe"] > 0]
    if waiting:
        lines += ["## No campaign", "", "; ".join(waiting) + ": there was no time for them.", ""]
    missing = [name for name in _rows() if name not in judged]
    if missing:
        lines += ["## Not run", "", "; ".join(missing) + ": there was no time for them.", ""]
    return "\n".join(lines)


def campaigns(found: dict[str, Figures]) -> list[str]:
    """Return the entries of which both loops are known."""
    return [name for name in _names() if {f"{loop}: final" for loop in LOOPS} <= found.get(name, {}).keys()]


def bars(found: dict[str, Figures], names: Sequence[str], loop: str) -> dict[str, str]:
    """Return for each row with campaigns whether the loop met its bar in all of them; '-' where there was nothing to show."""
    said: dict[str, set[str]] = {}
    for name in names:
        said.setdefault(_row(name).name, set()).add(met(found[name], loop))
    return {row: "no" if "no" in one else "yes" if "yes" in one else "-" for row, one in said.items()}


def _counts(found: dict[str, Figures], names: Sequence[str]) -> list[str]:
    """Return how many rows and campaigns met their bar."""
    rows_of = {loop: list(bars(found, names, loop).values()) for loop in LOOPS}
    told = ", ".join(f"{loop} {one.count('yes')} of {len(one) - one.count('-')} rows" for loop, one in rows_of.items())
    every = {loop: [met(found[name], loop) for name in names] for loop in LOOPS}
    single = ", ".join(f"{loop} {one.count('yes')} of {len(one) - one.count('-')}" for loop, one in every.items())
    return [
        f"{len(rows_of['paper'])} rows have campaigns, {len(names)} of each loop. *Met*: at most 1% unsafe at the end, less than at first,",
        "undecided starts counted as unsafe unless a proof covers them, and %Goal at most one point lower. In all campaigns of a row,",
        "where there was something to show (a row from some start of which no policy is safe shows nothing):",
        f"**{told}**; single campaigns: {single}.",
    ]


def _not_met(found: dict[str, Figures], names: Sequence[str]) -> list[str]:
    """Return the campaigns that missed their bar, and by what."""
    lines = [f"| {name} | {loop} | {_lack(found[name], loop)} |"
             for name in names for loop in LOOPS if met(found[name], loop) == "no"]  # fmt: skip
    rows_of = {_row(name).name for name in names if any(met(found[name], loop) == "no" for loop in LOOPS)}
    causes = [
        f"- {', '.join(sorted(rows_of & set(some)))}: {text}" for some, text in CAUSES.items() if rows_of & set(some)
    ]
    watching = "The paper's loop takes any other action than the faulty one, and nothing in it watches over the goal."
    head = ["## Not met", "", watching, "", "| benchmark | loop | why |", "|---|---|---|", *lines, "", *causes, ""]
    return head if lines else []


def _lack(one: Figures, loop: str) -> str:
    """Return what is missing, and how the campaign ended."""
    final, campaign, said = one[f"{loop}: final"], one[loop], []
    if final["unsafe"] > 1:
        said.append(f"{final['unsafe']:.2f}% unsafe")
    elif final["unsafe"] >= one["input"]["unsafe"]:
        said.append(f"{final['unsafe']:.2f}% unsafe as at first")
    elif final["unsafe"] + 100 * final["open"] / final["starts"] > 1 and not campaign["outcome"].startswith("safe"):
        said.append(f"{final['open']:,} starts undecided")
    if final["goal"] < one["input"]["goal"] - 1:
        said.append(f"%Goal {one['input']['goal']:.2f} -> {final['goal']:.2f}")
    repaired = (
        f"{campaign['faults']:,} faults, {campaign['iterations']} iterations, {campaign['cpu_seconds']:.0f} CPU s"
    )
    return f"{', '.join(said)}; {campaign['outcome']} ({repaired}){': ' if campaign['reason'] else ''}{campaign['reason'] or ''}"


def _row(name: str) -> Row:
    """Return the row of an entry."""
    return _rows()[name.removesuffix(CARELESS)]


@cache
def _rows() -> dict[str, Row]:
    return {row.name: row for row in rows()}


def _names() -> Iterator[str]:
    """Yield every name that an entry may have, each row followed by itself with a careless teacher."""
    for name in _rows():
        yield from (name, name + CARELESS)


def _reaches(name: str, one: Figures) -> bool:
    """Return whether the input policy reaches the goal about as often as the paper's."""
    return bool(one["input"]["goal"] >= (_row(name).paper.goal or 0.0) - 1)


def _input(name: str, one: Figures) -> str:
    paper, first, teacher = _row(name).paper, one["input"], one.get("teacher")
    unsafe = "-" if paper.unsafe is None else paper.unsafe
    cells = [
        name, "optimal" if teacher is None else f"{teacher['unsafe']:.2f}", "" if teacher is None else f"{teacher['goal']:.2f}",
        f"{first['unsafe']:.2f} ({unsafe})", f"{first['open']:,}", f"{first['goal']:.2f} ({paper.goal})", remarks(one),
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _head(columns: str) -> str:
    """Return the head of a table; the columns whose names are numbers' stand right."""
    names = columns.split("|")
    sides = ["---" if name in TEXTS else "---:" for name in names]
    return f"| {' | '.join(names)} |\n|{'|'.join(sides)}|"


def _quality(name: str, one: Figures) -> str:
    paper = _row(name).paper
    final, ours, first = one["paper: final"], one["polvet: final"], one["input"]
    # Where the first verification was cut by the limit, the final policy is the one without it.
    before = one.get("paper: unverified") or (final if one["paper"]["outcome"] == "improved" else None)
    penalty = one.get("penalty")

    def cell(figures: Figures | None, key: str, published: float | None = None, *, bracket: bool = True) -> str:
        shown = "" if figures is None else f"{figures[key]:.2f}"
        return shown + (f" ({'-' if published is None else published})" if bracket else "")

    def undecided(loop: str, figures: Figures) -> str:
        return "0" if one[loop]["outcome"].startswith("safe") else f"{figures['open']:,}"

    cells = [
        name,
        cell(first, "unsafe", paper.unsafe), cell(before, "unsafe", paper.unsafe_unverified),
        cell(final, "unsafe", paper.unsafe_after), undecided("paper", final), cell(penalty, "unsafe", paper.unsafe_penalty),
        cell(ours, "unsafe", bracket=False), undecided("polvet", ours),
        cell(first, "goal", paper.goal), cell(before, "goal", paper.goal_unverified), cell(final, "goal", paper.goal_after),
        cell(penalty, "goal", paper.goal_penalty), cell(ours, "goal", bracket=False),
        met(one, "paper"), met(one, "polvet"),
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _effort(name: str, one: Figures) -> str:
    paper = _row(name).paper
    cells = [name]
    for loop in LOOPS:
        mine, spent = one[loop], one[loop]["seconds"]
        cut = (
            "verification: " in (mine["reason"] or "") and mine["outcome"] == "improved"
        )  # begun, and not a finished step
        beside = loop == "paper"
        numbers = [(mine["faults"], paper.faults), (mine["trees_added"], paper.trees_added),
                   (mine["iterations"], paper.iterations), (mine["verifications"] + cut, paper.verifications)]  # fmt: skip
        cells += [f"{value:,}" + (f" ({published:,})" if beside else "") for value, published in numbers]
        times = [f"{spent[key]:.1f}" for key in ("fuzz", "faults", "repair", "verify")]
        cells += [*times[:-1], times[-1] + (f" ({paper.runtime})" if beside else ""), f"{mine['cpu_seconds']:.0f}"]
        cells.append(mine["outcome"] + (f" ({paper.outcome})" if beside else ""))
    return "| " + " | ".join(cells) + " |"


def write_page(found: dict[str, Figures]) -> None:
    """Write the page and the picture again."""
    FILE.with_suffix(".md").write_text(page(found), encoding="utf-8")
    parted = {name: one["fractions"] for name, one in found.items() if "fractions" in one}
    if parted:
        FILE.with_suffix(".svg").write_text(curves(parted), encoding="utf-8")


def main() -> None:
    """Judge and debug the input policies of the rows that are asked for, small rows first; what is known is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rows", default="", help="only the row of this name, or those whose names contain this, or one of THIS;THAT"
    )
    parser.add_argument("--seconds", type=float, default=20, help="CPU seconds of a campaign")
    parser.add_argument("--folder", type=Path, default=Path("out/table-two"))
    parser.add_argument("--inputs", action="store_true", help="no campaigns")
    parser.add_argument("--parts", action="store_true", help="penalty trees and parts of the faults as well")
    parser.add_argument("--longer", action="store_true", help="go on with campaigns that met their limit")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    asked = parser.parse_args()
    if not asked.page:
        order = sorted(
            rows(), key=lambda row: next((k for k, name in enumerate(FIRST) if row.name.startswith(name)), len(FIRST))
        )
        exactly = [row for row in order if row.name == asked.rows]
        for row in exactly or [row for row in order if any(part in row.name for part in asked.rows.split(";"))]:
            try:
                work(row, asked)
            except SystemExit as stop:  # the other rows go on
                print(stop, flush=True)
            write_page(read())
    write_page(read())


def work(row: Row, asked: argparse.Namespace) -> None:
    """Measure what is asked for of one row."""
    for one in inputs(row, asked.folder, asked.seconds):
        unsafe = one.look()
        if unsafe and not asked.inputs:
            if asked.longer:
                one.go_on()
            one.run()
            if asked.parts:
                one.divide()


def inputs(row: Row, folder: Path, seconds: float) -> Iterator[Bench]:
    """Yield the row by the recipe, after it what learns from a careless teacher where hardly a start is unsafe."""

    def bench(name: str, *, careless: bool) -> Bench:
        known = read().get(name, {})
        return Bench(row, folder, seconds, known, partial(keep, name, known), careless)

    first = bench(row.name, careless=False)
    if first.look() < HARDLY and careless_teacher(row) is not None:
        yield bench(row.name + CARELESS, careless=True)
    yield first


def read() -> dict[str, Figures]:
    """Return everything that is kept."""
    return dict(json.loads(FILE.read_text())) if FILE.exists() else {}


def keep(name: str, known: Figures) -> None:
    """Keep what is known of one entry, whoever else keeps another one meanwhile."""
    with (Path(tempfile.gettempdir()) / "polvet-table-two.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        write_whole(FILE, json.dumps(read() | {name: known}, indent=1) + "\n")


if __name__ == "__main__":
    main()
