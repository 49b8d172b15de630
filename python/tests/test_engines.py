"""The fleet on Ray and Dask, each on this machine, with the double. Skipped by name where they are not installed.

`benches/fleet/measure.py faults` does the same with the program itself, more ranks, and machines that die.
"""

import importlib.util
import subprocess
import time
import unittest
from pathlib import Path

from support import PACKAGE, Folder
from test_fleet import answer


def needs(*modules):
    """Skips a test where a module is not installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"{', '.join(missing)} is not installed")


class Engine:
    """The cases that are the same on each engine; `self.engine` has its options."""

    engine = ()

    def run_all(self, count, *arguments, **more):
        return self.fleet(*self.engine, "--expect", count, *arguments, **more)

    def test_all_parts_are_made_and_merged(self):
        for rank in range(40):
            self.trace(rank)
        done = self.run_all(40)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(answer(done)["ranks"], list(range(40)))
        self.assertEqual(self.runs(), list(range(40)))

    def test_a_worker_that_is_killed_loses_nothing(self):
        for rank in range(24):
            once = str(self.folder / f"once{rank}")
            self.trace(rank, **({"kill_parent": True, "once": once} if rank in (3, 17) else {}))
        done = self.run_all(24)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(answer(done)["ranks"], list(range(24)))
        self.assertRegex(done.stderr, r"rank3\.json lost .*; retry 1 of 3")
        self.assertRegex(done.stderr, r"rank17\.json lost .*; retry 1 of 3")
        self.assertEqual(self.files(), sorted(f"rank{rank}" for rank in range(24)))

    def test_a_trace_that_kills_its_worker_costs_its_rank_alone(self):
        for rank in range(12):
            self.trace(rank, **({"kill_parent": True} if rank == 5 else {}))
        done = self.run_all(12)
        self.assertEqual(done.returncode, 6)
        self.assertEqual(answer(done)["missing"], [5], done.stderr)
        self.assertRegex(done.stderr, r"no part of .*/rank5\.json: lost 4 times")

    def test_without_retries_the_merge_names_what_is_missing(self):
        for rank in range(12):
            once = str(self.folder / f"once{rank}")
            self.trace(rank, **({"kill_parent": True, "once": once} if rank == 5 else {}))
        done = self.run_all(12, "--retries", 0)
        self.assertEqual(done.returncode, 6)
        missing = answer(done)["missing"]
        self.assertIn(5, missing)
        # And what the engine had given that worker to do after it.
        self.assertLessEqual(len(missing), 4)
        # A second run makes these, and no others.
        self.runs()
        again = self.run_all(12)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(self.runs(), missing)

    def test_a_broken_trace_is_not_tried_again(self):
        for rank in range(12):
            self.trace(rank, **({"broken": "it is cut off"} if rank == 7 else {}))
        done = self.run_all(12)
        self.assertEqual((done.returncode, answer(done)["missing"]), (6, [7]))
        self.assertEqual(self.runs(), list(range(12)))

    def test_wrong_options_end_the_run(self):
        self.trace(0)
        done = self.run_all(1, "--", "--wrong")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)

    def test_no_cluster_at_the_address(self):
        self.trace(0)
        done = self.run_all(1, "--address", "127.0.0.1:1")
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("no cluster at 127.0.0.1:1", done.stderr)


def listening():
    """The addresses at which anything on this machine listens: the hexadecimal digits of the address, and the port."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == "0A":
                found.add(tuple(local.split(":")))
    return found


LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")
"""127.0.0.1, the same as an address of IPv6, and ::1."""


class Own(Engine):
    """The same on a cluster that the fleet starts."""

    @unittest.skipUnless(Path("/proc/net/tcp6").exists(), "no /proc/net/tcp6")
    def test_nothing_listens_for_other_machines(self):
        before = listening()
        self.trace(0, sleep=4)
        with subprocess.Popen(
            self.command(*self.engine), env=self.env(), cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as run:
            until = time.monotonic() + 60
            while not self.log.exists() and time.monotonic() < until:
                time.sleep(0.1)
            found = listening() - before
            _, said = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, said)
        self.assertTrue(found)
        self.assertEqual([each for each in found if each[0] not in LOOPBACK], [])


@needs("ray")
class Ray(Own, Folder):
    engine = ("--engine", "ray", "--workers", 3)


@needs("dask", "distributed")
class Dask(Own, Folder):
    engine = ("--engine", "dask", "--workers", 3)


class Absent(Folder):
    """Without its engine the fleet says how to install it."""

    def test_an_engine_that_is_not_installed(self):
        self.trace(0)
        for name, package in [("ray", "ray"), ("dask", "dask[distributed]")]:
            # A module of that name that cannot be imported, before the one that could be.
            hidden = self.folder / name
            hidden.mkdir()
            (hidden / f"{name}.py").write_text(f"raise ImportError('no {name}')\n")
            done = self.fleet("--engine", name, PYTHONPATH=f"{hidden}:{PACKAGE}")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(f"{name} is not installed: pip install '{package}'", done.stderr)


if __name__ == "__main__":
    unittest.main()
