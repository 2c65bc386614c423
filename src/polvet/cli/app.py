"""The application: finds the command, imports and runs it, and turns every ending into one of the documented exit codes.

A command is known by its name and what its help says first; its module is imported when it is invoked, so that `polvet --help`
and completion in the shell do not wait for what twenty commands import.
"""

from __future__ import annotations

import errno
import inspect
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from typing import Any

import click

from polvet import __version__
from polvet.cli import UNREAD
from polvet.cli.answer import ExitCode
from polvet.cli.limits import limit_sentence, net
from polvet.cli.parameters import iter_repeated, parameters
from polvet.cli.printable import hearing, say
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
    "flatten": "Write a task and its policy as the flat text that evidence speaks of. "
    "Example: `polvet flatten line.toml policy.json -o line.flat`.",
    "certify": "Check a certificate without trusting whoever made it: accepted (0) or rejected (10).",
    "domains": "List the built-in benchmarks; with a name explain one; "
    "with -o FILE.jani write it, and FILE.toml beside it.",
}
"""What the help page lists, in its order: one module of this room per command (`check` lives in `check.py`), and the first
paragraph of the command's own help."""


WIDTH = {"max_content_width": 120}
"""Of help pages: where the terminal is wider, it stays empty."""


class Commands(click.Group):
    """The commands as the help page lists them; the one that is asked for is imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help page."""
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each command does, whole, and without its example."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text.partition(" Example: ")[0]) for name, text in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names, imported, and the other arguments."""
        name, *rest = args
        if name not in COMMANDS:
            near = get_close_matches(name, COMMANDS, n=1)
            ctx.fail(f"No such command '{name}'." + (f" Did you mean '{near[0]}'?" if near else ""))
        command = imported(name)
        for option in iter_repeated(command.params, rest):
            raise InputError("is given twice, and takes one value.", Where(option), "Give it once.")
        return name, command, rest


def imported(name: str) -> click.Command:
    """Return a command, its module imported."""
    from polvet.cli.options import takes_groups

    command = takes_groups(getattr(import_module(f"polvet.cli.{name}"), name))
    return click.Command(
        name,
        params=parameters(command),
        callback=_guarded(command),
        help=inspect.getdoc(command),
        context_settings=WIDTH,
    )


LARGEST_OPTION = 2**40
"""Of integers on the command line: kernels count in 64 bits, and megabytes become bytes."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


WELCOME = f"""polvet {__version__} vets learned action policies: verdicts with evidence that an independent checker accepts.

See it work on a shipped policy:       polvet domains --policies demo
  find its faults, repair it, prove it   polvet debug demo/one-way-line-8-5.toml demo/one-way-line-8-5-faulty.json -o debugged
  read what happened                     polvet report debugged -o report.html
Vet a policy of your own:              polvet evaluate task.toml policy.onnx
Guard a learner:                       polvet permit model.jani --fail crashed --bound 0.1 -o shield.json
Does a generalized plan end?           polvet terminates plan.json -o certificate.json

Believe no answer: polvet certify CERTIFICATE --task TASK. All commands: polvet --help; one of them: polvet COMMAND --help."""
"""What `polvet` alone says: the four things people do first."""


def _print_version() -> str:
    return f"polvet {__version__}"


def _show_completion() -> str:
    from polvet.cli.completion import script

    return script(app)[1]


def _install_completion() -> str:
    from polvet.cli.completion import install

    return install(app)


def _saying(name: str, help: str, what: Callable[[], str]) -> click.Option:
    """Return an option that only says something: nothing else is done where it is given."""

    def say(context: click.Context, option: click.Parameter, wanted: bool) -> None:
        if wanted and not context.resilient_parsing:
            print(what())
            context.exit()

    return click.Option([name], is_flag=True, expose_value=False, is_eager=True, callback=say, help=help)


def _welcome() -> None:
    if click.get_current_context().invoked_subcommand is None:
        print(WELCOME)


app = Commands(
    "polvet",
    commands={name: click.Command(name, help=text) for name, text in COMMANDS.items()},
    params=[
        _saying("--version", "Print the version and stop.", _print_version),
        _saying("--install-completion", "Teach your shell to complete commands and options.", _install_completion),
        _saying("--show-completion", "Print what would be installed.", _show_completion),
    ],
    callback=_welcome,
    invoke_without_command=True,
    help="Vet learned action policies: verdicts with evidence that an independent checker accepts.",
    context_settings=WIDTH,
)


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
        except KeyboardInterrupt:
            raise click.Abort from None  # click would print an empty line first
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
        return _complain(limit_sentence(error), ExitCode.UNKNOWN)
    except FalseCertificate as error:
        return _complain(str(error), ExitCode.BUG)
    except (KeyboardInterrupt, click.Abort):
        return _complain("interrupted; what was written before is kept.", ExitCode.UNKNOWN)
    except MemoryError:
        return _complain("out of memory. Give a smaller --memory-limit or a smaller model.", ExitCode.UNKNOWN)
    except BrokenPipeError:
        return UNREAD
    except OSError as error:
        if error.errno not in FULL:
            return _bug()
        hint = "Make room on the disk and run the same command again; what was written before is kept."
        return _complain(f"nothing more can be written ({error.strerror}). {hint}", ExitCode.INPUT)
    except (
        SystemExit
    ) as left:  # completion leaves so, and with 1 the option parser where nobody reads its output any more
        return UNREAD if left.code else ExitCode.DONE.value
    except click.ClickException as error:
        return _complain(f"{error.format_message()} See 'polvet --help'.", ExitCode.INPUT)
    except Exception:
        return _bug()


def _bug() -> int:
    for line in traceback.format_exc().splitlines():
        say(line, sys.stderr)
    return _complain("this is a bug in polvet: please report it with the lines above.", ExitCode.BUG)


def _run(arguments: list[str] | None) -> int:
    """Run the command; whatever it makes of the net's alarm (kernels make Ctrl-C of it) is the limit that was reached."""
    try:
        with noting(), hearing():
            result = app(arguments, "polvet", standalone_mode=False)
            sys.stdout.flush()
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
