"""Choosing a step from the list on a terminal, which the standard library has: the command that the program prints chooses the same step."""

import json
import os
import pty
import re
import select
import shlex
import subprocess
import time
import unittest

from support import PROGRAM, ROOT

TRACE = "testdata/sglang_decode.json.gz"


def chosen(arguments, keys):
    """What the program writes on standard error and on standard output, with a terminal in which these keys are typed once the list is there."""
    controller, terminal = pty.openpty()
    program = subprocess.Popen([PROGRAM, *arguments], cwd=ROOT, stdin=terminal, stderr=terminal, stdout=subprocess.PIPE)
    os.close(terminal)
    said, typed, until = b"", False, time.monotonic() + 60
    while time.monotonic() < until:
        if select.select([controller], [], [], 0.1)[0]:
            try:
                said += os.read(controller, 65536)
            except OSError:
                break
        elif program.poll() is not None:
            break
        if not typed and b"Esc to leave" in said:
            os.write(controller, keys)
            typed = True
    answer, _ = program.communicate(timeout=60)
    os.close(controller)
    return re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", said).decode(), answer.decode(), program.returncode


@unittest.skipUnless(PROGRAM, "NCCL_STACKS_BIN names no program")
class Interactive(unittest.TestCase):
    def check(self, arguments, keys, option):
        said, answer, code = chosen([*arguments, "--interactive", "--json"], keys)
        self.assertEqual(code, 0, said)
        self.assertIn(option, said)
        again = subprocess.run(
            [PROGRAM, *arguments, *shlex.split(option), "--json"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        self.assertEqual(json.loads(again.stdout)["traces"], json.loads(answer)["traces"])
        self.assertEqual(again.stdout, answer)

    def test_a_step_of_the_list_is_chosen_again_by_its_number(self):
        # The list has the four steps of the profiler first.
        self.check([TRACE], b"2\r", "--step 3")

    def test_calls_of_a_function_are_steps_where_the_profiler_marks_none(self):
        # Typing filters: only the second of three calls begins there.
        self.check(["testdata/two_matches.json"], b"+1.10\r", "--step 1")

    def test_the_step_that_is_chosen_in_one_trace_is_taken_in_all(self):
        said, answer, code = chosen(["ranks", "testdata/ranks", "--interactive", "--json"], b"1\r")
        self.assertEqual(code, 0, said)
        option = re.search(r"--step \S+ of each trace", said)
        self.assertTrue(option, said)
        again = subprocess.run(
            [PROGRAM, "ranks", "testdata/ranks", *option[0].split()[:2], "--json"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        self.assertEqual(again.stdout, answer)
