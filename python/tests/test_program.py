"""The fleet with the program itself, $NCCL_STACKS_BIN: that both agree on options, exit codes and what is a part."""

import json
import shutil
import subprocess
import unittest

from support import PROGRAM, ROOT, Folder

RANKS = ROOT / "testdata" / "ranks"


@unittest.skipUnless(PROGRAM, "NCCL_STACKS_BIN names no program")
class Program(Folder):
    def setUp(self):
        super().setUp()
        for rank in range(4):
            shutil.copy(RANKS / f"rank{rank}.json.gz", self.traces)

    def real(self, *arguments, **more):
        return self.fleet(*arguments, program=shutil.which(PROGRAM), **more)

    def test_the_answer_is_that_of_the_ranks(self):
        done = self.real("--expect", 4, "--merge=--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = subprocess.run([PROGRAM, "ranks", self.traces, "--quiet"], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, answer.stdout)
        # Nothing is made again, and nothing is said of whole traces.
        self.assertEqual(done.stderr.splitlines(), ["fleet: 4 parts to make; engine local", done.stderr.splitlines()[1]])
        again = self.real("--expect", 4, "--merge=--quiet")
        self.assertIn("0 made", again.stderr)
        self.assertEqual(again.stdout, answer.stdout)

    def test_options_of_part_and_of_merge(self):
        done = self.real("--merge=--stacks --format json --quiet", "--", "--function-name", "ProfilerStep%", "--index", "0")
        stacks = json.loads(done.stdout)["stacks"]
        arguments = [self.traces, "--function-name", "ProfilerStep%", "--index", "0", "--json", "--quiet"]
        expected = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=True)
        counts = [stack["count"] for stack in json.loads(expected.stdout)["stacks"]]
        self.assertEqual([stack["count"] for stack in stacks], counts)

    def test_a_rank_that_is_given_for_one_trace(self):
        path = self.traces / "rank3.json.gz"
        done = self.real("--merge=--json --quiet", "--", "--rank", f"3={path}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([rank["rank"] for rank in json.loads(done.stdout)["ranks"]], [0, 1, 2, 3])

    def test_missing_broken_and_damaged(self):
        (self.traces / "rank2.json.gz").unlink()
        (self.traces / "rank1.json.gz").write_bytes(b"no trace")
        whole = (RANKS / "rank3.json.gz").read_bytes()
        (self.traces / "rank3.json.gz").write_bytes(whole[: len(whole) * 3 // 4])
        done = self.real("--expect", 4, "--merge=--json --quiet")
        self.assertEqual(done.returncode, 6)
        self.assertRegex(done.stderr, r"no part of .*/rank1\.json\.gz: error: ")
        self.assertIn("Missing: 2 of 4 ranks: 1-2", done.stderr)
        # What is left of a trace that is cut off has a part, which says so.
        self.assertRegex(done.stderr, r"rank3\.json\.gz: .")
        self.assertEqual([rank["rank"] for rank in json.loads(done.stdout)["ranks"]], [0, 3])

    def test_a_part_that_is_spoilt_is_named(self):
        self.real("--merge=--quiet")
        (part,) = self.parts.glob("rank2-*.parquet")
        part.write_bytes(part.read_bytes()[:-100])
        done = self.real("--expect", 4, "--merge=--quiet")
        self.assertEqual(done.returncode, 6)
        self.assertIn(part.name, done.stderr)
        part.unlink()
        done = self.real("--expect", 4, "--merge=--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 made", done.stderr)

    def test_wrong_options(self):
        done = self.real("--", "--no-such-option")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--no-such-option", done.stderr)
        done = self.real("--merge=--no-such-option")
        self.assertEqual((done.returncode, done.stdout), (2, ""))

    @unittest.skipUnless(shutil.which("unshare"), "no unshare, which mounts a small disk")
    def test_a_full_disk(self):
        self.parts.mkdir()
        mount = 'mount -t tmpfs -o size=24k,mode=777 none "$0" && exec "$@"'
        small = ["unshare", "--user", "--mount", "--map-root-user", "sh", "-c", mount, str(self.parts)]
        if subprocess.run([*small, "true"], capture_output=True).returncode != 0:
            self.skipTest("no disk can be mounted here")
        environment = self.env(shutil.which(PROGRAM))
        done = subprocess.run([*small, *self.command()], env=environment, cwd=self.folder, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertRegex(done.stderr, "No space left on device|no room for parts")


if __name__ == "__main__":
    unittest.main()
