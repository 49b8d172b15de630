"""Retries and what becomes of each trace, with an engine that does what a test says. So each case is that case, and not a race."""

import concurrent.futures
import contextlib
import io
import os
import signal
import sys
from unittest import main, mock

from support import DOUBLE, Folder

from nccl_stacks import Error
from nccl_stacks.fleet import __main__ as fleet
from nccl_stacks.fleet.engines import UNUSABLE, Job, work


class Drives(Folder):
    def setUp(self):
        super().setUp()
        self.parts.mkdir()
        self.jobs = [Job(str(self.trace(rank)), str(self.parts / f"{rank}.parquet"), (), str(DOUBLE)) for rank in range(4)]
        self.started = []
        self.text = io.StringIO()

    def engine(self, outcome):
        """Gives each job to a function, which returns or raises what comes of it. Keeps the ranks."""

        def start(job):
            self.started.append(self.jobs.index(job))
            future = concurrent.futures.Future()
            try:
                future.set_result(outcome(job))
            except ConnectionError as error:
                future.set_exception(error)
            return future

        return start

    def reduce(self, outcome, retries=3):
        with contextlib.redirect_stderr(self.text):
            failed, partly = fleet.reduce(self.engine(outcome), self.jobs, retries)
        return sorted(self.jobs.index(job) for job in failed), partly

    def test_what_is_lost_with_its_worker_is_tried_again(self):
        losses = iter([1])

        def outcome(job):
            if job == self.jobs[1] and next(losses, 0):
                raise ConnectionError("the node is gone\nand more")
            return 0, ""

        self.assertEqual(self.reduce(outcome), ([], 0))
        self.assertEqual(self.started, [0, 1, 2, 3, 1])
        self.assertIn("rank1.json lost (ConnectionError: the node is gone); retry 1 of 3\n", self.text.getvalue())

    def test_what_is_always_lost_costs_no_other(self):
        self.assertEqual(self.reduce(lambda job: (-9, "killed") if job == self.jobs[1] else (0, ""), retries=2), ([1], 0))
        self.assertEqual(self.started, [0, 1, 2, 3, 1, 1])
        self.assertIn("rank1.json: lost 3 times, last: killed\n", self.text.getvalue())

    def test_a_part_that_a_lost_worker_had_written_is_kept(self):
        def outcome(job):
            work(job)
            raise ConnectionError("the node is gone")

        self.assertEqual(self.reduce(outcome), ([], 0))
        self.assertEqual(self.started, [0, 1, 2, 3])

    def test_a_machine_that_cannot_work_ends_the_run(self):
        with self.assertRaisesRegex(Error, "b cannot make parts: no nccl-stacks"):
            self.reduce(lambda job: (UNUSABLE, "b cannot make parts: no nccl-stacks"))

    def test_a_part_that_is_not_seen_here_is_no_part(self):
        output = os.dup(1)
        try:
            with mock.patch.object(fleet, "started", lambda *_: self.engine(lambda job: (0, ""))), contextlib.redirect_stderr(self.text):
                self.jobs = SameTrace(self.jobs)
                arguments = ["fleet", str(self.traces), "--out", str(self.parts)]
                with mock.patch.object(sys, "argv", arguments), mock.patch.dict(os.environ, {"NCCL_STACKS_BIN": str(DOUBLE)}):
                    code = fleet.main()
        finally:
            os.dup2(output, 1)
            os.close(output)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.assertEqual(code, 1)
        self.assertEqual(self.text.getvalue().count("has to be a folder all machines share"), 4)


class SameTrace(list):
    """Jobs that are known by their trace."""

    def index(self, job):
        return [own.trace for own in self].index(job.trace)


class Workers(Folder):
    def test_a_worker_that_does_not_share_the_folder_says_so(self):
        code, message = work(Job(str(self.trace(0)), str(self.parts / "0.parquet"), (), str(DOUBLE)))
        self.assertEqual(code, UNUSABLE)
        self.assertIn("all machines share", message)
        self.assertFalse(self.parts.exists())


class Names(Folder):
    def test_parts_have_names_of_their_traces(self):
        self.assertRegex(fleet.part_name("/a/rank3.pt.trace.json.gz"), r"^rank3\.pt\.trace-[0-9a-f]{12}\.parquet$")
        self.assertNotEqual(fleet.part_name("/a/t.json"), fleet.part_name("/b/t.json"))


if __name__ == "__main__":
    main()
