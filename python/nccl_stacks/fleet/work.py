"""What a worker does with a batch of traces: runs the program for each, and says in a small row what came of it.

This module is all that runs on other machines, so it holds no state and imports no engine. A worker can be killed at any line. So a part is
written under another name, in a folder that is no part of the answer, and gets its name when it is whole; and its receipt, by which a
later run knows it, comes after it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from typing import Callable

from .. import _program

STATE = ".fleet"
"""The folder in the folder of parts that holds receipts, and parts that are being written."""

MADE = "made"
"""The part is written."""
KEPT = "kept"
"""The part was there: another worker wrote it after this batch was given out."""
PARTLY = "partly"
"""The part is written, of an archive or the like of which the program could read some traces and not others."""
BROKEN = "broken"
"""The program cannot read this trace. It could not the next time either."""
KILLED = "killed"
"""Something ended the program, such as a lack of memory. It may do better alone, later or elsewhere."""
ABSENT = "absent"
"""This machine does not see the trace. Another may."""
FULL = "full"
"""There is no room for parts. No trace after this one would find any."""
WRONG = "wrong"
"""The program does not take the options. It would take them for no trace."""
UNUSABLE = "unusable"
"""This machine has no program, or cannot write into the folder of parts. No trace would do better here."""

_FULL = ("No space left on device", "Disk quota exceeded", "os error 28", "os error 122")
"""How the program's message says that there is no room."""

_WRONG = 2
"""The program's exit code for wrong usage."""
_INCOMPLETE = 6
"""The program's exit code if it could read only some of its input."""


@dataclass(frozen=True)
class Job:
    """A trace and the part to make of it, both as absolute paths, and the options that are for this trace alone."""

    trace: str
    part: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Setup:
    """What all jobs of a run have in common."""

    folder: str
    """The folder of parts."""
    run: str
    """The name of this run, in no other run the same."""
    options: tuple[str, ...]
    """The options for `part`."""
    neutral: tuple[str, ...] = ()
    """Options for `part` that do not change what it writes."""
    inputs: tuple[str, ...] = ()
    """The files that the options name, and their state: for the receipts alone."""
    program: str | None = None
    """The program, where $NCCL_STACKS_BIN names it; else each machine has its own."""

    @property
    def made_with(self) -> tuple[str, ...]:
        """What parts are made with, beside their traces."""
        return (*self.options, *self.inputs)

    @property
    def scratch(self) -> str:
        """Where parts of this run are until they are whole."""
        return os.path.join(self.folder, STATE, f"run-{self.run}")


@dataclass(frozen=True)
class Row:
    """What came of a job. This is all that travels back."""

    trace: str
    status: str
    message: str = ""
    host: str = ""
    tool: str = ""


@dataclass(frozen=True)
class Receipt:
    """What a part was made of: if any of this differs, it is made again."""

    tool: str
    options: tuple[str, ...]
    trace: str
    trace_size: int
    trace_modified_ns: int
    part_size: int

    @staticmethod
    def path(part: str) -> str:
        """Where the receipt of a part is."""
        folder, name = os.path.split(part)
        return os.path.join(folder, STATE, name + ".receipt")

    @classmethod
    def read(cls, part: str) -> Receipt | None:
        """The receipt of a part, or none if there is none that can be read."""
        try:
            with open(cls.path(part), encoding="utf-8") as file:
                fields = json.load(file)
            return cls(**{**fields, "options": tuple(fields["options"])})
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write(self, part: str, scratch: str) -> None:
        """Writes the receipt, by renaming as all that is written here."""
        whole = os.path.join(scratch, f"{os.path.basename(part)}.{_process()}.receipt")
        with open(whole, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file)
        os.replace(whole, self.path(part))


def is_made(job: Job, made_with: tuple[str, ...], tool: str) -> bool:
    """Whether the part is there, of this trace as it is now, and made with these options by this version of the program."""
    try:
        trace, part = os.stat(job.trace), os.stat(job.part)
    except OSError:
        return False
    return Receipt.read(job.part) == _receipt(job, made_with, tool, trace, part.st_size)


def _receipt(job: Job, made_with: tuple[str, ...], tool: str, trace: os.stat_result, part_size: int) -> Receipt:
    return Receipt(tool, (*made_with, *job.options), job.trace, trace.st_size, trace.st_mtime_ns, part_size)


def _process() -> str:
    """A name that no other process has, on any machine."""
    return f"{socket.gethostname()}-{os.getpid()}-{time.monotonic_ns()}"


def work(setup: Setup, jobs: list[Job], is_stopped: Callable[[], bool] = lambda: False) -> list[Row]:
    """Does the jobs one after another. Stops at what would stop the others too, and where nobody waits for them any more."""
    rows: list[Row] = []
    for job in jobs:
        if is_stopped():
            break
        status, message, tool = _do(setup, job)
        rows.append(Row(job.trace, status, message, socket.gethostname(), tool))
        if status in (FULL, WRONG, UNUSABLE):
            break
    return rows


def _do(setup: Setup, job: Job) -> tuple[str, str, str]:
    """The status of a job, the message to it, and the version of the program."""
    try:
        program = setup.program or _program.find()
        tool = _program.version(program)
    except (_program.Error, OSError) as error:
        return UNUSABLE, str(error), ""
    if is_made(job, setup.made_with, tool):
        return KEPT, "", tool
    try:
        # Before the program reads it: if the trace changes meanwhile, the part is made again by the next run.
        trace = os.stat(job.trace)
    except OSError as error:
        return ABSENT, f"{job.trace}: {error.strerror}", tool
    if not os.path.isdir(setup.scratch):
        # The command that began the run made it, and removed it if it is over.
        return UNUSABLE, f"it does not see {setup.scratch}; the folder of parts has to be one that all machines share", tool
    try:
        return (*_make(setup, job, program, tool, trace), tool)
    except OSError as error:
        status = FULL if any(text in str(error) for text in _FULL) else UNUSABLE
        return status, f"{setup.folder}: {error.strerror or error}", tool


def _put(whole: str, part: str) -> None:
    """Replaces a part. The old one's receipt goes first: it must not be taken for that of the new one."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(Receipt.path(part))
    os.replace(whole, part)


def _make(setup: Setup, job: Job, program: str, tool: str, trace: os.stat_result) -> tuple[str, str]:
    name, ending = os.path.splitext(os.path.basename(job.part))
    whole = os.path.join(setup.scratch, f"{name}.{_process()}{ending}")
    try:
        done = _program.run(program, ["part", *setup.neutral, *setup.options, *job.options, "--output", whole, "--", job.trace])
        message = done.stderr.strip()
        if done.returncode == 0:
            made = _receipt(job, setup.made_with, tool, trace, os.stat(whole).st_size)
            _put(whole, job.part)
            made.write(job.part, setup.scratch)
            return MADE, message
        if done.returncode == _INCOMPLETE and os.path.exists(whole):
            # Without a receipt, so that the next run tries again, and says it again.
            _put(whole, job.part)
            return PARTLY, message
    finally:
        if os.path.exists(whole):
            os.unlink(whole)
    if done.returncode < 0:
        return KILLED, f"the program {_program.ending(done.returncode)}"
    if done.returncode == _WRONG:
        return WRONG, message
    if any(text in message for text in _FULL):
        return FULL, message
    return BROKEN, message or _program.ending(done.returncode)
