"""Where batches run: on this machine, on Ray, on Dask.

An engine starts batches and hands back what came of them. It decides nothing: retries, batches that are divided and what is said are in
`drive`, once for all engines, and the engines' own retries are off where that can be. Ray and Dask are imported only when they are asked for.
"""

from __future__ import annotations

import concurrent.futures
import importlib
import os
import socket
import threading
from typing import Any, Callable, Protocol, Union

from .._program import Error
from .work import Job, Row, Setup, work


class Lost(Exception):
    """A batch whose worker or machine is gone. Some of its parts may be there."""


Outcome = Union[list[Row], Lost]
"""What came of a batch."""


class Engine(Protocol):
    """Runs batches."""

    slots: int
    """How many batches can run at once, as far as that is known."""

    def start(self, number: int, jobs: list[Job]) -> None:
        """Starts a batch, or queues it; does not wait."""

    def wait(self, seconds: float) -> list[tuple[int, Outcome]]:
        """What has come of batches since the last call; waits for the first, but not longer than this."""

    def close(self) -> None:
        """Gives everything back. What still runs is not waited for."""


class Local:
    """Threads of this process. Each waits for one program at a time, so Python's lock is no hindrance."""

    def __init__(self, setup: Setup, workers: int | None, address: str | None) -> None:
        if address:
            raise Error("the engine local has no address")
        self.slots = workers or _cpus()
        self._setup = setup
        self._pool = concurrent.futures.ThreadPoolExecutor(self.slots)
        self._is_closed = threading.Event()
        self._running: dict[concurrent.futures.Future[list[Row]], int] = {}

    def start(self, number: int, jobs: list[Job]) -> None:
        self._running[self._pool.submit(work, self._setup, jobs, self._is_closed.is_set)] = number

    def wait(self, seconds: float) -> list[tuple[int, Outcome]]:
        done, _ = concurrent.futures.wait(self._running, seconds, concurrent.futures.FIRST_COMPLETED)
        return [(self._running.pop(future), future.result()) for future in done]

    def close(self) -> None:
        self._is_closed.set()
        for future in self._running:
            future.cancel()
        self._pool.shutdown(wait=False)


class Ray:
    """Tasks of one CPU each on a Ray cluster: that at `address` or in $RAY_ADDRESS, else one of this machine alone."""

    def __init__(self, setup: Setup, workers: int | None, address: str | None) -> None:
        _look_for_cluster(address)
        address = address or os.environ.get("RAY_ADDRESS")
        if not address:
            # By default it listens on all interfaces, and runs what anybody sends. Read when it is imported; for all systems, in spite of its name.
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        ray = _import("ray", "ray")
        self._ray = ray
        self._errors = ray.exceptions
        own = {} if address else {"num_cpus": workers, "include_dashboard": False}
        # The output of its workers would go to standard output, where the answer goes.
        ray.init(**{"address": address or "local", "log_to_driver": False, "logging_level": "ERROR", **own})
        self.slots = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._setup = ray.put(setup)
        # A task that fails is given back, so that it is divided before it is tried again; see `drive`.
        self._work = ray.remote(num_cpus=1, max_retries=0)(work)
        self._running: dict[Any, int] = {}

    def start(self, number: int, jobs: list[Job]) -> None:
        self._running[self._work.remote(self._setup, jobs)] = number

    def wait(self, seconds: float) -> list[tuple[int, Outcome]]:
        done, _ = self._ray.wait(list(self._running), num_returns=1, timeout=seconds)
        return [(self._running.pop(task), self._outcome(task)) for task in done]

    def _outcome(self, task: Any) -> Outcome:
        try:
            rows: list[Row] = self._ray.get(task)
            return rows
        except (self._errors.RayTaskError, self._errors.RuntimeEnvSetupError) as error:
            raise _unusable("Ray", error) from error
        except self._errors.RayError as error:
            return Lost(_first_line(error))

    def close(self) -> None:
        self._ray.shutdown()


class Dask:
    """Tasks on a Dask cluster: that at `address`, else processes of this machine."""

    def __init__(self, setup: Setup, workers: int | None, address: str | None) -> None:
        dask = _import("dask", "dask[distributed]")
        self._distributed = _import("distributed", "dask[distributed]")
        _look_for_cluster(address)
        self._cluster = None
        if address is None:
            # Its own retries; and what is queued on a worker when that is killed would count as lost with it. Another cluster has its
            # own settings.
            dask.config.set({"distributed.scheduler.allowed-failures": 0, "distributed.scheduler.worker-saturation": 1.0})
            self._cluster = self._distributed.LocalCluster(
                n_workers=workers or _cpus(), threads_per_worker=1, dashboard_address=None, silence_logs=50
            )
        self._client = self._distributed.Client(address or self._cluster)
        self.slots = max(1, sum(self._client.nthreads().values()))
        self._setup = setup
        self._running: dict[Any, int] = {}

    def start(self, number: int, jobs: list[Job]) -> None:
        self._running[self._client.submit(work, self._setup, jobs, pure=False, retries=0)] = number

    def wait(self, seconds: float) -> list[tuple[int, Outcome]]:
        try:
            done, _ = self._distributed.wait(list(self._running), timeout=seconds, return_when="FIRST_COMPLETED")
        except (TimeoutError, self._distributed.TimeoutError):
            return []
        return [(self._running.pop(future), self._outcome(future)) for future in done]

    def _outcome(self, future: Any) -> Outcome:
        if future.status == "finished":
            try:
                rows: list[Row] = future.result()
                return rows
            except (OSError, concurrent.futures.CancelledError) as gone:
                # The worker that had the row is gone since.
                return Lost(_first_line(gone))
        error = future.exception() if future.status == "error" else None
        if error is None or isinstance(error, (self._distributed.KilledWorker, OSError)):
            return Lost(_first_line(error) if error else f"the task was {future.status}")
        raise _unusable("Dask", error) from error

    def close(self) -> None:
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()


ENGINES: dict[str, Callable[[Setup, int | None, str | None], Engine]] = {"local": Local, "ray": Ray, "dask": Dask}
"""The engines by name."""


def _import(name: str, package: str) -> Any:
    """A module of an engine, and the package that has it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Error(f"{name} is not installed: pip install '{package}'") from error


def _look_for_cluster(address: str | None) -> None:
    """Fails at once if nothing listens at an address of the form HOST:PORT. Ray would wait for minutes."""
    host, _, port = (address or "").rpartition("//")[2].rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        except OSError as error:
            raise Error(f"no cluster at {address}: {error}") from error


def _cpus() -> int:
    """How many CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _first_line(error: BaseException) -> str:
    """The kind of an error and the first line of its text; what follows is a trace of the engine's own code."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__


def _unusable(engine: str, error: BaseException) -> Error:
    """`work` itself raises nothing, so this is about what a worker needs before it can begin."""
    cause = getattr(error, "cause", None) or error.__cause__ or error
    return Error(f"{engine}'s workers cannot begin; is nccl-stacks, this version, installed on them? {_first_line(cause)}")
