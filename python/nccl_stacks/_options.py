"""The parameters of this package's functions: the program's options, with `_` for `-`, and `if_` for `--if`, which is a word of Python.

`nccl-stacks --help` and `docs/options.md` describe each. Those that only change how an answer is written are none: the form of answers is
Python's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TypedDict, Union

Path = Union[str, "os.PathLike[str]"]
Time = Union[int, str]
"""Nanoseconds, or a text with a unit: `77.5ms`."""
Text = Union[str, Sequence[str]]
"""One, or several."""
Files = Union[Path, Sequence[Path]]


class Options(TypedDict, total=False):
    """All parameters. Each function takes those that its command has; of another the program says so, and `Error.exit_code` is 2."""

    # Which kernels, and which part of the trace.
    kernel_name: Text
    family: Text
    family_file: Files
    step: Time
    function_name: str
    index: int
    start_ts: Time
    duration: Time
    window_on: str
    # Which stacks and groups there are, and in which order.
    group_by: Text
    depth: int
    exact_names: bool
    user_code: Text
    forward_stacks: bool
    sort: str
    limit: int
    min_share: float
    per_rank: bool
    # Which files, of which ranks, and how they are read.
    capture_trace: Files
    records: Files
    expect: int
    rank: Mapping[int, Path]
    run: int
    clock: str
    wait: Time
    ts_unit: str
    max_bytes: Time
    threads: int
    strict: bool
    config: Path
    # Of one command: two of `diff`, one of `diff` and `ranks`, one of `what_if`, three of `sql`.
    ranks: bool
    total: bool
    fail_if: Text
    if_: Text
    query: Text
    param: Mapping[str, str | int | float | Sequence[str]]
    file: Path


PARAMETERS = frozenset(Options.__annotations__)
