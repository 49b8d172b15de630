"""What a worker does with a trace, and where workers are: on this machine, on Ray, on Dask. This module is all that workers import.

An engine only starts jobs: each gives a future, with `add_done_callback` and `result`. Retries are the driver's, once for all engines; those
of the engines are off where that can be. Ray and Dask are imported only when they are asked for.
"""

from __future__ import annotations

import concurrent.futures
import os
import socket
from contextlib import ExitStack
from importlib import import_module
from typing import Any, Callable, NamedTuple

from .. import _program

INCOMPLETE = 6
"""The program's exit code if it could read only some of its input."""
UNUSABLE = 126
"""The code of a machine that cannot run the program, as in a shell. No job would do better there."""


class Job(NamedTuple):
    """A trace and the part to make of it, as absolute paths, the options for that, and the program where $NCCL_STACKS_BIN names it."""

    trace: str
    part: str
    options: tuple[str, ...]
    program: str | None


Engine = Callable[[Job], Any]


def work(job: Job) -> tuple[int, str]:
    """Makes a part, on any machine: the program's exit code, below 0 for a signal, and its message. The program writes a part whole or not at
    all, so a worker can be killed at any line."""
    host, folder = socket.gethostname(), os.path.dirname(job.part)
    if not os.path.isdir(folder):
        # The program would make it, and the part would stay on this machine.
        return UNUSABLE, f"{host} does not see {folder}, which has to be a folder that all machines share"
    try:
        done = _program.run(job.program or _program.find(), ["part", *job.options, "--output", job.part, "--", job.trace])
        if done.returncode == INCOMPLETE:
            # Older than any trace, so that the next run tries again, and says again what is missing.
            os.utime(job.part, (0, 0))
    except (_program.Error, OSError) as error:
        return UNUSABLE, f"{host} cannot make parts: {error}"
    return done.returncode, f"the program {_program.ending(done.returncode)} on {host}" if done.returncode < 0 else done.stderr.strip()


def started(stack: ExitStack, name: str, workers: int | None, address: str | None) -> Engine:
    """Starts an engine, which gives everything back when the stack is closed: `local`, threads of this process, each of which waits for a
    program; `ray` or `dask`, on the cluster at `address` ($RAY_ADDRESS), else on one of this machine alone."""
    workers = workers or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())
    if name == "local":
        pool = concurrent.futures.ThreadPoolExecutor(workers)
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        return lambda job: pool.submit(work, job)
    host, _, port = (address or "").rpartition("//")[2].rpartition(":")
    try:
        if host and port.isdigit():
            # Ray would wait for minutes.
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        return _ray(stack, workers, address or os.environ.get("RAY_ADDRESS")) if name == "ray" else _dask(stack, workers, address)
    except Exception as error:
        # What engines raise of their own is of many kinds, from versions that do not fit to ports that are taken.
        what = f"no cluster at {address}" if address else f"{name} does not start"
        if isinstance(error, ImportError):
            what = f"{name} is not installed: pip install '{'dask[distributed]' if name == 'dask' else name}'"
        raise _program.Error(f"{what}: {type(error).__name__}: {error}") from error


def _ray(stack: ExitStack, workers: int | None, address: str | None) -> Engine:
    if not address:
        # By default it listens on all interfaces, and runs what anybody sends. Read when it is imported; for all systems, in spite of its name.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    ray = import_module("ray")
    own = {} if address else {"num_cpus": workers, "include_dashboard": False}
    # Nobody reads the output of its workers.
    ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **own)
    stack.callback(ray.shutdown)
    task = ray.remote(num_cpus=1, max_retries=0)(work)
    return lambda job: task.remote(job).future()


def _dask(stack: ExitStack, workers: int | None, address: str | None) -> Engine:
    dask, distributed = import_module("dask"), import_module("distributed")
    if address is None:
        # Its own retries; and what is queued on a worker when that is killed would count as lost with it. Other clusters have own settings.
        dask.config.set({"distributed.scheduler.allowed-failures": 0, "distributed.scheduler.worker-saturation": 1.0})
        own = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
        address = stack.enter_context(distributed.LocalCluster(**own))
    client = stack.enter_context(distributed.Client(address))
    return lambda job: client.submit(work, job, pure=False, retries=0)
