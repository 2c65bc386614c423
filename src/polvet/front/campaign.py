"""A debugging campaign as people hold it: its outcome, the final policy, the course of its iterations, and the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polvet.errors import InputError, Where, suggest
from polvet.files import Json
from polvet.front.result import Result
from polvet.verdict import Verdict

if TYPE_CHECKING:
    from polvet.front.limits import Work
    from polvet.front.policy import Policy

WORDS = {
    "safe": Verdict.SAFE,
    "safe, goal lost": Verdict.SAFE,
    "safe, goal faults remain": Verdict.SAFE,
    "impossible": Verdict.IMPOSSIBLE,
    "stopped": Verdict.UNSAFE,
    "faults remain": Verdict.FAULTS_REMAIN,
}


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Campaign(Result):
    """What debugging ended with. `policy` is the final one, `iterations` has a row of figures per iteration.

    The verdict is about safety alone, with `max_risk` up to that probability: `goal_lost` says whether %Goal fell below what
    `max_goal_loss` allows, `warning` how.
    """

    outcome: str = ""
    policy: Policy | None = field(default=None, repr=False)
    folder: Path = Path()
    iterations: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    warning: str | None = None

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """Return SAFE, UNSAFE or IMPOSSIBLE (no policy is safe, or keeps the bound), FAULTS_REMAIN, REPAIRED (not proved) or UNKNOWN."""
        if self.outcome == "improved" and "--verify never" in (self.reason or ""):
            return Verdict.REPAIRED
        return WORDS.get(self.outcome, Verdict.UNKNOWN)

    @property
    def goal_lost(self) -> bool:
        """Return whether the goal is reached less often than the budget allows, counted from the best policy so far."""
        return bool(self.figures.get("goal_lost"))

    def report(self, path: str | Path) -> Path:
        """Write the report, one HTML file that loads nothing, and return its path."""
        from polvet.front.writing import write_report

        write_report(
            self.folder, path, allow_code=self.policy is not None and self.policy.task.model_task.options.allow_code
        )
        return Path(path)

    def to_dict(self) -> Json:
        """Return the JSON document that the command line prints with `--json`; the certificate is a file of the folder."""
        document = Result.to_dict(self)
        proof = None if self.source.certificate is None else str(self.source.certificate)
        document |= {"certificate": proof, "figures": {"iterations": list(self.iterations), **self.figures}}
        return {**document, "policy": str(self.source.policy), "outcome": self.outcome, "warning": self.warning}

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        yield from self.iterations

    def _pictures(self) -> str:
        from polvet.front.cards import frame
        from polvet.report.campaign import read_campaign
        from polvet.report.debugging import course_part

        return frame([course_part(read_campaign(self.folder))], 46)


def run_campaign(
    policy: Policy,
    file: Path,
    folder: Path,
    settings: Mapping[str, Any],
    work: Work,
    progress: bool | Callable[[Json], Any],
) -> Campaign:
    """Return the campaign in the folder, begun or gone on with."""
    from polvet.campaign.loop import debug
    from polvet.campaign.rows import fold
    from polvet.campaign.settings import Settings
    from polvet.files import read_json

    if folder.exists() and not folder.is_dir():
        raise InputError("is a file, not a folder.", Where(str(folder)), "Name a folder for the campaign.")
    known = {one.name for one in fields(Settings)} - {"mode"} | {"repair_mode"}
    for name in settings:
        if name not in known:
            raise InputError(f"there is no setting '{name}'.", Where("debug"), suggest(name, sorted(known)))
    chosen = {"mode" if name == "repair_mode" else name: value for name, value in settings.items()}
    listener = (lambda record: progress(record.to_json())) if callable(progress) else (lambda record: None)
    ended = debug(
        policy.task.model_task,
        file,
        folder,
        Settings(**chosen),
        threads=work.threads(),
        budget=work.budget,
        listener=listener,
    )
    certificate = None if ended.certificate is None else read_json(ended.certificate)
    figures: Json = {"faults": ended.faults, "repairs": ended.iterations}
    figures |= ended.figures
    useful = ended.usefulness
    return Campaign(
        figures=figures,
        certificate=certificate,
        reason=ended.reason,
        outcome=ended.outcome.value,
        policy=policy.reopen(ended.policy),
        folder=folder,
        iterations=tuple(row.to_json() for row in fold(ended.records)),
        warning=None if useful is None else useful.warning(),
        source=ended,
        confirmation=ended.checked,
        **work.account(),
    )
