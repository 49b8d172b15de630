"""Which traces are to be reduced: all that are named, less those whose parts are there already, in batches.

As make does, by what is on disk alone, so that a run that was interrupted, or lost half of its machines, goes on where it was.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .work import Job, Setup, is_made

LARGEST_BATCH = 16
"""How many traces a task has at most. More save nothing measurable, and all of them are lost with their worker."""

TASKS_A_SLOT = 4
"""How many tasks each slot gets if there are enough traces, so that slots that are done early have something to do."""


def part_name(trace: str, ending: str) -> str:
    """The name of the part of a trace. Two traces with one name in two folders have two parts; a trace always has the same."""
    name = os.path.basename(trace)
    for end in (".gz", ".zst", ".json"):
        name = name[: -len(end)] if name.endswith(end) and len(name) > len(end) else name
    mark = hashlib.sha256(os.fsencode(trace)).hexdigest()[:12]
    return f"{name}-{mark}.{ending}"


@dataclass
class Plan:
    """All jobs of a run, and those of them that are left to do."""

    jobs: list[Job]
    left: list[Job]
    foreign: list[str]
    """Parts in the folder that are of none of the traces."""


def plan(setup: Setup, traces: Sequence[str], ending: str, tool: str, ranks: dict[str, tuple[str, ...]]) -> Plan:
    """Plans a run. It changes nothing in the folder: a part that does not hold any more stays until a new one replaces it."""
    jobs = [Job(trace, os.path.join(setup.folder, part_name(trace, ending)), ranks.get(trace, ())) for trace in traces]
    left = [job for job in jobs if not is_made(job, setup.made_with, tool)]
    own = {os.path.basename(job.part) for job in jobs}
    foreign = [name for name in sorted(os.listdir(setup.folder)) if name.endswith((".parquet", ".json")) and name not in own]
    return Plan(jobs, left, foreign)


def batches(jobs: Iterable[Job], slots: int, size: int) -> list[list[Job]]:
    """The jobs in batches of `size`, or where that is 0, of as many as give each slot several, up to 16. The largest traces come first: one
    of them that began last would be waited for alone."""
    ordered = sorted(jobs, key=lambda job: -_size(job.trace))
    each = size or min(LARGEST_BATCH, max(1, -(-len(ordered) // (TASKS_A_SLOT * max(1, slots)))))
    return [ordered[first : first + each] for first in range(0, len(ordered), each)]


def _size(trace: str) -> int:
    try:
        return os.stat(trace).st_size
    except OSError:
        return 0
