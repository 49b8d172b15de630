#!/usr/bin/env python3
"""Doubles inputs of many shapes, and says by how much the CPU time and the memory of the program grow: `doubling.py PROGRAM [SHAPE...]`.

Each shape is doubled four times. Twice the input may take 2.3 times the CPU time: more is work that grows with the square, and the exit code is 1. Of a command that takes less than 0.1 s
nothing is said, because its start takes as much. Times are the least of several runs. The inputs are made here, so that each has one thing that grows and nothing else.
"""

import io
import json
import os
import pathlib
import random
import sys
import tarfile
import tempfile

DOUBLED = 4
MOST = 2.3
LEAST_S = 0.1
RUNS = 3

KERNEL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"


def slice_(name, ts, dur, cat="cpu_op", pid=9, tid=9, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def launch(at, ts, dur=2, tid=9):
    return slice_("cudaLaunchKernel", ts, dur, "cuda_runtime", tid=tid, correlation=at + 1)


def kernel(at, ts, dur=5, name=KERNEL, stream=7, **args):
    return slice_(name, ts, dur, "kernel", 0, stream, correlation=at + 1, device=0, stream=stream, **args)


def recorded(at, ts, ranks, dur=5, **args):
    group = {"Collective name": "allreduce", "Process Group Name": "0", "Group size": len(ranks), "Process Group Ranks": str(ranks)}
    return kernel(at, ts, dur, **group, **{"In msg nelems": 1024, "Out msg nelems": 1024, "dtype": "Float", "Seq": at}, **args)


def text(events, rank=0, world=2):
    head = {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world}, "traceEvents": []}
    return json.dumps(head)[:-2].encode() + b",\n".join(json.dumps(event).encode() for event in events) + b"]}"


def pairs(n, frame=lambda at: "a.py(1): f", **how):
    """Calls that each launch a kernel."""
    for at in range(n):
        yield slice_(frame(at), 10 * at, 9, "python_function")
        yield launch(at, 10 * at + 1)
        yield recorded(at, 10 * at + 4, [0, 1], **how)


def flat(n):
    return text(pairs(n))


def lines(n):
    return text(pairs(n, lambda at: f"a.py({at}): f"))


def names(n):
    return text(event for at in range(n) for event in (launch(at, 10 * at), kernel(at, 10 * at + 3, name=f"ncclKernel_{at}")))


def overlapping(n):
    events = [slice_(f"o{at % 7}", at, n) for at in range(n)]
    for at in range(20):
        events += [launch(at, n + 10 * at + 0.5), kernel(at, n + 10 * at + 3.5)]
    return text(events)


def nested(n):
    calls = [slice_("f", at, 4 * n - 2 * at, "python_function") for at in range(n)]
    return text([*calls, launch(0, n + 1, 1), kernel(0, n + 4)])


def at_once(n):
    return text(event for at in range(n) for event in (launch(at, at, 1), kernel(at, n + at, n)))


def one_graph(n):
    return text([slice_("cudaGraphLaunch", 0, 9, "cuda_runtime", correlation=1), *(kernel(0, 20 + 6 * at) for at in range(n))])


def many_threads(n):
    return text(event for at in range(n) for event in (launch(at, 10 * at, tid=at + 10), kernel(at, 10 * at + 4)))


def many_streams(n):
    return text(event for at in range(n) for event in (launch(at, 10 * at), kernel(at, 10 * at + 4, stream=at % 1000 + 7)))


