"""The verification methods by name, in the order in which people are told of them: each ends the file it names.

A package brings one of its own by an entry point of the group `polvet.verification_methods`: `name = "module:VALUE"`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polvet.choices import Registry

if TYPE_CHECKING:
    from polvet.verify.method import Method

BOXES = "boxes"
"""The configuration of `abstraction` with our own engine."""
PAPER_CONFIGURATIONS = ("Base", "Mar+Z3", "Mar+Z3(Mar)", "BnB(Mar)", "Mar")
"""Those of Table 1 of policy predicate abstraction."""
CONFIGURATIONS = (BOXES, *PAPER_CONFIGURATIONS)
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
