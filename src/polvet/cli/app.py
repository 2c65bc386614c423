"""The application: finds the command, imports and runs it, and turns every ending into one of the documented exit codes.

A command is known by its name and what its help says first; its module is imported when it is invoked, so that `polvet --help`
and completion in the shell do not wait for what twenty commands import.
"""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from polvet import __version__
from polvet.cli.answer import ExitCode
from polvet.cli.limits import net, said
from polvet.cli.printable import say
from polvet.errors import FalseCertificate, InputError, LimitReached, Where
from polvet.interrupts import noting

COMMANDS: dict[str, str] = {
    "info": "Say what is in a model or in a policy's file. Example: `polvet info car.jani`.",
    "explore": "Count reachable states; goal and fail states are left, too. "
    "Example: `polvet explore brp.jani --constants N=16,MAX=2`.",
    "check": "Compute a probability or expected reward. "
    "Example: `polvet check brp.jani --constants N=16,MAX=2 --property p1`.",
    "decide": "Decide whether states are safe. Example: `polvet decide line.toml --state x=3,y=2 -o certificate.json`.",
    "train": "Train a policy. Example: `polvet train line.toml --kind trees --teacher safe -o line.json`.",
    "simulate": "Simulate a policy. Example: `polvet simulate line.toml policy.onnx --runs 10000 -o runs.jsonl`.",
    "evaluate": "Evaluate a policy. "
    "Example: `polvet evaluate line.toml policy.onnx --starts 1000 -o unsafe-runs.jsonl`.",
    "fuzz": "Find unsafe runs. Example: `polvet fuzz line.toml policy.json -o unsafe.jsonl`; the same command resumes.",
    "faults": "Find the faults of a policy. Example: `polvet faults line.toml policy.json -o faults.json`.",
    "repair": "Repair a policy. Example: `polvet repair line.toml policy.json --faults faults.json -o repaired.json`.",
    "fence": "Forbid a policy what may leave the safe region. "
    "Example: `polvet fence line.toml policy.json -o fenced.json`.",
    "compare": "Compare two policies. "
    "Example: `polvet compare line.toml policy.json repaired.json -o differences.jsonl`.",
    "verify": "Verify a policy. Example: `polvet verify line.toml policy.json -o certificate.json`.",
    "debug": "Debug a policy. "
    "Example: `polvet debug line.toml policy.json -o line-debug`, then `polvet report line-debug`.",
    "gate": "Pass (0), fail (10; 11: only the goal is lost) or not know (20). "
    "Example: `polvet gate line.toml policy.json --min-goal 90`.",
    "report": "Write a report for people. Example: `polvet report line-debug -o report.html`.",
    "permit": "Compute which actions may be allowed. Example: `polvet permit janitor.toml --bound 0.1 -o shield.json`.",
    "learn": "Learn unknown costs safely. Example: `polvet learn janitor.toml --cost fuel --bound 0.1`.",
    "terminates": "Decide whether every execution of a generalized plan ends: also of a sketch, "
    "a .qnp policy, an integer transition system.",
    "synthesize": "Search a policy of a qualitative problem that surely ends in the goal. "
    "Example: `polvet synthesize problem.qnp -o plan.json`.",
    "generalizes": "Follow a general policy's rules on PDDL problems. "
    "Example: `polvet generalizes policy.txt p1.pddl p2.pddl --domain domain.pddl`.",
    "certify": "Check a certificate without trusting whoever made it: accepted (0) or rejected (10).",
    "domains": "List the built-in benchmarks; with a name explain one; "
    "with -o FILE.jani write it, and FILE.toml beside it.",
}
"""What the help page lists, in its order: one module of this room per command (`check` lives in `check.py`), and the first
paragraph of the command's own help."""


class Commands(TyperGroup):
    """The commands as the help page lists them; the one that is asked for is imported."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that the first argument names, imported, and the other arguments."""
        name, _, rest = super().resolve_command(ctx, args)
        assert name is not None
        from polvet.cli.options import takes_groups

        alone = typer.Typer(add_completion=False)
        command = getattr(import_module(f"polvet.cli.{name}"), name)
        alone.command(name)(_guarded(takes_groups(command)))
        known = get_command(alone)
        _refuse_twice(known.params, rest)
        return name, known, rest


def _refuse_twice(options: list[Any], words: list[str]) -> None:
    """Raise an InputError where an option that takes one value is given twice: the parser would keep the last and say nothing."""
    own = words[: words.index("--")] if "--" in words else words
    for option in options:
        if option.param_type_name != "option" or option.multiple or option.is_flag:
            continue
        repeated = [word.partition("=")[0] for word in own if word.partition("=")[0] in option.opts]
        if len(repeated) > 1:
            raise InputError("is given twice, and takes one value.", Where(repeated[-1]), "Give it once.")


app = typer.Typer(
    name="polvet",
    cls=Commands,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    help="Vet learned action policies: verdicts with evidence that an independent checker accepts.",
)
LARGEST_OPTION = 2**40
"""Of integers on the command line: kernels count in 64 bits, and megabytes become bytes."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
TYPER_INTERRUPTED = 130  # what typer makes of a KeyboardInterrupt inside a command
UsageError: type[Exception] = typer.BadParameter.__mro__[2]  # the base of all errors that the option parser raises


def _imported_when_invoked() -> None:
    raise AssertionError("Commands.resolve_command puts the command itself in this place")


for _name, _help in COMMANDS.items():
    app.command(_name, help=_help)(_imported_when_invoked)


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


def _guarded(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command; integers that no kernel could hold are refused, and what is wrong with a keyword is wrong with its option."""

    @wraps(command)
    def guarded(**given: Any) -> Any:
        for name, value in given.items():
            if isinstance(value, int) and abs(value) > LARGEST_OPTION and name != "seed":
                what = f"{value} is too large for '{name.replace('_', '-')}'."
                raise InputError(what, Where("command line"), f"Give at most {LARGEST_OPTION}.")
        try:
            return command(**given)
        except InputError as error:
            if isinstance(error.where, Where) and error.where.file in given:
                option = "-o" if error.where.file == "output" else f"--{error.where.file.replace('_', '-')}"
                raise InputError(error.what, replace(error.where, file=option), error.hint) from error
            raise

    return guarded


def run(arguments: list[str] | None = None, age: float = 0.0) -> int:
    """Run the command line and return the exit code; nothing but the interpreter's own failure gets past this.

    `age` is how many seconds ago the user began to wait: imports count towards the time limit.
    """
    net.begin(age)
    try:
        return _run(arguments)
    except InputError as error:
        return _complain(str(error), ExitCode.INPUT)
    except LimitReached as error:
        return _complain(said(error), ExitCode.UNKNOWN)
    except FalseCertificate as error:
        return _complain(str(error), ExitCode.BUG)
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


def _run(arguments: list[str] | None) -> int:
    """Run the command; whatever it makes of the net's alarm (kernels make Ctrl-C of it) is the limit that was reached."""
    try:
        with noting():
            result = app(arguments, standalone_mode=False)
            sys.stdout.flush()
        if result == TYPER_INTERRUPTED:
            raise KeyboardInterrupt
        return result if isinstance(result, int) else ExitCode.DONE.value
    except (Exception, KeyboardInterrupt) as error:
        if net.caught:
            raise net.limit() from error
        raise
    finally:
        net.fold()


def _complain(message: str, code: ExitCode) -> int:
    say(f"polvet: {message}", sys.stderr)
    return code.value
