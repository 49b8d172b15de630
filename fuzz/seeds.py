"""Writes the seed inputs of each target: pieces of the traces in testdata, smaller than 4 KiB."""
import gzip
import json
import pathlib
import pickle

here = pathlib.Path(__file__).parent
texts, broken = [], []
for path in sorted((here.parent / "testdata").rglob("*.json*")):
    data = path.read_bytes()
    if path.parent.name == "broken":
        if path.suffix == ".json" and not path.stem.endswith(".report"):
            broken.append((path.stem, data))
        continue
    texts.append((path.name.split(".")[0], gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data))


def put(target, name, data):
    folder = here / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


for name, text in texts + broken:
    put("cutter", name, b"\x40" + text[:3000])
    put("cutter", name + "-end", b"\xff" + text[-2000:])
for name, text in texts:
    try:
        trace = json.loads(text)
    except (ValueError, RecursionError):
        continue
    events = trace.get("traceEvents", []) if isinstance(trace, dict) else trace
    events = [event for event in events if isinstance(event, dict)]
    kinds = {(event.get("ph"), event.get("cat")): event for event in events}
    for i, event in enumerate(kinds.values()):
        body = json.dumps(event)[1:-1].encode()
        if len(body) < 1500:
            put("event", f"{name}-{i}", body)
    for i in range(0, len(events), max(1, len(events) // 8)):
        small = json.dumps({"traceEvents": events[i:i + 4]}).encode()
        if len(small) < 3000:
            put("cutter", f"{name}-{i}", b"\x30" + small)
            for how in range(3, 8):
                put("packed", f"{name}-{i}-{how}", bytes([how, 128]) + small)
            put("packed", f"{name}-{i}-gz", b"\0\x10" + gzip.compress(small[:700], mtime=0))

# Structured inputs: any bytes form a trace.
state = 1
for i in range(40):
    data = bytearray()
    for _ in range(1 + 5 * (2 + i)):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        data.append(state >> 56)
    for target in ["nesting", "tables", "packets"]:
        put(target, f"random-{i}", bytes(data))

# Values of operators' arguments: the texts alone, as an argument, and all arguments of an event.
values = set()
for name, text in texts:
    try:
        trace = json.loads(text)
    except (ValueError, RecursionError):
        continue
    events = trace.get("traceEvents", []) if isinstance(trace, dict) else trace
    for event in events:
        args = event.get("args") if isinstance(event, dict) else None
        for value in args.values() if isinstance(args, dict) else []:
            values.add(value if isinstance(value, str) else json.dumps(value))
        if isinstance(args, dict) and len(json.dumps(args)) < 500 and event.get("cat") in ("cpu_op", "cpu_instant_event"):
            values.add("\xfe" + json.dumps(args)[1:-1])
for i, value in enumerate(sorted(value for value in values if len(value) < 500)):
    if value.startswith("\xfe"):
        put("values", f"args-{i}", b"\xfe" + value[1:].encode())
    else:
        put("values", f"text-{i}", b"\0" + value.encode())
        put("values", f"argument-{i}", b"\xff" + value.encode())

# Records: the number of the source in `tests/checks/records.rs`, then one file or several.
BETWEEN = b"\n\xff\xfe\n"
records = here.parent / "testdata" / "records"


def put_records(source, name, *files):
    put("records", f"{source}-{name}", bytes([source]) + BETWEEN.join(files))
    put("records", f"{source}-{name}-last", bytes([source + 128 + 64]) + BETWEEN.join(files))


def lines(path, count):
    return b"".join(path.read_bytes().splitlines(keepends=True)[:count])


dumps = [json.loads(path.read_text()) for path in sorted((records / "hang").glob("*.json"))]
for dump in dumps:
    dump["entries"] = dump["entries"][-2:]
    for entry in dump["entries"][:-1]:
        entry.pop("frames", None)
ranks = [json.dumps(dump, separators=(",", ":")).encode() for dump in dumps]
put_records(0, "json", ranks[0])
put_records(0, "ranks", *ranks[1:3])
for protocol in [0, 2, 4]:
    put_records(0, f"pickle-{protocol}", pickle.dumps(dumps[0], protocol))
    put_records(0, f"pickles-{protocol}", *(pickle.dumps(dump, protocol) for dump in dumps[:3]))
rank = {"rank": 0, "host": "a", "pid": 7, "cuda_dev": 0, "collective_counts": {"AllReduce": 5, "Send": 1},
        "status": {"init_state": 0, "async_error": 0, "abort_flag": False}}
lost = {"rank": 1, "host": "b", "status": {"unresponsive": True, "considered_dead": False}}
answer = {"nccl_version": "2.28.9", "timestamp": "2026-09-23 11:55:37", "communicators_count": 1, "communicators": [
    {"hash": "0xabc", "size": 3, "ranks": [rank, {**rank, "rank": 2, "collective_counts": {"AllReduce": 4}}],
     "missing_ranks": [lost, lost]}]}
text = json.dumps(answer).encode()
put_records(1, "answer", text)
put_records(1, "answers", text.replace(b"}, {", b"} {") + b"\n" + text.replace(b"55:37", b"56:37"))
put_records(1, "files", text, text.replace(b'"AllReduce": 4', b'"AllReduce": 5'))
for count in [1, 2, 3]:
    both = [lines(path, count) for path in sorted((records / "inspector").glob("*.log"))]
    put_records(2, f"one-{count}", both[0])
    put_records(2, f"both-{count}", *both)
step = {"step": 0, "size": 9, "start_time": 1760000000000112, "fifo_ready_time": 1760000000000115, "end_time": 1760000000000122}
proxy = {"ph": "X", "cat": "PROXY", "name": "ProxyOp", "rank": 1, "peer": 2, "is_send": True, "n_steps": 2, "chunk_size": 2048,
         "channel_id": 1, "ts": 1760000000000112, "dur": 30, "steps": [step, {**step, "step": 1}]}
line = {"ph": "X", "ts": 1760000000000101, "dur": 2, "cat": "COLL", "rank": 1, "args": {"size": 4096}, "comm_hash": "0xf0f",
        "name": "all_reduce", "seq_num": 7, "algo": "ring", "proto": "simple", "n_max_channel": 2,
        "child_start_ts": 1760000000000110, "child_dur": 40, "proxyops": [proxy]}
call = {**line, "cat": "P2P", "name": "recv", "peer": 0, "reclaimed": True, "proxyops": []}
texts = [json.dumps(of).encode() + b"\n" for of in [line, call, proxy]]
put_records(3, "lines", b"".join(texts))
put_records(3, "files", texts[0], texts[0].replace(b'"rank": 1', b'"rank": 2'), texts[1])
dump = (records / "plugin_dump.txt").read_bytes().splitlines(keepends=True)
for i in range(0, len(dump), 8):
    put_records(4, f"lines-{i}", b"".join(dump[i:i + 14]))
for count in [1, 4, 8]:
    logs = [lines(records / "megatrace" / f"rank_{rank}.log", count) for rank in range(3)]
    put_records(5, f"one-{count}", logs[0])
    put_records(5, f"ranks-{count}", *logs)
put_records(5, "old", b"[save_count 12] [1755590104.253968145] [Rank 3] Fun Send Data 26 stream 0x55 opCount 17 groupHash -1234567\n" * 2)
put_records(5, "commas", b"1755590104.253968145,NCCL_API,AllReduce,count=9,datatype=9,stream=0x5,comm=0x1,group_hash=0xff\n")
log = b"".join(f"""\
n:1:{t} [0] NCCL INFO ncclCommInitRank comm 0x56 rank {t} nranks 3 cudaDev 3 busId 5b000 commId 0xabc - Init COMPLETE
n:1:{t} [0] NCCL INFO AllReduce: opCount {t} sendbuff 0x7f recvbuff (nil) count 99 datatype 7 op 0 root 0 comm 0x56 [nranks=3] stream 0x1
n:1:{t} [0] NCCL INFO AllReduce: 396 Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..3}}
n:1:{t} [0] NCCL INFO Send: opCount 2 sendbuff 0x7f recvbuff 0x7f count 9 datatype 9 op 0 root 1 comm 0x56 [nranks=3] stream 0x1 task 3 globalrank 1
""".encode() for t in range(2))
put_records(6, "log", log)
put_records(6, "logs", log, log.replace(b"n:1:", b"m:2:").replace(b"opCount 1", b"opCount 3"))
op = {"opCount": 0, "rank": 0, "channel": 0, "nsteps": 2, "nbytes": 1000, "chunkSize": 2000, "sliceSteps": 1, "chunkSteps": 1,
      "dtype": 7, "redOp": 0, "pattern": "RING_TWICE", "protocol": "SIMPLE", "ringPrev": 1, "ringNext": 1}
steps = [{"opCount": 0, "rank": 0, "channel": 0, "step": i // 2, "op": ["SEND", "RECV"][i % 2], "peer": 1, "bytes": 1000,
          "pattern": "RING_TWICE", "protocol": "SIMPLE", "stage": "reduce-scatter"} for i in range(4)]
rows = [json.dumps(of).encode() + b"\n" for of in [op, *steps]]
put_records(7, "lines", b"".join(rows))
put_records(7, "ranks", b"".join(rows[:3]), b"".join(rows[:3]).replace(b'"rank": 0', b'"rank": 1').replace(b"SEND", b"RECV"))
put_records(7, "aggregate", json.dumps({"rank": 0, "meta": op, "steps": steps}).encode(), b"".join(rows[1:]))
kinds = [64, 17, 21, 1, 26, 2, 1, 23, 24, 2, 1, 1]
parents = [0, 1, 2, 3, 3, 5, 5, 3, 8, 9, 9, 8]
for thread in range(2):
    rows = [bytes([kind, i, parent * 4, 22 if i == 5 else 9, i, 1, thread, 0, 0]) for i, (kind, parent) in enumerate(zip(kinds, parents))]
    put_records(8, f"call-{thread}", b"".join(rows))
    put_records(8, f"ranks-{thread}", b"".join(rows), b"".join(rows[:4]))
