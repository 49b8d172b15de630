"""The frames, of the program's own parts: $NCCL_STACKS_BIN has to name it. What is expected is counted in the traces themselves, by their
JSON."""

import gzip
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
import unittest
import warnings
import zipfile
from unittest import mock

from support import DOUBLE, PROGRAM, ROOT, Folder

import nccl_stacks
from nccl_stacks import _frames

RANKS = ROOT / "testdata" / "ranks"


def kernels(path):
    """The lengths of the collectives' kernels of a trace in ns, by its JSON."""
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    return [round(event["dur"] * 1000) for event in events if event.get("cat") == "kernel" and event["name"].startswith("nccl")]


@unittest.skipUnless(PROGRAM, "NCCL_STACKS_BIN names no program")
class Frames(unittest.TestCase):
    def check(self, rows):
        """The rows as dicts, whatever they came from."""
        self.assertEqual([row["rank"] for row in rows], [0, 1, 2, 3])
        for row in rows:
            lengths = kernels(RANKS / f"rank{row['rank']}.json.gz")
            self.assertEqual(row["count"], len(lengths))
            self.assertEqual(row["gpu_ns"], sum(lengths))
            self.assertEqual((row["gpu_min_ns"], row["gpu_max_ns"]), (min(lengths), max(lengths)))
            self.assertAlmostEqual(row["gpu_squares_ns2"], sum(length**2 for length in lengths), delta=1)
            self.assertEqual(sum(int(each.split(":")[1]) for each in row["gpu_histogram"].split()), len(lengths))
            self.assertEqual((row["world_size"], row["collective"], row["size_class"]), (4, "all_reduce", 4194304))
            self.assertEqual(row["frames"].splitlines()[-1], "cudaLaunchKernelExC")
            self.assertIn(row["headline"], row["frames"].splitlines())
            self.assertIsNone(row["captured"])
        self.assertEqual(len({row["stack_hash"] for row in rows}), 1)

    @unittest.skipUnless(importlib.util.find_spec("pandas") and importlib.util.find_spec("pyarrow"), "pandas or pyarrow is not installed")
    def test_pandas(self):
        import pandas

        frame = nccl_stacks.stacks(RANKS)
        dtypes = {"string": "string", "int64": "Int64", "double": "Float64"}
        self.assertEqual({name: str(dtype) for name, dtype in frame.dtypes.items()}, {each.name: dtypes[each.dtype] for each in nccl_stacks.COLUMNS})
        self.check([{name: None if pandas.isna(value) else value for name, value in row.items()} for row in frame.to_dict("records")])
        # What a user does first.
        self.assertEqual(frame.groupby("collective")["gpu_ns"].sum().to_dict(), {"all_reduce": int(frame["gpu_ns"].sum())})

    @unittest.skipUnless(importlib.util.find_spec("polars"), "polars is not installed")
    def test_polars(self):
        frame = nccl_stacks.stacks(RANKS, frame="polars")
        dtypes = {"string": "String", "int64": "Int64", "double": "Float64"}
        self.assertEqual({name: str(dtype) for name, dtype in frame.schema.items()}, {each.name: dtypes[each.dtype] for each in nccl_stacks.COLUMNS})
        self.check(frame.to_dicts())

    @unittest.skipUnless(importlib.util.find_spec("pyarrow"), "pyarrow is not installed")
    def test_pyarrow(self):
        table = nccl_stacks.stacks([RANKS / "rank?.json.gz"], frame="pyarrow")
        self.assertEqual({field.name: str(field.type) for field in table.schema}, {each.name: each.dtype for each in nccl_stacks.COLUMNS})
        self.check(table.to_pylist())

    @unittest.skipUnless(importlib.util.find_spec("duckdb"), "duckdb is not installed")
    def test_duckdb_reads_the_parts_themselves(self):
        import duckdb

        with tempfile.TemporaryDirectory() as folder:
            for rank in range(4):
                part = [PROGRAM, "part", "--quiet", "--output", f"{folder}/{rank}.parquet", RANKS / f"rank{rank}.json.gz"]
                subprocess.run(part, check=True)
            query = "SELECT rank, sum(gpu_ns) FROM read_parquet(?) WHERE row = 'stack' GROUP BY rank ORDER BY rank"
            rows = duckdb.execute(query, [f"{folder}/*.parquet"]).fetchall()
        self.assertEqual(rows, [(rank, sum(kernels(RANKS / f"rank{rank}.json.gz"))) for rank in range(4)])

    @unittest.skipUnless(importlib.util.find_spec("polars"), "polars is not installed")
    def test_options(self):
        frame = nccl_stacks.stacks(
            RANKS / "rank0.json.gz", frame="polars", function_name="ProfilerStep%", index=0, kernel_name=["ncclDevKernel_AllReduce"]
        )
        whole = nccl_stacks.stacks(RANKS / "rank0.json.gz", frame="polars")
        self.assertLess(0, frame["count"].sum())
        self.assertLess(frame["count"].sum(), whole["count"].sum())

    @unittest.skipUnless(importlib.util.find_spec("polars"), "polars is not installed")
    def test_damage_is_a_warning(self):
        with self.assertWarnsRegex(nccl_stacks.DamageWarning, r"damaged\.json: "):
            nccl_stacks.stacks(ROOT / "testdata" / "damaged.json", frame="polars")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            nccl_stacks.stacks(RANKS, frame="polars")

    @unittest.skipUnless(importlib.util.find_spec("polars"), "polars is not installed")
    def test_no_config_file_is_read_that_is_not_named(self):
        whole = nccl_stacks.stacks(RANKS, frame="polars")["count"].sum()
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "nccl-stacks.conf")
            with open(config, "w") as file:
                file.write("--function-name=ProfilerStep%\n--kernel-name=none*\n--quiet\n")
            here = os.getcwd()
            os.chdir(folder)
            try:
                self.assertEqual(nccl_stacks.stacks(RANKS, frame="polars")["count"].sum(), whole)
            finally:
                os.chdir(here)
            with mock.patch.dict(os.environ, {"NCCL_STACKS_CONFIG": config}):
                self.assertEqual(nccl_stacks.stacks(RANKS, frame="polars")["count"].sum(), whole)
            # No kernel is named so.
            self.assertEqual(nccl_stacks.stacks(RANKS, frame="polars", config=config, index=0)["count"].sum(), 0)

    @unittest.skipUnless(importlib.util.find_spec("polars"), "polars is not installed")
    def test_a_broken_trace_of_an_archive_is_as_loud_as_in_a_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/rank1.json", "w") as file:
                file.write("no trace")
            shutil.copy(RANKS / "rank0.json.gz", folder)
            archive = f"{folder}/traces.zip"
            with zipfile.ZipFile(archive, "w") as file:
                for name in ("rank0.json.gz", "rank1.json"):
                    file.write(f"{folder}/{name}", name)
            for paths in ([f"{folder}/rank0.json.gz", f"{folder}/rank1.json"], archive):
                with self.assertRaisesRegex(nccl_stacks.TraceError, r"rank1\.json"):
                    nccl_stacks.stacks(paths, frame="polars")

    @unittest.skipUnless(importlib.util.find_spec("polars"), "polars is not installed")
    def test_failures_are_exceptions_with_the_programs_words(self):
        with self.assertRaisesRegex(nccl_stacks.TraceError, "exit code 1") as caught:
            nccl_stacks.stacks("none.json", frame="polars")
        self.assertEqual(caught.exception.exit_code, 1)
        self.assertIn("none.json", caught.exception.message)
        with self.assertRaisesRegex(nccl_stacks.UsageError, "--no-such-option"):
            nccl_stacks.stacks(RANKS, frame="polars", no_such_option=3)


