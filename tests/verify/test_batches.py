"""A batch of questions has the answers of one thread that asks them one by one, whoever answers; so have the methods that ask them."""

from __future__ import annotations

import os
import pickle
import random
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, replace

import pytest

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError
from polvet.policy.compiled import compile_policy
from polvet.symbolic.cells import Cell, cell_of, row_of
from polvet.symbolic.linear import Reader
from polvet.verify import box_system
from polvet.verify import engine as engine_module
from polvet.verify.abstraction import ABSTRACTION
from polvet.verify.box_system import BoxData, Packed, Parallelism, RemoteQuestion, answer_remotely
from polvet.verify.engine import ANYTHING, Answer, Engine
from polvet.verify.ic3 import IC3
from polvet.verify.induction import INDUCTION
from polvet.verify.linearized import linearized
from polvet.verify.method import Request
from polvet.verify.projection import PROJECTION
from polvet.verify.verdicts import Safe, Unknown
from polvet.workers.protocol import Here
from tests.verify.cases import CASES, fitted_case
from tests.verify.test_engine import larger_fitted, random_box, random_fitted

THREADS = 3
QUICK = 0.3
"""Seconds: what takes longer alone is not compared."""


@dataclass
class Elsewhere:
    """Workers that see nothing but bytes."""

    asked: int = 0

    def map(self, function, shared, chunks, *, budget=UNLIMITED):
        def travelled(one, other):
            self.asked += 1
            return function(*pickle.loads(pickle.dumps((one, other))))

        yield from (pickle.loads(pickle.dumps(r)) for r in Here().map(travelled, shared, chunks, budget=budget))


@pytest.fixture
def few_nodes_here(monkeypatch):
    monkeypatch.setattr(engine_module, "NODES_HERE", 2)


@pytest.fixture
def eager(monkeypatch):
    """Threads are called at once, and boxes are bounded however small they are."""
    plain = BoxData.kernel

    def kernel(data):
        made = plain(data)
        made.enumerated, made.alone = 1, 0.0
        return made

    monkeypatch.setattr(BoxData, "kernel", kernel)
    box_system._opened.cache_clear()
    yield
    box_system._opened.cache_clear()


def told(replies):
    return [(reply.answer, reply.state, reply.step, reply.nodes) for reply in replies]


def random_questions(engine, rng, count=20):
    bounds = engine.linear.system.bounds
    outputs = len(engine.fitted.policy.outputs)
    return [
        ([Cell(random_box(rng, bounds)) for _ in range(rng.randint(0, 3))], rng.randrange(-1, outputs))
        for _ in range(count)
    ]


@pytest.mark.threads
@pytest.mark.parametrize("seed", range(40))
def test_threads_and_workers_answer_as_one_does_one_by_one(seed, few_nodes_here, eager):
    fitted = random_fitted(seed)
    if fitted is None:
        return
    elsewhere = Elsewhere()
    one, several, far = (
        Engine(fitted, seed=seed, parallelism=parallelism)
        for parallelism in (Parallelism(), Parallelism(THREADS), Parallelism(2, elsewhere))
    )
    questions = random_questions(one, random.Random(seed))
    alone = [one.find(region, output) for region, output in questions]
    assert told(several.find_all(questions)) == told(alone)
    assert [(r.answer, r.state) for r in far.find_all(questions)] == [(r.answer, r.state) for r in alone]
    first = next((k for k, reply in enumerate(alone) if reply.answer == Answer.YES), len(alone) - 1)
    for engine in (one, several, far):
        found = engine.find_all(questions, until_yes=True)
        assert [(r.answer, r.state) for r in found] == [(r.answer, r.state) for r in alone[: first + 1]]
    for nodes in (1, 3, 8):
        assert told(several.find_all(questions, nodes=nodes)) == told([one.find(*q, nodes=nodes) for q in questions])


