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


def together(spans, others):
    """How long both ran."""
    return sum(max(0, min(end, to) - max(start, from_)) for start, end in spans for from_, to in others)


def figures(trace, start, end):
    """What the program's `summary` has to have for a window that is chosen by launches."""
    own = trace.launched_within(start, end)
    begin, finish = min(kernel["ts"] for kernel in own), max(kernel["end"] for kernel in own)
    is_collective = {kernel["name"]: bool(COLLECTIVE.search(kernel["name"])) for kernel in trace.kernels}
    compute = union(kernel for kernel in trace.kernels if not is_collective[kernel["name"]])
    collectives = union(kernel for kernel in own if is_collective[kernel["name"]])
    return {
        "wall_ns": finish - begin,
        "busy_ns": length(within(union(trace.kernels), begin, finish)),
        "compute_ns": length(union(kernel for kernel in own if not is_collective[kernel["name"]])),
        "collectives_ns": length(collectives),
        "exposed_ns": length(collectives) - together(collectives, compute),
        "gpu_span": {"start_ns": begin, "end_ns": finish},
    }, [kernel for kernel in own if is_collective[kernel["name"]]]


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
