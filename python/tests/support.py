"""What the tests share: a folder that is gone afterwards, traces of the double, and runs of the fleet as a user starts it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
ROOT = PACKAGE.parent
DOUBLE = Path(__file__).resolve().parent / "double.py"
# The program itself, for the tests that need it; they are skipped without.
PROGRAM = os.environ.get("NCCL_STACKS_BIN") and os.path.abspath(shutil.which(os.environ["NCCL_STACKS_BIN"]))

sys.path.insert(0, str(PACKAGE))


def environment(program=DOUBLE, **more):
    """The environment of a process that finds the package and `program`."""
    return {**os.environ, "PYTHONPATH": str(PACKAGE), "NCCL_STACKS_BIN": str(program), **more}


class Folder(unittest.TestCase):
    """A test in a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        # The system's folder for temporary files may be a link.
        self.folder = Path(folder.name).resolve()
        self.parts = self.folder / "parts"
        self.traces = self.folder / "traces"
        self.traces.mkdir()
        self.log = self.folder / "log"

    def trace(self, rank, **order):
        """Writes the trace of a rank, for the double."""
        path = self.traces / f"rank{rank}.json"
        path.write_text(json.dumps({"rank": rank, **order}))
        return path

    def fleet(self, *arguments, paths=None, program=DOUBLE, python=sys.executable, **more):
        """Runs the fleet to its end."""
        return subprocess.run(self.command(*arguments, paths=paths, python=python), env=self.env(program, **more), cwd=self.folder,
                              capture_output=True, text=True, timeout=300)  # fmt: skip

    def command(self, *arguments, paths=None, python=sys.executable):
        paths = [self.traces] if paths is None else paths
        return [python, "-m", "nccl_stacks.fleet", *map(str, paths), "--out", str(self.parts), *map(str, arguments)]

    def env(self, program=DOUBLE, **more):
        return environment(program, DOUBLE_LOG=str(self.log), **more)

    def runs(self):
        """The ranks of which `part` was run since the last call."""
        text = self.log.read_text() if self.log.exists() else ""
        self.log.unlink(missing_ok=True)
        return sorted(int(Path(line).stem.replace("rank", "")) for line in text.splitlines())

    def files(self):
        """What is in the folder of parts and would be taken for a part."""
        return sorted(path.name.split("-")[0] for path in self.parts.iterdir() if not path.name.startswith("."))
