"""`python -m nccl_stacks.fleet`: the command line, and what its exit codes are.

Standard output has what `nccl-stacks ranks` writes there, or the main command, and nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import NoReturn

from .. import _paths, _program
from .._program import Error
from .drive import Drive, Outcomes, WrongOptions
from .engines import ENGINES, Engine
from .plan import Plan, plan
from .screen import Screen
from .work import STATE, Setup

FAILED = 1
"""The run ended early: nothing can be said."""
WRONG = 2
"""Wrong usage, as argparse and the program have it."""
INCOMPLETE = 6
"""The answer lacks ranks, which are named; also `nccl-stacks` says so by this code."""

OLD = 24 * 3600.0
"""After so many seconds no run is at work any more that has not written anything."""

_DEFAULTS = {
    ("--quiet", "-q", "--verbose", "-v"): ("--quiet",),
    ("--threads",): ("--threads", "1"),
    _program.OF_CONFIG: (_program.NO_CONFIG,),
}
"""Options for `part` that are given unless the user gives one of these. A task has one CPU, and what a part has does not depend on the
number of threads. What a config file says on one machine would not hold on others."""

_FILES = ("--config", "--family-file", "--capture-trace")
"""The options of `part` that name a file which the part depends on, beside its trace."""

_DESCRIPTION = """Reduces the trace of each rank to a part, on many machines, and merges the parts to one answer.
What is there already is not made again, so the same command goes on with a run that was interrupted."""

_END = """exit codes: those of `nccl-stacks ranks`; so 0: all is there, 6: the answer lacks ranks, which are named.
And 1: the run ended early, 2: wrong usage."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m nccl_stacks.fleet",
        usage="%(prog)s PATHS... --out DIR [--engine local|ray|dask] [options] [-- options for nccl-stacks part]",
        description=_DESCRIPTION,
        epilog=_END,
    )
    add = parser.add_argument
    add("paths", nargs="+", metavar="PATHS", help="traces, folders or patterns of traces; @FILE is a list of these, one a line")
    add("--out", required=True, metavar="DIR", help="the folder of parts, which all machines share; made if it is not there")
    add("--engine", choices=sorted(ENGINES), default="local", help="what starts processes [default: local, this machine alone]")
    add("--address", metavar="ADDRESS", help="where the Ray or Dask cluster is [default: one on this machine]")
    add("--workers", type=_positive, metavar="N", help="how many traces at once, without a cluster [default: as many as CPUs]")
    add("--batch", type=_positive, default=0, metavar="N", help="traces a task [default: up to 16, fewer where there are few]")
    add("--retries", type=_natural, default=3, metavar="N", help="how often what is lost with a machine is tried again [default: 3]")
    add("--expect", type=_positive, metavar="N", help="how many ranks the job has; the answer then names those that are missing")
    add("--parts", choices=["parquet", "json"], default="parquet", help="the form of the parts [default: parquet]")
    add("--merge", type=shlex.split, default=[], metavar="'OPTIONS'", help="options for nccl-stacks ranks; for the main command with --stacks: --merge='--stacks --format json'")
    add("--no-merge", action="store_true", help="only make the parts")
    return parser


def _natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("it cannot be negative")
    return value


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("it has to be 1 at least")
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; the exit code."""
    own, rest = _divided(list(sys.argv[1:] if arguments is None else arguments))
    asked = _parser().parse_args(own)
    screen = Screen()
    signal.signal(signal.SIGTERM, _terminated)
    try:
        return _run(asked, rest, screen)
    except WrongOptions as error:
        screen.say(str(error))
        return WRONG
    except (Error, OSError) as error:
        screen.say(f"error: {error}")
        return FAILED
    except KeyboardInterrupt:
        screen.say("interrupted; the same command goes on from here")
        return 128 + signal.SIGINT
    finally:
        screen.clear()


def _divided(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and those after `--`, which are the program's."""
    if "--" not in arguments:
        return arguments, []
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def _terminated(_signal: int, _frame: object) -> NoReturn:
    """What a scheduler ends a job by is as an interruption: the engine's resources are given back."""
    raise KeyboardInterrupt


def _run(asked: argparse.Namespace, rest: list[str], screen: Screen) -> int:
    program = _program.find()
    tool = _program.version(program)
    expanded = _paths.expand(asked.paths)
    for path, count in expanded.repeated.items():
        screen.say(f"{path} is listed {count} times and read once")
    options, ranks = _of_single_traces(rest, expanded.traces)
    options, inputs = _with_files(options)
    neutral = [word for of, words in _DEFAULTS.items() if not _has(options, of) for word in words]
    folder = os.path.abspath(asked.out)
    os.makedirs(os.path.join(folder, STATE), exist_ok=True)
    _sweep(os.path.join(folder, STATE))
    named = program if os.environ.get(_program.VARIABLE) else None
    setup = Setup(folder, uuid.uuid4().hex, tuple(options), tuple(neutral), tuple(inputs), named)
    planned = plan(setup, expanded.traces, asked.parts, tool, ranks)
    outcomes = Outcomes()
    began = time.monotonic()
    if planned.left:
        outcomes = _reduced(asked, setup, tool, planned, screen)
    screen.clear()
    _report(planned, outcomes, tool, time.monotonic() - began, screen)
    old = [job.part for job in planned.jobs if job.trace in outcomes.failed and os.path.exists(job.part)]
    if old:
        screen.say(
            f"{len(old)} parts of earlier runs stay, such as {old[0]}: their traces have none now; this answer is without them, "
            f"and `ranks` of the whole folder has them"
        )
    if asked.no_merge:
        return INCOMPLETE if outcomes.failed or outcomes.partly else 0
    if len(outcomes.failed) == len(planned.jobs):
        raise Error("no trace has a part, so there is nothing to merge")
    return _answered(asked, program, planned, outcomes, bool(old), screen)


