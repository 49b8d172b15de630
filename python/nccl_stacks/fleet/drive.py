"""Runs batches on an engine until each trace has a part or a reason why not.

Three things can go wrong, and each is another case. A trace that the program cannot read (its exit code says so) fails once: it costs its
rank, and is named. A batch whose worker or machine is gone, or a trace whose program was killed, is tried again, `retries` times. What no
retry helps against, such as a full disk, ends the run; what is there stays, and the next run goes on from it.

A batch that is lost twice is divided into single traces: if one of them kills its worker, it does so alone.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass, field

from .._program import Error
from .engines import Engine, Lost, Outcome
from .plan import batches
from .screen import Screen
from .work import ABSENT, BROKEN, FULL, KEPT, KILLED, MADE, PARTLY, UNUSABLE, WRONG, Job, Row, Setup, is_made

UNDIVIDED = 1
"""How often a batch is tried again as a whole. One loss is mostly the machine's fault; a second is suspicious."""

SILENCE = 60.0
"""After so many seconds without a result it is said that nothing comes, for an engine that has lost all machines waits for new ones."""

VISIBLE = 5.0
"""How many seconds a part may take to be seen here. Network file systems keep what they know of a folder for some seconds."""


class WrongOptions(Error):
    """The program does not take the options that it is given."""


@dataclass
class Batch:
    """Traces that run together, and how often that has failed."""

    jobs: list[Job]
    failures: int = 0


@dataclass
class Outcomes:
    """What became of the traces."""

    made: int = 0
    partly: int = 0
    """How many of the parts lack some of their input."""
    failed: dict[str, str] = field(default_factory=dict)
    """Traces without a part, and why."""
    losses: int = 0
    """How many batches lost their worker."""
    tools: dict[str, Counter[str]] = field(default_factory=dict)
    """The versions of the program, and how many parts each host made with them."""


class Drive:
    """A run."""

    def __init__(self, setup: Setup, tool: str, engine: Engine, retries: int, screen: Screen) -> None:
        self._setup = setup
        self._tool = tool
        self._engine = engine
        self._retries = retries
        self._screen = screen
        self._say = screen.say
        self._running: dict[int, Batch] = {}
        self._count = 0
        self.outcomes = Outcomes()

    def run(self, jobs: list[Job], size: int) -> Outcomes:
        """Runs the jobs in batches of `size`, 0 for as many as fit."""
        before = {job.part: _state(job.part) for job in jobs}
        for batch in batches(jobs, self._engine.slots, size):
            self._start(Batch(batch))
        heard = time.monotonic()
        while self._running:
            for number, outcome in self._engine.wait(1.0):
                heard = time.monotonic()
                self._take(self._running.pop(number), outcome)
            if time.monotonic() - heard > SILENCE:
                heard = time.monotonic()
                self._say(f"no result for {SILENCE:.0f} s; {len(self._running)} batches are out. Has the engine machines?")
            self._screen.show(self.outcomes.made, len(self.outcomes.failed), len(jobs))
        self._await_parts(jobs, before)
        return self.outcomes

    def _start(self, batch: Batch) -> None:
        self._count += 1
        self._running[self._count] = batch
        self._engine.start(self._count, batch.jobs)

    def _take(self, batch: Batch, outcome: Outcome) -> None:
        if isinstance(outcome, Lost):
            self._lost(batch, str(outcome))
            return
        jobs = {job.trace: job for job in batch.jobs}
        for row in outcome:
            self._row(jobs[row.trace], row, batch.failures)

    def _row(self, job: Job, row: Row, failures: int) -> None:
        if row.tool:
            self.outcomes.tools.setdefault(row.tool, Counter())[row.host] += 1
        if row.status in (MADE, KEPT, PARTLY):
            self.outcomes.made += 1
            self.outcomes.partly += row.status == PARTLY
            if row.message:
                self._say(f"{job.trace}: {row.message}")
        elif row.status == KILLED or (row.status == ABSENT and os.path.exists(job.trace)):
            self._again(Batch([job], failures + 1), f"{row.message} on {row.host}")
        elif row.status in (BROKEN, ABSENT):
            self._fail(job, row.message)
        elif row.status == FULL:
            raise Error(f"no room for parts on {row.host}: {row.message}")
        elif row.status == WRONG:
            raise WrongOptions(row.message)
        else:
            assert row.status == UNUSABLE, row.status
            raise Error(f"{row.host} cannot make parts: {row.message}")

    def _lost(self, batch: Batch, why: str) -> None:
        self.outcomes.losses += 1
        left = []
        for job in batch.jobs:
            if is_made(job, self._setup.made_with, self._tool):
                self.outcomes.made += 1
            else:
                left.append(job)
        if left:
            self._again(Batch(left, batch.failures + 1), why)

    def _again(self, batch: Batch, why: str) -> None:
        """Tries what is left once more, if it may be."""
        count = len(batch.jobs)
        what = batch.jobs[0].trace if count == 1 else f"{count} traces"
        if batch.failures > self._retries:
            for job in batch.jobs:
                self._fail(job, f"lost {batch.failures} times, last: {why}" if batch.failures > 1 else f"lost: {why}")
            return
        self._say(f"{what} lost ({why}); retry {batch.failures} of {self._retries}")
        if batch.failures > UNDIVIDED:
            for job in batch.jobs:
                self._start(Batch([job], batch.failures))
        else:
            self._start(batch)

    def _fail(self, job: Job, why: str) -> None:
        self.outcomes.failed[job.trace] = why
        self._say(f"no part of {job.trace}: {why}")

    def _await_parts(self, jobs: list[Job], before: dict[str, tuple[int, int] | None]) -> None:
        """Parts that workers say they wrote have to be seen here too, or the answer would lack them silently, or have those of `before`."""
        left = [job for job in jobs if job.trace not in self.outcomes.failed]
        until = time.monotonic() + VISIBLE
        while True:
            # A list of the folder is asked for anew by network file systems, what they know of a name may be old.
            os.listdir(self._setup.folder)
            left = [job for job in left if _state(job.part) in (None, before[job.part])]
            if not left or time.monotonic() > until:
                break
            time.sleep(0.2)
        for job in left:
            self.outcomes.made -= 1
            self._fail(job, f"its part was written, and is not in {self._setup.folder} here; that has to be a folder all machines share")


def _state(part: str) -> tuple[int, int] | None:
    """What differs between a part and one that replaces it."""
    try:
        status = os.stat(part)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
