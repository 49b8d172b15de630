"""What `docs/cluster.md` and the Python of `docs/exporting.md` show runs: blocks are taken from the page and run as they are, on the traces of
`testdata/`.

The program is that of $NCCL_STACKS_BIN, else the double. What a machine does not have (Slurm, Kubernetes, Spark) is stood in for by what it
calls: the script with the variables that it would set. `benches/fleet/slurm.py` runs the array in a Slurm of one node where that is installed.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

from support import DOUBLE, PACKAGE, PROGRAM, ROOT, Folder


def blocks(heading, language, page="cluster"):
    """The blocks of code of a section."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    (section,) = re.findall(rf"(?ms)^##+ {re.escape(heading)}\n(.*?)(?=^##+ |\Z)", text)
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```", section)


class Recipes(Folder):
    def setUp(self):
        super().setUp()
        for rank in range(4):
            if PROGRAM:
                shutil.copy(ROOT / "testdata" / "ranks" / f"rank{rank}.json.gz", self.traces)
            else:
                (self.traces / f"rank{rank}.json.gz").write_text(json.dumps({"rank": rank}))
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "nccl-stacks").symlink_to(os.path.abspath(PROGRAM) if PROGRAM else DOUBLE)
        self.environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(PACKAGE)}

    def sh(self, script, **more):
        done = subprocess.run(["bash", "-c", script], cwd=self.folder, env={**self.environment, **more}, capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.returncode, 0)
        return done.stdout

    def check_parts(self):
        self.assertEqual(self.files(), [f"rank{rank}.json.gz.parquet" for rank in range(4)])
        self.sh("nccl-stacks ranks parts/ --quiet --expect 4")

    def test_xargs(self):
        (script,) = blocks("xargs", "sh")
        self.sh(script.replace("--expect 1024", "--quiet --expect 4"))
        self.check_parts()

    def test_the_array(self):
        traces, array, _ = blocks("Slurm", "sh")
        self.sh(traces)
        for task in range(3):
            self.sh(array, SLURM_ARRAY_TASK_COUNT="3", SLURM_ARRAY_TASK_ID=str(task))
        self.check_parts()
        # A task that is requeued makes nothing again.
        before = {path.name: path.stat().st_mtime_ns for path in self.parts.iterdir()}
        self.sh(array, SLURM_ARRAY_TASK_COUNT="3", SLURM_ARRAY_TASK_ID="1")
        self.assertEqual(before, {path.name: path.stat().st_mtime_ns for path in self.parts.iterdir()})

    @unittest.skipUnless(shutil.which("shellcheck"), "shellcheck is not installed")
    def test_scripts_have_no_known_faults(self):
        for script in [*blocks("xargs", "sh"), *blocks("Slurm", "sh")]:
            done = subprocess.run(["shellcheck", "--shell=bash", "--exclude=SC2012,SC2016", "-"], input=script, capture_output=True, text=True)
            self.assertEqual(done.stdout, "")

    @unittest.skipUnless(importlib.util.find_spec("yaml"), "yaml is not installed")
    def test_the_pods_command(self):
        import yaml

        (text,) = blocks("Kubernetes", "yaml")
        job = yaml.safe_load(text)
        (container,) = job["spec"]["template"]["spec"]["containers"]
        self.parts.mkdir()
        self.sh("ls traces/*.json.gz > traces.txt")
        for index in range(job["spec"]["completions"]):
            environment = {**self.environment, "JOB_COMPLETION_INDEX": str(index)}
            subprocess.run(container["command"], cwd=self.folder, env=environment, check=True)
        self.check_parts()
        if importlib.util.find_spec("kubernetes_validate"):
            import kubernetes_validate

            kubernetes_validate.validate(job, "1.29", strict=True)

    @unittest.skipUnless(PROGRAM and importlib.util.find_spec("duckdb"), "no program, or no duckdb")
    def test_duckdb(self):
        import duckdb

        self.sh(blocks("xargs", "sh")[0].replace("--expect 1024", "--quiet --expect 4"))
        exposed, unusual = blocks("Reading parts", "sql")
        connection = duckdb.connect()
        connection.execute(f"SET file_search_path = '{self.folder}'")
        ((headline, collective, ranks, kernels, exposed_ms, _),) = connection.execute(exposed).fetchall()
        self.assertEqual((headline, collective, ranks, kernels), ("model.py(40): layer_forward", "all_reduce", 4, 36))
        self.assertAlmostEqual(exposed_ms, 6.776, places=3)
        # Rank 2 comes late, so its kernels are short.
        self.assertEqual([row[0] for row in connection.execute(unusual).fetchall()], [2])

    @unittest.skipUnless(PROGRAM and importlib.util.find_spec("pyspark") and shutil.which("java"), "no program, or no Spark")
    def test_spark(self):
        self.sh(blocks("xargs", "sh")[0].replace("--expect 1024", "--quiet --expect 4"))
        (script,) = [block for block in blocks("Reading parts", "python") if "pyspark" in block]
        script += "\nprint(exposed.collect())\n"
        options = {"PYSPARK_SUBMIT_ARGS": "--master local[1] --conf spark.ui.enabled=false pyspark-shell", "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run([sys.executable, "-c", script], cwd=self.folder, env={**self.environment, **options}, capture_output=True, text=True)
        self.assertRegex(
            done.stdout, r"headline='model.py\(40\): layer_forward', collective='all_reduce', ranks=4, exposed_ms=(Decimal\(')?6\.77", done.stderr
        )

    @unittest.skipUnless(PROGRAM and importlib.util.find_spec("pandas"), "no program, or no pandas")
    def test_python(self):
        (script,) = blocks("Python", "python", page="json")
        # The traces here have the steps 0 to 2.
        script = script.replace("3..5", "0..2")
        done = subprocess.run([sys.executable, "-c", script], cwd=self.folder, env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        # Rank 2 is the one that the others wait for.
        verdict = subprocess.run([PROGRAM, "ranks", "traces/", "--json", "--quiet"], cwd=self.folder, capture_output=True, text=True).stdout
        self.assertIn(json.loads(verdict)["verdict"][0], done.stdout)
        self.assertRegex(done.stdout, r"^.*\n +rank +caused_ns +waited_ns\n0 +2 +\d+ +0\n")


if __name__ == "__main__":
    unittest.main()
