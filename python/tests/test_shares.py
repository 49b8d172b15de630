"""Times and shares of windows, computed a second time from the JSON of the traces alone: the program's figures have to be the same to the
nanosecond. Of the project's own traces always, of public ones where they are at hand."""

import gzip
import json
import re
import subprocess
import unittest
from decimal import Decimal

from support import PROGRAM, ROOT

# Every kernel of these traces that communicates has one of these in its name, and no other kernel has.
COLLECTIVE = re.compile(r"nccl\w*Kernel|all_reduce_(one|two)_shot|allreduce_fusion_kernel|dpsk::ep::")

OWN = [("testdata/sglang_decode.json.gz", "%forward_batch_generation", 4), ("testdata/ddp_backward.json.gz", "ProfilerStep#%", 3)]

PUBLIC = [
    ("lora-dev-script__sglang_tp4_A_mixed_rank0", "step[%", 4),
    ("lora-dev-script__sglang_tp4_F_decode_lora_rank1", "step[%", 5),
    ("lora_perf_lora_profile__sglang_tp4_J_base_bs16_v2_rank0", "step[%", 16),
    ("HTA__nccl_data_a100", "ProfilerStep#%", 3),
    ("HTA__trace_diff_control_a100", "ProfilerStep#%", 6),
    ("TraceLens__mi300_ddp_resnet_rank0", "ProfilerStep#%", 3),
    ("deepseek__dualpipe_train_rank0_of_64", "combine(B)", 4),
]


def ns(value):
    """Microseconds as they are written, in whole nanoseconds."""
    return int(Decimal(value) * 1000)


class Trace:
    """The complete events of a trace that was recorded by one process on one GPU."""

    def __init__(self, path):
        opened = gzip.open(path) if path.suffix == ".gz" else open(path)
        with opened as file:
            events = json.load(file, parse_float=Decimal)["traceEvents"]
        events = [event for event in events if event.get("ph") == "X" and "ts" in event and "cat" in event]
        for event in events:
            event["ts"], event["dur"] = ns(event["ts"]), ns(event.get("dur", 0))
            event["end"] = event["ts"] + event["dur"]
        self.cpu = [event for event in events if event["cat"] in ("user_annotation", "cpu_op", "python_function")]
        self.kernels = sorted((event for event in events if event["cat"].lower() == "kernel"), key=lambda event: event["ts"])
        calls = {}
        for event in events:
            if event["cat"].lower().endswith(("runtime", "driver")) and "correlation" in event.get("args", {}):
                calls.setdefault(event["args"]["correlation"], event)
        self.launch = lambda kernel: calls.get(kernel.get("args", {}).get("correlation"))

    def slices(self, pattern):
        """The CPU's slices that a pattern of SQL's LIKE means, in order."""
        like = re.compile(".*".join(re.escape(part) for part in pattern.split("%")))
        return sorted((event for event in self.cpu if like.fullmatch(event["name"])), key=lambda event: event["ts"])

    def launched_within(self, start, end):
        """The kernels that were launched in a window. Kernels without a launch are in none."""
        launched = [(kernel, self.launch(kernel)) for kernel in self.kernels]
        return [kernel for kernel, call in launched if call and start <= call["ts"] < end]


def union(events):
    """Disjoint spans of time in which any of some events ran, in order."""
    spans = []
    for start, end in sorted((event["ts"], event["end"]) for event in events):
        if spans and start <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([start, end])
    return spans


def length(spans):
    return sum(end - start for start, end in spans)


def within(spans, start, end):
    """What of some spans is between two times."""
    return [[max(from_, start), min(to, end)] for from_, to in spans if from_ < end and to > start]


def without(spans, others):
    """What of some spans is in none of some others; both are disjoint and in order."""
    for start, end in spans:
        for from_, to in within(others, start, end):
            if start < from_:
                yield start, from_
            start = to
        if start < end:
            yield start, end


def exposed(trace, collectives, is_collective):
    """The spans in which some of these collectives ran, and no compute kernel of another stream than its own."""
    for stream in {kernel["tid"] for kernel in collectives}:
        own = union(kernel for kernel in collectives if kernel["tid"] == stream)
        others = (kernel for kernel in trace.kernels if not is_collective[kernel["name"]] and kernel["tid"] != stream)
        for start, end in without(own, union(others)):
            yield {"ts": start, "end": end}


def figures(trace, start, end):
    """What the program's `summary` has to have for a window that is chosen by launches."""
    own = trace.launched_within(start, end)
    begin, finish = min(kernel["ts"] for kernel in own), max(kernel["end"] for kernel in own)
    is_collective = {kernel["name"]: bool(COLLECTIVE.search(kernel["name"])) for kernel in trace.kernels}
    collectives = [kernel for kernel in own if is_collective[kernel["name"]]]
    return {
        "wall_ns": finish - begin,
        "busy_ns": length(within(union(trace.kernels), begin, finish)),
        "compute_ns": length(union(kernel for kernel in own if not is_collective[kernel["name"]])),
        "collectives_ns": length(union(collectives)),
        "exposed_ns": length(union(exposed(trace, collectives, is_collective))),
        "gpu_span": {"start_ns": begin, "end_ns": finish},
    }, collectives


