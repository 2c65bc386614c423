"""Published programs: all are read; sizes are the published ones; Storm builds the same model out of each."""

import json
import math
from fractions import Fraction
from pathlib import Path

import pytest

from polvet.jani.read import load_model as load_jani
from polvet.jani.write import dump_model
from polvet.kernel.compiled import Compiled
from polvet.mdp.check import check_property
from polvet.model.instantiate import instantiate
from polvet.prism import parse_property, read_prism, read_program, vocabulary_of_file, vocabulary_of_program
from tests.prism.conftest import BENCHMARKS, constants_of, explored, needs_benchmarks, program_files

pytestmark = pytest.mark.slow

SMALL = [
    "storm-testfiles/dtmc/brp-16-2.pm",
    "storm-testfiles/dtmc/die.pm",
    "storm-testfiles/dtmc/leader-3-5.pm",
    "storm-testfiles/mdp/coin2-2.nm",
    "storm-testfiles/mdp/coin_flips.nm",
    "storm-testfiles/mdp/die_c1.nm",
    "storm-testfiles/mdp/die_selection.nm",
    "storm-testfiles/mdp/leader3.nm",
    "storm-testfiles/mdp/one_dim_walk.nm N=10",
    "storm-testfiles/mdp/prob_sched.prism",
    "storm-testfiles/mdp/scheduler_generation.nm",
    "storm-testfiles/mdp/small_discount.nm",
    "storm-testfiles/mdp/sync.nm",
    "storm-testfiles/mdp/tiny_rewards.nm",
    "storm-testfiles/mdp/tiny_rewards2.nm",
    "storm-testfiles/mdp/tiny_rewards3.nm",
    "storm-testfiles/mdp/two_dice.nm",
    "storm-testfiles/mdp/wlan0-2-2.nm",
    "qvbs/dtmc/brp/brp.prism N=16,MAX=2",
    "qvbs/dtmc/leader_sync/leader_sync.3-2.prism",
    "qvbs/dtmc/nand/nand.prism N=3,K=1",
    "qvbs/dtmc/egl/egl.prism N=2,L=2",
    "qvbs/dtmc/crowds/crowds.prism TotalRuns=3,CrowdSize=5",
    "qvbs/mdp/consensus/consensus.2.prism K=4",
    "qvbs/mdp/firewire_abst/firewire_abst.prism delay=3",
    "qvbs/mdp/firewire_dl/firewire_dl.prism delay=3,deadline=60",
    "qvbs/mdp/ij/ij.10.prism",
    "qvbs/mdp/philosophers-mdp/philosophers-mdp.3.prism",
    "qvbs/mdp/zeroconf/zeroconf.prism N=20,K=4,reset=true",
]

LARGER = [
    "storm-testfiles/mdp/firewire3-0.5.nm",
    "qvbs/dtmc/leader_sync/leader_sync.5-4.prism",
    "qvbs/mdp/eajs/eajs.3.prism energy_capacity=20",
    "qvbs/mdp/firewire/firewire.true.prism delay=3,deadline=20",
    "qvbs/mdp/pnueli-zuck/pnueli-zuck.3.prism",
    "qvbs/mdp/wlan/wlan.0.prism COL=0",
    "qvbs/mdp/zeroconf_dl/zeroconf_dl.prism N=1000,K=1,reset=true,deadline=10",
]


def _reference() -> list[tuple[Path, dict[str, bool | int], int]]:
    """Return (program, constants, states) of every published size, each once."""
    if not BENCHMARKS.is_dir():
        return []
    known = {}
    for entry in json.loads((BENCHMARKS / "reference.json").read_text("utf-8")):
        states = entry.get("full_states")
        if not states or not entry["file"]:
            continue
        written = BENCHMARKS / entry["file"]
        file = written.with_suffix(".prism") if written.suffix == ".jani" else written
        if file.is_file() and not (written.suffix == ".jani" and "storm-testfiles" in entry["file"]):
            known[file, json.dumps(entry["parameters"])] = (file, entry["parameters"], states)
    return list(known.values())


@needs_benchmarks
def test_all_published_programs_are_there() -> None:
    assert len(program_files()) >= 50


@needs_benchmarks
@pytest.mark.parametrize("file", program_files(), ids=lambda file: file.name)
def test_every_published_program_is_read(file: Path) -> None:
    model = read_prism(file)
    assert model.name == file.stem
    assert model.automata
    assert all(automaton.edges for automaton in model.automata)


