#!/usr/bin/env python3
"""A double of the program, for what the program itself cannot be made to do when a test needs it: to be slow, to be killed, to find a full
disk. It has the commands that the fleet uses, and its traces say what it does.

A trace is a line of JSON: `{"rank": 3}`, with any of

| field | the double |
|---|---|
| `sleep` | takes so many seconds |
| `broken` | fails with exit code 1 and this message |
| `partly` | writes the part, and ends with exit code 6 and this message |
| `signal` | ends itself by this signal; with `once`, a file, only if that is not there yet, and makes it |
| `kill_parent` | kills the process that started it, a worker, and then itself; with `once` as above |
| `note` | writes this to standard error |

$DOUBLE_VERSION is its version, and $DOUBLE_LOG a file into which each run of `part` writes its trace.
"""

import json
import os
import signal
import sys
import time


def fail(message, code=1):
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)


def is_first(order):
    """Whether what happens once is still to happen."""
    once = order.get("once")
    if once is None:
        return True
    try:
        os.close(os.open(once, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


VALUES = ("--output", "--expect", "--threads", "--family", "--family-file", "--config", "--rank", "--format")
"""The options that have a value."""


def parsed(arguments):
    """The options in order, those with values also by name, and what is left: paths."""
    options, values, paths = [], {}, []
    left = iter(arguments)
    for argument in left:
        if argument == "--":
            paths.extend(left)
        elif argument in VALUES:
            values[argument] = next(left)
            options.extend([argument, values[argument]])
        elif argument.startswith("-"):
            options.append(argument)
        else:
            paths.append(argument)
    return options, values, paths


def part(arguments):
    options, values, (trace,) = parsed(arguments)
    output = values["--output"]
    options = [option for option in options if option not in ("--output", output)]
    if "--wrong" in options:
        fail("unexpected argument '--wrong'", 2)
    if values.get("--family") == "nothing":
        fail("Nothing found: no kernel of this family", 3)
    if "DOUBLE_LOG" in os.environ:
        with open(os.environ["DOUBLE_LOG"], "a") as log:
            log.write(trace + "\n")
    try:
        with open(trace) as file:
            order = json.load(file)
    except (OSError, ValueError) as error:
        fail(f"{trace}: {error}")
    # As of the program, its name is none of a part.
    temporary = os.path.join(os.path.dirname(output), f".double-{os.getpid()}")
    with open(temporary, "w") as file:
        file.write('{"half": ')
    time.sleep(order.get("sleep", 0))
    if "broken" in order:
        fail(f"{trace}: {order['broken']}")
    if "kill_parent" in order and is_first(order):
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    if "signal" in order and is_first(order):
        os.kill(os.getpid(), order["signal"])
        time.sleep(5)
    if "note" in order:
        print(order["note"], file=sys.stderr)
    with open(temporary, "w") as file:
        json.dump({"rank": order["rank"], "trace": trace, "options": options}, file)
    os.rename(temporary, output)
    if "partly" in order:
        fail(order["partly"], 6)


def answer(command, arguments):
    options, values, paths = parsed(arguments)
    expect = int(values.get("--expect", 0))
    options = [option for option in options if option not in ("--expect", str(expect))]
    parts = []
    for path in paths:
        names = sorted(os.listdir(path)) if os.path.isdir(path) else [None]
        parts.extend(os.path.join(path, name) if name else path for name in names if (name or path).endswith((".json", ".parquet")))
    ranks = []
    for part in parts:
        with open(part) as file:
            ranks.append(json.load(file)["rank"])
    missing = sorted(set(range(expect)) - set(ranks))
    print(json.dumps({"command": command, "ranks": sorted(ranks), "missing": missing, "options": options}))
    sys.exit(6 if missing else 0)


if sys.argv[1:] == ["--version"]:
    print(os.environ.get("DOUBLE_VERSION", "double 1"))
elif sys.argv[1] == "part":
    part(sys.argv[2:])
elif sys.argv[1] == "ranks":
    answer("ranks", sys.argv[2:])
elif sys.argv[1].startswith("-"):
    answer("main", sys.argv[1:])
else:
    fail(f"no command {sys.argv[1]}", 2)
