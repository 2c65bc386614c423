"""Competent teachers for the rows of Table 2 of the paper on safety debugging, and its own recipe to learn from them.

The paper's teachers are networks that are not public. These reach the goal where the model lets them: on dry lines a driver who
speeds up to 2 and brakes in time; on ice one who stops at every place, so that nothing lost is passed by; for Beluga a packer who
puts all on one rack and does not count the moves (it reaches the goal about as often as the paper's policies); elsewhere those
of `teachers.py`.
Careless  where that leaves hardly anything unsafe: a teacher that reaches the goal, too, and does not look at `fail` where it matters.
          On dry lines the end is overlooked at full speed; on ice on two ways a driver does not stop before it; on one way he does not
          brake for the end where a package was lost onto it; the carrier takes over the bridge what was loaded at the start; in
          control they look less far ahead; the mover of blocks is optimal for the goal alone
Recipe  1,000 runs of the teacher from random starts, without noise; 20 rounds of depth 5, learning rate 0.4 (XGBoost)
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.teachers import Row, Rule, line_rules, transport_rules

RUNS = 1_000


def max_steps(row: Row) -> int:
    """Return how long runs may be: control goes on for a given time, on ice a truck may go back and forth, others need fewer."""
    if "tau" in "".join(row.domain):
        return 1_200
    return 1_000 if row.domain[0] == "two-way-line" and "icy=true" in row.domain else 300


def fast_rules(places: int, *, two_way: bool, overlooking: bool = False) -> tuple[Rule, ...]:
    """Drive at speed 2 where the next stop leaves room for it, and brake in time; drive back as the careful driver does.

    Overlooking: at speed 2 the end is not seen.
    """
    end = places - 1

    def free(first: int, count: int, *, end_counts: bool = True) -> str:
        """At these places from the truck's on there is no package, and the end is not among them if that counts."""
        last = end - first - count + 1 if end_counts else places
        at = [
            " && ".join([f"(truck_0 == {i}", *(f"location_load_{k} == 0" for k in range(i + first, min(i + first + count, end)))]) + ")"
            for i in range(last)
        ]  # fmt: skip
        return " || ".join(at) or "false"

    careful = line_rules(places, two_way=two_way, park=False)
    backward = [
        rule for rule in careful if "-1" in rule["when"] or "-2" in rule["when"] or rule["action"] == "dec_truck_0"
    ]
    standing = [rule for rule in careful if rule["when"].startswith("truck_vel_0 == 0")]
    driving_back = [
        rule for rule in backward if rule["when"].startswith("truck_vel_0 <= -2") or "== -1" in rule["when"]
    ]
    return (
        *driving_back,
        *standing,
        {"when": "truck_vel_0 >= 3", "action": "dec_truck_0"},
        {"when": f"truck_vel_0 == 2 && ({free(2, 3, end_counts=not overlooking)})", "action": "move_truck_0"},
        {"when": "truck_vel_0 == 2", "action": "dec_truck_0"},
        {"when": f"truck_vel_0 == 1 && ({free(1, 3)})", "action": "acc_truck_0"},
        {"when": f"truck_vel_0 == 1 && ({free(1, 1)})", "action": "move_truck_0"},
        {"when": "true", "action": "dec_truck_0"},
    )


def stopping_rules(places: int, *, two_way: bool, park: bool) -> tuple[Rule, ...]:
    """Stop at every place on the way to the end."""
    careful = line_rules(places, two_way=two_way, park=park)
    before = careful[: next(k for k, rule in enumerate(careful) if rule["when"].startswith("truck_vel_0 >= 2"))]
    return (*before, {"when": "true", "action": "dec_truck_0"})


def beluga_rules(jigs: int) -> tuple[Rule, ...]:
    """Queue everything on one rack; what is asked for is taken from either end, what lies before it goes to the back."""

    def for_some(test: str) -> str:
        return " || ".join(f"({test.format(j=j)})" for j in range(jigs))

    asked_on_truck = for_some(f"next_jig == {{j}} && jig_{{j}} == {jigs + 3}")
    return (
        {"when": f"empty_truck == 0 && ({asked_on_truck})", "action": "send_to_factory"},
        {"when": "empty_truck == 0 && empty_trailer_0 == 1", "action": "unload_truck_0"},
        {"when": "empty_trailer_0 == 0", "action": "push_back_rack_0"},
        {"when": for_some("next_jig == {j} && front_rack_0 == {j}"), "action": "pop_front_rack_0"},
        {"when": for_some("next_jig == {j} && back_rack_0 == {j}"), "action": "pop_back_rack_0"},
        {"when": for_some(f"next_jig == {{j}} && jig_{{j}} == {jigs}"), "action": "pop_front_rack_0"},
        {"when": "true", "action": "unload_beluga_0"},
    )


