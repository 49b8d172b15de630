"""`python -m nccl_stacks.fleet`: the command line, the retries, and the answer from the parts.

A trace that the program cannot read costs its rank, and is named. One whose worker or program was killed is tried again. What no retry
helps against, such as a full disk, ends the run. Standard output has what the program answers from the parts, and nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import queue
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from typing import Any

from .. import _program
from .engines import INCOMPLETE, UNUSABLE, Engine, Job, started

WRONG = 2
"""The exit code of wrong usage, here and of the program."""
DEFAULTS = [(("--quiet", "-q", "--verbose", "-v"), ["--quiet"]), (("--threads",), ["--threads", "1"]), (_program.OF_CONFIG, [_program.NO_CONFIG])]
"""Options for `part` that are given unless the user gives one of these. A job has one CPU, and a config file of one machine is on no other."""
TRACES = tuple(".json .json.gz .json.zst .pftrace .perfetto-trace .zip .tar .tar.gz .tgz .tar.zst .sqlite .sqlite.gz .sqlite.zst".split())
"""How the names of those files end that count in a folder."""
FULL = ("No space left on device", "Disk quota exceeded", "os error 28", "os error 122")
"""How the program says that there is no room for parts."""


class Parser(argparse.ArgumentParser):
    """`@FILE` is a list, an argument on each line; empty lines and those that begin with `#` are none."""

    def convert_arg_line_to_args(self, arg_line: str) -> list[str]:
        return [line for line in [arg_line.strip()] if line and not line.startswith("#")]


def main() -> int:
    """Runs the command; the exit code."""
    parser = Parser(
        prog="python -m nccl_stacks.fleet",
        usage="%(prog)s PATHS... --out DIR [--engine local|ray|dask] [options] [-- options for nccl-stacks part]",
        description="Reduces the trace of each rank to a part, on many machines, and answers from the parts. Parts newer than traces are kept.",
        epilog="exit codes: those of the answer, so 6 if it lacks ranks; 1: the run ended early; 2: wrong usage",
        fromfile_prefix_chars="@",
    )
    add = parser.add_argument
    add("paths", nargs="+", metavar="PATHS", help="traces, folders or patterns of traces; @FILE is a list of these, one a line")
    add("--out", required=True, metavar="DIR", help="the folder of parts, which all machines share; made if it is not there")
    add("--engine", choices=["dask", "local", "ray"], default="local", help="what starts processes [default: local, this machine alone]")
    add("--address", metavar="A", help="where the Ray or Dask cluster is [default: one on this machine]")
    add("--workers", type=int, metavar="N", help="how many traces at once, without a cluster [default: as many as CPUs]")
    add("--retries", type=int, default=3, metavar="N", help="how often what is killed or lost with a machine is tried again [default: 3]")
    add("--expect", type=int, metavar="N", help="how many ranks the job has; the answer then names those that are missing")
    add("--merge", type=shlex.split, default=[], metavar="'OPTIONS'", help="options for nccl-stacks ranks, or with --stacks for the main command")
    add("--no-merge", action="store_true", help="only make the parts")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    try:
        asked = parser.parse_args(words[:end])
    except RecursionError:
        parser.error("a list of traces names itself")
    if asked.address and asked.engine == "local":
        parser.error("the engine local has no address")
    # What a scheduler ends a job by is as an interruption: the engine's resources are given back.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run(asked, words[end + 1 :])
    except (_program.Error, OSError) as error:
        is_wrong = isinstance(error, _program.Error) and error.exit_code == WRONG
        say(f"{'' if is_wrong else 'error: '}{error}")
        return WRONG if is_wrong else 1
    except KeyboardInterrupt:
        say("interrupted; the same command goes on from here")
        return 128 + signal.SIGINT


def run(asked: argparse.Namespace, rest: list[str]) -> int:
    program = _program.find()
    jobs = planned(expanded(asked.paths), rest, os.path.abspath(asked.out), program)
    os.makedirs(asked.out, exist_ok=True)
    # The largest come first: one of them that began last would be waited for alone.
    left = sorted((job for job in jobs if not is_made(job)), key=lambda job: -os.path.getsize(job.trace) if os.path.exists(job.trace) else 0)
    failed: set[Job] = set()
    partly = 0
    # Standard output is the answer's. Ray writes there that a worker has died, from threads of its own.
    output = os.dup(1)
    os.dup2(2, 1)
    if left:
        say(f"{len(left)} parts to make; engine {asked.engine}")
        with contextlib.ExitStack() as stack:
            failed, partly = reduce(started(stack, asked.engine, asked.workers, asked.address), left, asked.retries)
    for job in [job for job in left if job not in failed and not os.path.exists(job.part)]:
        failed.add(job)
        say(f"no part of {job.trace}: it was written, and is not in {asked.out} here; that has to be a folder all machines share")
    whole = {os.path.basename(job.part) for job in jobs if job not in failed}
    kept = len(jobs) - len(left)
    say(f"{len(whole)} of {len(jobs)} parts: {len(whole) - kept} made, {kept} there already")
    lacks = INCOMPLETE if failed or partly else 0
    if asked.no_merge:
        return lacks
    if not whole:
        raise _program.Error("no trace has a part, so there is nothing to merge")
    return answer(asked, program, whole, output) or lacks


def expanded(named: list[str]) -> list[str]:
    """The traces of files, patterns and folders, as absolute paths, each once. The rules are the program's, so that a folder means the same here
    and there. What does not exist stays: to say so is up to the program."""
    traces: dict[str, list[str]] = {}
    for path in (path for name in named for path in _program.matches(name)):
        inside = [path]
        if os.path.isdir(path):
            inside = sorted(entry.path for entry in os.scandir(path) if entry.name.endswith(TRACES) and entry.is_file())
        for trace in map(os.path.abspath, inside):
            # A link leads to the same trace.
            traces.setdefault(os.path.realpath(trace), []).append(trace)
    for times in (times for times in traces.values() if len(times) > 1):
        say(f"{times[0]} is listed {len(times)} times and read once")
    if not traces:
        raise _program.Error(f"no traces in {', '.join(named)}")
    return [times[0] for times in traces.values()]


def planned(traces: list[str], rest: list[str], folder: str, program: str) -> list[Job]:
    """The parts to make, with the options for all and those for one trace: `--rank 3=FILE` is wrong for all others. Other machines are in other
    folders, so files that options name become absolute paths."""
    files = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("--config", "--family-file", "--capture-trace", "--rank"):
        files.add_argument(name, dest=name, action="append", default=[])
    given, options = files.parse_known_args(rest)
    named = vars(given)
    of_file = {os.path.realpath(trace): trace for trace in traces}
    ranks: dict[str, list[str]] = {}
    for rank, _, file in (value.partition("=") for value in named.pop("--rank")):
        trace = of_file.get(os.path.realpath(file))
        if trace is None:
            raise _program.Error(f"--rank {rank}={file}: that is none of the traces")
        ranks[trace] = ["--rank", f"{rank}={trace}"]
    for name, file in ((name, file) for name, values in named.items() for file in values):
        # If it is not there, that would be said for each trace.
        os.stat(file)
        options += [name, os.path.abspath(file)]
    options = [word for of, words in DEFAULTS if not _program.has(options, of) for word in words] + options
    own = program if os.environ.get(_program.VARIABLE) else None
    return [Job(trace, os.path.join(folder, part_name(trace)), (*options, *ranks.get(trace, ())), own) for trace in traces]


def part_name(trace: str) -> str:
    """The name of the part of a trace. Two traces with one name in two folders have two parts; a trace always has the same."""
    name = re.sub(r"(\.json)?(\.gz|\.zst)?$", "", os.path.basename(trace))
    return f"{name}-{hashlib.sha256(os.fsencode(trace)).hexdigest()[:12]}.parquet"


def is_made(job: Job) -> bool:
    """Whether there is a part that is newer than the trace, as `[ "$part" -nt "$trace" ]` has it."""
    try:
        return os.stat(job.part).st_mtime_ns > os.stat(job.trace).st_mtime_ns
    except OSError:
        return False


def reduce(engine: Engine, jobs: list[Job], retries: int) -> tuple[set[Job], int]:
    """Runs the jobs; those that have no part then, and how many parts lack some of their input."""
    done: queue.SimpleQueue[Any] = queue.SimpleQueue()
    running: dict[Any, Job] = {}
    losses: Counter[Job] = Counter()
    failed: set[Job] = set()
    partly = 0

    def start(job: Job) -> None:
        future = engine(job)
        running[future] = job
        future.add_done_callback(done.put)

    for job in jobs:
        start(job)
    while running:
        if sys.stderr.isatty():
            # The next message removes it.
            print(f"\r\x1b[K{len(jobs) - len(running)} of {len(jobs)} parts", end="", file=sys.stderr, flush=True)
        future = done.get()
        job = running.pop(future)
        try:
            code, message = future.result()
        except Exception as error:
            # `work` itself raises nothing, so its worker is gone, or could not begin.
            code, message = -signal.SIGKILL, f"{type(error).__name__}: {error}".strip().splitlines()[0]
        losses[job] += code < 0
        if code < 0 and is_made(job):
            say(f"{job.trace} lost ({message}); its part is there")
        elif code < 0 and losses[job] <= retries:
            say(f"{job.trace} lost ({message}); retry {losses[job]} of {retries}")
            start(job)
        elif code in (0, INCOMPLETE):
            partly += code == INCOMPLETE
            if message:
                say(f"{job.trace}: {message}")
        elif code in (UNUSABLE, WRONG):
            raise _program.Error(message, code)
        elif any(text in message for text in FULL):
            raise _program.Error(f"no room for parts: {message}")
        else:
            failed.add(job)
            lost = f"lost {losses[job]} times, last: " if code < 0 else ""
            say(f"no part of {job.trace}: {lost}{message or _program.ending(code)}")
    return failed, partly


def answer(asked: argparse.Namespace, program: str, parts: set[str], output: int) -> int:
    """Runs the program on the parts; its exit code."""
    others = sorted({name for name in os.listdir(asked.out) if name.endswith((".parquet", ".json"))} - parts)
    if others:
        say(f"{len(others)} other parts in {asked.out} are left out, such as {others[0]}")
    options = [option for option in asked.merge if option != "--stacks"]
    # Before the user's, of which the last may lack its value.
    own = [] if _program.has(options, _program.OF_CONFIG) else [_program.NO_CONFIG]
    own += ["--expect", str(asked.expect)] if asked.expect else []
    paths = [os.path.join(asked.out, name) for name in sorted(parts)] if others else [asked.out]
    command = [program, *([] if "--stacks" in asked.merge else ["ranks"]), *own, *options, "--", *paths]
    code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output).returncode
    if code < 0:
        raise _program.Error(f"the program {_program.ending(code)} while it answered from the parts")
    return code


def say(text: str) -> None:
    """Writes a message in which only lines are apart: names of files and what is in traces could move a terminal's cursor, or forge an answer."""
    visible = "".join(letter if letter.isprintable() or letter == "\n" else ascii(letter)[1:-1] for letter in text)
    print("\r\x1b[K" * sys.stderr.isatty() + f"fleet: {visible}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
