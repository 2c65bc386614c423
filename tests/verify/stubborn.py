"""A worker that ignores SIGTERM and never answers, except to say hello at setup."""

import signal
import time

from polvet.solvers.worker_loop import serve


def answer(question):
    if question == {"hello": True}:
        return {}
    if question == {"fall": True}:
        raise MemoryError("fell over")
    while True:
        time.sleep(1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve(answer)
