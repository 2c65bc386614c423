"""A debugging campaign as people hold it: its outcome, the final policy, the course of its iterations, and the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polvet.errors import InputError, Where, suggest
from polvet.front.results import Result, Verdict, with_check

if TYPE_CHECKING:
    from polvet.front.policy import Policy

WORDS = {
    "safe": Verdict.SAFE,
    "safe, goal lost": Verdict.SAFE,
    "stopped": Verdict.UNSAFE,
    "faults remain": Verdict.FAULTS_REMAIN,
    "improved": Verdict.IMPROVED,
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Campaign(Result):
    """What debugging ended with. `policy` is the final one, `iterations` has a row of figures per iteration.

    The verdict is about safety alone: `goal_lost` says whether %Goal fell below what `max_goal_loss` allows, `warning` how.
    """

    outcome: str = ""
    policy: Policy | None = field(default=None, repr=False)
    folder: Path = Path()
    iterations: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    warning: str | None = None

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """Return SAFE, UNSAFE (from some start no policy is safe), FAULTS_REMAIN, IMPROVED (not proved) or UNKNOWN."""
        return WORDS.get(self.outcome, Verdict.UNKNOWN)

    @property
    def goal_lost(self) -> bool:
        """Return whether the goal is reached less often than the budget allows, counted from the best policy so far."""
        return bool(self.figures.get("goal_lost"))

    def report(self, path: str | Path) -> Path:
        """Write the report, one HTML file that loads nothing, and return its path."""
        from polvet.files import write_whole
        from polvet.report.make import make_report

        write_whole(path, make_report(self.folder))
        return Path(path)

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        yield from self.iterations


def run_campaign(
    policy: Policy,
    file: Path,
    folder: str | Path,
    settings: Mapping[str, Any],
    time_limit: float | None,
    memory_limit: int | None,
    threads: int,
    progress: bool | Callable[[Mapping[str, Any]], Any],
) -> Campaign:
    """Return the campaign in the folder, begun or gone on with."""
    from polvet.campaign.loop import debug
    from polvet.campaign.rows import fold
    from polvet.campaign.settings import Settings
    from polvet.files import read_json
    from polvet.front.limits import budget_of

    known = {one.name for one in fields(Settings)}
    for name in settings:
        if name not in known:
            raise InputError(f"there is no setting '{name}'.", Where("debug"), suggest(name, sorted(known)))
    listener = (lambda record: progress(record.to_json())) if callable(progress) else (lambda record: None)
    ended = debug(
        policy.task.model_task, file, folder, Settings(**settings), threads=threads,
        budget=budget_of(time_limit, memory_limit), listener=listener,
    )  # fmt: skip
    certificate = None if ended.certificate is None else read_json(ended.certificate)
    figures: dict[str, Any] = {"faults": ended.faults, "repairs": ended.iterations}
    useful = ended.usefulness
    if useful is not None:
        figures |= useful.figures()
    final = policy.reopen(ended.policy)
    campaign = Campaign(
        figures,
        certificate,
        ended.reason,
        ended.outcome.value,
        final,
        Path(folder),
        tuple(row.to_json() for row in fold(ended.records)),
        None if useful is None else useful.warning(),
    )
    return with_check(campaign, ended.checked)
