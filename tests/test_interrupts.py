"""Ctrl-C is heard although a library swallows it or makes another error of it."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from polvet.interrupts import noting


def press():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):  # the handler runs between two of these
        pass


def swallow():
    try:
        press()
    except KeyboardInterrupt:
        return
    raise AssertionError("no interrupt")


def garble():
    try:
        press()
    except KeyboardInterrupt:
        raise TypeError("cannot compare") from None


def test_a_plain_interrupt_is_one():
    with pytest.raises(KeyboardInterrupt), noting():
        press()


def test_a_swallowed_interrupt_is_heard_when_somebody_looks():
    with noting() as interrupts:
        interrupts.check()
        swallow()
        assert interrupts.came
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()


def test_an_error_after_an_interrupt_is_the_interrupt():
    with pytest.raises(KeyboardInterrupt), noting():
        garble()
    with pytest.raises(TypeError), noting():
        raise TypeError("without one")


def test_a_held_interrupt_comes_after_the_block():
    done = []

    def work(interrupts):
        with interrupts.held():
            press()
            done.append("all of it")
        done.append("and on")

    with noting() as interrupts, pytest.raises(KeyboardInterrupt):
        work(interrupts)
    assert done == ["all of it"]


def test_blocks_nest_and_leave_the_handler_as_it_was():
    before = signal.getsignal(signal.SIGINT)
    with noting() as outer:
        with noting() as inner:
            swallow()
        assert inner.came
        assert not outer.came
        swallow()
        assert outer.came
    assert signal.getsignal(signal.SIGINT) is before


def test_an_ignored_interrupt_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with noting() as interrupts:
            press()
        assert not interrupts.came
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_note_nothing():
    seen = []

    def work():
        with noting() as interrupts:
            seen.append(interrupts.came)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]