def shares(found):
    """Every share that an answer has, wherever it is."""
    if isinstance(found, dict):
        for key, value in found.items():
            if "share" in key and isinstance(value, (int, float)):
                yield key, value
            yield from shares(value)
    elif isinstance(found, list):
        for value in found:
            yield from shares(value)


@unittest.skipUnless(PROGRAM, "NCCL_STACKS_BIN names no program")
class Shares(unittest.TestCase):
    def answer(self, path, *options):
        run = subprocess.run([PROGRAM, path, "--quiet", "--json", *options], capture_output=True, text=True)
        self.assertIn(run.returncode, (0, 3), run.stderr)
        return json.loads(run.stdout)

    def check(self, path, pattern, count):
        trace = Trace(path)
        slices = trace.slices(pattern)
        self.assertEqual(len(slices), count, path)
        # The first, one between, and the last are enough.
        for index in (0, count // 2, count - 1):
            step = slices[index]
            want, collectives = figures(trace, step["ts"], step["end"])
            answer = self.answer(path, "--function-name", pattern, "--index", str(index))
            with self.subTest(path=path, index=index):
                got = {key: answer["summary"][key] for key in want}
                self.assertEqual(got, want)
                self.assertEqual(sum(answer["coverage"]["attributed_by"].values()), len(collectives))
                stacks = (stack["cost"]["gpu_time"]["total_ns"] for stack in answer["stacks"])
                self.assertEqual(sum(stacks), sum(kernel["dur"] for kernel in collectives))
                for key, share in shares(answer):
                    self.assertTrue(0 <= share <= 1, (key, share))

    def test_windows_of_the_projects_traces(self):
        for path, pattern, count in OWN:
            self.check(ROOT / path, pattern, count)

    def test_windows_of_public_traces(self):
        folder = ROOT.parent / "shared" / "traces"
        if not folder.is_dir():
            self.skipTest("the public traces are not at hand")
        for name, pattern, count in PUBLIC:
            self.check(folder / f"{name}.json.gz", pattern, count)

    def check_steps(self, path, pattern):
        """Each row of `--group-by step` has the figures of its step, and so has the answer of `--step`."""
        trace = Trace(path)
        slices = trace.slices(pattern)
        rows = [group for group in self.answer(path, "--group-by", "step")["groups"] if group["step"]]
        self.assertEqual([row["step"]["ts_ns"] for row in rows], [step["ts"] for step in slices], path)
        for row, step in zip(rows, slices):
            cost = row["step"]
            with self.subTest(path=path, step=cost["number"]):
                self.assertEqual(cost["dur_ns"], step["dur"])
                want, collectives = figures(trace, step["ts"], step["end"])
                del want["gpu_span"]
                want["gpu_span_ns"] = want.pop("wall_ns")
                self.assertEqual({key: cost[key] for key in want}, want)
                self.assertEqual(row["count"], len(collectives))
        last = rows[-1]["step"]
        answer = self.answer(path, "--step", str(last["number"]))
        self.assertEqual(answer["summary"]["wall_ns"], last["gpu_span_ns"])
        self.assertEqual(answer["summary"]["exposed_ns"], last["exposed_ns"])
        if answer["stacks"]:
            self.assertEqual(answer["stacks"][0]["headline"], last["largest_stack"]["headline"])
            self.assertEqual(answer["stacks"][0]["cost"]["exposed_ns"], last["largest_stack"]["exposed_ns"])

    def test_steps_of_the_projects_traces(self):
        for path in ("testdata/sglang_decode.json.gz", "testdata/ddp_backward.json.gz"):
            self.check_steps(ROOT / path, "ProfilerStep#%")

    def test_steps_of_public_traces(self):
        folder = ROOT.parent / "shared" / "traces"
        if not folder.is_dir():
            self.skipTest("the public traces are not at hand")
        for name, pattern, _ in PUBLIC:
            if "deepseek" not in name:
                self.check_steps(folder / f"{name}.json.gz", pattern)

    def test_queues_of_ranks_in_a_step(self):
        """The share of a rank's GPU span in which nothing was queued: from the end of the call that launched a kernel on it is queued."""
        folder = ROOT.parent / "shared" / "traces"
        paths = sorted(folder.glob("lora-dev-script__sglang_tp4_A_mixed_rank*.json.gz"))
        if not paths:
            self.skipTest("the public traces are not at hand")
        answer = subprocess.run(
            [PROGRAM, "ranks", *paths, "--quiet", "--json", "--step", "2"], capture_output=True, text=True, check=True
        )
        for path, rank in zip(paths, json.loads(answer.stdout)["ranks"]):
            trace = Trace(path)
            step = trace.slices("step[%")[2]
            own = trace.launched_within(step["ts"], step["end"])
            begin, end = min(kernel["ts"] for kernel in own), max(kernel["end"] for kernel in own)
            calls = [(kernel, trace.launch(kernel)) for kernel in trace.kernels]
            queued = [
                {"ts": min(call["end"], kernel["ts"]) if call else kernel["ts"], "end": kernel["end"]} for kernel, call in calls
            ]
            empty = end - begin - length(within(union(queued), begin, end))
            self.assertEqual((rank["gpu_span"], rank["wall_ns"]), ({"start_ns": begin, "end_ns": end}, end - begin))
            self.assertAlmostEqual(rank["queue_empty_share"], empty / (end - begin), places=12)
