"""The critical path of each rank alone, computed a second time: plain Python, no code of the program and none of its ideas.

The program builds a causal graph of a job (src/replay) and says of which kinds its longest path is. A mistake there looks plausible and gives no
error, as happened once: jobs that wait for their GPUs were said to wait for their CPUs. So this module computes the same from the trace alone,
by the rules that are written down (spec/replay-rules.md section 1, spec/replay.md sections 2 and 6), in the simplest way: it builds no graph and
reruns nothing, it stands at the last moment of the trace and asks, again and again, "what was waited for here?", and goes there.
test_critical_path.py compares the two. It is a check, it is not part of what is installed.

    python3 critical_path.py TRACE... [--json]
"""

import argparse
import bisect
import collections
import decimal
import gc
import gzip
import json
import re
import statistics
import sys
from pathlib import Path

KINDS = ("cpu", "launch-latency", "compute", "transfer", "idle", "blocked-unknown", "profiler")
OUTCOMES = ("waited", "did not wait", "own work", "unknown")

US = 1000
# A thread needs at least 2.8 us to wake; an end that is nearer to the return of a call than this is there by chance.
LEAST_WAKE = 2500
# None of the calls in which something ended returned later than this after it.
MOST_WAKE = 25 * US
# A device synchronisation that is longer than this has waited for what ended in it, even if it returns much later.
LONG_DEVICE = 500 * US
# What a call needs without anything to wait for: never taken for more than this.
MOST_OWN = 10 * US
MOST_OWN_DEVICE = 5 * US
# Where neither the launch nor the stream explains the start of a slice to within this, another stream does.
UNEXPLAINED = 5 * US
# In a trace in whole us a slice may seem to begin this much before the end of what it waited for.
ROUNDING = US
# A thread that does nothing for this long has waited for another thread.
QUIET = 50 * US

CALLS = {"cuda_runtime", "cuda_driver", "runtime", "driver", "hip_runtime", "hip_api"}
SLICES = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}
ANNOTATIONS = {"user_annotation", "gpu_user_annotation", "trace", "overhead", "cuda_sync", "cuda_event", "cpu_instant_event"}
COLLECTIVE = re.compile(
    r"^ncclDevKernel|^ncclKernel|^rccl|^mscclKernel|mscclpp|dpsk::ep::|cross_device_reduce"
    r"|(?:one|two)_?-?shot_?-?all_?-?reduce|all_?reduce_?(?:one|two)_?-?shot|allreduce_fusion_kernel|custom_?all_?reduce",
    re.IGNORECASE,
)
# Functions in which a thread waits for another one; python_function slices are named `file(line): function` or `<built-in method ...>`.
WAITING = re.compile(
    r"\b(?:run_backward|acquire|sleep|poll|epoll|select|_?wait(?:_for_tstate_lock)?|join|recv|recv_into|get|read|accept|zmq_poll)\b(?! of type)",
    re.IGNORECASE,
)


def nanoseconds(value):
    """Microseconds as they stand in the file -> ns, exactly. Epoch microseconds with a fraction do not fit a float: it loses up to 250 ns."""
    if isinstance(value, int):
        return value * 1000
    whole, point, fraction = value.partition(".")
    if not point or len(fraction) > 3 or not fraction.isdigit():
        return int((decimal.Decimal(value) * 1000).to_integral_value(decimal.ROUND_HALF_UP))
    part = int(fraction.ljust(3, "0"))
    return int(whole) * 1000 + (-part if whole.startswith("-") else part)


def read(path):
    """The complete events of a trace. Numbers with a fraction stay text, see `nanoseconds`."""
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "rb") as file:
        text = file.read()
    # A trace is millions of small objects, none of which is garbage yet.
    gc.disable()
    try:
        whole = json.loads(text, parse_float=str)
    finally:
        gc.enable()
    events = whole if isinstance(whole, list) else whole.get("traceEvents", [])
    return [event for event in events if isinstance(event, dict) and event.get("ph") == "X" and "ts" in event and "dur" in event]


class Call:
    """A call of the runtime or of the driver."""

    __slots__ = ("start", "end", "name", "thread", "correlation", "stream", "slices", "wait")

    def __init__(self, start, end, name, thread, correlation, stream):
        self.start, self.end, self.name, self.thread, self.correlation = start, end, name, thread, correlation
        self.stream = stream
        self.slices = []
        self.wait = None

    def launched(self):
        """The moment from which its slices could start. A graph or a blocking copy starts before its call returns, so not from there."""
        return self.start if self.slices[0].start < self.end else self.end