@needs_benchmarks
@pytest.mark.parametrize("file", program_files(), ids=lambda file: file.name)
def test_a_program_written_as_jani_reads_back_as_the_same_model(file: Path, tmp_path: Path) -> None:
    model = read_prism(file)
    copy = tmp_path / "copy.jani"
    copy.write_text(dump_model(model), "utf-8")
    assert load_jani(copy) == model


@needs_benchmarks
@pytest.mark.parametrize(
    ("file", "constants", "states"),
    [pytest.param(*one, id=f"{one[0].name}-{one[1]}") for one in _reference() if one[2] <= 1000],
)
def test_a_program_has_the_published_number_of_states(
    file: Path, constants: dict[str, bool | int], states: int
) -> None:
    assert len(explored(read_prism(file), constants).moves) == states


@needs_benchmarks
@pytest.mark.parametrize(
    ("file", "constants", "states"),
    [
        pytest.param(*one, id=f"{one[0].name}-{one[1]}", marks=[pytest.mark.slow] if one[2] > 300_000 else [])
        for one in _reference()
        if one[2] <= 2_000_000
    ],
)
def test_a_program_has_the_published_number_of_states_in_the_kernel(
    file: Path, constants: dict[str, bool | int], states: int
) -> None:
    model = read_prism(file)
    own = {name: value for name, value in constants.items() if model.constant(name)}  # some belong to properties
    assert len(Compiled(instantiate(model, own)).explore()) == states


def _values() -> list[tuple[str, str, str]]:
    """Return (program, property, value) of every published value of a program."""
    if not BENCHMARKS.is_dir():
        return []
    entries = json.loads((BENCHMARKS / "reference.json").read_text("utf-8"))
    return [
        (entry["file"], entry["property"], entry["value"])
        for entry in entries
        if entry["collection"] == "storm-testfiles"
        and not entry["file"].endswith(".jani")
        and entry["value"]
        and "scheduler" not in entry["property"]
    ]


@needs_benchmarks
@pytest.mark.parametrize(("name", "text", "value"), _values())
def test_a_property_of_a_program_has_the_published_value(name: str, text: str, value: str) -> None:
    file = BENCHMARKS / name
    model = read_prism(file)
    result = check_property(instantiate(model), parse_property(text, vocabulary_of_file(file, model)), exact=True)
    if value == "infinity":
        assert result.value == math.inf
    elif result.exact is not None:
        assert result.exact == Fraction(value)
    else:
        assert result.lower <= Fraction(value) <= result.upper


@needs_benchmarks
@pytest.mark.peer
@pytest.mark.parametrize("case", [*SMALL, *(pytest.param(case, marks=pytest.mark.slow) for case in LARGER)])
def test_storm_builds_the_same_model(case: str) -> None:
    stormpy = pytest.importorskip("stormpy")
    name, _, values = case.partition(" ")
    parsed = stormpy.parse_prism_program(str(BENCHMARKS / name))
    if values:
        parsed = stormpy.instantiate_constants(parsed, values)[0]
    theirs = stormpy.build_model(parsed, options=stormpy.BuilderOptions(build_full=True))

    program = read_program(BENCHMARKS / name)
    ours = explored(read_prism(BENCHMARKS / name), constants_of(values))
    choices = transitions = 0
    for moves in ours.moves.values():
        # Storm gives a deadlock a loop, and joins what a dtmc enables at once.
        joined = [{outcome.state for outcome in move.outcomes} for move in moves] or [{None}]
        if "/dtmc/" in name:
            joined = [set().union(*joined)]
        choices += len(joined)
        transitions += sum(len(targets) for targets in joined)
    assert (len(ours.moves), choices, transitions) == (theirs.nr_states, theirs.nr_choices, theirs.nr_transitions)

    words = vocabulary_of_program(program)
    for label, variable in words.labels.items():
        holds = sum(1 for state in ours.moves if ours.value(variable, state))
        assert holds == len(list(theirs.labeling.get_states(label))), label
    for structure in program.rewards:
        reward = words.rewards[structure.name]
        model = theirs.reward_models[structure.name or ""]
        if model.has_state_rewards:
            total = sum(float(ours.value(reward.variable, state)) for state in ours.moves)
            assert total == pytest.approx(sum(model.state_rewards))
        if model.has_state_action_rewards:
            total = sum(
                float(ours.earned(reward.variable, move)) / (len(moves) if "/dtmc/" in name else 1)
                for moves in ours.moves.values()
                for move in moves
            )
            assert total == pytest.approx(sum(model.state_action_rewards))
