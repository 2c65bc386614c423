"""Which kinds of certificates prove a verdict; who asks for one names the verdict, or a kind."""

from __future__ import annotations

from collections.abc import Iterable

from polvet.check.checker import CHECKERS
from polvet.choices import one_of

PROVES: dict[str, tuple[str, ...]] = {
    "safe": ("safe-policy", "won-projection"), "unsafe": ("unsafe-rank", "lost-projection"),
    "safe policy": ("reachable-set", "invariant", "grid", "sure-end"), "unsafe policy": ("run", "livelock"),
    "safe region": ("safe-region",), "repaired policy": ("repair",),
    "safe risk": ("risk-bound",), "unsafe risk": ("risk-exceeds",),
    "strong-cyclic": ("strong-cyclic",), "not-strong-cyclic": ("no-strong-cyclic",),
    "permitted": ("permissive", "action-risk"), "impossible": ("conflict",),
    "terminating": ("lex-rank",), "nonterminating": ("lasso", "recurrent-set", "its-run"),
    "solved": ("solves",), "holds": ("general",), "refuted": ("general-refuted",),
    "goal-reaching": ("goal-reaching",), "goal-missed": ("goal-missed",),
}  # fmt: skip
"""The kinds of certificates that prove a verdict."""


def kinds_expected(words: Iterable[str], *, of_policy: bool) -> frozenset[str]:
    """Return the kinds of certificates that prove one of the words: a verdict (about the policy, where one is given), or a kind.

    >>> sorted(kinds_expected(["unsafe"], of_policy=True)), sorted(kinds_expected(["grid"], of_policy=True))
    (['livelock', 'run'], ['grid'])
    """
    verdicts = [word for word in PROVES if " " not in word]
    kinds: set[str] = set()
    for word in words:
        one_of(word, (*verdicts, *CHECKERS), "expect")
        verdict = f"{word} policy" if of_policy and f"{word} policy" in PROVES else word
        kinds.update(PROVES.get(verdict, (word,)))
    return frozenset(kinds)