def teacher_of(row: Row) -> tuple[Rule, ...] | str:
    """Return the row's teacher: rules, or what `polvet train --teacher` understands."""
    kind, options = row.domain[0], dict(option.split("=") for option in row.domain[1:])
    match kind:
        case "beluga":
            return beluga_rules(int(options["jigs"]))
        case "one-way-line" | "two-way-line":
            places, two_way = int(options["p"]), kind == "two-way-line"
            if "icy" in options:
                return stopping_rules(places, two_way=two_way, park="park" in options)
            return fast_rules(places, two_way=two_way)
        case _:
            return row.teacher


BLIND = "optimal, blind"
"""The teacher that is optimal for the goal alone."""
CARELESS_BALL = {"0.5": "-0.5", "0.05": "-2.5", "0.01": "-2.8"}
"""For each time step, how fast the ball may fall for the careless player to push it."""
CARELESS_PENDULUM = {"0.1": "0.02", "0.05": "0.003", "0.01": "-0.004"}
"""How many seconds the careless hand looks ahead."""
CARELESS_CAR = {
    "0.4": ("4 * (velocity - 28) + 2", 45),
    "0.05": ("4 * (velocity - 28) + 2", 45),
    "0.01": ("2 * (velocity - 28) + 1", 0),
}
"""The gap below which the careless driver brakes, and the one below which fast driving is given up."""


def careless_teacher(row: Row) -> tuple[Rule, ...] | str | None:
    """Return a teacher of the row that reaches the goal and does not look at `fail` where it matters; None: there is none."""
    kind, options = row.domain[0], dict(option.split("=") for option in row.domain[1:])
    match kind:
        case "one-way-line" | "two-way-line":
            places, two_way = int(options["p"]), kind == "two-way-line"
            if "icy" not in options:
                return fast_rules(places, two_way=two_way, overlooking=True)
            if two_way:
                return line_rules(places, two_way=True, park="park" in options)
            lost = f"truck_0 == {places - 2} && truck_vel_0 == 1 && location_load_{places - 1} >= 1"
            hurrying: Rule = {"when": lost, "action": "move_truck_0"}
            return (hurrying, *stopping_rules(places, two_way=False, park=True)) if "park" in options else None
        case "transport":
            deliver, _, *others = transport_rules(10)
            return (deliver, *others)
        case "bouncing-ball":
            pushed = f"height >= 5 && height <= 9 && velocity >= {CARELESS_BALL[options['tau']]}"
            return ({"when": pushed, "action": "push"}, {"when": "true", "action": "skip"})
        case "inverted-pendulum":
            leaning = f"angle + {CARELESS_PENDULUM[options['tau']]} * angular_velocity"
            return (
                {"when": f"{leaning} > 0.02", "action": "rotate_left"},
                {"when": f"{leaning} < -0.02", "action": "rotate_right"},
                {"when": "true", "action": "skip"},
            )
        case "blocksworld":
            return BLIND if row.teacher == "optimal" else None  # those who learn from either learn the same
        case "follow-car":
            near, calm = CARELESS_CAR[options["tau"]]
            return (
                {"when": f"velocity > 28 && gap < {near}", "action": "brake"},
                {"when": "gap > 45 && velocity < 29", "action": "accelerate"},
                {"when": f"velocity > 28.5 && gap < {calm}", "action": "brake"},
                {"when": "true", "action": "keep"},
            )
        case _:
            return None


def learn(row: Row, folder: Path, slug: str, teacher: tuple[Rule, ...] | str) -> tuple[Path, Path, Path | None]:
    """Return the row's task, its policy by the paper's recipe, made where it is not there yet, and its teacher's file."""
    folder.mkdir(parents=True, exist_ok=True)
    task, policy = folder / f"{row.slug}.toml", folder / f"{slug}.json"
    rules = folder / f"{slug}.rules.json"
    if not isinstance(teacher, str):
        rules.write_text(json.dumps({"format": "rules/1", "rules": list(teacher)}))
    elif teacher not in ("optimal", "auto", BLIND):
        rules = folder / f"{teacher}.json"  # another row's policy
    if not policy.exists():
        told = "optimal" if teacher == BLIND else teacher if teacher in ("optimal", "auto") else str(rules)
        blind = ("--fail", "false") if teacher == BLIND else ()
        _polvet("domains", *row.domain, "-o", str(task.with_suffix(".jani")))
        _polvet(
            "train", str(task), "--kind", "trees", "--teacher", str(told), "--max-states", "3000000",
            "--max-steps", str(max_steps(row)), "--runs", str(RUNS), "-o", str(policy), *blind,
        )  # fmt: skip
    return task, policy, rules if rules.exists() else None


def _polvet(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "polvet", *arguments], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 10):
        raise SystemExit(f"polvet {' '.join(arguments)}: {done.stderr}")