class Slice:
    """A kernel, a copy or a fill on a stream."""

    __slots__ = ("start", "end", "stream", "kind", "is_kernel", "is_copy", "name", "call", "before", "also", "last_of_launch")

    def __init__(self, start, end, stream, category, name):
        self.start, self.end, self.stream, self.name = start, end, stream, name
        self.is_kernel = category == "kernel"
        self.is_copy = category.endswith("memcpy")
        self.kind = "transfer" if self.is_kernel and COLLECTIVE.search(name) else "compute"
        self.call = None
        # The one before it on its stream, and those of other streams for which its stream was told to wait.
        self.before = None
        self.also = ()
        self.last_of_launch = True


class Wait:
    """What a blocking call did: how long it worked itself, what it waited for (or nothing), and of which kind the rest is."""

    __slots__ = ("outcome", "own_end", "slice", "rest")

    def __init__(self, outcome, own_end, slice_=None, rest="cpu"):
        # `rest` is the kind of the time from the end waited for (or, without one, from own_end) to the return.
        self.outcome, self.own_end, self.slice, self.rest = outcome, own_end, slice_, rest


class Thread:
    """A launching thread: its points in order of time, and when it was woken by another thread."""

    def __init__(self):
        self.calls = []
        self.busy = []
        self.returns = []
        self.blocking = []
        self.blocking_ends = []
        self.woken = []


def ranks(events):
    """Events by rank: by `args.rank` where the file is of several ranks, else processes with the GPUs on which they launch."""
    calls, parent = {}, {}

    def root(key):
        while parent.setdefault(key, key) != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    def rank_of(event):
        return (event.get("args") or {}).get("rank") if event.get("cat") != "cpu_op" else None

    told = {event["pid"]: rank for event in events for rank in [rank_of(event)] if rank is not None and "correlation" in (event.get("args") or {})}
    several = len(set(map(str, told.values()))) > 1

    def place(event):
        return ("rank", str(told.get(event["pid"]))) if several else ("pid", event.get("pid"))

    for event in events:
        if (event.get("cat") or "").lower() in CALLS:
            calls[place(event) if several else None, (event.get("args") or {}).get("correlation")] = place(event)
    launching = set()
    for event in events:
        if (event.get("cat") or "").lower() in SLICES:
            at = place(event)
            launching.add(root(at))
            by = calls.get((at if several else None, (event.get("args") or {}).get("correlation")))
            if by is not None:
                parent[root(at)] = root(by)
    launching = {root(at) for at in launching}
    groups = collections.defaultdict(list)
    for event in events:
        at = root(place(event))
        if at in launching:
            groups[at].append(event)
    for number, (at, group) in enumerate(sorted(groups.items(), key=lambda item: str(item[0]))):
        yield (int(at[1]) if at[0] == "rank" and at[1].isdigit() else number), group


