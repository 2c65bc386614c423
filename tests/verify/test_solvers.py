"""Outside solvers can hang or die, and polvet cannot: they run in processes that are killed."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from itertools import count, takewhile

import pytest

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.solvers.worker import SolverDied, SolverTimeout, Worker
from polvet.verify.linearized import stopped_after


@pytest.mark.slow
def test_a_worker_that_ignores_sigterm_is_killed_and_starts_anew():
    with Worker("tests.verify.stubborn", {"hello": True}) as worker:
        for _ in range(2):
            with pytest.raises(SolverTimeout):
                worker.ask({"think": True}, 1.5)
            assert worker._process is None
        with pytest.raises(SolverDied, match="fell over"):
            worker.ask({"fall": True}, 20)


@pytest.mark.slow
def test_a_killed_worker_leaves_no_process_behind():
    worker = Worker("tests.verify.stubborn", {"hello": True})
    with pytest.raises(SolverTimeout):
        worker.ask({"think": True}, 1.5)
    worker = Worker("polvet.solvers.z3_worker")
    answer = worker.ask({"query": "(declare-const x Int)(assert (> x 4))(assert (< x 6))", "values": ["x"]}, 60)
    assert answer == {"answer": "sat", "values": {"x": "5"}}
    assert worker._process is not None
    process = worker._process.pid
    worker.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_z3_takes_a_query_back_and_keeps_its_base():
    declared = "(declare-const x Int)"
    with Worker("polvet.solvers.z3_worker", {"base": f"{declared}(assert (> x 3))"}) as z3:
        assert z3.ask({"query": f"{declared}(assert (< x 3))"}, 60)["answer"] == "unsat"
        assert z3.ask({"query": f"{declared}(assert (< x 5))", "values": ["x"]}, 60)["values"] == {"x": "4"}


def test_reading_is_stopped_in_time_and_the_alarm_is_put_back():
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(LimitReached), stopped_after(Budget(0.05)):
        sum(takewhile(lambda number: number >= 0, count()))
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.setitimer(signal.ITIMER_REAL, 0) == (0.0, 0.0)
    with stopped_after(UNLIMITED):
        pass


def test_the_alarm_waits_for_the_clock_of_the_budget():
    now = [0.0]

    def work():
        time.sleep(0.3)  # by the budget's clock nothing has passed
        now[0] = 1.0
        sum(takewhile(lambda number: number >= 0, count()))

    with pytest.raises(LimitReached), stopped_after(Budget(0.05, clock=lambda: now[0]), 0.05):
        work()
    assert now == [1.0]


def test_a_time_limit_that_a_library_swallows_or_garbles_comes_again(monkeypatch):
    monkeypatch.setattr("polvet.verify.linearized.SWALLOWED", 0.05)

    def spin():
        sum(takewhile(lambda number: number >= 0, count()))

    def swallow():
        with suppress(LimitReached):
            spin()
        spin()

    def garble():
        try:
            spin()
        except LimitReached:
            raise TypeError("cannot compare") from None

    for work in (swallow, garble):
        with pytest.raises(LimitReached), stopped_after(Budget(0.05)):
            work()
