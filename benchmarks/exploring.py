"""Enumerating states, building sparse MDPs and checking properties against Storm: CPU time, same run, interleaved.

Storm (stormpy 2.0, defaults: sparse engine, not sound) builds the full model; polvet enumerates the same states, builds the
same matrix, and proves a relative gap of 1e-6. Times exclude reading and starting up, except in `check`, which is end to end
from the file. Every state count is compared.
    python -m benchmarks.exploring [--repeat 3] [--only wlan,crowds] [-o benchmarks/results/exploring.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from fractions import Fraction
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


def exact(constants: dict[str, Any], model: Model) -> dict[str, Value]:
    """Return the constants that the model has, decimals as fractions."""
    known = {constant.name for constant in model.constants}
    given = {name: value for name, value in constants.items() if name in known}
    return {name: Fraction(str(value)) if isinstance(value, float) else value for name, value in given.items()}


def measure(functions: dict[str, Callable[[], Any]], repeat: int) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the median CPU seconds of each function, run in turns, and what each returned last."""
    spent: dict[str, list[float]] = {name: [] for name in functions}
    results: dict[str, Any] = {}
    for _ in range(repeat):
        for name, function in functions.items():
            results.pop(name, None)
            begun = time.process_time()
            results[name] = function()
            spent[name].append(time.process_time() - begun)
    return {name: statistics.median(times) for name, times in spent.items()}, results


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
        "model": file, "constants": constants, "property": wanted, "states": len(space), "storm_states": storm_states,
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
    lines = [
        "| model | states | words | bytes/state | enumerate M/s | Storm M/s | ratio | build ratio | check ratio |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in rows:
        lines.append(
            f"| {Path(one['model']).name} {one['constants']} | {one['states']:,} | {one['words']} | {one['bytes_per_state']:.1f} "
            f"| {one['states'] / one['enumerate'] / 1e6:.2f} | {one['states'] / one['storm_build'] / 1e6:.3f} "
            f"| {one['enumerate_ratio']:.1f} | {one['build_ratio']:.1f} | {one.get('check_ratio', float('nan')):.1f} |"
        )
    medians = {key: statistics.median(one[key] for one in rows) for key in ("enumerate_ratio", "build_ratio")}
    checked = [one["check_ratio"] for one in rows if "check_ratio" in one]
    lines.append("")
    lines.append(
        f"Median ratio: enumerate {medians['enumerate_ratio']:.1f}, build {medians['build_ratio']:.1f}; "
        f"check not slower on {sum(r >= 1 for r in checked)} of {len(checked)}."
    )
    return "\n".join(lines)


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "exploring.json")
    options = parser.parse_args()
    kept = json.loads(options.output.read_text()) if options.only and options.output.exists() else []
    rows = []
    for file, constants, wanted in MODELS:
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