@pytest.mark.threads
@pytest.mark.parametrize("seed", range(40))
def test_the_first_step_into_a_target_is_the_one_that_is_found_one_by_one(seed, few_nodes_here, eager):
    fitted = random_fitted(seed)
    if fitted is None:
        return
    engines = [
        Engine(fitted, seed=seed, parallelism=parallelism)
        for parallelism in (Parallelism(), Parallelism(THREADS), Parallelism(2, Elsewhere()))
    ]
    rng = random.Random(seed)
    bounds = engines[0].linear.system.bounds
    for _ in range(6):
        blocked, hole = random_box(rng, bounds), random_box(rng, bounds)
        targets = [random_box(rng, bounds) for _ in range(4)]
        for engine in engines:
            engine.core.unblock_all()
            engine.block(blocked)
        expected = None
        for k, target in enumerate(targets):
            reply = engines[0].find_step_into(target, without_boxes=[hole])
            if reply.answer != Answer.NO:
                expected = k, reply.answer, reply.state, reply.step
                break
        for engine in engines[1:]:
            first, reply = engine.find_first_step(targets, without_boxes=[hole])
            found = None if reply.answer == Answer.NO else (first, reply.answer, reply.state, reply.step)
            assert found == expected
            assert engine.questions == engines[0].questions
            assert engine._order == engines[0]._order


def result_of(found):
    """What a verdict says, without what it cost."""
    kept = {key: value for key, value in found.figures.items() if "seconds" not in key}
    if isinstance(found, Unknown):
        return found.verdict, found.reason, kept, found.proved_starts, found.tie
    return found.verdict, found.certificate if isinstance(found, Safe) else found.run, kept


METHODS = (PROJECTION, INDUCTION, IC3, ABSTRACTION)


@pytest.mark.threads
@pytest.mark.parametrize("kind", ["network", "trees"])
@pytest.mark.slow
def test_methods_say_the_same_with_threads_and_workers(kind, few_nodes_here, eager):
    compared, asked = Counter(), 0
    for case in CASES:
        bound = compile_policy(fitted_case(case, kind, "filtered", 0)[0])
        linear = linearized(bound, Budget(1))
        for method in METHODS if not isinstance(linear, str) else ():
            begun = time.monotonic()
            alone = method(bound, Request(Budget(seconds=QUICK), linear=linear))
            if time.monotonic() - begun > QUICK:
                continue
            compared[method.name] += 1
            several = method(bound, Request(linear=linear, parallelism=Parallelism(THREADS)))
            assert result_of(several) == result_of(alone), (case, method.name)
            elsewhere = Elsewhere()
            far = method(bound, Request(linear=linear, parallelism=Parallelism(2, elsewhere)))
            assert result_of(far)[:2] == result_of(alone)[:2], (case, method.name)
            asked += elsewhere.asked
    assert set(compared) == {method.name for method in METHODS}
    assert asked


def test_lazy_abstraction_says_the_same_again():
    case = next(case for case in CASES if case[0] == "janitor")
    bound = compile_policy(fitted_case(case, "trees", "filtered", 0)[0])
    linear = linearized(bound, Budget(60))
    first, *others = (result_of(ABSTRACTION(bound, Request(linear=linear))) for _ in range(8))
    assert first[2]["refinements"] > 1
    assert others == [first] * 7


def hard_question(fitted):
    """No integers satisfy it (the sum is odd and even), but bounds alone do not say so."""
    whole = Reader(fitted.task.network).whole
    rows = [row_of({0: 1} | {k: 2 for k in range(1, 24)}, 701, 701), row_of({0: 1, 1: -2}, 0, 0)]
    return [cell_of(whole.box, rows)], ANYTHING


@pytest.mark.threads
@pytest.mark.parametrize("threads", [THREADS, 1])
def test_a_batch_ends_at_its_limits_and_with_ctrl_c(threads):
    fitted = larger_fitted(0, variables=24, top=30, hidden=(8, 8))
    engine = Engine(fitted, parallelism=Parallelism(threads))
    questions = [hard_question(fitted)] * 8
    assert all(reply.nodes <= 101 for reply in engine.find_all(questions, nodes=100))
    replies = engine.find_all(questions, budget=Budget(0.2))
    assert [reply.answer for reply in replies] == [Answer.UNKNOWN] * 8
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        engine.find_all(questions, budget=Budget(60.0))
    timer.join()


def test_workers_out_of_time_leave_questions_open():
    fitted = larger_fitted(0, variables=24, top=30, hidden=(8, 8))
    elsewhere = Elsewhere()
    engine = Engine(fitted, parallelism=Parallelism(2, elsewhere))
    replies = engine.find_all([hard_question(fitted)] * 3, budget=Budget(0.5))
    assert [reply.answer for reply in replies] == [Answer.UNKNOWN] * 3
    assert elsewhere.asked


def test_workers_of_another_version_are_refused():
    packed = replace(Packed.of(Engine(random_fitted(1)).data), version="0.0.0")
    with pytest.raises(InputError, match="Install the same version"):
        answer_remotely(packed, RemoteQuestion("find", ()))
