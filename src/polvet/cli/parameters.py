"""Options and arguments as the annotations of a command's parameters: `Annotated[int, Option("--runs", help="...", min=1)]`.

`parameters` makes of a command's signature what click parses; the type says how a word is read, and a parameter without a default
must be given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import click


@dataclass(frozen=True, slots=True, init=False)
class Option:
    """An option by its names; numbers may have a least and a greatest value, and `callback` sees the value first."""

    names: tuple[str, ...]
    help: str
    min: float | None
    max: float | None
    callback: Callable[[Any], Any] | None

    def __init__(
        self,
        *names: str,
        help: str,
        min: float | None = None,
        max: float | None = None,
        callback: Callable[[Any], Any] | None = None,
    ) -> None:
        for field, value in (("names", names), ("help", help), ("min", min), ("max", max), ("callback", callback)):
            object.__setattr__(self, field, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """What stands on the command line without a name; `metavar` is what help and errors call it."""

    help: str
    metavar: str = ""


class NamedArgument(click.Argument):
    """An argument that the help page explains."""

    def __init__(self, declarations: list[str], explanation: str, **attributes: Any) -> None:
        super().__init__(declarations, **attributes)
        self.help = explanation

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        """Return the name and its explanation, for the help page."""
        return str(self.metavar), str(self.help)


def parameters(command: Callable[..., Any]) -> list[click.Parameter]:
    """Return what click reads for the parameters of a command; each is annotated with its option or argument."""
    return [_parameter(one) for one in inspect.signature(command).parameters.values()]


def _parameter(one: inspect.Parameter) -> click.Parameter:
    kind, how = get_args(one.annotation)
    several, kind = _element(kind)
    required = one.default is inspect.Parameter.empty
    if isinstance(how, Argument):
        return NamedArgument(
            [one.name],
            how.help,
            metavar=how.metavar or one.name.upper(),
            type=_type(kind, None, None),
            nargs=-1 if several else 1,
            required=required,
            callback=_as_list,
        )
    attributes: dict[str, Any] = {"multiple": several, "type": _type(kind, how.min, how.max)}
    if kind is bool:
        attributes = {"is_flag": True} if "/" not in how.names[0] else {}
    if not required and not several:
        attributes["default"] = one.default
        attributes["show_default"] = kind is not bool and one.default not in (None, "")
    return click.Option([*how.names, one.name], help=how.help, required=required, callback=_taking(how), **attributes)


def _element(kind: Any) -> tuple[bool, Any]:
    """Return whether several values are meant, and the type of one: of `list[str] | None` a string."""
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (part for part in get_args(kind) if part is not type(None))
    return (True, get_args(kind)[0]) if get_origin(kind) is list else (False, kind)


def _type(kind: Any, least: float | None, most: float | None) -> click.ParamType[Any]:
    if kind is Path:
        return click.Path(path_type=Path)
    if kind in (int, float) and (least, most) != (None, None):
        return click.IntRange(least, most) if kind is int else FloatRange(least, most)  # type: ignore[arg-type]
    types: dict[Any, click.ParamType[Any]] = {bool: click.BOOL, int: click.INT, float: click.FLOAT, str: click.STRING}
    return types[kind]


class FloatRange(click.FloatRange):
    """A number within its bounds; one that is no number is within none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number, or fail with its bounds."""
        number = float(super().convert(value, param, ctx))
        if number != number:
            self.fail(f"{value} is no number.", param, ctx)
        return number


def _as_list(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _taking(option: Option) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def take(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        if isinstance(value, tuple):  # of an option that may be given several times
            value = list(value) or None
        return value if option.callback is None else option.callback(value)

    return take


def iter_repeated(options: list[click.Parameter], words: list[str]) -> Iterator[str]:
    """Yield the last spelling of each option that takes one value and is given twice: the parser would keep the last in silence."""
    own = words[: words.index("--")] if "--" in words else words
    for option in options:
        if not isinstance(option, click.Option) or option.multiple or option.is_flag:
            continue
        repeated = [word.partition("=")[0] for word in own if word.partition("=")[0] in option.opts]
        if len(repeated) > 1:
            yield repeated[-1]
