"""How the worlds in files are told from one another: by their beginnings, so that no reader but the right one is ever loaded."""

from __future__ import annotations

import re

from polvet.model.tables import TABLE_FILE
from polvet.model.world import WorldFile

PRISM_WORDS = (
    *("mdp", "nondeterministic", "dtmc", "probabilistic", "ctmc", "stochastic", "ctmdp", "ma", "pta", "popta", "pomdp"),
    *("smg", "csg", "tsg", "imdp", "idtmc", "lts", "invariant", "observables", "observable", "player", "clock"),
    *("const", "global", "formula", "label", "module", "rewards", "init", "system"),
)
"""What a PRISM program may begin with, those that are refused by name included."""
_PRISM = re.compile(rf"(?:\s|//[^\n]*(?:\n|$))*(?:{'|'.join(PRISM_WORDS)})\b")
_PDDL = re.compile(r"(?:\s|;[^\n]*(?:\n|$))*\(\s*define\b", re.IGNORECASE)


def is_jani(file: WorldFile) -> bool:
    """Return whether it is JSON, and no table."""
    return file.opening.startswith(("{", "[")) and not is_table(file)


def is_prism(file: WorldFile) -> bool:
    """Return whether one of PRISM's words is first, behind comments."""
    return _PRISM.match(file.opening) is not None


def is_pddl(file: WorldFile) -> bool:
    """Return whether a definition is first, behind comments."""
    return _PDDL.match(file.opening) is not None


def is_table(file: WorldFile) -> bool:
    """Return whether it says that it is a table of states."""
    return TABLE_FILE.match(file.opening) is not None