def stepped(n):
    steps = (slice_(f"ProfilerStep#{at}", 100 * at, 99, "user_annotation") for at in range(n // 10))
    return text([*steps, *pairs(n)])


def flows(n):
    def of(at):
        yield launch(at, 10 * at)
        yield {"ph": "s", "id": at, "cat": "ac2g", "name": "ac2g", "pid": 9, "tid": 9, "ts": 10 * at}
        yield kernel(at, 10 * at + 4)
        yield {"ph": "f", "bp": "e", "id": at, "cat": "ac2g", "name": "ac2g", "pid": 0, "tid": 7, "ts": 10 * at + 4}

    return text(event for at in range(n) for event in of(at))


def captures(n):
    def of(at):
        for call, ts in (("cudaStreamBeginCapture", 0), ("cudaStreamEndCapture", 4)):
            yield slice_(call, 10 * at + ts, 1, "cuda_runtime")
        yield launch(at, 10 * at + 2, 1)
        yield kernel(at, 10 * at + 6, 2)

    return text(event for at in range(n) for event in of(at))


def archive(traces):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in traces:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def members(n):
    return archive((f"trace{at}.json", text([launch(0, at), kernel(0, at + 3)], rank=at, world=n)) for at in range(n))


def job(ranks, group, rows=40, is_named=False, lost=0):
    """Ranks of which each `group` leave their collectives together, on clocks of their own."""
    chance = random.Random(7)
    traces = []
    for first in range(0, ranks, group):
        ends, now = [], 1000.0
        for _ in range(rows):
            now += 60 + chance.random() * 40
            ends.append(now)
        for rank in range(first, min(first + group, ranks)):
            ahead, events = chance.random() * 1000, []
            for at, end in enumerate(ends):
                if chance.random() < lost:
                    continue
                dur = 10 + chance.random() * 20
                start = round(end + ahead - dur + chance.random() * 0.3, 3)
                events.append(launch(at, start - 5))
                members_ = list(range(first, first + group))
                events.append(recorded(at, start, members_, round(dur, 3)) if is_named else kernel(at, start, round(dur, 3)))
            traces.append((f"rank{rank}.json", text(events, rank, ranks)))
    return archive(traces)


def flight(n):
    entry = {"frames": [], "record_id": 0, "pg_id": 0, "process_group": ["0", "default"], "state": "completed", "profiling_name": "nccl:all_reduce",
             "input_sizes": [[8]], "output_sizes": [[8]], "input_dtypes": ["Float"], "output_dtypes": ["Float"], "is_p2p": False, "retired": True}
    entries = [{**entry, "record_id": at, "collective_seq_id": at, "op_id": at, "time_created_ns": 10**9 + 1000 * at} for at in range(n)]
    return json.dumps({"version": "2.9", "pg_config": {"0": {"name": "0", "desc": "default", "ranks": "[0, 1]"}}, "entries": entries}).encode()


# By name: what grows, the first size, the file's name, and the command; INPUT and OUTPUT stand for files.
SHAPES = {
    "kernels": (flat, 16000, "t.json", ["INPUT", "--json"]),
    "kernels, as a page": (flat, 8000, "t.json", ["INPUT", "--format", "html", "--output", "OUTPUT.html"]),
    "kernels, described": (flat, 16000, "t.json", ["describe", "INPUT"]),
    "kernels, counted in SQL": (flat, 16000, "t.json", ["sql", "INPUT", "SELECT count(*) FROM kernel_launch"]),
    "kernels, to SQLite": (flat, 8000, "t.json", ["export", "INPUT", "--sqlite", "OUTPUT.db"]),
    "kernels, compared": (flat, 8000, "t.json", ["diff", "INPUT", "INPUT"]),
    "kernels, as a part": (flat, 8000, "t.json", ["part", "INPUT", "--output", "OUTPUT.json"]),
    "kernels of a rank": (flat, 8000, "t.json", ["ranks", "INPUT"]),
    "lines of code": (lines, 4000, "t.json", ["INPUT", "--json"]),
    "lines of code of a rank": (lines, 2000, "t.json", ["ranks", "INPUT", "--json"]),
    "names of kernels": (names, 4000, "t.json", ["INPUT", "--json"]),
    "names of kernels of a rank": (names, 2000, "t.json", ["ranks", "INPUT", "--json"]),
    "slices that overlap": (overlapping, 16000, "t.json", ["INPUT"]),
    "slices that overlap, in SQL": (overlapping, 8000, "t.json", ["sql", "INPUT", "--query", "stacks"]),
    "calls within calls": (nested, 16000, "t.json", ["INPUT"]),
    "kernels that run at once": (at_once, 16000, "t.json", ["INPUT"]),
    "kernels of a graph": (one_graph, 32000, "t.json", ["INPUT", "--json"]),
    "threads": (many_threads, 8000, "t.json", ["INPUT"]),
    "streams": (many_streams, 16000, "t.json", ["INPUT"]),
    "steps": (stepped, 8000, "t.json", ["INPUT", "--group-by", "step", "--json"]),
    "flows": (flows, 16000, "t.json", ["INPUT", "--json"]),
    "captures": (captures, 8000, "t.json", ["INPUT", "--json"]),
    "traces of an archive": (members, 250, "t.tar", ["INPUT", "--json"]),
    "ranks of named groups": (lambda n: job(n, 4, is_named=True), 128, "t.tar", ["ranks", "INPUT", "--json"]),
    "ranks of groups without names": (lambda n: job(n, 4), 128, "t.tar", ["ranks", "INPUT", "--json"]),
    "ranks of one group without a name": (lambda n: job(n, n), 128, "t.tar", ["ranks", "INPUT", "--json"]),
    "ranks of groups without names, of which rows are lost": (lambda n: job(n, 4, lost=0.001), 128, "t.tar", ["ranks", "INPUT", "--json"]),
    "operations of a flight recorder": (flight, 16000, "nccl_trace_rank_0.json", ["records", "INPUT", "--json"]),
}


def cost(command):
    """The CPU time in s and the memory in MB of a command, and whether it answered."""
    child = os.fork()
    if child == 0:
        for stream, flags in ((1, os.O_WRONLY), (2, os.O_WRONLY)):
            os.dup2(os.open(os.devnull, flags), stream)
        os.execv(command[0], command)
    _, status, used = os.wait4(child, 0)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, os.waitstatus_to_exitcode(status)


def measured(program, make, size, name, command, folder):
    path, output = folder / name, folder / "output"
    path.write_bytes(make(size))
    command = [part.replace("INPUT", str(path)).replace("OUTPUT", str(output)) for part in command]
    found = []
    for _ in range(RUNS):
        found.append(cost([program, *command]))
        for written in folder.glob("output*"):
            written.unlink()
    if any(code not in (0, 3, 6) for _, _, code in found):
        raise SystemExit(f"{' '.join(command)}: exit {found[0][2]}")
    return min(seconds for seconds, _, _ in found), min(memory for _, memory, _ in found)


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    program, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:]
    worst = 0
    print(f"{'shape':55} {'first':>7} {'last':>7} {'CPU s':>7} {'MB':>6}  factors of CPU time, of memory at the last")
    for shape, (make, first, name, command) in SHAPES.items():
        if wanted and shape not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            sizes = [first << doubled for doubled in range(DOUBLED + 1)]
            found = [measured(program, make, size, name, command, pathlib.Path(folder)) for size in sizes]
        factors = [after[0] / before[0] if after[0] >= LEAST_S else None for before, after in zip(found, found[1:])]
        worst = max([worst, *(factor for factor in factors if factor)])
        shown = " ".join(f"{factor:.2f}" if factor else "   -" for factor in factors)
        memory = found[-1][1] / found[-2][1]
        print(f"{shape:55} {sizes[0]:7} {sizes[-1]:7} {found[-1][0]:7.2f} {found[-1][1]:6.0f}  {shown}  {memory:.2f}", flush=True)
    sys.exit(worst > MOST)


if __name__ == "__main__":
    main()
