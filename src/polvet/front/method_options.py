"""Options of single verification methods: the predicates and the configuration of `abstraction`, the greatest length of `bmc`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from polvet.choices import AUTO
from polvet.errors import InputError, Where
from polvet.files import read_text
from polvet.front.arguments import count
from polvet.front.limits import Crowd
from polvet.model.infix import parse_expression
from polvet.model.network import Kind
from polvet.policy.inputs import kind_over

if TYPE_CHECKING:
    from polvet.model.expressions import Expression
    from polvet.model.network import Network
    from polvet.verify.method import Method


class MethodOptions(Crowd, total=False):
    """What one method reads besides the task, and limits, a seed, and who works.

    `predicates` (a file with a condition a line, or a list) and `configuration` are those of abstraction, `max_steps`
    that of bmc and unrolling.
    """

    predicates: str | Path | Sequence[str] | None
    configuration: str | None
    max_steps: int | None


def method_with(method: str, network: Network, options: MethodOptions) -> str | Method:
    """Return the method as the options make it; an option of one method chooses it where none is named."""
    conditions, configuration = options.get("predicates"), options.get("configuration")
    steps = options.get("max_steps")
    if conditions is not None or configuration is not None:
        _only_of("abstraction", method, "predicates" if conditions is not None else "configuration")
        from polvet.verify.abstraction import abstraction, options_of
        from polvet.verify.methods import BOXES

        predicates = None if conditions is None else read_conditions(network, conditions)
        return abstraction(predicates, options_of(configuration or BOXES))
    if steps is not None:
        longest = count(steps, "max_steps", least=0)
        if method == "unrolling":
            from polvet.verify.unrolling import unrolled

            return unrolled(longest)
        _only_of("bmc", method, "max_steps")
        from polvet.verify.bmc import bounded

        return bounded(longest)
    return method


def _only_of(able: str, method: str, option: str) -> None:
    if method not in (AUTO, able):
        raise InputError(f"the method '{method}' takes no {option}.", Where(option), f"Use --method {able}.")


def read_conditions(network: Network, given: str | Path | Sequence[str]) -> list[Expression]:
    """Return the conditions of a file (one a line; `#` begins a comment), or those of a list."""
    lines: list[tuple[Where, str]]
    if isinstance(given, str | Path):
        file = Path(given)
        text = read_text(file)
        lines = [(Where(str(file), line=k), one) for k, one in enumerate(text.splitlines(), start=1)]
    else:
        lines = [(Where(f"predicates[{k}]"), one) for k, one in enumerate(given)]
    conditions = []
    for where, one in lines:
        condition = one.split("#")[0].strip()
        if not condition:
            continue
        expression = network.resolve(parse_expression(condition, where), where)
        if kind_over(network, expression) is not Kind.BOOL:
            raise InputError(f"'{condition}' is a number.", where, "Write a condition, such as x <= 3.")
        conditions.append(expression)
    if not conditions:
        raise InputError("there is no predicate.", Where("predicates"), "Write one condition a line, such as x <= 3.")
    return conditions
