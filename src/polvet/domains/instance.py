"""One generated world: its model and its start, fail and goal, ready to run or to be written as JANI and task.toml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from polvet.errors import InputError, Where
from polvet.files import write_whole
from polvet.jani.write import dump_model
from polvet.model.automata import Model
from polvet.model.build import ModelBuilder
from polvet.model.expressions import FALSE, Expression
from polvet.model.infix import dump_expression
from polvet.model.instantiate import instantiate
from polvet.model.task import Task, condition
from polvet.model.terms import Termlike, expression_of
from polvet.sources import dump_task


@dataclass(frozen=True, slots=True)
class Instance:
    """A generated model with its conditions, over the model's own names; `start` None: the initial states."""

    model: Model
    fail: Expression = FALSE
    goal: Expression = FALSE
    start: Expression | None = None

    @classmethod
    def of(
        cls, builder: ModelBuilder, *, fail: Termlike, goal: Termlike = FALSE, start: Termlike | None = None
    ) -> Instance:
        """Return the instance of a finished builder; the model gets the two properties that speak of fail and goal."""
        builder.reach("fail", fail, "min")
        builder.reach("goal", goal, "max")
        begin = None if start is None else expression_of(start)
        return cls(builder.build(), expression_of(fail), expression_of(goal), begin)

    def task(self) -> Task:
        """Return the task, with conditions over the network's scalars."""
        network = instantiate(self.model)
        where = Where(self.model.name)
        start = None if self.start is None else condition(network, self.start, where.at("start"))
        fail = condition(network, self.fail, where.at("fail"))
        return Task(network, fail, condition(network, self.goal, where.at("goal")), start)

    def dump(self) -> str:
        """Return the model as JANI text."""
        return dump_model(self.model)

    def write(self, path: str | Path) -> tuple[Path, Path]:
        """Write the model to `path` (a .jani file) and the task beside it; return both paths."""
        file = Path(path)
        if file.suffix != ".jani":
            raise InputError(f"'{file}' is not the name of a .jani file.", Where("-o"), "End it in .jani.")
        task, model = file.with_suffix(".toml"), self.dump().encode()
        given = {"start": self.start, "fail": self.fail, "goal": self.goal}
        texts = {role: dump_expression(one) for role, one in given.items() if one is not None}
        write_whole(file, model)
        write_whole(task, dump_task({"model": (file.name, model)}, texts))
        return file, task
