"""The program `nccl-stacks`: where it is, what it is asked, and what its failures mean.

Everything in this package goes through the program, so that Python and the command line cannot give two answers. What it says of a failure
becomes an exception here, in which its options have the names of Python's parameters.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ._options import PARAMETERS

NAME = "nccl-stacks"
"""The name of the program's file."""

VARIABLE = "NCCL_STACKS_BIN"
"""The environment variable that names another file than the one that would be found."""

NO_CONFIG = "--no-config"
"""The option by which the program reads no config file: what a call from Python answers must not depend on the folder that it runs in."""

OF_CONFIG = ("--config", NO_CONFIG)
"""The options that say which config file is read."""


class Error(Exception):
    """There is no program, or it ended without an answer.

    `message` is what it said, with Python's names of its options. `exit_code` is its exit code: 1 for a failure, 2 for wrong usage, 3 if
    nothing was found, 5 if a bound of `fail_if` is exceeded; below 0 for the signal that ended it; None if it did not run.
    """

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


def ending(exit_code: int) -> str:
    """How a process ended, in words."""
    return f"ended by signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"


def _places() -> Iterator[Path]:
    """Where an installer puts the scripts of a package: of this environment, then of this user."""
    yield Path(sysconfig.get_path("scripts"))
    user = f"{os.name}_user"
    if user in sysconfig.get_scheme_names():
        yield Path(sysconfig.get_path("scripts", user))


def find() -> str:
    """The path of the program: $NCCL_STACKS_BIN, else beside this interpreter, where the wheel puts it, else in $PATH.

    >>> nccl_stacks.find()
    '/home/ada/venv/bin/nccl-stacks'
    """
    named = os.environ.get(VARIABLE)
    if named:
        found = shutil.which(named)
        if found is None:
            raise Error(f"${VARIABLE} is {named!r}, and that is no program")
        return os.path.abspath(found)
    suffix = sysconfig.get_config_var("EXE") or ""
    for place in _places():
        file = place / (NAME + suffix)
        if os.access(file, os.X_OK):
            return str(file)
    found = shutil.which(NAME)
    if found is None:
        raise Error(f"no {NAME} beside {next(_places())} or in $PATH: install its wheel, or set ${VARIABLE}")
    return os.path.abspath(found)


def version() -> str:
    """The version of the program, with the commit that it was built of.

    >>> nccl_stacks.version()
    'nccl-stacks 0.1.0 (0123456789)'
    """
    return run(find(), ["--version"]).stdout.strip()


def run(program: str, arguments: Sequence[str], typed: str = "") -> subprocess.CompletedProcess[str]:
    """Runs the program to its end, whatever that is, and keeps both of its streams. `typed` is its standard input."""
    return subprocess.run([program, *arguments], input=typed, capture_output=True, encoding="utf-8", errors="replace")


def matches(path: str) -> list[str]:
    """The files of a pattern, in order. What is there is no pattern; what matches nothing stays: to say so is up to the program."""
    return [path] if os.path.exists(path) else sorted(glob.glob(path)) or [path]


def arguments(options: Mapping[str, Any]) -> list[str]:
    """Python's keyword arguments as the program's options. A parameter that no command has is a TypeError, as of any function."""
    given = []
    for name, value in options.items():
        if name not in PARAMETERS:
            raise TypeError(f"unexpected keyword argument {name!r}; there are {', '.join(sorted(PARAMETERS))}")
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is True and name != "forward_stacks":
            given.append(option)
        elif isinstance(value, bool):
            # Of all others, off is how it is without the option.
            given.extend([f"{option}={'on' if value else 'off'}"] if name == "forward_stacks" else [])
        elif value is not None:
            given.extend(f"{option}={each}" for each in _values(value))
    return given if has(given, OF_CONFIG) else [*given, NO_CONFIG]


def has(given: Iterable[str], options: Sequence[str]) -> bool:
    """Whether one of these options is given, with its value or without."""
    return any(option.partition("=")[0] in options for option in given)


def _values(value: Any) -> Iterable[Any]:
    """The values of an option that is repeated for each, such as `3=node1.json.gz` of a mapping."""
    if isinstance(value, Mapping):
        return [f"{name}={each}" for name, values in value.items() for each in _values(values)]
    return [value] if isinstance(value, (str, os.PathLike)) or not isinstance(value, Iterable) else value


def failure(done: subprocess.CompletedProcess[str]) -> Error | FileNotFoundError:
    """The exception of a run without an answer. A file that is not there is what it is in Python."""
    message = in_python(done.stderr) or f"{NAME} {ending(done.returncode)}, and says nothing"
    given = (word.partition("=")[2] if word.startswith("--") else word for word in done.args[1:])
    missing = [word for word in given if message.startswith(f"{word}: ") and not os.path.exists(word)]
    if missing and re.search("there is no such file|No such file or directory", message):
        near = re.search("; near it: .*", message)
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT) + (near[0] if near else ""), missing[0])
    return Error(message, done.returncode)


def in_python(message: str) -> str:
    """What the program says, without what is for a command line only, and with the names that its options have in Python."""
    text = re.split(r"\n\n(?:  tip: |Usage: |For more information)", message.strip())[0]
    text = re.sub("`nccl-stacks (ranks|hang|diff|sql)`", r"`nccl_stacks.\1`", text)
    return re.sub(r"'?--([a-z][a-z-]*)(?: <[^>]*>(?:\.\.\.)?)?'?( '[^']*'| \d+)?", _parameter, text.removeprefix("error: "))


def _parameter(found: re.Match[str]) -> str:
    name = found[1].replace("-", "_")
    name += "_" * (name + "_" in PARAMETERS)
    if name not in PARAMETERS:
        return found[0]
    return f"{name}={found[2].strip()}" if found[2] else f"'{name}'"