def _with_files(options: list[str]) -> tuple[list[str], list[str]]:
    """The options with the files that they name as absolute paths, since other machines are in other folders; and the state of these files."""
    result: list[str] = []
    inputs = []
    for option in options:
        name, is_one, value = option.partition("=")
        if name in _FILES and is_one:
            option = f"{name}={os.path.abspath(value)}"
        elif result and result[-1] in _FILES:
            option = value = os.path.abspath(option)
        else:
            value = ""
        if value:
            state = os.stat(value)
            inputs.append(f"{os.path.abspath(value)}: {state.st_size} bytes of {state.st_mtime_ns}")
        result.append(option)
    return result, inputs


def _has(options: list[str], names: tuple[str, ...]) -> bool:
    return any(option.split("=")[0] in names for option in options)


def _sweep(state: str) -> None:
    """Removes what runs have left that could not clean up. Another run may be at work in this folder, so what is young stays."""
    for name in os.listdir(state):
        folder = os.path.join(state, name)
        with contextlib.suppress(OSError):
            if name.startswith("run-") and time.time() - os.stat(folder).st_mtime > OLD:
                shutil.rmtree(folder, ignore_errors=True)


def _of_single_traces(rest: list[str], traces: list[str]) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Takes `--rank 3=FILE` out of the options: each is for one trace, and wrong for all others."""
    options: list[str] = []
    ranks: dict[str, tuple[str, ...]] = {}
    of_file = {os.path.realpath(trace): trace for trace in traces}
    left = iter(rest)
    for option in left:
        if option != "--rank" and not option.startswith("--rank="):
            options.append(option)
            continue
        value = option[len("--rank=") :] if "=" in option else next(left, "")
        rank, _, file = value.partition("=")
        trace = of_file.get(os.path.realpath(file))
        if trace is None:
            raise Error(f"--rank {value}: that is none of the traces")
        ranks[trace] = ("--rank", f"{rank}={trace}")
    return options, ranks


def _reduced(asked: argparse.Namespace, setup: Setup, tool: str, planned: Plan, screen: Screen) -> Outcomes:
    there = len(planned.jobs) - len(planned.left)
    already = f", {there} there already" if there else ""
    screen.say(f"{len(planned.left)} parts to make{already}; engine {asked.engine}")
    os.mkdir(setup.scratch)
    with _standard_output_is_ours():
        try:
            engine = _started(asked, setup)
            try:
                return Drive(setup, tool, engine, asked.retries, screen).run(planned.left, asked.batch)
            finally:
                engine.close()
        finally:
            # What killed workers have left. What one that is not dead yet writes there fails, and nobody waits for it.
            shutil.rmtree(setup.scratch, ignore_errors=True)


def _started(asked: argparse.Namespace, setup: Setup) -> Engine:
    try:
        return ENGINES[asked.engine](setup, asked.workers, asked.address)
    except (Error, KeyboardInterrupt):
        raise
    except Exception as error:
        # What engines raise of their own is of many kinds, from versions that do not fit to ports that are taken.
        raise Error(f"the engine {asked.engine} does not start: {type(error).__name__}: {error}") from error


@contextlib.contextmanager
def _standard_output_is_ours() -> Iterator[None]:
    """Turns standard output to standard error for a while. Ray writes there that a worker has died, from threads of its own."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _report(planned: Plan, outcomes: Outcomes, tool: str, seconds: float, screen: Screen) -> None:
    there = len(planned.jobs) - len(planned.left)
    text = f"{there + outcomes.made} of {len(planned.jobs)} parts: {outcomes.made} made in {seconds:.1f} s, {there} there already"
    if outcomes.losses:
        text += f"; {outcomes.losses} batches lost their worker"
    screen.say(text)
    for other, hosts in outcomes.tools.items():
        if other != tool:
            names = ", ".join(sorted(hosts))
            screen.say(f"two versions: {tool} here, {other} on {names} for {sum(hosts.values())} parts; install one version on all machines")


def _answered(asked: argparse.Namespace, program: str, planned: Plan, outcomes: Outcomes, has_old: bool, screen: Screen) -> int:
    """Runs the program on the parts. Its output is ours, and so is its exit code; but an answer that lacks a trace is not complete."""
    parts = [asked.out]
    if planned.foreign:
        screen.say(f"{len(planned.foreign)} other parts in {asked.out} are left out, such as {planned.foreign[0]}")
    if planned.foreign or has_old:
        names = [os.path.basename(job.part) for job in planned.jobs if job.trace not in outcomes.failed]
        parts = [os.path.join(asked.out, name) for name in names]
    expect = ["--expect", str(asked.expect)] if asked.expect else []
    neutral = [] if _has(asked.merge, _program.OF_CONFIG) else [_program.NO_CONFIG]
    command = [] if "--stacks" in asked.merge else ["ranks"]
    options = [option for option in asked.merge if option != "--stacks"]
    code = subprocess.run([program, *command, *neutral, *expect, *options, "--", *parts], stdin=subprocess.DEVNULL).returncode
    if code < 0:
        raise Error(f"the program {_program.ending(code)} while it answered from the parts")
    return INCOMPLETE if code == 0 and (outcomes.failed or outcomes.partly) else code


if __name__ == "__main__":
    sys.exit(main())
