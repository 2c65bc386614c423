"""The verification methods by name, in the order in which people are told of them: each ends the file it names.

A package brings one of its own by an entry point of the group `polvet.verification_methods`: `name = "module:VALUE"`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from polvet.choices import Registry

if TYPE_CHECKING:
    from polvet.verify.method import Method

Tests: TypeAlias = Literal["off", "relaxed", "exact"]
"""Whether a test of Algorithm 1 is made, over the reals alone or (after that) exactly."""
BOXES = "boxes"
"""The configuration of `abstraction` with our own engine."""
PAPER_CONFIGURATIONS = ("Base", "Mar+Z3", "Mar+Z3(Mar)", "BnB(Mar)", "Mar")
"""Those of Table 1 of policy predicate abstraction."""
TEST_CONFIGURATIONS: dict[str, tuple[Tests, Tests]] = {
    "No-Sel-No-App": ("off", "off"),
    "No-Sel-Rel-App": ("off", "relaxed"),
    "Rel-Sel-No-App": ("relaxed", "off"),
    "Rel-Sel-Rel-App": ("relaxed", "relaxed"),
    "Ex-Sel-Ex-App": ("exact", "exact"),
}
"""Those of Table 2 of its appendix E: BnB(Mar) with tests of selection and of applicability under the policy."""
CONFIGURATIONS = (BOXES, *PAPER_CONFIGURATIONS, *TEST_CONFIGURATIONS)
METHODS: Registry[Method] = Registry(
    "--method",
    {
        "explicit": "polvet.verify.explicit:EXPLICIT",
        "projection": "polvet.verify.projection:PROJECTION",
        "induction": "polvet.verify.induction:INDUCTION",
        "abstraction": "polvet.verify.abstraction:ABSTRACTION",
        "ic3": "polvet.verify.ic3:IC3",
        "grid": "polvet.verify.grid:GRID",
        "bmc": "polvet.verify.bmc:BMC",
        "unrolling": "polvet.verify.unrolling:UNROLLING",
    },
    kind="polvet.verify.method:Method",
    group="polvet.verification_methods",
)
