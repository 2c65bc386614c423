"""What systems do differently, each with an answer for Linux, macOS and Windows: memory, locks, alarms, pipes, signals.

No other file names a part of the standard library, or of the file system, that one of the three lacks.
"""

from __future__ import annotations

import os
import queue
import select
import signal
import struct
import sys
import threading
import time
from _thread import interrupt_main
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any

try:
    import fcntl
    import resource
except ImportError:  # Windows
    fcntl = resource = None  # type: ignore[assignment]

LOCKED_BYTE = 0x7FFFFFFE  # far behind the end of any file locked here: Windows refuses others what is locked
LOOK_AT_MEMORY = 0.1  # seconds between two looks, where no system keeps the limit
OVER_LIMIT = 137  # the exit code of a process above its limit; what a shell reports of a killed one
PIPES_CAN_BE_SELECTED = os.name != "nt"  # Windows selects sockets alone
WHOLE_PIECE = 1 << 16

Handler = Callable[[int, FrameType | None], None]


def resident_bytes() -> int:
    """Return the memory that the process holds; where only its peak is known (macOS), the peak."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        pass
    if resource is not None:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return _windows_resident_bytes()


def address_bytes() -> int:
    """Return the addresses that the process has taken, held in memory or not; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def physical_bytes() -> int:
    """Return the memory that the machine has."""
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return _windows_physical_bytes()


@contextmanager
def memory_limited(megabytes: int | None) -> Iterator[None]:
    """Raise a MemoryError in the block once the process holds so much more than where it begins, where there is a way to.

    Where the system keeps no such limit an alarm looks after it, and alarms are for the main thread alone.
    """
    if megabytes is None:
        yield
    elif _keeps_address_limits():
        before = resource.getrlimit(resource.RLIMIT_AS)
        most = address_bytes() + (megabytes << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most if before[1] < 0 else min(most, before[1]), before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
    elif threading.current_thread() is not threading.main_thread():
        yield
    else:
        most = resident_bytes() + (megabytes << 20)

        def look(number: int, frame: FrameType | None) -> None:
            if resident_bytes() > most:
                raise MemoryError

        with ringing(look, LOOK_AT_MEMORY, LOOK_AT_MEMORY):
            yield


def limit_memory_for_good(megabytes: int) -> None:
    """Let no more be allocated until the process ends; where the system has no such limit, the process ends above it."""
    if _keeps_address_limits():
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, resource.RLIM_INFINITY))
        return

    def watch() -> None:
        while resident_bytes() <= megabytes << 20:
            threading.Event().wait(LOOK_AT_MEMORY)
        os._exit(OVER_LIMIT)

    threading.Thread(target=watch, name="polvet-memory", daemon=True).start()


def lock(stream: IO[bytes]) -> bool:
    """Take the file for this stream alone until it is closed; False where another stream has it."""
    try:
        if fcntl is not None:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            _windows_lock(stream)
    except OSError:
        return False
    return True


@contextmanager
def ringing(handler: Handler, after: float, again: float) -> Iterator[Callable[[float], None]]:
    """Call the handler in the main thread after so many seconds, then again and again, until the block ends.

    What the handler raises, the block raises. The yielded function sets the seconds until the next call and between later ones.
    Call it in the main thread only. An alarm that was set before is kept waiting.
    """
    keeper = _timer_ringing if hasattr(signal, "setitimer") else _thread_ringing
    with keeper(handler, after, again) as pace:
        yield pace


