"""How far a long command has got: a line on the terminal (never elsewhere), and lines of JSON for `--log-json`.

Both are drawn from one `Meter`, which engines call with counts; a heartbeat adds seconds, memory, and the time that is left
where it can be known. A line of the log: {"event": "begin|progress|end", "command", "what", "seconds", "memory_mb", "counts"}.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from polvet.errors import InputError, Where
from polvet.system import interrupts_elsewhere, resident_bytes

BEAT, LOG_EVERY = 0.25, 1.0
NOTEBOOK = "JPY_PARENT_PID"
"""Set below a notebook's kernel, whose `!` is a terminal that cannot write over a line."""
Counts = dict[str, Any]


class Meter:
    """What a command is doing, and how much of it is done; engines call it with (done, known)."""

    def __init__(self, command: str, what: str, unit: str, known_total: bool) -> None:
        self.command, self.what, self.unit, self.known_total = command, what, unit, known_total
        self.begun = time.monotonic()
        self.counts: Counts = {}

    def __call__(self, done: int, known: int) -> None:
        """Take the counts of a kernel: done, of so many that are known (or that there are, where the total is known)."""
        self.counts |= {self.unit: done, "of" if self.known_total else "known": known}

    def tell(self, what: str | None = None, **counts: Any) -> None:
        """Take another word for what is being done, and counts or bounds by name."""
        if what is not None and what != self.what:
            self.what, self.counts = what, {}
        self.counts |= counts

    @property
    def seconds(self) -> float:
        """Return the time since the command began."""
        return time.monotonic() - self.begun

    @property
    def seconds_left(self) -> float | None:
        """Return how long it may still take, where the total is known."""
        done, total = self.counts.get(self.unit), self.counts.get("of")
        if not isinstance(done, int) or not isinstance(total, int) or not 0 < done <= total:
            return None
        return self.seconds * (total - done) / done

    def line(self) -> str:
        """Return the line for the terminal."""
        counts = dict(self.counts)
        parts = []
        if self.unit in counts:
            beside = next((f" {word} {counts.pop(word):,}" for word in ("of", "known") if word in counts), "")
            parts.append(f"{counts.pop(self.unit):,}{beside.replace(' known', ' of')} {self.unit}")
        parts += [f"{name.replace('_', ' ')} {_shown(value)}" for name, value in counts.items()]
        left = self.seconds_left
        parts.append(
            f"{self.seconds:.0f} s" + ("" if left is None or self.seconds < 1 else f", about {left:.0f} s left")
        )
        parts.append(f"{memory_mb():,} MB")
        return f"{self.what}: {'; '.join(parts)}"

    def record(self, event: str) -> Counts:
        """Return the line for the log."""
        left = self.seconds_left
        return {
            "event": event,
            "command": self.command,
            "what": self.what,
            "seconds": round(self.seconds, 3),
            "memory_mb": memory_mb(),
            "counts": dict(self.counts),
            **({} if left is None else {"seconds_left": round(left, 3)}),
        }


class Log:
    """A file of JSON lines, written line by line."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self._lock = threading.Lock()

    def write(self, record: Counts) -> None:
        """Append one record; whoever follows the file sees it at once."""
        with self._lock:
            self.stream.write(json.dumps(record, ensure_ascii=False, default=str) + "\n")
            self.stream.flush()


@contextmanager
def open_log(path: Path | None) -> Iterator[Log | None]:
    """Open the file of `--log-json`, if one is given; an earlier log is gone on with."""
    if path is None:
        yield None
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = path.open("a", encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror}).", Where(str(path)), "Choose another path for --log-json."
        ) from None
    with stream:
        yield Log(stream)


@contextmanager
def watching(
    command: str, what: str, log_json: Path | None = None, *, unit: str = "states", known_total: bool = False
) -> Iterator[Meter | None]:
    """Show and log how far the command has got; None where nobody looks: neither a terminal nor a log."""
    on_terminal = sys.stderr.isatty() and NOTEBOOK not in os.environ
    if not on_terminal and log_json is None:
        yield None
        return
    meter = Meter(command, what, unit, known_total)
    with ExitStack() as stack:
        log = stack.enter_context(open_log(log_json))
        show = stack.enter_context(_status_line(meter)) if on_terminal else None
        if log is not None:
            log.write(meter.record("begin"))
        stop = threading.Event()
        heart = threading.Thread(target=_beat, args=(meter, log, show, stop), name="polvet-progress", daemon=True)
        with interrupts_elsewhere():  # Ctrl-C is for the main thread
            heart.start()
        try:
            yield meter
        finally:
            stop.set()
            heart.join()
            if log is not None:
                log.write(meter.record("end"))


def _beat(meter: Meter, log: Log | None, show: Any, stop: threading.Event) -> None:
    logged = time.monotonic()
    while not stop.wait(BEAT):
        if show is not None:
            show(meter.line())
        if log is not None and time.monotonic() - logged >= LOG_EVERY:
            logged = time.monotonic()
            log.write(meter.record("progress"))


@contextmanager
def _status_line(meter: Meter) -> Iterator[Any]:
    from rich.console import Console
    from rich.markup import escape
    from rich.status import Status

    with Status(escape(f"{meter.what} ..."), console=Console(stderr=True)) as status:
        yield lambda text: status.update(escape(text))


def memory_mb() -> int:
    """Return the memory the process holds, in megabytes."""
    return resident_bytes() >> 20


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