class Program(Folder):
    """Where the program is looked for, and what is said of it; with the double."""

    def test_the_variable_comes_first(self):
        with mock.patch.dict(os.environ, {"NCCL_STACKS_BIN": str(DOUBLE), "DOUBLE_VERSION": "double 7"}):
            self.assertEqual(nccl_stacks.find(), str(DOUBLE))
            self.assertEqual(nccl_stacks._program.check(str(DOUBLE), ["--version"]).stdout, "double 7\n")

    def test_then_the_folder_of_scripts_then_the_path(self):
        scripts, path = self.folder / "scripts", self.folder / "path"
        for folder in (scripts, path):
            folder.mkdir()
            (folder / "nccl-stacks").symlink_to(DOUBLE)
        with mock.patch.dict(os.environ, {"PATH": str(path)}), mock.patch("nccl_stacks._program._places", lambda: iter([scripts])):
            os.environ.pop("NCCL_STACKS_BIN", None)
            self.assertEqual(nccl_stacks.find(), str(scripts / "nccl-stacks"))
            (scripts / "nccl-stacks").unlink()
            self.assertEqual(nccl_stacks.find(), str(path / "nccl-stacks"))
            (path / "nccl-stacks").unlink()
            with self.assertRaisesRegex(nccl_stacks.NotFound, "install its wheel"):
                nccl_stacks.find()

    def test_a_signal_is_named(self):
        trace = self.trace(0, signal=9)
        with self.assertRaisesRegex(nccl_stacks.Failed, "ended by signal 9") as caught:
            nccl_stacks._program.check(str(DOUBLE), ["part", "--output", str(self.folder / "part"), "--", str(trace)])
        self.assertEqual(caught.exception.exit_code, -9)

    def test_arguments(self):
        given = _frames.arguments({"function_name": "%f%", "index": 0, "family": ["a", "b"], "exact_names": True, "config": None, "quiet": False})
        self.assertEqual(given, ["--function-name=%f%", "--index=0", "--family=a", "--family=b", "--exact-names"])

    def test_a_frame_that_there_is_not(self):
        with self.assertRaisesRegex(ValueError, "'pandas', 'polars', 'pyarrow'"):
            nccl_stacks.stacks("t.json", frame="cudf")

    def test_a_library_that_is_not_installed(self):
        for frame, hidden in [("pandas", "pyarrow"), ("polars", "polars"), ("pyarrow", "pyarrow")]:
            with mock.patch.dict("sys.modules", {hidden: None, "pyarrow": None}):
                with self.assertRaisesRegex(ImportError, f"pip install {hidden}$"):
                    nccl_stacks.stacks("t.json", frame=frame)

    def test_columns_are_documented(self):
        page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
        for column in nccl_stacks.COLUMNS:
            unit = column.unit or ""
            self.assertRegex(page, rf"(?m)^\| `{column.name}` \| {column.dtype} \| {unit} \| ")


if __name__ == "__main__":
    unittest.main()
