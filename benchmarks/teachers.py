"""Hand-written teachers, as rule lists, for the rows of Table 2 of the paper on safety debugging; trees imitate them.

The paper's teachers are networks that are not public. These are careful drivers and movers; what makes the imitating
trees fail is what makes learned policies fail: too few trees, too little depth, states that the teacher never visits.
`rows()` lists the table, `policy_of` makes the task and the trained policy of a row (kept in a folder between runs).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.published import TABLE, Published

Rule = dict[str, str]
LINES = ((15, 10), (17, 10), (20, 10), (30, 20), (40, 25))


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its name in the paper, the domain with its parameters, how it is taught."""

    name: str
    domain: tuple[str, ...]
    teacher: tuple[Rule, ...] | str  # rules, or a word or row that `polvet train --teacher` understands
    rounds: int = 10
    depth: int = 5

    @property
    def paper(self) -> Published:
        """Return the paper's figures."""
        return TABLE[self.name]

    @property
    def slug(self) -> str:
        """Return the name as a file name."""
        return "".join(c if c.isalnum() else "-" for c in self.name.lower()).strip("-").replace("--", "-")


def line_rules(places: int, *, two_way: bool, park: bool) -> tuple[Rule, ...]:
    """Drive at speed 1, stop where a package lies, deliver at the end; on two ways go back for what is left."""
    end = places - 1
    load = [f"location_load_{i}" for i in range(places)]

    def anywhere(test: str, places_: range) -> str:
        near = [{"here": load[i], "on": load[min(i + 1, end)], "back": load[max(i - 1, 0)]} for i in range(places)]
        return " || ".join(f"(truck_0 == {i} && {test.format(**near[i])})" for i in places_)

    stops = f"truck_0 <= 1 || {anywhere('{back} >= 1', range(1, places))}"
    rules = [
        {"when": f"truck_vel_0 == 0 && ({anywhere('{here} >= 1', range(end))})", "action": "pick_up_truck_0"},
        {"when": f"truck_vel_0 == 0 && truck_0 == {end} && truck_load_0 >= 1", "action": "drop_truck_0"},
    ]
    if two_way:
        left = " || ".join(f"(truck_0 == {i} && {' + '.join(load[:i])} >= 1)" for i in range(1, places))
        rules += [
            {"when": "truck_vel_0 <= -2", "action": "acc_truck_0"},
            {"when": f"truck_vel_0 == -1 && ({stops} || !({left}))", "action": "acc_truck_0"},
            {"when": "truck_vel_0 == -1", "action": "move_truck_0"},
            {"when": f"truck_vel_0 == 0 && truck_load_0 == 0 && ({left})", "action": "dec_truck_0"},
        ]
    if park:
        rules.append({"when": f"truck_vel_0 == 0 && truck_0 == {end}", "action": "park_truck_0"})
    return (
        *rules,
        {"when": "truck_vel_0 == 0", "action": "acc_truck_0"},
        {"when": f"truck_vel_0 >= 2 || truck_0 >= {end - 1} || {anywhere('{on} >= 1', range(end))}", "action": "dec_truck_0"},
        {"when": "true", "action": "move_truck_0"},
    )  # fmt: skip


def transport_rules(places: int) -> tuple[Rule, ...]:
    """Carry one package at a time over the bridge."""
    bridge, end = places - 2, places - 1
    load = [f"location_load_{i}" for i in range(places)]
    here = " || ".join(f"(truck_0 == {i} && {load[i]} >= 1)" for i in range(end))
    ahead = " || ".join(f"(truck_0 == {i} && {' + '.join(load[i + 1 : end])} >= 1)" for i in range(bridge))
    return (
        {"when": f"truck_0 == {end} && truck_load_0 >= 1", "action": "drop_truck_0"},
        {"when": f"truck_0 == {bridge} && truck_load_0 >= 2", "action": "drop_truck_0"},
        {"when": f"truck_load_0 == 0 && ({here})", "action": "pick_up_truck_0"},
        {"when": f"truck_load_0 >= 1 || ({ahead})", "action": "drive_forward"},
        {"when": "true", "action": "drive_backward"},
    )


