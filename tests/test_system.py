"""What systems do differently: both answers, the one of this machine and the one of a machine that lacks a part."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from polvet import system
from polvet.budget import Budget
from polvet.errors import LimitReached
from polvet.records.journal import Journal
from polvet.solvers.worker import SolverDied, Worker
from polvet.verify.linearized import stopped_after

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="here Linux plays the other systems")
SOURCE = Path(system.__file__).parent
MISSING_SOMEWHERE = {
    "resource",
    "fcntl",
    "select",
    "termios",
    "pwd",
    "grp",
    "msvcrt",
    "winreg",
    "pty",
    "multiprocessing",
}
NAMES = {
    "setitimer", "alarm", "sysconf", "fork", "forkpty", "pthread_sigmask", "SIGALRM", "SIGKILL", "SIGHUP", "SIGUSR1",
    "killpg", "setsid", "getuid", "geteuid", "getppid", "sched_getaffinity", "uname", "mkfifo", "preexec_fn", "windll",
    "WinDLL", "start_new_session", "pass_fds", "nice", "getloadavg", "getpagesize",
}  # fmt: skip


def unportable(file: Path) -> list[str]:
    """What the file names that Linux, macOS or Windows lacks."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in MISSING_SOMEWHERE]
        elif isinstance(node, ast.ImportFrom):
            found += [node.module] if (node.module or "").split(".")[0] in MISSING_SOMEWHERE else []
            found += [alias.name for alias in node.names if alias.name in NAMES]
        elif isinstance(node, ast.Attribute) and node.attr in NAMES and isinstance(node.value, ast.Name):
            found += [f"{node.value.id}.{node.attr}"] if node.value.id in ("os", "signal", "ctypes") else []
        elif isinstance(node, ast.keyword) and node.arg in NAMES:
            found.append(node.arg)
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(("/proc", "/dev/"))
        ):
            found.append(node.value)
    return found


def test_one_file_alone_names_what_a_system_may_lack():
    assert unportable(SOURCE / "system.py"), "the search finds what is there"
    files = [file for file in sorted(SOURCE.rglob("*.py")) if file.name != "system.py"]
    assert {str(file): unportable(file) for file in files if unportable(file)} == {}


def test_text_files_are_read_and_written_in_one_encoding():
    """Windows would take its own: every file is opened as bytes or with an encoding."""
    careless = []
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in ("read_text", "write_text") and not node.keywords and len(node.args) < 2:
                    careless.append(f"{file}:{node.lineno}")
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
                modes = [a.value for a in node.args[1:2] if isinstance(a, ast.Constant)]
                if not any("b" in mode for mode in modes) and "encoding" not in {k.arg for k in node.keywords}:
                    careless.append(f"{file}:{node.lineno}")
    assert careless == []


def test_memory_is_counted_here():
    before = system.resident_bytes()
    block = bytearray(200 << 20)
    block[:: 1 << 12] = b"x" * len(block[:: 1 << 12])
    assert 150 << 20 <= system.resident_bytes() - before <= 300 << 20
    assert system.resident_bytes() < system.physical_bytes()


