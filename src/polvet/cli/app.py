"""The application: finds the command, runs it, and turns every ending into one of the documented exit codes."""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Annotated, Any

import typer

from polvet import __version__
from polvet.cli.answer import ExitCode
from polvet.cli.printable import say
from polvet.errors import InputError, LimitReached, Where
from polvet.interrupts import noting

COMMANDS: tuple[str, ...] = (
    "info", "explore", "check", "decide", "train", "simulate", "evaluate",
    "fuzz", "faults", "repair", "fence", "compare", "verify", "debug",
    "gate", "report", "permit", "learn", "terminates", "certify", "domains",
)  # fmt: skip
"""One module of this room per command (`check` lives in `check.py`), in the order of the help page."""

app = typer.Typer(
    name="polvet",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Vet learned action policies: verdicts with evidence that an independent checker accepts.",
)
LARGEST_OPTION = 2**40
"""Of integers on the command line: kernels count in 64 bits, and megabytes become bytes."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
TYPER_INTERRUPTED = 130  # what typer makes of a KeyboardInterrupt inside a command
UsageError: type[Exception] = typer.BadParameter.__mro__[2]  # the base of all errors that the option parser raises


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"polvet {__version__}")
        raise typer.Exit


WELCOME = f"""polvet {__version__} vets learned action policies: verdicts with evidence that an independent checker accepts.

See it work on a shipped policy:       polvet domains --policies demo
  find its faults, repair it, prove it   polvet debug demo/one-way-line-8-5.toml demo/one-way-line-8-5-faulty.json -o debugged
  read what happened                     polvet report debugged -o report.html
Vet a policy of your own:              polvet evaluate task.toml policy.onnx
Guard a learner:                       polvet permit model.jani --fail crashed --bound 0.1 -o shield.json
Does a generalized plan end?           polvet terminates plan.json -o certificate.json

Believe no answer: polvet certify CERTIFICATE --task TASK. All commands: polvet --help; one of them: polvet COMMAND --help."""
"""What `polvet` alone says: the four things people do first."""


@app.callback()
def _polvet(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Vet learned action policies."""
    if context.invoked_subcommand is None:
        print(WELCOME)


def _measured(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command, with integers that no kernel could hold refused before anything is done with them."""

    @wraps(command)
    def measured(**given: Any) -> Any:
        for name, value in given.items():
            if isinstance(value, int) and abs(value) > LARGEST_OPTION and name != "seed":
                what = f"{value} is too large for '{name.replace('_', '-')}'."
                raise InputError(what, Where("command line"), f"Give at most {LARGEST_OPTION}.")
        return command(**given)

    return measured


for _name in COMMANDS:
    import_module(f"polvet.cli.{_name}").register(app)
for _command in app.registered_commands:
    if _command.callback is not None:
        _command.callback = _measured(_command.callback)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with the documented exit code."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code; nothing but the interpreter's own failure gets past this."""
    try:
        with noting():
            result = app(arguments, standalone_mode=False)
            sys.stdout.flush()
        if result == TYPER_INTERRUPTED:
            raise KeyboardInterrupt
        return result if isinstance(result, int) else ExitCode.DONE.value
    except InputError as error:
        return _complain(str(error), ExitCode.INPUT)
    except LimitReached as error:
        return _complain(str(error), ExitCode.UNKNOWN)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted; what was written before is kept.", ExitCode.UNKNOWN)
    except MemoryError:
        return _complain("out of memory. Give a smaller --memory-limit or a smaller model.", ExitCode.UNKNOWN)
    except BrokenPipeError:
        sys.stderr.close()
        return ExitCode.DONE.value
    except OSError as error:
        if error.errno not in FULL:
            return _bug()
        hint = "Make room on the disk and run the same command again; what was written before is kept."
        return _complain(f"nothing more can be written ({error.strerror}). {hint}", ExitCode.INPUT)
    except (
        SystemExit
    ):  # the option parser leaves so when nobody reads its output any more, as in `polvet domains | head -1`
        return ExitCode.DONE.value
    except UsageError as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        return _complain(f"{message} See 'polvet --help'.", ExitCode.INPUT)
    except Exception:
        return _bug()


def _bug() -> int:
    for line in traceback.format_exc().splitlines():
        say(line, sys.stderr)
    return _complain("this is a bug in polvet: please report it with the lines above.", ExitCode.BUG)


def _complain(message: str, code: ExitCode) -> int:
    say(f"polvet: {message}", sys.stderr)
    return code.value