PENDULUM: tuple[Rule, ...] = (  # it looks too little ahead, and falls now and then
    {"when": "angle + 0.05 * angular_velocity > 0.02", "action": "rotate_left"},
    {"when": "angle + 0.05 * angular_velocity < -0.02", "action": "rotate_right"},
    {"when": "true", "action": "skip"},
)
CAR: tuple[Rule, ...] = (
    {"when": "velocity > 28 && gap < 8 * (velocity - 28) + 4", "action": "brake"},
    {"when": "gap > 45 && velocity < 29", "action": "accelerate"},
    {"when": "velocity > 28.5", "action": "brake"},
    {"when": "true", "action": "keep"},
)
BALL: tuple[Rule, ...] = (
    {"when": "height >= 5 && height <= 9 && velocity >= -6", "action": "push"},
    {"when": "true", "action": "skip"},
)


def rows() -> Iterator[Row]:
    """Yield the rows of the table."""
    yield Row("8Blocks CI", ("blocksworld", "n=8", "cost=0"), "optimal")
    yield Row("8Blocks CA", ("blocksworld", "n=8"), "8blocks-ci")
    yield Row("Transport", ("transport",), transport_rules(10))
    for jigs in (3, 4, 5, 6, 8):
        yield Row(f"Beluga ({jigs} Jigs)", ("beluga", f"jigs={jigs}"), "auto")
    for ways, word in (("1", "one"), ("2", "two")):
        for suffix, flags in (("", ()), (" Icy + Park", ("icy=true", "park=true")), (" Icy", ("icy=true",))):
            for packages, places in LINES:
                rules = line_rules(places, two_way=ways == "2", park="park=true" in flags)
                domain = (f"{word}-way-line", f"n={packages}", f"p={places}", *flags)
                yield Row(f"{ways} way line ({packages}, {places}){suffix}", domain, rules)
    for name, domain_name, taus, teacher in (
        ("Bouncing Ball", "bouncing-ball", ("0.01", "0.05", "0.5"), BALL),
        ("Inverted Pendulum", "inverted-pendulum", ("0.01", "0.05", "0.1"), PENDULUM),
        ("Follow Car", "follow-car", ("0.01", "0.05", "0.4"), CAR),
    ):
        for tau in taus:
            coarse = teacher is not CAR  # finer trees make no mistake here
            yield Row(f"{name} ({tau})", (domain_name, f"tau={tau}"), teacher, *((3, 3) if coarse else (10, 5)))


def policy_of(row: Row, folder: Path) -> tuple[Path, Path]:
    """Return the files of the row's task and of its trained trees, made where they are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    task, policy = folder / f"{row.slug}.toml", folder / f"{row.slug}.json"
    if policy.exists():
        return task, policy
    _polvet("domains", *row.domain, "-o", str(task.with_suffix(".jani")))
    teacher = row.teacher
    if not isinstance(teacher, str):
        rules = folder / f"{row.slug}.rules.json"
        rules.write_text(json.dumps({"format": "rules/1", "rules": list(teacher)}))
        teacher = str(rules)
    elif teacher not in ("optimal", "auto"):
        teacher = str(folder / f"{teacher}.json")
    # Few and noisy lessons, few rounds: careless learners, as those are that need debugging.
    _polvet(
        "train", str(task), "--kind", "trees", "--teacher", teacher, "--max-states", "3000000", "--max-steps", "1200",
        "--runs", "20", "--noise", "0.3", "--rounds", str(row.rounds), "--depth", str(row.depth), "-o", str(policy),
    )  # fmt: skip
    return task, policy


def _polvet(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "polvet", *arguments], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 10):
        raise SystemExit(f"polvet {' '.join(arguments)}: {done.stderr}")
    return done.stdout


if __name__ == "__main__":
    for each in rows():
        print(each.name, *policy_of(each, Path("out/table-2")), flush=True)
