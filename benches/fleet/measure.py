#!/usr/bin/env python3
"""What the engines cost, and what they lose, on this machine, with the program itself.

usage: measure.py faults|overhead [-n RUNS] TRACES

TRACES is a folder with a trace for each rank, such as `make_trace job --tp 8 --dp 32 TRACES` writes. $NCCL_STACKS_BIN names the program, which
has to write Parquet. Needs ray and dask[distributed].

`faults` runs the fleet, and while it runs kills a machine or a worker: a Ray cluster of four nodes on this machine, of which one dies; a worker
of Ray or Dask, by SIGKILL. It checks what the answer says of the ranks, and that what is missing is named. It fails if anything is otherwise.

`overhead` runs the same traces by `xargs` and by each engine, interleaved, with as many traces at once as there are CPUs. The engines' clusters
are there before, as on a machine that has them; starting one is measured apart. The answer is left out.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "python"
PROGRAM = os.environ.get("NCCL_STACKS_BIN", "nccl-stacks")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PACKAGE), "NCCL_STACKS_BIN": os.path.abspath(shutil.which(PROGRAM) or PROGRAM)}
# Shared memory for results, of which there are a few KB. Ray would take a third of the machine's memory.
OBJECT_STORE = 80 << 20
CPUS = len(os.sched_getaffinity(0))


def command(traces, parts, *arguments):
    return [sys.executable, "-m", "nccl_stacks.fleet", str(traces), "--out", str(parts), *map(str, arguments)]


@contextlib.contextmanager
def ray_cluster(nodes, cpus=1):
    """A Ray cluster of several nodes on this machine, each with its own raylet and workers."""
    from ray.cluster_utils import Cluster

    os.environ.update(PYTHONPATH=str(PACKAGE))
    options = {"num_cpus": cpus, "object_store_memory": OBJECT_STORE}
    cluster = Cluster(initialize_head=True, head_node_args={**options, "include_dashboard": False})
    try:
        others = [cluster.add_node(**options) for _ in range(nodes - 1)]
        yield cluster, others
    finally:
        cluster.shutdown()


@contextlib.contextmanager
def dask_cluster(workers):
    """A Dask cluster of processes on this machine, each with a nanny that starts it again."""
    from distributed import LocalCluster

    # Its processes get the path of this one.
    sys.path.insert(0, str(PACKAGE))
    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster:
        yield cluster


def workers(run):
    """The processes that run the program now: its parents, among what this process has started. Waits for the first."""
    import psutil

    while run.poll() is None:
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if process.cmdline()[1:2] == ["part"]:
                    yield process.parent()


def kill_worker(run):
    """Kills a worker that runs the program now."""
    for worker in workers(run):
        worker.send_signal(signal.SIGKILL)
        return f"a worker ({worker.name()})"
    return "nothing"


def kill_node(cluster, nodes):
    """Ends a node, all its processes at once, of which a worker runs the program now. Not the head: Ray itself ends with that."""

    import psutil

    def kill(run):
        raylets = {node.all_processes["raylet"][0].process.pid: node for node in nodes}
        for worker in workers(run):
            node = raylets.get(worker.ppid())
            if node is not None:
                # Without its raylet a worker would still end its task.
                for process in worker.parent().children(recursive=True):
                    with contextlib.suppress(psutil.Error):
                        process.kill()
                cluster.remove_node(node, allow_graceful=False)
                return "a node"
        return "nothing"

    return kill


def disturbed(traces, parts, count, disturb, *arguments):
    """Runs the fleet, and disturbs it once a quarter of the parts is there. The exit code, the ranks of the answer, the missing, the messages."""
    run = subprocess.Popen(
        command(traces, parts, *arguments, "--expect", count, "--merge=--format json --quiet"),
        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        there = 0
        while there < count // 4 and run.poll() is None:
            there = sum(1 for name in os.listdir(parts) if name.endswith(".parquet")) if os.path.isdir(parts) else 0
            time.sleep(0.005)
        what = disturb(run)
        out, err = run.communicate(timeout=300)
    finally:
        run.kill()
    answer = json.loads(out) if out else {}
    ranks = [rank["rank"] for rank in answer.get("ranks", [])]
    return run.returncode, ranks, f"killed {what} with {there} parts there", err


def check(name, is_right, text, err):
    print(f"{name:<48} {text}", flush=True)
    if not is_right:
        raise SystemExit(f"{name}: not as it should be\n{err}")


def losses(err):
    return len(re.findall(r" lost \(.*\); ", err))


def faults(traces, work):
    count = len(list(traces.glob("*.json.gz")))
    everything = list(range(count))

    def whole(name, done):
        code, ranks, text, err = done
        lost = losses(err)
        right = code == 0 and ranks == everything and lost > 0
        check(name, right, f"{len(ranks)} of {count} ranks, exit code {code}; {text}; {lost} losses", err)

    with ray_cluster(4) as (cluster, nodes):
        ray = ("--engine", "ray", "--address", cluster.address)
        whole("Ray, 4 nodes, a node dies", disturbed(traces, work / "node", count, kill_node(cluster, nodes), *ray))
    with ray_cluster(4) as (cluster, nodes):
        ray = ("--engine", "ray", "--address", cluster.address)
        whole("Ray, 4 nodes, a worker is killed", disturbed(traces, work / "worker", count, kill_worker, *ray))
    with ray_cluster(4) as (cluster, nodes):
        ray = ("--engine", "ray", "--address", cluster.address)
        parts = work / "off"
        code, ranks, text, err = disturbed(traces, parts, count, kill_node(cluster, nodes), *ray, "--retries", 0)
        missing = sorted(set(everything) - set(ranks))
        named = [int(rank) for rank in re.findall(r"no part of .*/rank(\d+)\.json\.gz", err)]
        right = code == 6 and missing and sorted(named) == missing
        check("Ray, 4 nodes, a node dies, retries off", right, f"{len(ranks)} of {count} ranks, exit code {code}; {text}; named: {len(named)}", err)
        print("    the answer:", next((line for line in err.splitlines() if line.startswith("Missing")), "")[:200])
        again = subprocess.run(command(traces, parts, "--expect", count, "--merge=--quiet"), env=ENVIRONMENT, capture_output=True, text=True)
        right = again.returncode == 0 and f"{len(missing)} made" in again.stderr
        check("    and run again, without Ray", right, again.stderr.strip().splitlines()[-1], again.stderr)
    dask = ("--engine", "dask", "--workers", 4)
    whole("Dask, 4 processes, a worker is killed", disturbed(traces, work / "dask", count, kill_worker, *dask))
    with dask_cluster(4) as cluster:
        address = ("--engine", "dask", "--address", cluster.scheduler_address)
        code, ranks, text, err = disturbed(traces, work / "address", count, kill_worker, *address)
        # This cluster's scheduler tries again by itself, so the fleet need not see the loss.
        right = code == 0 and ranks == everything
        text += f"; {losses(err)} losses, beside those that the scheduler tried again itself"
        check("Dask, cluster at an address, a worker is killed", right, f"{len(ranks)} of {count} ranks, exit code {code}; {text}", err)


def overhead(traces, work, runs):
    names = sorted(traces.glob("*.json.gz"))
    listed = "\n".join(map(str, names)) + "\n"

    def xargs(parts):
        parts.mkdir()
        # A shell for each trace only makes the name of its part.
        script = f'exec "{ENVIRONMENT["NCCL_STACKS_BIN"]}" part --quiet --threads 1 --output "{parts}/$(basename "$0").parquet" -- "$0"'
        subprocess.run(["xargs", "-P", str(CPUS), "-n", "1", "sh", "-c", script], input=listed, text=True, check=True)

    def fleet(*arguments):
        return lambda parts: subprocess.run(command(traces, parts, *arguments, "--no-merge"), env=ENVIRONMENT, check=True, stderr=subprocess.DEVNULL)

    took = {}
    with ray_cluster(1, CPUS) as (cluster, _), dask_cluster(CPUS) as dask:
        ways = {
            f"xargs -P{CPUS}": xargs,
            "fleet, local": fleet(),
            "fleet, Ray": fleet("--engine", "ray", "--address", cluster.address),
            "fleet, Dask": fleet("--engine", "dask", "--address", dask.scheduler_address),
        }
        # The first run of each is not counted: files are cold then, and workers start.
        for run in range(runs + 1):
            for number, (name, way) in enumerate(ways.items()):
                parts = work / f"{run}-{number}"
                began = time.monotonic()
                way(parts)
                if run > 0:
                    took.setdefault(name, []).append(time.monotonic() - began)
                made = len(list(parts.glob("*.parquet")))
                assert made == len(names), f"{name}: {made} parts of {len(names)}"
                shutil.rmtree(parts)
    alone = {
        "fleet, Ray, with the start of a cluster": fleet("--engine", "ray", "--workers", CPUS),
        "fleet, Dask, with the start of a cluster": fleet("--engine", "dask", "--workers", CPUS),
    }
    for number, (name, way) in enumerate(alone.items()):
        began = time.monotonic()
        way(work / f"alone-{number}")
        took[name] = [time.monotonic() - began]
    base = statistics.median(next(iter(took.values())))
    print(f"{len(names)} traces, {sum(name.stat().st_size for name in names) / 1e6:.0f} MB, medians of {runs} runs")
    for name, seconds in took.items():
        median = statistics.median(seconds)
        each, more = median / len(names) * 1e3, (median - base) / len(names) * 1e3
        print(f"{name:<42} {median:7.2f} s  {each:6.1f} ms a trace  {more:+6.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["faults", "overhead"])
    parser.add_argument("traces", type=Path)
    parser.add_argument("-n", type=int, default=5, metavar="RUNS")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder:
        if asked.what == "faults":
            faults(asked.traces.resolve(), Path(folder))
        else:
            overhead(asked.traces.resolve(), Path(folder), asked.n)


if __name__ == "__main__":
    main()
