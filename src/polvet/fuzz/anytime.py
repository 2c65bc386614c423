"""Confidence sequences for a share: intervals that hold at all times at once, so that one may look and stop when one likes.

Source   Robbins, Statistical methods related to the law of the iterated logarithm, 1970 (the mixture method), with a
         Beta(1/2, 1/2) mixture of Bernoulli likelihoods; Ville's inequality makes it valid at every stopping time:
         P(some n: p outside interval(n)) <= 1 - confidence
Needs    independent draws with the same probability
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf, lgamma, log, log1p

from polvet.errors import InputError, Where

CONFIDENCE = 0.95
PRIOR = 0.5


@dataclass(frozen=True, slots=True)
class Share:
    """So many hits among so many draws, and what may be said about the share behind them at this moment."""

    hits: int = 0
    draws: int = 0
    confidence: float = CONFIDENCE

    def seen(self, hits: int, draws: int) -> Share:
        """Return the share after more draws."""
        return Share(self.hits + hits, self.draws + draws, self.confidence)

    @property
    def mean(self) -> float:
        """Return the observed share."""
        return self.hits / self.draws if self.draws else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Return the interval that holds now and, with the same confidence, held at every moment before.

        >>> low, high = Share(0, 1000).interval
        >>> low, round(high, 4)
        (0.0, 0.007)
        """
        if self.draws == 0:
            return 0.0, 1.0
        low = 0.0 if self.hits == 0 else self._edge(0.0, self.mean)
        high = 1.0 if self.hits == self.draws else self._edge(1.0, self.mean)
        return low, high

    @property
    def width(self) -> float:
        """Return the width of the interval."""
        low, high = self.interval
        return high - low

    def _edge(self, outside: float, inside: float) -> float:
        # SOUND: the evidence against p is convex in p and least at the mean, so bisection keeps `outside` refuted.
        for _ in range(60):
            middle = (outside + inside) / 2
            if self._evidence(middle) >= -log(1 - self.confidence):
                outside = middle
            else:
                inside = middle
        return outside

    def _evidence(self, p: float) -> float:
        """Log of the mixture's likelihood over that of p: a martingale that starts at 1 if p is the truth."""
        hits, misses = self.hits, self.draws - self.hits
        if (p <= 0 and hits) or (p >= 1 and misses):
            return inf
        mixture = lgamma(hits + PRIOR) + lgamma(misses + PRIOR) - lgamma(self.draws + 2 * PRIOR)
        mixture -= 2 * lgamma(PRIOR) - lgamma(2 * PRIOR)
        likelihood = (hits * log(p) if hits else 0.0) + (misses * log1p(-p) if misses else 0.0)
        return mixture - likelihood


@dataclass(frozen=True, slots=True)
class StopRule:
    """When to stop looking: the width of the interval of %Unsafe falls below a number."""

    width: float

    def holds(self, share: Share) -> bool:
        """Return whether it is time to stop."""
        return share.draws > 0 and share.width < self.width


def parse_stop_rule(text: str) -> StopRule:
    """Return the rule written as `width<0.01`.

    >>> parse_stop_rule("width < 0.01")
    StopRule(width=0.01)
    """
    match = re.fullmatch(r"\s*width\s*<\s*([0-9]*\.?[0-9]+(?:e-?[0-9]+)?)\s*", text)
    if match is None or not 0 < float(match[1]) <= 1:
        raise InputError(f"'{text}' is no rule.", Where("--stop-when"), "Write width<0.01.")
    return StopRule(float(match[1]))
