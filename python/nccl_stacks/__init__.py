"""nccl-stacks from Python: the answers of the program as frames, and many traces on many machines.

The program does the work. This package finds it, runs it and reads what it writes. It is pure Python and needs nothing but the
standard library, until a frame is asked for:

    >>> import nccl_stacks
    >>> frame = nccl_stacks.stacks("trace.json.gz")

`python -m nccl_stacks.fleet` reduces the traces of many ranks on the engine that a cluster has.
"""

from __future__ import annotations

from ._frames import COLUMNS, Column, DamageWarning, stacks
from ._program import (
    Error,
    Failed,
    NotFound,
    TraceError,
    UsageError,
    find,
    version,
)

__all__ = [
    "COLUMNS",
    "Column",
    "DamageWarning",
    "Error",
    "Failed",
    "NotFound",
    "TraceError",
    "UsageError",
    "find",
    "stacks",
    "version",
]
