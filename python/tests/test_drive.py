"""Retries and what becomes of each trace, with an engine that does what a test says. So each case is that case, and not a race."""

import io
import os
import unittest
from collections import Counter
from unittest import mock

from support import DOUBLE, Folder

from nccl_stacks._program import Error
from nccl_stacks.fleet import drive
from nccl_stacks.fleet.__main__ import _report
from nccl_stacks.fleet.engines import Lost
from nccl_stacks.fleet.plan import Plan, batches, part_name
from nccl_stacks.fleet.screen import Screen
from nccl_stacks.fleet.work import ABSENT, KEPT, KILLED, MADE, UNUSABLE, Job, Receipt, Row, Setup, work


class Scripted:
    """Gives each batch to a function, which returns what comes of it. Keeps the batches."""

    slots = 2

    def __init__(self, outcome):
        self.outcome = outcome
        self.batches = []
        self.waiting = []

    def start(self, number, jobs):
        self.batches.append([int(job.trace) for job in jobs])
        self.waiting.append((number, jobs))

    def wait(self, seconds):
        number, jobs = self.waiting.pop(0)
        return [(number, self.outcome(jobs))]


class Drives(Folder):
    def setUp(self):
        super().setUp()
        self.parts.mkdir()
        self.jobs = [Job(str(rank), str(self.parts / f"{rank}.json")) for rank in range(8)]
        self.setup = Setup(str(self.parts), "run", ())
        # Parts that are said to be made, and are not seen here, are a case of their own.
        visible = mock.patch.object(drive, "VISIBLE", 0.3)
        visible.start()
        self.addCleanup(visible.stop)

    def made(self, job, tool="tool", host="host"):
        with open(job.part, "w") as file:
            file.write("part")
        return Row(job.trace, MADE, host=host, tool=tool)

    def run_with(self, outcome, retries=3, size=8):
        self.engine, self.text = Scripted(outcome), io.StringIO()
        run = drive.Drive(self.setup, "tool", self.engine, retries, Screen(self.text))
        return run.run(self.jobs, size)

    def test_a_batch_that_is_lost_once_is_tried_again_as_it_is(self):
        losses = iter([Lost("NodeDiedError")])
        done = self.run_with(lambda jobs: next(losses, None) or [self.made(job) for job in jobs])
        self.assertEqual((done.made, done.failed, done.losses), (8, {}, 1))
        self.assertEqual(self.engine.batches, [list(range(8))] * 2)
        self.assertIn("8 traces lost (NodeDiedError); retry 1 of 3", self.text.getvalue())

    def test_a_trace_that_kills_its_worker_costs_no_other(self):
        def outcome(jobs):
            return Lost("killed") if any(job.trace == "5" for job in jobs) else [self.made(job) for job in jobs]

        done = self.run_with(outcome)
        self.assertEqual((done.made, list(done.failed)), (7, ["5"]))
        self.assertEqual(done.failed["5"], "lost 4 times, last: killed")
        self.assertEqual(self.engine.batches, [list(range(8))] * 2 + [[rank] for rank in range(8)] + [[5]])

    def test_without_retries_all_of_a_lost_batch_are_named(self):
        losses = iter([Lost("NodeDiedError")])
        done = self.run_with(lambda jobs: next(losses, None) or [self.made(job) for job in jobs], retries=0, size=4)
        self.assertEqual((done.made, sorted(done.failed)), (4, ["0", "1", "2", "3"]))
        self.assertIn("no part of 2: lost: NodeDiedError", self.text.getvalue())

    def test_parts_that_a_lost_worker_had_written_are_kept(self):
        (self.folder / "3").write_text("trace")
        trace = self.folder / "3"
        self.jobs[3] = Job(str(trace), self.jobs[3].part)

        def outcome(jobs):
            if len(self.engine.batches) > 1:
                return [self.made(job) for job in jobs]
            self.made(self.jobs[3])
            status = trace.stat()
            (self.parts / ".fleet").mkdir()
            Receipt("tool", (), str(trace), status.st_size, status.st_mtime_ns, 4).write(self.jobs[3].part, str(self.parts))
            return Lost("killed")

        with mock.patch.object(Scripted, "start", lambda self, number, jobs: (self.batches.append(len(jobs)), self.waiting.append((number, jobs)))):
            done = self.run_with(outcome)
        self.assertEqual((done.made, done.failed, self.engine.batches), (8, {}, [8, 7]))

    def test_a_killed_program_is_tried_again_alone(self):
        killed = iter([True])

        def outcome(jobs):
            return [Row(job.trace, KILLED, "signal 9", "host") if job.trace == "2" and next(killed, False) else self.made(job) for job in jobs]

        self.assertEqual(self.run_with(outcome).made, 8)
        self.assertEqual(self.engine.batches, [list(range(8)), [2]])

    def test_what_one_machine_does_not_see_another_may(self):
        # It exists here: the folder stands for the trace.
        self.jobs[2] = Job(str(self.folder), self.jobs[2].part)
        first = iter([True])

        def outcome(jobs):
            return [
                Row(job.trace, ABSENT, "no such file", "host") if job.trace == str(self.folder) and next(first, False) else self.made(job)
                for job in jobs
            ]

        with mock.patch.object(Scripted, "start", lambda self, number, jobs: (self.batches.append(len(jobs)), self.waiting.append((number, jobs)))):
            self.assertEqual(self.run_with(outcome).made, 8)
        self.assertEqual(self.engine.batches, [8, 1])

    def test_what_no_machine_sees_is_not_tried_again(self):
        def outcome(jobs):
            return [Row(job.trace, ABSENT, "no such file", "host") if job.trace == "2" else self.made(job) for job in jobs]

        self.assertEqual(self.run_with(outcome).failed, {"2": "no such file"})
        self.assertEqual(len(self.engine.batches), 1)

    def test_a_part_that_is_not_seen_here_is_no_part(self):
        done = self.run_with(lambda jobs: [Row(job.trace, MADE) if job.trace == "1" else self.made(job) for job in jobs])
        self.assertEqual((done.made, list(done.failed)), (7, ["1"]))
        self.assertIn("a folder all machines share", done.failed["1"])

    def test_the_versions_of_the_program_are_kept(self):
        done = self.run_with(lambda jobs: [self.made(job, "other" if job.trace == "1" else "tool", "a") for job in jobs])
        self.assertEqual({tool: dict(hosts) for tool, hosts in done.tools.items()}, {"tool": {"a": 7}, "other": {"a": 1}})

    def test_another_version_is_named_with_its_machines(self):
        outcomes = drive.Outcomes(made=3, tools={"nccl-stacks 1 (a)": Counter(x=1), "nccl-stacks 1 (b)": Counter(y=2, z=1)})
        text = io.StringIO()
        _report(Plan(self.jobs, self.jobs, []), outcomes, "nccl-stacks 1 (a)", 1.0, Screen(text))
        self.assertIn("two versions: nccl-stacks 1 (a) here, nccl-stacks 1 (b) on y, z for 3 parts", text.getvalue())

    def test_a_machine_that_cannot_work_ends_the_run(self):
        with self.assertRaisesRegex(Error, "b cannot make parts: no nccl-stacks"):
            self.run_with(lambda jobs: [Row(jobs[0].trace, "unusable", "no nccl-stacks", "b")])


