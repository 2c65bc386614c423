"""What smaller games tell a search beforehand: states that are lost or won whatever most of the variables hold.

`projections.py`   relaxed games over a few variables: what is lost there is unsafe
`restrictions.py`  restricted games over a few variables: what is won there is safe
`cells.py`         games over cells of real values: both
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from math import prod

from polvet.budget import UNLIMITED, Budget
from polvet.kernel.compiled import Words
from polvet.model.tables import TableMoves
from polvet.model.task import Task
from polvet.safety.cells import foresee_cells
from polvet.safety.decide import Decider
from polvet.safety.game_verdicts import GameVerdicts
from polvet.safety.projections import count_of, is_countable, iter_lost
from polvet.safety.restrictions import iter_won

LARGE = 10_000_000
ENOUGH = 0.75
"""Where cheap games tell that share of all combinations, no others are played."""


def is_large(task: Task) -> bool:
    """Return whether the variables have more combinations of values than are worth searching one by one."""
    variables = task.network.variables
    return not all(is_countable(v) for v in variables) or prod(count_of(v) for v in variables) > LARGE


def sharpen(decider: Decider, around: Words | None = None, *, alone: bool = False, budget: Budget = UNLIMITED) -> int:
    """Let the decider know what smaller games tell; return how many of them had something to say.

    `around`: packed states of the kind that will be asked about; cells of real values are laid around them. With `alone` no others will
    be asked about, and no more games are played once all of these are lost.
    """
    if decider.task.network.disables_out_of_bounds:
        return 0  # SOUND: whether an operator is enabled would depend on values that are forgotten here
    if decider.task.avoid.deadlock:
        return 0  # SOUND: smaller games tell what is won and lost by `fail` alone
    if isinstance(decider.task.network.edges, TableMoves):
        return 0  # each row is of one state: a game over fewer variables is the same one
    if decider.smaller_games:
        return decider.smaller_games  # it knows already
    lost = iter_lost(decider.task, budget=budget)
    core = list(islice(lost, 1))
    won = list(iter_won(decider.task, budget=budget))
    _tell(decider, [*core, *won], None)
    if sum(told.share for told in core) + max((told.share for told in won), default=0) < ENOUGH:
        _tell(decider, lost, around if alone else None)
    if around is not None:
        foresee_cells(decider, around, budget=budget)
    return decider.smaller_games


def _tell(decider: Decider, games: Iterable[GameVerdicts], asked: Words | None) -> None:
    """Tell what the games say, until all states that are asked about are lost."""
    variables = decider.task.network.variables
    least = [0 if variable.lower is None else int(variable.lower) for variable in variables]
    values = None if asked is None else decider.compiled.machine.unpack(asked)
    for told in games:
        if told.share:
            decider.foresee(told)
        if values is not None:
            values = values[~told.loses(least, values)]
            if not len(values):
                return
