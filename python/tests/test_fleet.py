"""The fleet on this machine, with the double: what it makes, what it does not make again, and what it says about what fails."""

import json
import os
import pty
import shutil
import signal
import subprocess
import time
import unittest

from support import Folder


def answer(done):
    """The one line of the double's answer; fails if anything else is on standard output."""
    return json.loads(done.stdout)


class Whole(Folder):
    """Nothing goes wrong."""

    def test_all_parts_are_made_and_merged(self):
        for rank in range(40):
            self.trace(rank)
        done = self.fleet("--expect", 40)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(answer(done)["ranks"], list(range(40)))
        self.assertEqual(self.runs(), list(range(40)))
        self.assertIn("40 of 40 parts: 40 made", done.stderr)
        self.assertNotIn("\r", done.stderr)

    def test_a_terminal_shows_how_far_it_is(self):
        for rank in range(3):
            self.trace(rank, sleep=0.4)
        reader, writer = pty.openpty()
        # What a terminal keeps is little, but more than this.
        done = subprocess.run(self.command("--workers", 1), env=self.env(), cwd=self.folder, stdout=subprocess.PIPE, stderr=writer, text=True)
        os.close(writer)
        shown = os.read(reader, 65536).decode()
        os.close(reader)
        self.assertIn("1 of 3 parts", shown)
        self.assertIn("2 of 3 parts", shown)
        self.assertEqual(answer(done)["ranks"], [0, 1, 2])

    def test_missing_ranks_and_the_exit_code_are_those_of_the_merge(self):
        self.trace(0)
        self.trace(2)
        done = self.fleet("--expect", 4)
        self.assertEqual(done.returncode, 6)
        self.assertEqual((answer(done)["command"], answer(done)["missing"]), ("ranks", [1, 3]))

    def test_options_reach_the_program(self):
        self.trace(0)
        other = self.trace(1)
        done = self.fleet("--merge=--stacks --format json", "--", "--family", "nccl", "--rank", f"7={other}")
        self.assertEqual((answer(done)["command"], answer(done)["options"]), ("main", ["--no-config", "--format", "json"]))
        options = {path.name.split("-")[0]: json.loads(path.read_text())["options"] for path in self.parts.glob("*.parquet")}
        common = ["--quiet", "--threads", "1", "--no-config", "--family", "nccl"]
        self.assertEqual(options, {"rank0": common, "rank1": [*common, "--rank", f"7={other}"]})

    def test_a_file_that_an_option_names_is_an_absolute_path(self):
        self.trace(0)
        file = self.folder / "families.json"
        file.write_text("{}")
        for option in (["--family-file", "families.json"], ["--family-file=families.json"]):
            shutil.rmtree(self.parts, ignore_errors=True)
            self.fleet("--", *option)
            (part,) = self.parts.glob("*.parquet")
            self.assertEqual(json.loads(part.read_text())["options"][-2:], ["--family-file", str(file)])

    def test_the_users_number_of_threads_wins(self):
        self.trace(0)
        self.fleet("--", "--threads=4")
        (part,) = self.parts.glob("*.parquet")
        self.assertEqual(json.loads(part.read_text())["options"], ["--quiet", "--no-config", "--threads=4"])

    def test_options_that_the_fleet_gives_itself_can_be_given(self):
        self.trace(0)
        done = self.fleet("--", "-v", "--no-config", "--threads", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        (part,) = self.parts.glob("*.parquet")
        self.assertEqual(json.loads(part.read_text())["options"], ["-v", "--no-config", "--threads", "2"])

    def test_without_a_merge_nothing_is_on_standard_output(self):
        self.trace(0)
        done = self.fleet("--no-merge")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertEqual(self.files(), ["rank0"])


class Paths(Folder):
    """Which traces are meant."""

    def test_a_trace_that_is_listed_twice_is_read_once(self):
        path = self.trace(0)
        self.trace(1)
        link = self.folder / "link.json"
        link.symlink_to(path)
        (self.folder / "list.txt").write_text(f"# ranks\n\n{path}\ntraces/rank?.json\n")
        done = self.fleet(paths=[self.traces, path, link, "@list.txt"])
        self.assertEqual(answer(done)["ranks"], [0, 1])
        self.assertIn(f"{path} is listed 5 times and read once", done.stderr)
        self.assertIn(f"{self.traces / 'rank1.json'} is listed 2 times and read once", done.stderr)
        self.assertEqual(self.runs(), [0, 1])

    def test_traces_with_one_name_in_two_folders_have_two_parts(self):
        for rank in range(3):
            folder = self.folder / f"host{rank}"
            folder.mkdir()
            (folder / "trace.json").write_text(json.dumps({"rank": rank}))
        done = self.fleet(paths=[self.folder / "host?" / "trace.json"])
        self.assertEqual(answer(done)["ranks"], [0, 1, 2])

    def test_a_folder_holds_traces_and_other_things(self):
        self.trace(0)
        (self.traces / "readme.txt").write_text("no trace")
        (self.traces / "deeper.json").mkdir()
        self.assertEqual(answer(self.fleet())["ranks"], [0])

    def test_no_traces_are_an_error(self):
        (self.folder / "circle.txt").write_text("@other.txt\n")
        (self.folder / "other.txt").write_text("@circle.txt\n")
        for paths, code, text in [
            ([self.traces], 1, "no traces in"),
            (["none*.json"], 1, "none*.json: [Errno 2] No such file"),
            (["@none"], 2, "No such file or directory: 'none'"),
            (["@circle.txt"], 2, "a list of traces names itself"),
        ]:
            done = self.fleet(paths=paths)
            self.assertEqual((done.returncode, done.stdout), (code, ""))
            self.assertIn(text, done.stderr)

    def test_parts_of_other_traces_are_left_out_and_named(self):
        other = self.trace(9)
        self.fleet()
        other.unlink()
        self.trace(0)
        done = self.fleet()
        self.assertEqual(answer(done)["ranks"], [0])
        self.assertRegex(done.stderr, r"1 other parts in .* are left out, such as rank9-")


class Again(Folder):
    """What a second run makes."""

    def setUp(self):
        super().setUp()
        for rank in range(6):
            self.trace(rank)
        self.assertEqual(self.fleet("--", "--family", "nccl").returncode, 0)
        self.assertEqual(self.runs(), list(range(6)))

    def again(self):
        done = self.fleet("--", "--family", "nccl")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(answer(done)["ranks"], list(range(6)))
        return self.runs()

    def contents(self):
        return {path.name: path.read_bytes() for path in self.parts.glob("*.parquet")}

    def make_parts_old(self):
        for path in self.parts.glob("*.parquet"):
            os.utime(path, (1, 1))

    def test_nothing_if_nothing_has_changed(self):
        self.assertEqual(self.again(), [])

    def test_a_trace_that_is_newer_than_its_part(self):
        self.trace(2, note="new")
        self.assertEqual(self.again(), [2])
        self.make_parts_old()
        self.assertEqual(self.again(), list(range(6)))

    def test_a_part_that_is_gone(self):
        (path,) = self.parts.glob("rank1-*")
        path.unlink()
        self.assertEqual(self.again(), [1])

    def test_another_run_of_the_same_folder_by_another_path(self):
        (self.folder / "link").symlink_to(self.parts)
        done = self.fleet("--out", "link", "--", "--family", "nccl")
        self.assertEqual((done.returncode, self.runs()), (0, []), done.stderr)

    def test_a_part_of_a_trace_that_fails_now_is_in_no_answer(self):
        self.trace(5, broken="it is cut off")
        done = self.fleet("--", "--family", "nccl")
        self.assertEqual(done.returncode, 6)
        self.assertEqual(answer(done)["ranks"], list(range(5)))
        # Nothing is lost by that, which is said.
        self.assertRegex(done.stderr, r"1 other parts in .* are left out, such as rank5-[0-9a-f]+\.parquet")
        self.assertEqual(self.files(), [f"rank{rank}" for rank in range(6)])

    def test_options_that_the_program_does_not_take_cost_no_part(self):
        self.make_parts_old()
        before = self.contents()
        done = self.fleet("--", "--wrong")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual((len(before), self.contents()), (6, before))

    def test_options_by_which_no_trace_has_a_part_cost_none(self):
        self.make_parts_old()
        before = self.contents()
        done = self.fleet("--", "--family", "nothing")
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("no trace has a part", done.stderr)
        self.assertEqual(self.contents(), before)

    def test_a_merge_reads_no_config_file_unless_it_is_named(self):
        self.assertIn("--no-config", answer(self.fleet("--", "--family", "nccl"))["options"])
        done = self.fleet("--merge=--config x.conf", "--", "--family", "nccl")
        self.assertEqual(answer(done)["options"], ["--config", "x.conf"])


class Faults(Folder):
    """Something goes wrong."""

    def test_a_broken_trace_costs_its_rank_and_is_not_tried_again(self):
        for rank in range(20):
            self.trace(rank, **({"broken": "it ends within a string"} if rank == 7 else {}))
        done = self.fleet()
        self.assertEqual(done.returncode, 6)
        self.assertEqual(answer(done)["ranks"], [rank for rank in range(20) if rank != 7])
        self.assertEqual(self.runs(), list(range(20)))
        self.assertRegex(done.stderr, r"no part of .*/rank7\.json: error: .*it ends within a string")

    def test_a_part_that_lacks_some_of_its_input_is_merged_and_tried_again_by_the_next_run(self):
        self.trace(0)
        self.trace(1, partly="rank7.json of the archive cannot be read")
        for runs in ([0, 1], [1]):
            done = self.fleet()
            self.assertEqual((done.returncode, answer(done)["ranks"]), (6, [0, 1]))
            self.assertRegex(done.stderr, r"rank1\.json: error: rank7\.json of the archive cannot be read")
            self.assertEqual(self.runs(), runs)

    def test_a_trace_that_is_not_there_is_named(self):
        path = self.trace(0)
        done = self.fleet(paths=[path, self.traces / "rank1.json"])
        self.assertEqual(done.returncode, 6)
        self.assertRegex(done.stderr, r"no part of .*/rank1\.json: .*No such file")

    def test_if_all_are_broken_nothing_is_merged(self):
        self.trace(0, broken="no")
        done = self.fleet()
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no trace has a part", done.stderr)

    def test_a_program_that_is_killed_once_is_tried_again(self):
        for rank in range(12):
            once = str(self.folder / f"once{rank}")
            self.trace(rank, **({"signal": signal.SIGKILL, "once": once} if rank % 4 == 0 else {}))
        done = self.fleet("--expect", 12)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.runs(), sorted([*range(12), 0, 4, 8]))
        self.assertIn("ended by signal 9", done.stderr)
        self.assertIn("retry 1 of 3", done.stderr)

    def test_a_program_that_is_always_killed_is_tried_so_often_and_named(self):
        self.trace(0)
        self.trace(1, signal=signal.SIGKILL)
        for retries in (0, 2):
            done = self.fleet("--retries", retries, "--expect", 2)
            self.assertEqual(done.returncode, 6)
            self.assertEqual(answer(done)["missing"], [1])
            self.assertEqual(self.runs().count(1), retries + 1)
            self.assertRegex(done.stderr, r"no part of .*/rank1\.json: lost")
        self.assertEqual(self.files(), ["rank0"])

    def test_control_characters_of_names_and_messages_are_escapes(self):
        path = self.traces / "rank\x1b[2J.json"
        path.write_text(json.dumps({"rank": 0, "broken": "\x1b]0;title\x07 and\u202e a\nsecond"}))
        done = self.fleet()
        self.assertEqual(done.returncode, 1)
        self.assertEqual([letter for letter in done.stderr if letter != "\n" and not letter.isprintable()], [])
        self.assertIn(r"rank\x1b[2J.json: \x1b]0;title\x07 and\u202e a" + "\nsecond", done.stderr)

    def test_what_the_program_says_of_a_trace_is_passed_on(self):
        self.trace(0, note="2 events were left out")
        self.assertRegex(self.fleet().stderr, r"rank0\.json: 2 events were left out")

    def test_wrong_options_end_the_run_at_once(self):
        for rank in range(40):
            self.trace(rank)
        done = self.fleet("--workers", 1, "--", "--wrong")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("unexpected argument '--wrong'", done.stderr)
        self.assertEqual(self.runs(), [])

    def test_a_file_that_an_option_names_and_that_is_not_there(self):
        self.trace(0)
        done = self.fleet("--", "--config", "none.conf")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("No such file or directory: 'none.conf'", done.stderr.replace(str(self.folder) + "/", ""))

    def test_a_rank_of_a_trace_that_is_not_there(self):
        self.trace(0)
        done = self.fleet("--", "--rank", "3=other.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--rank 3=other.json: that is none of the traces", done.stderr)

    def test_no_program(self):
        self.trace(0)
        done = self.fleet(program=self.folder / "none")
        self.assertEqual(done.returncode, 1)
        self.assertIn("and that is no program", done.stderr)

    def test_a_full_disk_ends_the_run(self):
        for rank in range(40):
            self.trace(rank, broken="parts/x: No space left on device (os error 28)")
        done = self.fleet("--workers", 1)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no room for parts", done.stderr)
        # The next may have begun before the first was looked at.
        self.assertLessEqual(len(self.runs()), 2)

    @unittest.skipUnless(shutil.which("unshare"), "no unshare, which mounts a small disk")
    def test_a_disk_that_is_really_full(self):
        for rank in range(40):
            self.trace(rank)
        self.parts.mkdir()
        small = [
            "unshare",
            "--user",
            "--mount",
            "--map-root-user",
            "sh",
            "-c",
            'mount -t tmpfs -o size=16k,mode=777 none "$0" && exec "$@"',
            str(self.parts),
        ]
        if subprocess.run([*small, "true"], capture_output=True).returncode != 0:
            self.skipTest("no disk can be mounted here")
        done = subprocess.run([*small, *self.command()], env=self.env(), capture_output=True, text=True, cwd=self.folder)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, "No space left on device|no room for parts")

    def test_an_interrupted_run_goes_on_where_it_was(self):
        for rank in range(8):
            self.trace(rank, sleep=0.3)
        # As a terminal does: the signal is for the whole group.
        run = subprocess.Popen(
            self.command("--workers", 2),
            env=self.env(),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # What runs in the background of a shell has it ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.wait_for_parts(2)
        os.killpg(run.pid, signal.SIGINT)
        out, err = run.communicate(timeout=20)
        self.assertEqual((run.returncode, out), (130, ""), err)
        self.assertIn("the same command goes on from here", err)
        there = len(self.files())
        self.assertLess(there, 8)
        self.runs()
        done = self.fleet("--expect", 8)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.runs()), 8 - there)

    def test_a_run_that_is_killed_leaves_no_half_part(self):
        for rank in range(8):
            self.trace(rank, sleep=0.3)
        run = subprocess.Popen(
            self.command("--workers", 2),
            env=self.env(),
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.wait_for_parts(2)
        os.killpg(run.pid, signal.SIGKILL)
        run.wait(timeout=20)
        for name in self.parts.glob("*.parquet"):
            json.loads(name.read_text())
        done = self.fleet("--expect", 8)
        self.assertEqual(done.returncode, 0, done.stderr)

    def wait_for_parts(self, count):
        until = time.monotonic() + 20
        while not self.parts.exists() or len(self.files()) < count:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)


if __name__ == "__main__":
    unittest.main()