class Workers(Folder):
    def test_a_worker_that_does_not_share_the_folder_says_so(self):
        (self.trace(0), self.parts.mkdir())
        setup = Setup(str(self.parts), "run", (), program=str(DOUBLE))
        (row,) = work(setup, [Job(str(self.traces / "rank0.json"), str(self.parts / "0.json"))] * 2)
        self.assertEqual(row.status, UNUSABLE)
        self.assertIn("all machines share", row.message)

    def test_what_another_worker_has_made_is_kept(self):
        setup = Setup(str(self.parts), "run", (), program=str(DOUBLE))
        os.makedirs(setup.scratch)
        job = Job(str(self.trace(0)), str(self.parts / "0.json"))
        self.assertEqual([row.status for row in work(setup, [job, job])], [MADE, KEPT])


class Batches(Folder):
    def jobs(self, count):
        return [Job(f"/none/{number}", "") for number in range(count)]

    def test_they_are_as_large_as_leaves_each_slot_several(self):
        def sizes(count, slots):
            return [len(batch) for batch in batches(self.jobs(count), slots, 0)]

        self.assertEqual(sizes(256, 4), [16] * 16)
        self.assertEqual(sizes(10_000, 4)[0], 16)
        self.assertEqual(sizes(8, 4), [1] * 8)
        self.assertEqual(sum(sizes(100, 3)), 100)

    def test_the_largest_come_first(self):
        for rank, size in enumerate([5, 50, 20]):
            (self.traces / str(rank)).write_text("x" * size)
        jobs = [Job(str(self.traces / str(rank)), "") for rank in range(3)]
        self.assertEqual([job.trace[-1] for batch in batches(jobs, 1, 2) for job in batch], ["1", "2", "0"])

    def test_parts_have_names_of_their_traces(self):
        self.assertRegex(part_name("/a/rank3.pt.trace.json.gz", "parquet"), r"^rank3\.pt\.trace-[0-9a-f]{12}\.parquet$")
        self.assertNotEqual(part_name("/a/t.json", "json"), part_name("/b/t.json", "json"))


if __name__ == "__main__":
    unittest.main()
