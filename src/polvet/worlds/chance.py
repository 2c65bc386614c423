"""A generator of random numbers that goes through all that may be drawn, one script of draws after the other, with probabilities.

It stands in the place of an environment's `np_random` while a step is made again and again. `integers` and `choice` of single
values are enumerated exactly. `random()` is a real number: it is enumerated where the caller lists the numbers that the environment
compares it with (`cuts`), one value from each interval between them. Whatever else is asked for cannot be enumerated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import count, pairwise
from typing import Any

from polvet.errors import InputError, Where
from polvet.worlds.table import exact_distribution

MOST_OPTIONS = 10_000
MOST_WAYS = 4_096
MOST_DRAWS = 64
"""Of one step: an environment that draws until something fits is never done."""


class NotEnumerable(Exception):
    """What was asked of chance has too many answers, or answers that cannot be listed."""


class Enumerating:
    """One script of draws: those that are given, then the first option of each further one."""

    def __init__(self, script: Sequence[int], cuts: Sequence[Fraction]) -> None:
        self._script, self._cuts = script, cuts
        self.draws: list[tuple[int, tuple[Fraction, ...]]] = []  # what was taken, and how likely each option is

    @property
    def probability(self) -> Fraction:
        """How likely all draws so far are."""
        product = Fraction(1)
        for taken, chances in self.draws:
            product *= chances[taken]
        return product

    def _draw(self, chances: tuple[Fraction, ...]) -> int:
        if len(self.draws) >= MOST_DRAWS:
            raise NotEnumerable(f"it draws more than {MOST_DRAWS} numbers in one step")
        place = len(self.draws)
        taken = self._script[place] if place < len(self._script) else _possible(chances, 0)
        self.draws.append((taken, chances))
        return taken

    def integers(self, low: Any, high: Any = None, size: Any = None, dtype: Any = int, endpoint: bool = False) -> int:
        """Return one integer, uniformly."""
        if size is not None:
            raise NotEnumerable("it draws arrays of integers")
        first, last = (0, int(low)) if high is None else (int(low), int(high))
        options = last - first + int(endpoint)
        if not 0 < options <= MOST_OPTIONS:
            raise NotEnumerable(f"it draws one of {options} integers")
        return first + self._draw((Fraction(1, options),) * options)

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None, **others: Any) -> Any:
        """Return one of the options, with the probabilities that are given."""
        if size is not None or others:
            raise NotEnumerable("it chooses several things at once")
        options = range(a) if isinstance(a, int) else a
        if not 0 < len(options) <= MOST_OPTIONS:
            raise NotEnumerable(f"it chooses one of {len(options)} things")
        chances = [Fraction(1, len(options))] * len(options) if p is None else [float(one) for one in p]
        return options[self._draw(exact_distribution(chances, Where("choice")))]

    def random(self, size: Any = None, *others: Any, **more: Any) -> float:
        """Return a number from one of the intervals between the cuts."""
        if size is not None or others or more or not self._cuts:
            raise NotEnumerable("it draws real numbers (random); list what it compares them with as `cuts`")
        ends = [Fraction(0), *self._cuts, Fraction(1)]
        taken = self._draw(tuple(high - low for low, high in pairwise(ends)))
        return float((ends[taken] + ends[taken + 1]) / 2)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what copying asks for
            raise AttributeError(name)
        raise NotEnumerable(f"it asks chance for '{name}'")


def iter_scripts(cuts: Sequence[Fraction]) -> Iterator[Enumerating]:
    """Yield one generator after the other, until all scripts were gone through; use each before asking for the next."""
    script: list[int] = []
    for number in count():
        if number >= MOST_WAYS:
            raise NotEnumerable(f"chance can go more than {MOST_WAYS:,} ways")
        chance = Enumerating(script, cuts)
        yield chance
        draws = list(chance.draws)
        while draws and (following := _possible(draws[-1][1], draws[-1][0] + 1)) == len(draws[-1][1]):
            draws.pop()
        if not draws:
            return
        script = [taken for taken, _ in draws[:-1]] + [following]


def read_cuts(given: Sequence[Any]) -> tuple[Fraction, ...]:
    """Return the cuts, exact and in order: numbers strictly between 0 and 1."""
    try:
        cuts = sorted({Fraction(str(one)) for one in given})
    except ValueError:
        cuts = [Fraction(0)]
    if any(not 0 < one < 1 for one in cuts):
        raise InputError(f"{list(given)} are not numbers between 0 and 1.", Where("cuts"), "Write e.g. [0.1, '1/3'].")
    return tuple(cuts)


def _possible(chances: Sequence[Fraction], first: int) -> int:
    """Return the first option from there on that may be drawn; the number of options where there is none."""
    while first < len(chances) and chances[first] == 0:
        first += 1
    return first
