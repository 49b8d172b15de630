"""nccl-stacks from Python: the answers of the program as frames, and many traces on many machines.

The program does the work. This package finds it, runs it and reads what it writes. It is pure Python and needs nothing but the standard
library. With pandas, an answer is a data frame, else a list of dicts; both show verdict, findings and rows in a notebook:

    >>> import nccl_stacks
    >>> answer = nccl_stacks.stacks("trace.json.gz")
    >>> answer.verdict, answer["exposed_ns"].sum()

`python -m nccl_stacks.fleet` reduces the traces of many ranks on the engine that a cluster has.

A file that is not there is a `FileNotFoundError`, whatever else goes wrong an `Error`. An answer that lacks something comes with a
`DamageWarning`. No config file is read, unless `config="nccl-stacks.conf"` names one.
"""

from __future__ import annotations

from ._answers import DamageWarning, diff, hang, ranks, sql, stacks, what_if
from ._program import Error, find, version

__all__ = ["DamageWarning", "Error", "diff", "find", "hang", "ranks", "sql", "stacks", "version", "what_if"]
