"""Storm finds the same greatest probability of failing in the sub-MDP a permissive scheduler induces."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from polvet.domains import generate
from polvet.shield import Permitted, build_world, permit
from polvet.shield.world import SubMdp

stormpy = pytest.importorskip("stormpy")
pytestmark = pytest.mark.peer

CASES = [
    ("janitor", {"width": 4, "height": 4}, "0.1"),
    ("folline", {"length": 12, "width": 5}, "0.05"),
    ("comexp", {"width": 4, "height": 4, "distance": 4}, "0.3"),
]


def prism_of(sub: SubMdp) -> str:
    """The sub-MDP as a PRISM module over one state number."""
    mdp = sub.mdp
    exact = mdp.exact_probabilities()
    lines = ["mdp", "module sub", f"s : [0..{mdp.states - 1}] init {int(mdp.initial[0])};"]
    for state in range(mdp.states):
        choices = range(int(mdp.choice_start[state]), int(mdp.choice_start[state + 1]))
        if not choices:
            lines.append(f"[] s={state} -> (s'={state});")
        for choice in choices:
            branches = range(int(mdp.branch_start[choice]), int(mdp.branch_start[choice + 1]))
            lines.append(f"[] s={state} -> " + " + ".join(f"{exact[b]} : (s'={mdp.target[b]})" for b in branches) + ";")
    failing = " | ".join(f"s={s}" for s in np.flatnonzero(sub.fail).tolist()) or "false"
    return "\n".join([*lines, "endmodule", f'label "fail" = {failing};', ""])


@pytest.mark.parametrize(("name", "sizes", "bound"), CASES, ids=[case[0] for case in CASES])
def test_storm_agrees_on_the_risk(name: str, sizes: dict[str, int], bound: str, tmp_path: Path) -> None:
    world = build_world(generate(name, **sizes).task())
    result = permit(world, Fraction(bound), attempts=3)
    assert isinstance(result, Permitted)
    file = tmp_path / "sub.pm"
    file.write_text(prism_of(result.sub))
    program = stormpy.parse_prism_program(str(file))
    question = stormpy.parse_properties('Pmax=? [F "fail"]', program)
    model = stormpy.build_model(program, question)
    found = stormpy.model_checking(model, question[0]).get_value(model.initial_states[0])
    assert float(found) == pytest.approx(float(result.risk), abs=1e-5)
