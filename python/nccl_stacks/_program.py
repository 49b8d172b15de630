"""The program `nccl-stacks`: where it is, and what its failures mean.

Everything in this package goes through the program, so that Python and the command line cannot give two answers. Its exit codes
become exceptions here, with its own message.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

NAME = "nccl-stacks"
"""The name of the program's file."""

VARIABLE = "NCCL_STACKS_BIN"
"""The environment variable that names another file than the one that would be found."""


NO_CONFIG = "--no-config"
"""The option by which the program reads no config file: what a call from Python answers must not depend on the folder that it runs in."""

OF_CONFIG = ("--config", NO_CONFIG)
"""The options that say which config file is read."""


class Error(Exception):
    """Whatever this package raises of its own."""


class NotFound(Error, FileNotFoundError):
    """The program is nowhere."""


class Failed(Error):
    """The program ended with another exit code than 0.

    `message` is what it wrote to standard error, `exit_code` its exit code, negative if a signal ended it, and `command` what was run.
    """

    def __init__(self, command: Sequence[str], exit_code: int, message: str) -> None:
        self.command = list(command)
        self.exit_code = exit_code
        self.message = message
        super().__init__(f"{message or NAME + ' says nothing'} ({ending(exit_code)})")


class TraceError(Failed):
    """Exit code 1: the trace cannot be read, or the part not be written. Exit code 6: some of an archive's traces cannot be read."""


class UsageError(Failed):
    """Exit code 2: an option that the program does not have, or a value that it does not take."""


_FAILURES = {1: TraceError, 2: UsageError, 6: TraceError}


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
    """The path of the program: $NCCL_STACKS_BIN, else beside this interpreter, where the wheel puts it, else in $PATH."""
    named = os.environ.get(VARIABLE)
    if named:
        found = shutil.which(named)
        if found is None:
            raise NotFound(f"${VARIABLE} is {named!r}, and that is no program")
        return os.path.abspath(found)
    suffix = sysconfig.get_config_var("EXE") or ""
    for place in _places():
        file = place / (NAME + suffix)
        if os.access(file, os.X_OK):
            return str(file)
    found = shutil.which(NAME)
    if found is None:
        raise NotFound(f"no {NAME} beside {next(_places())} or in $PATH: install its wheel, or set ${VARIABLE}")
    return os.path.abspath(found)


def run(program: str, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs the program to its end, whatever that is, and keeps both of its streams."""
    command = [program, *arguments]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace")


def check(program: str, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """As `run`, but raises `Failed` unless the exit code is 0."""
    done = run(program, arguments)
    if done.returncode != 0:
        raise _FAILURES.get(done.returncode, Failed)(done.args, done.returncode, done.stderr.strip())
    return done


def version(program: str | None = None) -> str:
    """The version of the program, with the commit that it was built of: `nccl-stacks 0.1.0 (0123456789)`."""
    file = program or find()
    status = os.stat(file)
    return _version(file, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=16)
def _version(program: str, _modified: int, _size: int) -> str:
    """The file's time and size are here so that a program that is replaced is asked again."""
    return check(program, ["--version"]).stdout.strip()
