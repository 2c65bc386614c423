"""A repair's certificate, checked before the repair is told."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from polvet.budget import Budget
from polvet.confirm.confirmation import about_policy, confirm
from polvet.confirm.outcome import Confirmation, NotChecked
from polvet.files import Json
from polvet.model.semantics import Semantics
from polvet.policy.binding import Fitted
from polvet.policy.save import save_policy
from polvet.records.fault_files import Fault
from polvet.repair.certificate import repair_certificate
from polvet.repair.repair import Repaired


def confirm_repair(
    fitted: Fitted, repair: Repaired, file: Path | None, *, found: float, budget: Budget, output: Path | None = None
) -> tuple[Json, Confirmation | None]:
    """Return the certificate of the repair that was saved in the file, and whether it was checked.

    A repair that is saved nowhere is written to a temporary file, for the checker reads a file.
    """
    if file is None:
        with tempfile.TemporaryDirectory(prefix="polvet-") as folder:
            saved = Path(folder) / "policy.json"
            save_policy(repair.policy, saved)
            certificate, checked = confirm_repair(fitted, repair, saved, found=found, budget=budget)
            return certificate, NotChecked(checked.reason) if isinstance(checked, NotChecked) else checked
    certificate = repair_certificate(fitted, repair, file)
    if not repair.fixed:
        return certificate, None
    if (wrong := _first_that_is_none(fitted, repair.fixed)) is not None:
        return certificate, NotChecked(wrong)
    about = about_policy(fitted.task, file, certificate["policy_sha256"])
    return certificate, confirm("repaired policy", certificate, about, found=found, budget=budget, output=output)


def _first_that_is_none(fitted: Fitted, faults: Sequence[Fault]) -> str | None:
    """Return why a listed fault is none: a list may come from elsewhere, and then its certificate says little."""
    semantics = Semantics(fitted.task.network)
    for fault in faults:
        applicable = {move.label for move in semantics.moves(fault.state)}
        if fault.action not in applicable or fault.action in fault.safe_actions:
            return f"a listed fault is none: '{fault.action}' in {semantics.show(fault.state)}"
    return None
