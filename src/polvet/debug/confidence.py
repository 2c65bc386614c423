"""Confidence intervals for sampled shares, valid for every sample size (no normal approximation).

Source   Clopper and Pearson, The use of confidence or fiducial limits, Biometrika 1934 (`binomial_interval`);
         Hoeffding, Probability inequalities for sums of bounded random variables, JASA 1963 (`mean_interval`)
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log, sqrt

import numpy as np

CONFIDENCE = 0.95


def binomial_interval(hits: int, tries: int) -> tuple[float, float]:
    """Return the Clopper-Pearson interval of a share of which `hits` among `tries` independent draws were seen.

    >>> low, high = binomial_interval(0, 100)
    >>> low, round(high, 4)
    (0.0, 0.0362)
    """
    if tries == 0:
        return 0.0, 1.0
    tail = (1 - CONFIDENCE) / 2
    low = 0.0 if hits == 0 else _solve(lambda p: 1 - _at_most(hits - 1, tries, p), tail, rising=True)
    high = 1.0 if hits == tries else _solve(lambda p: _at_most(hits, tries, p), tail, rising=False)
    return low, high


def mean_interval(mean: float, count: int) -> tuple[float, float]:
    """Return Hoeffding's interval of the expected mean of `count` independent numbers between 0 and 1.

    >>> [round(end, 3) for end in mean_interval(0.5, 1000)]
    [0.457, 0.543]
    """
    if count == 0:
        return 0.0, 1.0
    half = sqrt(log(2 / (1 - CONFIDENCE)) / (2 * count))
    return max(0.0, mean - half), min(1.0, mean + half)


def enough_draws(half: float) -> int:
    """Return how many independent numbers between 0 and 1 make Hoeffding's interval of their mean no wider than twice `half`.

    >>> enough_draws(0.01), mean_interval(0.5, 18445)[0] >= 0.49
    (18445, True)
    """
    return ceil(log(2 / (1 - CONFIDENCE)) / (2 * half * half))


def _at_most(hits: int, tries: int, p: float) -> float:
    """The probability of at most `hits` successes."""
    if p <= 0:
        return 1.0
    if p >= 1:
        return 0.0 if hits < tries else 1.0
    k = np.arange(hits + 1, dtype=np.float64)
    # log C(n, k) as a running sum of log((n - k + 1) / k).
    steps = np.concatenate([[0.0], np.log((tries - k[1:] + 1) / k[1:])]) if hits else np.zeros(1)
    logs = np.cumsum(steps) + k * log(p) + (tries - k) * np.log1p(-p)
    return float(min(1.0, np.exp(logs).sum()))


def _solve(function: Callable[[float], float], target: float, *, rising: bool) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if (function(middle) < target) == rising:
            low = middle
        else:
            high = middle
    return (low + high) / 2