def test_memory_is_the_peak_where_there_is_no_proc(monkeypatch):
    held = system.resident_bytes()

    def absent(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", absent)
    assert held * 0.9 <= system.resident_bytes() <= system.physical_bytes()


def test_windows_is_asked_where_there_is_no_resource(monkeypatch):
    """Its two calls are played by functions that fill in the documented structures."""
    import ctypes
    import struct

    class Kernel32:
        class GetCurrentProcess:
            restype = None

            def __call__(self) -> int:
                return -1

        class Counters:
            argtypes = None

            def __call__(self, process, into, size) -> int:
                assert (process, size, struct.unpack_from("I", into)[0]) == (-1, 72, 72)
                struct.pack_into("IIQQ", into, 0, 72, 5, 9 << 20, 7 << 20)
                return 1

        def __init__(self):
            self.GetCurrentProcess, self.K32GetProcessMemoryInfo = self.GetCurrentProcess(), self.Counters()

        def GlobalMemoryStatusEx(self, into) -> int:
            assert struct.unpack_from("I", into)[0] == 64
            struct.pack_into("IIQ", into, 0, 64, 50, 16 << 30)
            return 1

    def absent(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(ctypes, "WinDLL", lambda name: Kernel32(), raising=False)
    monkeypatch.setattr(Path, "read_text", absent)
    monkeypatch.setattr(system, "resource", None)
    monkeypatch.delattr(system.os, "sysconf")
    assert system.resident_bytes() == 7 << 20
    assert system.physical_bytes() == 16 << 30


SYSTEMS = {
    "this machine": "",
    "no resource": "system.resource = None",
    "macOS": "system._keeps_address_limits = lambda: False",
}


@pytest.mark.parametrize("absent", SYSTEMS.values(), ids=SYSTEMS)
def test_a_block_that_takes_too_much_memory_ends(absent):
    program = f"""
from polvet import system
{absent}
taken = []
try:
    with system.memory_limited(400):
        while len(taken) < 2000:
            taken.append(bytes(bytearray(b"x" * (1 << 20))))
except MemoryError:
    print("refused", 100 < len(taken) < 2000)
taken.clear()
with system.memory_limited(None):
    print(len(bytes(bytearray(500 << 20))) >> 20)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert ended.stdout.split() == ["refused", "True", "500"], ended.stderr


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_process_that_takes_too_much_memory_ends(name):
    program = f"""
import time
from polvet import system
{SYSTEMS[name]}
system.limit_memory_for_good(400)
taken = [bytes(bytearray(b"x" * (1 << 20))) for _ in range(800)]
time.sleep(60)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=50)
    assert ended.returncode == (1 if name == "this machine" else system.OVER_LIMIT)


@pytest.mark.parametrize("ringing", [system._timer_ringing, system._thread_ringing])
def test_an_alarm_rings_until_the_block_ends(ringing, monkeypatch):
    monkeypatch.setattr(system, "ringing", ringing)
    monkeypatch.setattr("polvet.verify.linearized.ringing", ringing)
    heard: list[int] = []
    before = signal.getsignal(signal.SIGALRM)
    with ringing(lambda number, frame: heard.append(number), 0.01, 0.01):
        until = time.monotonic() + 20
        while len(heard) < 3 and time.monotonic() < until:
            time.sleep(0.01)
    rung = len(heard)
    assert rung >= 3
    time.sleep(0.1)
    assert len(heard) == rung
    assert signal.getsignal(signal.SIGALRM) is before
    with pytest.raises(LimitReached), stopped_after(Budget(0.05)):
        sum(1 for _ in iter(int, 1))


@pytest.mark.parametrize("ringing", [system._timer_ringing, system._thread_ringing])
def test_an_alarm_can_be_put_off(ringing):
    heard: list[int] = []
    with ringing(lambda number, frame: heard.append(number), 0.2, 0.2) as pace:
        pace(3600.0)
        time.sleep(0.5)
    assert heard == []


def test_a_file_is_locked_for_one_stream(tmp_path):
    with open(tmp_path / "file", "a+b") as first, open(tmp_path / "file", "a+b") as second:
        assert system.lock(first)
        assert not system.lock(second)
    with open(tmp_path / "file", "a+b") as third:
        assert system.lock(third)


def test_windows_locks_a_byte_behind_the_end(tmp_path, monkeypatch):
    """Played by a record lock of POSIX, which is like it in what counts: one byte, far behind the end."""
    import fcntl
    import os
    from types import SimpleNamespace

    taken = []

    def locking(descriptor: int, mode: int, count: int) -> None:
        taken.append((os.lseek(descriptor, 0, os.SEEK_CUR), count))
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, count, 0, os.SEEK_CUR)

    monkeypatch.setattr(system, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
    with Journal(tmp_path / "journal") as journal:
        journal.append({"a": 1})
        assert taken == [(system.LOCKED_BYTE, 1)]
    with Journal(tmp_path / "journal") as journal:
        assert journal.records == [{"a": 1}]
    assert (tmp_path / "journal").stat().st_size < 100


@pytest.mark.parametrize("selected", [True, False])
def test_a_pipe_is_read_without_waiting_longer_than_asked(selected, monkeypatch):
    monkeypatch.setattr(system, "PIPES_CAN_BE_SELECTED", selected)
    program = r"import os, sys; os.write(1, b'one\n'); sys.stdin.read(1); os.write(1, b'two\n')"
    asked = [sys.executable, "-c", program]
    with subprocess.Popen(asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        pipe = system.Pipe(process.stdout)
        assert pipe.read(60) == b"one\n"
        assert pipe.read(0.05) is None
        process.stdin.write(b".")
        process.stdin.flush()
        assert pipe.read(60) == b"two\n"
        assert pipe.read(60) == b""


def test_a_worker_above_its_memory_dies_where_the_system_keeps_no_limit(tmp_path, monkeypatch):
    (tmp_path / "greedy_worker.py").write_text(
        "from polvet import system\nsystem._keeps_address_limits = lambda: False\n"
        "from polvet.solvers.worker_loop import serve\n"
        "def answer(n):\n    import time\n    held = b'x' * (n << 20)\n    time.sleep(0.5)\n    return len(held)\n"
        "serve(answer)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Worker("greedy_worker", megabytes=300) as worker:
        assert worker.ask(1, 60) == 1 << 20
        with pytest.raises(SolverDied):
            worker.ask(600, 60)


def test_threads_that_hear_no_interrupt_start_where_there_is_no_mask(monkeypatch):
    with system.interrupts_elsewhere():
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, set())
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, set())
    monkeypatch.delattr(signal, "pthread_sigmask")
    with system.interrupts_elsewhere():
        assert not hasattr(signal, "pthread_sigmask")
