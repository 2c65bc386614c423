"""The termination tests by name, each with the file that it ends; `auto` is the complete test, then everything for guards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polvet.choices import Registry

if TYPE_CHECKING:
    from polvet.termination.method import Method

METHODS: Registry[Method] = Registry(
    "--method",
    {
        "complete": "polvet.termination.decide:COMPLETE",
        "sieve": "polvet.termination.sieve:SIEVE",
        "progress-sieve": "polvet.termination.progress_sieve:PROGRESS_SIEVE",
        "gensieve": "polvet.termination.gensieve:GENSIEVE",
    },
)
