"""Every field of every kind, changed in every way of `fields.py`: how often a checker was tried there, and what it accepted.

- True claims about tiny worlds: each with its fields changed is handed in for its own world and for siblings of it, and what is accepted
  must say nothing false of them (`claims.py`).
- False claims of the other kinds (plans, systems, problems, real numbers): each stays false with any field changed but those that say
  what it is about (`ABOUT`).
- The certificates of `tests/check/kinds.py`, one of every kind: no change of a field may break a checker.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from polvet.budget import Budget
from polvet.check.checker import Accepted, Subjects, check
from polvet.errors import InputError, LimitReached, Where
from tests.attack.claims import FACTS, facts_of, truth
from tests.attack.cross import digests_of, said_of, sibling
from tests.attack.fields import mutants
from tests.attack.strike import KINDS
from tests.attack.tiny import random_tiny

ABOUT = {
    "general": ("domain", "problems"),
    "general-refuted": ("domain", "problem"),
    "goal-missed": ("goal", "start", "fmp"),
    "goal-reaching": ("goal", "start", "fmp"),
    "lasso": ("start", "fmp"),
    "lex-rank": ("start", "fmp"),
    "recurrent-set": ("start", "fmp"),
}
"""Fields that say what a claim of this kind is about: with another one it may be true."""
SECONDS = 5.0
"""That a checker may take; a claim that takes longer is not accepted."""


@dataclass
class Tried:
    """By kind and field: changes tried, and those that were accepted and are true; and everything that is wrong."""

    tried: Counter = field(default_factory=Counter)
    true: Counter = field(default_factory=Counter)
    wrong: list = field(default_factory=list)

    def add(self, other):
        """Count what another tried, too."""
        self.tried += other.tried
        self.true += other.true
        self.wrong += other.wrong

    def count_all(self):
        return sum(self.tried.values())

    def rows(self):
        found: dict = {}
        for (kind, name), tried in sorted(self.tried.items()):
            found.setdefault(kind, {})[name] = {"tried": tried, "accepted_and_true": self.true[kind, name]}
        return found

    def count(self, kind, name, *, true=False):
        (self.true if true else self.tried)[kind, name] += 1


def judged(certificate, subjects):
    """Whether it is accepted; an exception where the checker breaks."""
    try:
        return isinstance(check(certificate, replace(subjects, budget=Budget(SECONDS)), Where("claim")), Accepted)
    except (InputError, LimitReached):
        return False
    except Exception as error:
        return error


def attack_tiny(seeds, tried, *, most=3, siblings=2, kinds=None, until_wrong=False):
    """Change all fields of certificates about tiny worlds, at most so many of each kind."""
    made: dict = defaultdict(int)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for seed in seeds:
            rng = random.Random(seed)
            tiny = random_tiny(rng)
            files = tiny.save(Path(folder))
            worlds = [(tiny, files)]
            for k in range(siblings):
                other = sibling(rng, tiny)
                worlds.append((other, other.save(Path(folder), f"sibling{k}")))
            for certificate in said_of(rng, tiny, *files):
                kind = certificate["kind"]
                if made[kind] >= most or (kinds is not None and kind not in kinds):
                    continue
                made[kind] += 1
                for world, paths in worlds:
                    _attack_one(rng, world, paths, certificate, tried, f"seed {seed}")
                    if until_wrong and tried.wrong:
                        return made
    return made


def _attack_one(rng, world, files, certificate, tried, name):
    digests = {key: one for key, one in digests_of(*files).items() if certificate.get(key) is not None}
    about = {**certificate, **digests}
    subjects = Subjects(files[0], files[1] if "policy_sha256" in digests else None)
    for changed, how, forged in [("(none)", "as it is", about), *mutants(about, rng=rng)]:
        answer = judged(forged, subjects)
        tried.count(about["kind"], changed)
        if isinstance(answer, Exception):
            tried.wrong.append(f"{name}: {about['kind']}, {changed} {how}: {type(answer).__name__}: {answer}")
        elif answer and (false := _false_facts(world, {**forged, "#task": files[0]})):
            tried.wrong.append(f"{name}: {about['kind']}, {changed} {how}: accepted, yet false: {false[0]}")
        elif answer:
            tried.count(about["kind"], changed, true=True)


def _false_facts(world, certificate):
    false = []
    for fact in facts_of(world, certificate):
        known = truth(world, fact.quantity)
        if known is not None and not fact.holds(*map(Fraction, known)):
            false.append(f"{fact}, but it is {known}")
    return false


def attack_false(kind, seeds, tried, *, most=6):
    """Change the fields of false claims that say nothing about what they are about: none may be accepted."""
    made = 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for seed in seeds:
            for certificate, subjects, context in KINDS[kind](random.Random(seed), Path(folder)):
                if made >= most:
                    return
                made += 1
                for changed, how, forged in mutants(certificate, rng=random.Random(seed)):
                    if changed.split(".")[0].removesuffix("[]") in ABOUT.get(kind, ()):
                        continue
                    with context:
                        answer = judged(forged, subjects)
                    tried.count(kind, changed)
                    if answer is not False:
                        tried.wrong.append(f"seed {seed}: {kind}, {changed} {how}: {answer}")


def attack_true(certificates, tried):
    """Change the fields of one true certificate of each kind (words after `certify`): no checker may break."""
    for kind, words in certificates.items():
        options = dict(zip(words[1::2], words[2::2], strict=True))
        subjects = Subjects(
            *(None if path is None else Path(path) for path in (options.get("--task"), options.get("--policy"))),
            options=None,
        )
        document = json.loads(Path(words[0]).read_text())
        for changed, how, forged in mutants(document, rng=random.Random(1)):
            tried.count(kind, changed)
            answer = judged(forged, subjects)
            if isinstance(answer, Exception):
                tried.wrong.append(f"{kind}, {changed} {how}: {type(answer).__name__}: {answer}")


OTHERS = sorted(KINDS.keys() - FACTS.keys())
"""Kinds whose false claims stay false."""
WORLDS_AT_ONCE = 40


def pieces_of(seed, *, pieces=6):
    """What `attack_all` is asked to do, piece by piece."""
    worlds = range(seed, seed + WORLDS_AT_ONCE * pieces)
    return [*("true", *OTHERS), *(worlds[k : k + WORLDS_AT_ONCE] for k in range(0, len(worlds), WORLDS_AT_ONCE))]


def attack_all(piece):
    """Return what a piece of the whole attack found."""
    tried = Tried()
    if piece == "true":
        from tests.check.kinds import make_all

        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            with contextlib.redirect_stdout(io.StringIO()):
                certificates = make_all(Path(folder))
            attack_true(certificates, tried)
    elif isinstance(piece, str):
        attack_false(piece, range(1_000), tried, most=5)
    else:
        attack_tiny(piece, tried, most=1)
    return tried
