#!/usr/bin/env python3
"""Compares what two builds answer: `same_answers.py OLD NEW FOLDER...`.

Every trace, set of ranks and folder of records below the folders is given to all commands of both programs. Their JSON, their tables and the
files that they write must be equal byte for byte, apart from the seconds that loading took. What differs is listed, and the exit code is 1.
For a change that only moves or shortens code.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TRACES = (".json", ".json.gz", ".pftrace", ".json.zst")
# Seconds: all that may differ between two runs of one program.
TIMES = re.compile(rb'"(load_seconds|seconds|written_at)": ?[0-9.e+-]+|in [0-9.]+ s( \([0-9]+ MB/s\))?')

# Of one trace. OUT stands for a file or folder that the command writes.
OF_A_TRACE = [
    ["--json"],
    ["--json", "--kernel-name", "%", "--group-by", "kernel"],
    ["--format", "csv", "--limit", "0"],
    ["describe", "--json"],
    ["sql", "--query", "pairs", "--format", "json"],
    ["ranks", "--json"],
    ["what-if", "--json"],
    ["export", "--sqlite", "OUT"],
    ["export", "--trace", "OUT"],
    ["repair", "--output", "OUT"],
]
# Of a folder: the ranks of a job, or its records.
OF_A_FOLDER = [
    ["ranks", "--json"],
    ["what-if", "--json"],
    ["hang", "--json", "--wait", "0"],
    ["records", "--json"],
    ["describe", "--json"],
    ["export", "--sqlite", "OUT"],
    ["export", "--chrome", "OUT"],
    ["export", "--megatrace", "OUT"],
    ["export", "--flows", "OUT"],
]


def tables(path):
    """The text of a database, without its file's own header."""
    dump = subprocess.run(["sqlite3", path, ".dump"], capture_output=True, check=False)
    return dump.stdout or path.read_bytes()


def written(path):
    """What a command wrote, as one text."""
    if path.is_dir():
        return b"".join(str(file.relative_to(path)).encode() + written(file) for file in sorted(path.rglob("*")) if file.is_file())
    if not path.exists():
        return b""
    content = path.read_bytes()
    if content[:6] == b"SQLite":
        return tables(path)
    if content[:2] == b"\x1f\x8b":
        return subprocess.run(["gzip", "-dc", path], capture_output=True, check=False).stdout
    return content


IGNORED = TIMES


def answer(program, command, given):
    """The exit code, the output, and what was written, of one run."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.json"
        arguments = [str(out) if argument == "OUT" else argument for argument in command]
        is_command = not arguments[0].startswith("-")
        line = ["nccl-stacks", *arguments[:is_command], given, *arguments[is_command:]]
        try:
            run = subprocess.run(line, executable=program, capture_output=True, timeout=300, check=False)
        except subprocess.TimeoutExpired:
            return "no answer in 300 s", b"", b"", b""
        texts = (run.stdout, run.stderr, written(out))
        return run.returncode, *(IGNORED.sub(b"", text.replace(folder.encode(), b"")) for text in texts)


def compare(programs, command, given):
    """What differs between two programs: a line, or None."""
    old, new = (answer(program, command, given) for program in programs)
    parts = [name for name, a, b in zip(("exit code", "output", "messages", "file"), old, new) if a != b]
    if not parts:
        return None
    first = next(((a, b) for a, b in zip(old, new) if a != b and isinstance(a, bytes)), (str(old[0]), str(new[0])))
    return f"{' '.join(command)} {given}: {', '.join(parts)}" + difference(*first)


def difference(old, new):
    """The first lines that differ."""
    if isinstance(old, bytes):
        old, new = old.decode(errors="replace"), new.decode(errors="replace")
    for before, after in zip(old.splitlines() + [""], new.splitlines() + [""]):
        if before != after:
            at = next((i for i, (a, b) in enumerate(zip(before, after)) if a != b), min(len(before), len(after)))
            begin = max(0, at - 60)
            return f"\n    - {before[begin:at + 100]}\n    + {after[begin:at + 100]}"
    return ""


def cases(folders):
    """Every trace and every folder with files, each with its commands."""
    for folder in map(pathlib.Path, folders):
        for at, folders_here, files in os.walk(folder, followlinks=True):
            folders_here.sort()
            for file in sorted(files):
                if file.endswith(TRACES) or "." not in file:
                    yield from ((command, str(pathlib.Path(at) / file)) for command in OF_A_TRACE)
            if files and pathlib.Path(at) != folder:
                yield from ((command, at) for command in OF_A_FOLDER)
            elif folders_here and not files:
                yield from ((command, at) for command in OF_A_FOLDER[:5])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", help="only commands that contain this text")
    parser.add_argument("--ignore", help="a regular expression for what may differ")
    given = parser.parse_args()
    global IGNORED
    if given.ignore:
        IGNORED = re.compile(TIMES.pattern + b"|" + given.ignore.encode())
    found = [case for case in cases(given.folders) if not given.only or given.only in " ".join(case[0])]
    programs = [os.path.abspath(given.old), os.path.abspath(given.new)]
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        different = [line for line in pool.map(lambda case: compare(programs, *case), found) if line]
    print("\n".join(different))
    print(f"{len(found)} answers of each, {len(different)} differ", file=sys.stderr)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
