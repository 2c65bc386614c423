"""Building sparse MDPs, checking properties and enumerating states, beside Storm: CPU time, same run, interleaved.

Like for like: both build the sparse MDP from a model that was read (`build`), and both answer one property from the file on
(`check`): Storm with the defaults of stormpy 2.0 (sparse engine, its default environment), polvet with a proved relative gap of 1e-6.
Enumerating states without a matrix (`enumerate`) has no counterpart in Storm: its rate stands beside that of Storm's build, which does
more. Every state count is compared; times are medians, and the spread is the widest (max - min) / median of a row's repetitions.
    python -m benchmarks.exploring [--repeat 3] [--large] [--only wlan,crowds] [-o benchmarks/results/exploring.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any

from polvet.errors import Where
from polvet.kernel.compiled import Compiled
from polvet.mdp.build import build
from polvet.mdp.check import check_property
from polvet.model.arithmetic import Value
from polvet.model.automata import Model
from polvet.model.instantiate import instantiate
from polvet.sources import find_property
from polvet.worlds.formats import load_model

BENCHMARKS = Path(__file__).resolve().parents[2] / "shared" / "benchmarks"
RESULTS = Path(__file__).resolve().parent / "results"

MODELS: list[tuple[str, dict[str, Any], str]] = [
    ("qvbs/mdp/eajs/eajs.5.jani", {"energy_capacity": 250, "B": 11}, "ExpUtil"),
    ("qvbs/dtmc/nand/nand.jani", {"N": 40, "K": 3}, "reliable"),
    ("qvbs/mdp/echoring/echoring.jani", {"ITERATIONS": 50}, "MinOffline1"),
    ("qvbs/dtmc/crowds/crowds.jani", {"TotalRuns": 5, "CrowdSize": 20}, "positive"),
    ("qvbs/mdp/firewire/firewire.true.jani", {"delay": 3, "deadline": 800}, "deadline"),
    ("qvbs/mdp/zeroconf/zeroconf.jani", {"N": 1000, "K": 8, "reset": False}, "correct_max"),
    ("qvbs/mdp/csma/csma.3-4.jani", {}, "all_before_max"),
    ("qvbs/mdp/wlan/wlan.5.jani", {"COL": 0}, "num_collisions"),
    ("qvbs/mdp/ij/ij.20.jani", {}, "stable"),
    (
        "qvbs/mdp/resource-gathering/resource-gathering.jani",
        {"B": 1300, "GOLD_TO_COLLECT": 100, "GEM_TO_COLLECT": 100},
        "expsteps",
    ),
]


LARGE: list[tuple[str, dict[str, Any], str]] = [
    ("qvbs/dtmc/nand/nand.jani", {"N": 60, "K": 4}, "reliable"),
    ("qvbs/dtmc/crowds/crowds.jani", {"TotalRuns": 6, "CrowdSize": 20}, "positive"),
]
"""10 million states and more, of which Storm's build takes less than 10 minutes and 6 GB; `--large`."""


def exact(constants: dict[str, Any], model: Model) -> dict[str, Value]:
    """Return the constants that the model has, decimals as fractions."""
    known = {constant.name for constant in model.constants}
    given = {name: value for name, value in constants.items() if name in known}
    return {name: Fraction(str(value)) if isinstance(value, float) else value for name, value in given.items()}


