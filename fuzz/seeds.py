"""Writes the first inputs of each target: pieces of the traces in testdata, of less than 4 KiB."""
import gzip
import json
import pathlib

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
    except ValueError:
        continue
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
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

# Structured inputs: any bytes are a trace.
state = 1
for i in range(40):
    data = bytearray()
    for _ in range(1 + 5 * (2 + i)):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        data.append(state >> 56)
    for target in ["nesting", "tables", "packets"]:
        put(target, f"random-{i}", bytes(data))
