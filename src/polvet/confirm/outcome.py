"""What became of a certificate before its verdict is said: it was checked, or it was not, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from polvet.files import Json


@dataclass(frozen=True, slots=True)
class Checked:
    """The checker accepts the certificate."""


@dataclass(frozen=True, slots=True)
class NotChecked:
    """The certificate was not checked here, and why; `how` is the command that checks it, where there is one."""

    reason: str
    how: str | None = None

    def __str__(self) -> str:
        return self.reason if self.how is None else f"{self.reason}; `{self.how}` checks it"


Confirmation = Checked | NotChecked
NO_KIND = NotChecked("there is no kind of certificate for this verdict")


def confirmation_json(confirmation: Confirmation | None) -> Json:
    """Return the confirmation as JSON documents hold it; nothing where there was nothing to check."""
    match confirmation:
        case None:
            return {}
        case Checked():
            return {"checked": True}
        case NotChecked():
            return {"checked": False, "not_checked": str(confirmation)}


def read_confirmation(figures: Mapping[str, Any]) -> Confirmation | None:
    """Return the confirmation that `confirmation_json` wrote among these."""
    if "checked" not in figures:
        return None
    return Checked() if figures["checked"] else NotChecked(figures["not_checked"])


def worst(*confirmations: Confirmation | None) -> Confirmation | None:
    """Return the first that was not checked, else one that was, else None."""
    given = [one for one in confirmations if one is not None]
    return next((one for one in given if isinstance(one, NotChecked)), given[0] if given else None)