class Rank:
    """One rank alone: its calls, its slices, and the walk along what was waited for."""

    def __init__(self, events):
        self.calls, self.slices = [], []
        self.threads = collections.defaultdict(Thread)
        self.records = collections.defaultdict(list)
        self.steps = []
        others = collections.defaultdict(list)
        for event in events:
            self.take(event, others)
        self.calls.sort(key=lambda call: (call.start, call.end))
        self.link_launches()
        self.link_streams()
        self.link_waits_of_streams()
        launching = {call.thread for call in self.calls if call.slices}
        for call in self.calls:
            if call.thread in launching:
                self.threads[call.thread].calls.append(call)
        self.judge_blocking_calls()
        for name, thread in self.threads.items():
            thread.blocking = [call for call in thread.calls if call.wait]
            thread.blocking.sort(key=lambda call: call.end)
            thread.blocking_ends = [call.end for call in thread.blocking]
            thread.busy = busy(others[name] + [(call.start, call.end, True) for call in thread.calls])
            thread.returns = sorted(call.end for call in thread.calls)
        self.link_threads()

    # What is in the trace

    def take(self, event, others):
        category = (event.get("cat") or "").lower()
        start = nanoseconds(event["ts"])
        end = start + nanoseconds(event["dur"])
        args = event.get("args") or {}
        name = event.get("name") or ""
        if category in SLICES:
            # What post-processing tools write into tid is not always the stream.
            stream = (args.get("device", event.get("pid")), args.get("stream", event.get("tid")))
            self.slices.append((Slice(start, end, stream, category, name), args.get("correlation")))
        elif category in CALLS:
            self.calls.append(Call(start, end, name, (event.get("pid"), event.get("tid")), args.get("correlation"), args.get("stream")))
        elif category == "cuda_sync":
            self.records[args.get("correlation")].append(args)
        elif category not in ANNOTATIONS:
            others[event.get("pid"), event.get("tid")].append((start, end, not WAITING.search(name)))
        elif name.startswith("ProfilerStep"):
            self.steps.append((start, end))

    def link_launches(self):
        by_correlation = {}
        for call in self.calls:
            if call.correlation is not None:
                by_correlation.setdefault(call.correlation, call)
        slices, self.slices = self.slices, []
        for slice_, correlation in slices:
            self.slices.append(slice_)
            slice_.call = by_correlation.get(correlation)
            if slice_.call is not None:
                slice_.call.slices.append(slice_)
        self.slices.sort(key=lambda slice_: (slice_.end, slice_.start))
        self.ends = [slice_.end for slice_ in self.slices]
        # Starts and durations are cut off there, each for itself.
        whole = all(slice_.start % US == 0 and slice_.end % US == 0 for slice_ in self.slices)
        self.rounding = ROUNDING if whole else 0
        for call in self.calls:
            call.slices.sort(key=lambda slice_: slice_.start)

    def link_streams(self):
        """Slices of a stream one after another. In order of their ends: with dependent launches the next starts before the one before it ends,
        but does nothing that counts until then."""
        self.streams = collections.defaultdict(list)
        for slice_ in self.slices:
            line = self.streams[slice_.stream]
            if line:
                slice_.before = line[-1]
            line.append(slice_)
        self.stream_ends = {stream: [slice_.end for slice_ in line] for stream, line in self.streams.items()}
        # By stream: the launches on it in order, for "before the next launch to that stream" and "launched before".
        self.launches = collections.defaultdict(list)
        for call in self.calls:
            last = {}
            for slice_ in call.slices:
                other = last.get(slice_.stream)
                if other is None or other.end <= slice_.end:
                    if other is not None:
                        other.last_of_launch = False
                    last[slice_.stream] = slice_
                else:
                    slice_.last_of_launch = False
            for stream, slice_ in last.items():
                self.launches[stream].append((call.start, slice_))
        self.launch_starts = {stream: [start for start, _ in line] for stream, line in self.launches.items()}
        self.event_records = [call.start for call in self.calls if "EventRecord" in call.name]
        self.by_correlation = {call.correlation: call for call in self.calls if call.correlation is not None}

    def last_launched(self, stream, before):
        """The last slice of a stream that was launched before a moment."""
        at = bisect.bisect_left(self.launch_starts.get(stream, ()), before)
        return self.launches[stream][at - 1][1] if at else None

    def link_waits_of_streams(self):
        """A stream that is told to wait: the next launch follows what the other streams were given before. With a `cuda_sync` record it is known
        which stream waits and for what; without, the next launch of the thread is taken, and everything that was launched before."""
        pending_thread = collections.defaultdict(dict)
        pending_stream = collections.defaultdict(list)
        for call in self.calls:
            if "StreamWaitEvent" in call.name:
                record = next((record for record in self.records.get(call.correlation, ()) if "wait_on_stream" in record), None)
                if record:
                    recorded = self.by_correlation.get(record.get("wait_on_cuda_event_record_corr_id"))
                    for stream in self.launches:
                        if stream[1] == record["wait_on_stream"]:
                            found = self.last_launched(stream, recorded.start if recorded else call.start)
                            pending_stream[record.get("stream")].append(found)
                else:
                    for stream in self.launches:
                        pending_thread[call.thread][stream] = self.last_launched(stream, call.start)
            elif call.slices:
                known = pending_thread.pop(call.thread, {})
                for slice_ in call.slices:
                    waited = [other for stream, other in known.items() if stream != slice_.stream]
                    waited += pending_stream.pop(slice_.stream[1], ())
                    slice_.also = [other for other in waited if other is not None and other.end <= slice_.start]

    # Blocking calls

    def inside(self, call):
        """The slices that end while a call runs, the last first."""
        at = bisect.bisect_right(self.ends, call.end)
        while at and self.ends[at - 1] > call.start:
            at -= 1
            yield self.slices[at]

    def eligible(self, call):
        """Those of them for which the call can have waited by their time: launched before it, and ended just before its return."""
        for slice_ in self.inside(call):
            gap = call.end - slice_.end
            if gap > MOST_WAKE:
                return
            if gap >= LEAST_WAKE and self.was_before(slice_, call):
                yield slice_

    @staticmethod
    def was_before(slice_, call):
        return slice_.call is None or slice_.call.start <= call.start

    def can_have_event(self, slice_):
        """An event can only have been recorded behind a slice if it is the last of its launch on its stream, and there is a call that records one
        before the next launch on that stream."""
        if not slice_.last_of_launch:
            return False
        if not self.event_records or slice_.call is None:
            return True
        starts = self.launch_starts[slice_.stream]
        at = bisect.bisect_right(starts, slice_.call.start)
        upto = starts[at] if at < len(starts) else float("inf")
        record = bisect.bisect_right(self.event_records, slice_.call.start)
        return record < len(self.event_records) and self.event_records[record] < upto

    def judge_blocking_calls(self):
        usual = collections.defaultdict(list)
        judged = []
        for call in self.calls:
            kind = blocking_kind(call)
            if kind is None:
                continue
            judged.append((call, kind))
            if kind != "copy" and next(self.inside(call), None) is None:
                usual[call.name].append(call.end - call.start)
        for call, kind in judged:
            own = min(MOST_OWN, int(statistics.median(usual[call.name]))) if usual[call.name] else MOST_OWN
            call.wait = self.judge(call, kind, own)
        self.judged = judged

    def judge(self, call, kind, own):
        length = call.end - call.start
        if kind == "copy":
            return Wait("waited", call.start, max(call.slices, key=lambda slice_: slice_.end), "idle")
        found, rest = None, "idle"
        if kind == "device":
            own = min(own, MOST_OWN_DEVICE)
            found = next(self.eligible(call), None)
            if found is None and length > LONG_DEVICE:
                found, rest = next(self.inside(call), None), "profiler"
        elif kind == "stream":
            found = self.stream_waited_for(call)
        else:
            found = self.event_waited_for(call) if length > max(own + own // 2, own + 4 * US) else None
        own_end = min(call.end, call.start + own)
        if found is not None:
            return Wait("waited", own_end, found, rest)
        if length > (1000 * US if kind == "device" else max(50 * US, 3 * own)):
            return Wait("unknown", own_end, None, "blocked-unknown")
        last = next(self.inside(call), None)
        if kind == "device" and last is not None and call.end - last.end > MOST_WAKE:
            return Wait("own work", last.end, None, "profiler")
        return Wait("did not wait" if length <= 2 * own else "own work", call.end)

    def record(self, call, *kinds):
        return next((record for record in self.records.get(call.correlation, ()) if record.get("cuda_sync_kind") in kinds), None)

    def stream_waited_for(self, call):
        record = self.record(call, "Stream Sync")
        stream = record["stream"] if record else call.stream
        if not isinstance(stream, int) or not any(known[1] == stream for known in self.streams):
            return next(self.eligible(call), None)
        return next((slice_ for slice_ in self.inside(call) if slice_.stream[1] == stream and self.was_before(slice_, call)), None)

    def event_waited_for(self, call):
        record = self.record(call, "Event Sync")
        if record is None:
            return next((slice_ for slice_ in self.eligible(call) if self.can_have_event(slice_)), None)
        recorded = self.by_correlation.get(record.get("wait_on_cuda_event_record_corr_id"))
        if recorded is None:
            return None
        for stream in self.launches:
            if stream[1] == record.get("wait_on_stream"):
                slice_ = self.last_launched(stream, recorded.start)
                if slice_ is not None and call.start < slice_.end <= call.end:
                    return slice_
        return None

    # Threads

    def link_threads(self):
        """For each thread: when it began to do something again, and what another thread had done last then."""
        for name, thread in self.threads.items():
            for quiet_start, quiet_end in gaps(thread.busy):
                best = None
                for key, other in self.threads.items():
                    if key == name:
                        continue
                    at = bisect.bisect_left(other.returns, quiet_end)
                    if at and other.returns[at - 1] > quiet_start and (best is None or other.returns[at - 1] > best[0]):
                        best = (other.returns[at - 1], key)
                if best:
                    thread.woken.append((quiet_end, *best))
            thread.woken.sort()

    # The walk

    def path(self, window="program"):
        """Pieces (kind, from, to, slice or None) from the last moment back to the first, without a hole."""
        self.start = self.first_moment(window)
        last_call = max((call for thread in self.threads.values() for call in thread.calls), key=lambda call: call.end, default=None)
        last_slice = self.slices[-1]
        pieces = []
        if last_call is not None and last_call.end > last_slice.end:
            state, now = ("thread", last_call.thread), last_call.end
        else:
            state, now = ("slice", last_slice), last_slice.end
        self.end = now
        while now > self.start and state is not None:
            more, state, now = self.back(state, now)
            pieces += more
        if now > self.start:
            # Nothing in the trace is before it: a slice that was launched before the recording.
            pieces.append(("idle", self.start, now, None))
        return [(kind, max(since, self.start), upto, of) for kind, since, upto, of in pieces if upto > max(since, self.start)]

    def first_moment(self, window):
        """Where the path begins: with the first launch or step; in the table of the rules (window "table") with the first call or slice."""
        calls = [call for thread in self.threads.values() for call in thread.calls]
        if window == "table":
            return min([call.start for call in calls] + [slice_.start for slice_ in self.slices])
        starts = [call.start for call in calls if call.slices] + [start for start, _ in self.steps]
        return min(starts or [slice_.start for slice_ in self.slices])

    def back(self, state, now):
        what, *at = state
        return self.back_from_slice(*at, now) if what == "slice" else self.back_on_thread(at[0], now, *at[1:])

    def back_from_slice(self, slice_, now):
        """From the end of a slice to what it waited for."""
        since = slice_.start
        candidates = [(other.end, "idle", ("slice", other)) for other in slice_.also]
        if slice_.before is not None:
            # Ends after the start: a dependent launch, which has its own time only behind it.
            candidates.append((slice_.before.end, "idle", ("slice", slice_.before)))
            since = max(since, slice_.before.end)
        if slice_.call is not None:
            candidates.append((min(slice_.call.launched(), slice_.start), "launch-latency", ("thread", slice_.call.thread)))
        explained = max(candidates, key=lambda candidate: candidate[0], default=None)
        if explained is None or since - explained[0] > UNEXPLAINED:
            other = self.last_of_other_streams(slice_)
            if other is not None and (explained is None or other.end > explained[0]):
                explained = (min(other.end, since), "idle", ("slice", other))
        pieces = [(slice_.kind, since, now, slice_)]
        if explained is None:
            return pieces, None, since
        moment, kind, state = explained
        if moment < since:
            pieces.append((kind, moment, since, None))
        return pieces, state, moment

    def last_of_other_streams(self, slice_):
        # Within a graph a slice waits for nothing that another call launched: that something of that ended last before it is a coincidence.
        before = slice_.before
        graph = slice_.call if before is not None and slice_.call is not None and before.call is slice_.call else None
        best = None
        for stream, ends in self.stream_ends.items():
            if stream != slice_.stream:
                at = bisect.bisect_right(ends, slice_.start + self.rounding)
                while at and graph is not None and self.streams[stream][at - 1].call is not graph:
                    at -= 1
                if at and (best is None or ends[at - 1] > best.end):
                    best = self.streams[stream][at - 1]
        return best

    def back_on_thread(self, name, now, before=None):
        """From a moment of a thread to what it waited for in its last blocking call, or to what woke it."""
        thread = self.threads[name]
        # Calls are counted rather than compared by time: in whole us one often ends in the moment in which the next starts.
        at = (bisect.bisect_right(thread.blocking_ends, now) if before is None else before) - 1
        call = thread.blocking[at] if at >= 0 else None
        woken = bisect.bisect_right(thread.woken, (now, float("inf"))) - 1
        wake = thread.woken[woken] if woken >= 0 else None
        if call is not None and (wake is None or call.end > wake[0]):
            return self.back_through(call, at, name, now)
        if wake is not None:
            # It did nothing: what the other thread did until then is the path, and the way from one to the other is CPU work.
            return [("cpu", wake[1], now, None)], ("thread", wake[2]), wake[1]
        return [("cpu", self.start, now, None)], None, self.start

    @staticmethod
    def back_through(call, at, name, now):
        """From after a blocking call to the end that it waited for, or to its start."""
        wait = call.wait
        after = ("cpu", call.end, now, None)
        # In whole us a call may be given its usual work although what it waited for ended earlier: then it did not wait.
        if wait.slice is not None and wait.slice.end > wait.own_end:
            return [after, (wait.rest, wait.slice.end, call.end, None)], ("slice", wait.slice), wait.slice.end
        rest = wait.rest if wait.slice is None else "cpu"
        pieces = [after, (rest, wait.own_end, call.end, None), ("cpu", call.start, wait.own_end, None)]
        return pieces, ("thread", name, at), call.start

    def blocked(self):
        """The time of all calls that waited, from their own work to the end they waited for."""
        return sum(max(0, call.wait.slice.end - call.wait.own_end) for call, _ in self.judged if call.wait.outcome == "waited")

    def unknown(self):
        return sum(call.end - call.wait.own_end for call, _ in self.judged if call.wait.outcome == "unknown")

    def answer(self, window="program"):
        pieces = self.path(window)
        kinds = dict.fromkeys(KINDS, 0)
        kernels = 0
        for kind, since, upto, of in pieces:
            kinds[kind] += upto - since
            kernels += upto - since if of and of.is_kernel else 0
        length = self.end - self.start
        # The path has no holes and covers nothing twice: that is what makes its parts shares of the whole.
        if sum(kinds.values()) != length:
            raise AssertionError(f"the parts of the path are {sum(kinds.values())} ns, the path is {length} ns")
        outcomes = collections.Counter(call.wait.outcome for call, _ in self.judged)
        return {
            "length_ns": length,
            "kinds": kinds,
            "percent": {kind: round(100 * value / length, 2) if length else 0.0 for kind, value in kinds.items()},
            "kernels_ns": kernels,
            "blocked_ns": self.blocked(),
            "unknown_ns": self.unknown(),
            "blocking_calls": {outcome: outcomes[outcome] for outcome in OUTCOMES},
        }


def blocking_kind(call):
    name = call.name.lower()
    if "memcpy" in name:
        copies = [slice_ for slice_ in call.slices if slice_.is_copy]
        return "copy" if copies and all(slice_.end <= call.end for slice_ in copies) else None
    if "synchronize" not in name:
        return None
    return "stream" if "stream" in name else "event" if "event" in name else "device"


def busy(slices):
    """The times in which a thread does something itself, from its nested slices (start, end, whether it is work): the innermost one says it."""
    times, stack = [], []
    mark = None

    def add(since, upto):
        if upto > since:
            if times and times[-1][1] >= since:
                times[-1][1] = max(upto, times[-1][1])
            else:
                times.append([since, upto])

    def close(before):
        nonlocal mark
        while stack and stack[-1][0] <= before:
            end, work = stack.pop()
            if end > mark:
                if work:
                    add(mark, end)
                mark = end

    for start, end, work in sorted(slices, key=lambda item: (item[0], -item[1])):
        close(start)
        if stack and stack[-1][1]:
            add(mark, start)
        mark = start
        stack.append((end, work))
    close(float("inf"))
    return times


def gaps(times):
    """The times in which a thread did nothing for long enough, also the one before its first work."""
    before = float("-inf")
    for since, upto in times:
        if since - before >= QUIET:
            yield before, since
        before = upto


def critical_paths(path, windows=("program",)):
    """One answer for each rank of a trace that has GPU slices, and for each window."""
    for number, events in ranks(read(path)):
        rank = Rank(events)
        for window in windows:
            yield {"trace": Path(path).name, "rank": number, "window": window, **rank.answer(window)}


def print_table(answers):
    print(f"{'trace':60} {'rank':>4} {'ms':>9} " + " ".join(f"{kind:>8.8}" for kind in KINDS) + f" {'blocked ms':>10} {'unknown':>8}  calls")
    for answer in answers:
        shares = " ".join(f"{answer['percent'][kind]:8.2f}" for kind in KINDS)
        calls = ", ".join(f"{count} {outcome}" for outcome, count in answer["blocking_calls"].items() if count)
        print(f"{answer['trace'][:60]:60} {answer['rank']:>4} {answer['length_ns'] / 1e6:9.3f} {shares} "
              f"{answer['blocked_ns'] / 1e6:10.3f} {answer['unknown_ns'] / 1e6:8.3f}  {calls}")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description="the critical path of each rank alone, by kind")
    parser.add_argument("traces", nargs="+", metavar="TRACE")
    parser.add_argument("--json", action="store_true", help="JSON, one object for each trace and rank")
    parser.add_argument("--window", choices=["program", "table"], default="program", help="begins with a launch or step, or any call or slice")
    options = parser.parse_args()
    answers = [answer for path in options.traces for answer in critical_paths(path, [options.window])]
    if options.json:
        json.dump(answers, sys.stdout, indent=1)
        print()
    else:
        print_table(answers)


if __name__ == "__main__":
    main()
