"""Policies named as `file.py:function`: a Python file that the user names is executed, and its function is asked state by state.

What is said of such a policy holds *by execution*: for the answers that the function gave. It must be a function of its argument
alone; what else it reads (time, files, chance) is not seen. The digest covers the named file, the modules beside it that it
imports, and the function's name.
SOUND: code runs only where it is asked for: by naming the function, or, where a task file names it, by `--allow-code`. No other file
that polvet reads can name a function (`files.beside`).
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from polvet.errors import InputError, Where, suggest
from polvet.files import named_function as named_function
from polvet.files import python_files, read_bytes, sha256

BY_EXECUTION = "by execution: for the answers the function gave, which must depend on the state alone"


def function_sha256(file: Path, name: str) -> str:
    """Return the SHA-256 of the file's digest, the function's name and the digests of what it imports, one to a line."""
    first, *others = map(sha256, python_files(file))
    return hashlib.sha256("".join(f"{line}\n" for line in (first, name, *others)).encode()).hexdigest()


def fickle(policy: Path | None, why: str) -> InputError:
    """Return the error that a function, asked again, does not answer as it did before."""
    return InputError(
        f"asked again, a Python function does not answer as before ({why.removesuffix('.')}).",
        None if policy is None else Where(str(policy)),
        "Make its answers depend on the state alone; nothing can be said of others.",
    )


def load_function(file: Path, name: str, *, asked_for: bool) -> Any:
    """Execute the file and return its function, or raise an InputError, also where its code is not asked for."""
    if not asked_for:
        what = f"the task names the function '{name}' of this file; code of files runs only when it is asked for."
        raise InputError(what, Where(str(file)), "Read the file, then give --allow-code (in Python: allow_code=True).")
    known = load_functions(file)
    if name not in known:
        raise InputError(f"has no function '{name}'.", Where(str(file)), suggest(name, list(known)))
    function = known[name]

    def choose(state: Mapping[str, Any]) -> Any:
        try:
            return function(state)
        except Exception as error:  # in memory it would reach the caller; here nobody is there to catch it
            raise InputError(
                f"'{name}' raises {type(error).__name__} ({error}) for {dict(state)}.",
                Where(str(file)),
                "Make it answer in every state.",
            ) from error

    return choose


def load_functions(file: Path) -> dict[str, Callable[..., Any]]:
    """Execute the file and return what can be called in it, by name, or raise an InputError."""
    where = Where(str(file))
    read_bytes(file)  # a missing file is said in the usual words
    spec = spec_from_file_location(f"polvet_policy_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise InputError("is no Python file.", where, "Name a .py file.")
    module = module_from_spec(spec)
    folder = str(file.resolve().parent)
    sys.path.insert(0, folder)  # so that it may import what stands beside it
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the user's file raises is a matter of that file
        raise InputError(
            f"cannot be executed ({type(error).__name__}: {error}).", where, "Run it with Python, and fix it."
        ) from error
    finally:
        sys.path.remove(folder)
    return {name: value for name, value in vars(module).items() if callable(value) and not name.startswith("_")}