def measure(functions: dict[str, Callable[[], Any]], repeat: int) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the median CPU seconds of each function, run in turns, with their spreads, and what each returned last."""
    spent: dict[str, list[float]] = {name: [] for name in functions}
    results: dict[str, Any] = {}
    for _ in range(repeat):
        for name, function in functions.items():
            results.pop(name, None)
            begun = time.process_time()
            results[name] = function()
            spent[name].append(time.process_time() - begun)
    spreads = {f"{name}_spread": (max(times) - min(times)) / statistics.median(times) for name, times in spent.items()}
    return {name: statistics.median(times) for name, times in spent.items()} | spreads, results


def row(file: str, constants: dict[str, Any], wanted: str, repeat: int) -> dict[str, Any]:
    """Measure one model."""
    import stormpy

    path = str(BENCHMARKS / file)
    model = load_model(path)
    network = instantiate(model, exact(constants, model))
    names = [one.name for one in model.properties]
    wanted = wanted if wanted in names else names[0]

    def storm_read() -> tuple[Any, Any]:
        program, properties = stormpy.parse_jani_model(path)
        given = {name: value for name, value in constants.items() if name in exact(constants, model)}
        return stormpy.instantiate_constants(program, given, properties) if given else (program, properties)

    def storm_build() -> Any:
        return stormpy.build_model(storm_program)

    def storm_check() -> Any:
        program, properties = storm_read()
        formula = next(one for one in properties if one.get_name() == wanted)
        built = stormpy.build_model(program, [formula])
        answer = stormpy.model_checking(built, formula, only_initial_states=True)
        return answer.get_value(built.initial_states[0])

    def polvet_check() -> Any:
        fresh = load_model(path)
        return check_property(instantiate(fresh, exact(constants, fresh)), find_property(fresh, wanted, Where(path)))

    storm_program, _ = storm_read()
    times, results = measure(
        {
            "storm_build": storm_build,
            "enumerate": lambda: Compiled(network).explore(),
            "build": lambda: build(network),
        },
        repeat,
    )
    space, built = results["enumerate"], results["build"]
    storm_states = results["storm_build"].nr_states
    result = {
        "model": file, "constants": constants, "repeat": repeat, "property": wanted, "states": len(space), "storm_states": storm_states,
        "same": len(space) == storm_states == built.mdp.states, "words": Compiled(network).program.words,
        "bytes_per_state": space.bytes / len(space), **times,
        "enumerate_ratio": times["storm_build"] / times["enumerate"], "build_ratio": times["storm_build"] / times["build"],
    }  # fmt: skip
    del results, space, built
    try:
        checks, answers = measure({"storm_check": storm_check, "check": polvet_check}, max(1, repeat - 1))
        ours = answers["check"]
        result |= {
            **checks, "check_ratio": checks["storm_check"] / checks["check"], "storm_value": answers["storm_check"],
            "lower": ours.lower, "upper": ours.upper,
        }  # fmt: skip
    except Exception as error:  # a peer's failure is a row of the table, not the end of it
        result["check_error"] = f"{type(error).__name__}: {error}"[:200]
    return result


def table(rows: list[dict[str, Any]]) -> str:
    """Return the results as Markdown."""
    repeats = sorted({one.get("repeat", 0) for one in rows})
    lines = [
        f"polvet {version('polvet')}, one thread, beside Storm by stormpy {version('stormpy')}; CPU time, medians of "
        f"{' or '.join(map(str, repeats))} in turns (checks of one less), no limits. *build* and *check* are "
        "like for like; *enumerate* makes no matrix, Storm's rate beside it is that of its build. PRISM: not measured.",
        "",
        "| model | states | words | bytes/state | build: Storm s | polvet s | ratio | check: Storm s | polvet s | ratio "
        "| enumerate M/s | Storm's build M/s | spread |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in rows:
        check = [f"{one[key]:.2f}" if key in one else "-" for key in ("storm_check", "check")]
        spreads = [one[key] for key in one if key.endswith("_spread")]
        spread = f"{max(spreads):.0%}" if spreads else "-"
        lines.append(
            f"| {Path(one['model']).name} {one['constants']} | {one['states']:,} | {one['words']} | {one['bytes_per_state']:.1f} "
            f"| {one['storm_build']:.2f} | {one['build']:.2f} | {one['build_ratio']:.1f} "
            f"| {check[0]} | {check[1]} | {one.get('check_ratio', float('nan')):.1f} "
            f"| {one['states'] / one['enumerate'] / 1e6:.2f} | {one['states'] / one['storm_build'] / 1e6:.3f} | {spread} |"
        )
    medians = {key: statistics.median(one[key] for one in rows) for key in ("enumerate_ratio", "build_ratio")}
    checked = [one["check_ratio"] for one in rows if "check_ratio" in one]
    lines.append("")
    lines.append(
        f"Median ratio: build {medians['build_ratio']:.1f}, check {statistics.median(checked):.1f} (not slower on "
        f"{sum(r >= 1 for r in checked)} of {len(checked)}); enumerating against Storm's build {medians['enumerate_ratio']:.1f}."
    )
    return "\n".join(lines)


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--large", action="store_true", help="the models of 10 million states and more")
    parser.add_argument("-o", "--output", type=Path, default=None)
    options = parser.parse_args()
    options.output = options.output or RESULTS / ("exploring-large.json" if options.large else "exploring.json")
    kept = json.loads(options.output.read_text()) if options.only and options.output.exists() else []
    rows = []
    for file, constants, wanted in LARGE if options.large else MODELS:
        if options.only and not any(word in file for word in options.only.split(",")):
            rows += [one for one in kept if one["model"] == file]
            continue
        rows.append(row(file, constants, wanted, options.repeat))
        print(json.dumps(rows[-1], default=str), flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(rows, indent=1, default=str) + "\n")
    options.output.with_suffix(".md").write_text(table(rows) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