@contextmanager
def interrupts_elsewhere() -> Iterator[None]:
    """Start threads in the block to which the system will not deliver Ctrl-C. On Windows it never does."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Pipe:
    """What another process writes, read piece by piece without waiting longer than asked."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._descriptor = stream.fileno()
        self._pieces: queue.SimpleQueue[bytes] | None = None
        if not PIPES_CAN_BE_SELECTED:
            self._pieces = queue.SimpleQueue()
            threading.Thread(target=self._collect, name="polvet-pipe", daemon=True).start()

    def read(self, seconds: float | None) -> bytes | None:
        """Return the next piece, b"" at the end, or None where nothing came within the seconds."""
        if self._pieces is None:
            ready, _, _ = select.select([self._descriptor], [], [], seconds)
            return os.read(self._descriptor, WHOLE_PIECE) if ready else None
        try:
            return self._pieces.get(timeout=seconds)
        except queue.Empty:
            return None

    def _collect(self) -> None:
        assert self._pieces is not None
        piece = b"more"
        while piece:
            try:
                piece = os.read(self._descriptor, WHOLE_PIECE)
            except OSError:  # closed by whoever killed the process
                piece = b""
            self._pieces.put(piece)


def _keeps_address_limits() -> bool:
    """Whether the system holds a process to a limit of its address space; macOS has the call but does not."""
    return resource is not None and sys.platform != "darwin"


@contextmanager
def _timer_ringing(handler: Handler, after: float, again: float) -> Iterator[Callable[[float], None]]:
    begun = time.monotonic()
    before = signal.signal(signal.SIGALRM, handler)
    waiting, afterwards = signal.setitimer(signal.ITIMER_REAL, after, again)

    def pace(seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds, seconds)

    try:
        yield pace
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if waiting:
            signal.setitimer(signal.ITIMER_REAL, max(waiting - (time.monotonic() - begun), 1e-3), afterwards)


@contextmanager
def _thread_ringing(handler: Handler, after: float, again: float) -> Iterator[Callable[[float], None]]:
    """Ring by a thread that raises a signal nobody else uses: SIGBREAK is Windows' own, SIGALRM stands in for it elsewhere."""
    number: signal.Signals = getattr(signal, "SIGBREAK", None) or signal.SIGALRM
    before = signal.signal(number, handler)
    changed, ended = threading.Event(), False
    wait, then = after, again

    def pace(seconds: float) -> None:
        nonlocal wait, then
        wait = then = seconds
        changed.set()

    def ring() -> None:
        nonlocal wait
        while not ended:
            if changed.wait(wait):
                changed.clear()
            elif not ended:
                wait = then
                interrupt_main(number)

    bell = threading.Thread(target=ring, name="polvet-alarm", daemon=True)
    bell.start()
    try:
        yield pace
    finally:
        ended = True
        changed.set()
        bell.join()
        signal.signal(number, before)


def _windows_lock(stream: IO[bytes]) -> None:
    import msvcrt

    windows: Any = msvcrt
    place = stream.tell()
    stream.seek(LOCKED_BYTE)
    try:
        windows.locking(stream.fileno(), windows.LK_NBLCK, 1)
    finally:
        stream.seek(place)


def _windows_resident_bytes() -> int:
    """Ask for PROCESS_MEMORY_COUNTERS: two words of 4 bytes, eight of 8; the second of those is the working set."""
    import ctypes

    kernel32, counters = _kernel32(), ctypes.create_string_buffer(72)
    kernel32.GetCurrentProcess.restype = ctypes.c_void_p
    kernel32.K32GetProcessMemoryInfo.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32]
    struct.pack_into("I", counters, 0, len(counters))
    if not kernel32.K32GetProcessMemoryInfo(kernel32.GetCurrentProcess(), counters, len(counters)):
        raise OSError("the system does not say how much memory the process holds")
    return int(struct.unpack_from("Q", counters, 16)[0])


def _windows_physical_bytes() -> int:
    """Ask for MEMORYSTATUSEX: two words of 4 bytes, seven of 8; the first of those is the memory of the machine."""
    import ctypes

    status = ctypes.create_string_buffer(64)
    struct.pack_into("I", status, 0, len(status))
    if not _kernel32().GlobalMemoryStatusEx(status):
        raise OSError("the system does not say how much memory there is")
    return int(struct.unpack_from("Q", status, 8)[0])


def _kernel32() -> Any:
    import ctypes

    windows: Any = ctypes
    return windows.WinDLL("kernel32")
