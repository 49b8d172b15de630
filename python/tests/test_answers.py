"""The answers, of the program itself: $NCCL_STACKS_BIN has to name it. What is expected is worked out in `testdata/README.md`, or is what the
program's own JSON says."""

import copy
import html
import importlib.util
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings
import zipfile
from unittest import mock

from support import DOUBLE, PROGRAM, ROOT, Folder, environment

import nccl_stacks
from nccl_stacks import _answers, _program
from nccl_stacks._options import PARAMETERS

TESTDATA = ROOT / "testdata"
COSTS, RANKS = TESTDATA / "costs.json", TESTDATA / "ranks"
HAS_PANDAS = importlib.util.find_spec("pandas")


def needs(*modules):
    """Skips a test where a module is not installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"{', '.join(missing)} is not installed")


def document(*arguments):
    """What the program itself answers."""
    return json.loads(subprocess.run([PROGRAM, *arguments, "--json", "--quiet", "--no-config"], capture_output=True, text=True).stdout)


def columns(answer, *names):
    """The rows of an answer as tuples of some columns."""
    return [tuple(row[name] for name in names) for row in answer.rows]


@unittest.skipUnless(PROGRAM, "NCCL_STACKS_BIN names no program")
class Answers(unittest.TestCase):
    """The rows, which are the same with pandas and without."""

    def test_stacks(self):
        answer = nccl_stacks.stacks(COSTS)
        # The table of stacks in `testdata/README.md`, in microseconds.
        expected = [
            ("model.py(50): backward", 200, 4, 500, "all_reduce", 0.25, 125, 100, 200, 180),
            ("model.py(20): forward", 160, 2, 160, "all_gather", 0.08, 80, 80, 100, 150),
            ("optimizer.py(70): step", 60, 1, 80, "reduce_scatter", 0.04, 80, 80, 80, 300),
            ("pipeline.py(40): exchange", 50, 2, 50, "send", 0.025, 25, 25, 40, 200),
            ("moe.py(60): dispatch", 30, 1, 30, "alltoall", 0.015, 30, 30, 30, 250),
            ("decode.py(30): replay", 20, 2, 30, "", 0.015, 15, 15, 20, None),
        ]
        names = "headline exposed_ns count gpu_ns collective share_of_window gpu_mean_ns gpu_median_ns gpu_p95_ns bus_gb_per_s".split()
        self.assertEqual(list(answer.rows[0])[:6], names[:6])
        for row, (headline, exposed, count, gpu, collective, share, mean, median, p95, busbw) in zip(answer.rows, expected):
            self.assertEqual([row[name] for name in names[:3]], [headline, exposed * 1000, count])
            self.assertEqual((row["gpu_ns"], row["share_of_window"]), (gpu * 1000, share))
            self.assertIn(collective, row["collective"])
            self.assertEqual((row["gpu_mean_ns"], row["gpu_median_ns"], row["gpu_p95_ns"]), (mean * 1000, median * 1000, p95 * 1000))
            self.assertEqual(row["bus_gb_per_s"] and round(row["bus_gb_per_s"], 6), busbw)
        self.assertEqual(len(answer.rows), len(expected))
        first = answer.rows[0]
        self.assertEqual(first["frames"].splitlines()[:2], ["train.py(10): main", "model.py(50): backward"])
        self.assertEqual((first["bytes_min"], first["bytes_max"], first["gpu_min_ns"], first["gpu_max_ns"]), (10**7, 2 * 10**7, 10**5, 2 * 10**5))
        self.assertEqual((first["critical_ns"], first["queue_delay_median_ns"]), (None, 20000))
        self.assertEqual(answer.exit_code, 0)
        self.assertEqual(answer.document, document(COSTS))
        self.assertEqual((answer.verdict, answer.notes), (answer.document["verdict"], answer.document["notes"]))
        self.assertIn("model.py(50): backward", [finding["what"] for finding in answer.findings])

    def test_stacks_of_ranks_and_groups(self):
        answer = nccl_stacks.stacks(RANKS, per_rank=True, sort="count")
        self.assertEqual(sorted(columns(answer, "rank", "count")), [(f"rank {rank}", 9) for rank in range(4)])
        answer = nccl_stacks.stacks([COSTS], group_by=["collective", "function:%main or not"])
        self.assertEqual(list(answer.rows[0])[:4], ["collective", "function:%main or not", "exposed_ns", "count"])
        # By collective, of the table of kernels: the unattributed AllReduce is in its group, too.
        self.assertIn(("all_gather", 160000, 2), columns(answer, "collective", "exposed_ns", "count"))
        self.assertEqual(sum(row["exposed_ns"] for row in answer.rows), 530000)

    def test_ranks(self):
        answer = nccl_stacks.ranks(RANKS)
        # Rank 2 comes last at all 9 collectives, and the others wait.
        self.assertEqual(columns(answer, "rank", "late_count"), [(2, 9), (0, 0), (1, 0), (3, 0)])
        self.assertEqual(list(answer.rows[0])[:3], ["rank", "caused_ns", "waited_ns"])
        own = document("ranks", RANKS)
        for row in own["ranks"]:
            mine = next(mine for mine in answer.rows if mine["rank"] == row["rank"])
            self.assertEqual(mine, {name: row[name] for name in mine})
        self.assertEqual(sum(row["waited_ns"] for row in answer.rows), answer.rows[0]["caused_ns"])

    def test_ranks_by_records_of_calls(self):
        answer = nccl_stacks.ranks(TESTDATA / "records" / "megatrace")
        lags = [row["lag_ns"] for row in answer.rows]
        self.assertEqual(lags, sorted((row["lag_ns"] for row in document("ranks", TESTDATA / "records" / "megatrace")["ranks"]), reverse=True))
        self.assertEqual((answer.rows[0]["rank"], answer.rows[0]["last_share"]), (5, 1.0))

    def test_hang(self):
        answer = nccl_stacks.hang(TESTDATA / "records" / "hang")
        names = "group state culprits missing_ranks odd_ranks waiting_ranks collective sequence distance".split()
        expected = [
            ("default_pg 0", "hung", [2], [], [2], [0, 1, 3], "all_reduce", 7, 0),
            ("tensor_parallel 2", "hung", [2], [2], [], [3], "all_reduce", 42, 0),
            ("tensor_parallel 1", "open", [], [], [], [0, 1], "all_reduce", 42, 1),
        ]
        self.assertEqual(columns(answer, *names), expected)
        self.assertEqual((answer.exit_code, answer.document["outcome"], answer.document["culprits"]), (4, "hung", [2]))

    def test_patterns(self):
        whole = nccl_stacks.hang(TESTDATA / "records" / "hang")
        self.assertEqual(nccl_stacks.hang(TESTDATA / "records" / "hang" / "nccl_trace_rank_[0-3].json").rows, whole.rows)
        answer = nccl_stacks.ranks([RANKS / "rank[01].json.gz", RANKS / "rank2*"])
        self.assertEqual(sorted(columns(answer, "rank")), [(0,), (1,), (2,)])
        answer = nccl_stacks.diff(RANKS / "rank*.json.gz", RANKS, ranks=True)
        self.assertEqual(columns(answer, "late_before", "late_after"), [(3, 3)])

    def test_diff(self):
        answer = nccl_stacks.diff(COSTS, TESTDATA / "costs_later.json", total=True)
        names = "headline exposed_change_ns gpu_change_ns count_change exposed_before_ns exposed_after_ns".split()
        # The table of `costs_later.json`.
        expected = [
            ("optimizer.py(70): step", -60000, -80000, -1, 60000, None),
            ("checkpoint.py(5): save", 50000, 50000, 1, None, 50000),
            ("model.py(57): backward", 30000, 80000, 0, 200000, 230000),
        ]
        self.assertEqual(columns(answer, *names), expected)
        self.assertEqual(list(answer.rows[0])[:4], names[:4])
        self.assertEqual(answer.document, document("diff", COSTS, TESTDATA / "costs_later.json", "--total"))

    def test_diff_of_runs(self):
        answer = nccl_stacks.diff(RANKS, RANKS, ranks=True)
        (row,) = answer.rows
        self.assertEqual((row["waited_change_ns"], row["caused_change_ns"], row["late_change"]), (0, 0, 0))
        # 9 late kernels in 3 steps.
        self.assertEqual((row["headline"], row["late_before"], row["late_after"]), ("model.py(40): layer_forward", 3, 3))
        self.assertEqual(row["waited_before_ns"], answer.document["stacks"][0]["before"]["each"]["waited_ns"])

    def test_what_if(self):
        answer = nccl_stacks.what_if(RANKS)
        saves = [row["saves_ns"] for row in answer.rows]
        self.assertEqual(saves, sorted(saves, reverse=True))
        self.assertEqual(saves, [row["saves_ns"] for row in document("what-if", RANKS)["answers"]])
        self.assertEqual(answer.rows[0]["saves_share"], saves[0] / answer.document["length_ns"])
        answer = nccl_stacks.what_if(RANKS, if_=["rank 2 like peers", "all begin together"])
        self.assertEqual({row["rule"] for row in answer.rows[1:]}, {"rank 2 like peers", "all begin together"})

    def test_no_stacks_and_no_hang_have_the_columns(self):
        with self.assertWarns(nccl_stacks.DamageWarning):
            answer = nccl_stacks.stacks(TESTDATA / "no_launch_link.json")
        self.assertEqual((answer.rows, answer.exit_code), ([], 3))
        self.assertIn("<p>No rows.</p>", answer._repr_html_())
        if HAS_PANDAS:
            self.assertEqual(list(answer.columns), list(nccl_stacks.stacks(COSTS).columns))


@unittest.skipUnless(PROGRAM, "NCCL_STACKS_BIN names no program")
class Queries(unittest.TestCase):
    """What `sql` gives, with and without pandas."""

    def ask(self, *arguments, **options):
        with mock.patch.object(_answers, "_frames", lambda: None):
            return nccl_stacks.sql(*arguments, **options)

    def test_statements(self):
        # All kernels by name: 19, 1510 microseconds, of which 7 AllReduce take 540.
        query = "SELECT substr(name, 1, 23) AS kernel, COUNT(*) AS n, SUM(dur) AS ns FROM slice WHERE category = 'kernel' GROUP BY 1 ORDER BY 3 DESC"
        rows = self.ask(COSTS, query)
        self.assertEqual(sum(row["ns"] for row in rows), 1510000)
        self.assertIn({"kernel": "ncclDevKernel_AllReduce", "n": 7, "ns": 540000}, rows)

    def test_texts_are_whole_and_null_is_none(self):
        self.assertEqual(self.ask(COSTS, "SELECT 'a\n\n\"b\"' AS t, NULL AS u, 2.5 AS v"), [{"t": 'a\n\n"b"', "u": None, "v": 2.5}])

    def test_one_statement_has_rows(self):
        self.assertEqual(self.ask(COSTS, "CREATE TEMP VIEW v AS SELECT 7 AS a; SELECT a FROM v"), [{"a": 7}])
        self.assertEqual(self.ask(COSTS, "CREATE TEMP VIEW v AS SELECT 7 AS a"), [])
        self.assertEqual(self.ask(COSTS, "SELECT 1 AS a WHERE FALSE"), [])
        with self.assertRaisesRegex(ValueError, "2 statements have rows"):
            self.ask(COSTS, "SELECT 1; SELECT 2")
        with self.assertRaisesRegex(ValueError, "no statements"):
            self.ask(COSTS)

    def test_a_named_query(self):
        rows = self.ask(TESTDATA / "metadata_pytorch.json", query="kernels", param={"family": ["nccl"], "kernel_name": "*pad*"})
        # NCCL: 3 kernels of 350 in each of two steps; of the padding 10, 12 and 8.
        self.assertEqual([(row["Instances"], row["Total Time (ns)"]) for row in rows], [(6, 700000), (3, 30000)])

    @needs("pandas")
    def test_nanoseconds_stay_whole_beside_null(self):
        frame = nccl_stacks.sql(COSTS, "SELECT 1759300373999666685 AS ts UNION ALL SELECT NULL")
        self.assertEqual((str(frame["ts"].dtype), int(frame["ts"][0])), ("Int64", 1759300373999666685))


@unittest.skipUnless(PROGRAM, "NCCL_STACKS_BIN names no program")
class Libraries(unittest.TestCase):
    """What an answer is with pandas and without."""

    def test_without_pandas_an_answer_is_a_list_of_dicts(self):
        with tempfile.TemporaryDirectory() as hidden:
            # A module of that name that cannot be imported, before the one that could be.
            with open(f"{hidden}/pandas.py", "w") as file:
                file.write("raise ModuleNotFoundError('no pandas', name='pandas')\n")
            script = (
                "import json, sys, nccl_stacks as n\nanswer = n.stacks(sys.argv[1])\n"
                "json.dump([list(answer), answer.rows, n.sql(sys.argv[1], 'SELECT 1 AS a'), answer.verdict, type(answer) is not list], sys.stdout)"
            )
            env = environment(PROGRAM)
            env["PYTHONPATH"] = f"{hidden}:{env['PYTHONPATH']}"
            done = subprocess.run([sys.executable, "-c", script, COSTS], env=env, capture_output=True, text=True)
            self.assertEqual(done.stderr, "")
        answer = nccl_stacks.stacks(COSTS)
        self.assertEqual(json.loads(done.stdout), [answer.rows, answer.rows, [{"a": 1}], answer.verdict, True])

    def test_a_pandas_that_is_broken_is_no_pandas_that_is_not_there(self):
        with tempfile.TemporaryDirectory() as hidden:
            with open(f"{hidden}/pandas.py", "w") as file:
                file.write("import no_such_module\n")
            env = environment(PROGRAM)
            env["PYTHONPATH"] = f"{hidden}:{env['PYTHONPATH']}"
            script = "import sys, nccl_stacks\nnccl_stacks.stacks(sys.argv[1])"
            done = subprocess.run([sys.executable, "-c", script, COSTS], env=env, capture_output=True, text=True)
        self.assertIn("No module named 'no_such_module'", done.stderr)

    @needs("pandas")
    def test_with_pandas_it_is_a_frame(self):
        import pandas

        answer = nccl_stacks.stacks(COSTS)
        self.assertIsInstance(answer, pandas.DataFrame)
        dtypes = {name: str(answer[name].dtype) for name in ("headline", "count", "exposed_ns", "gpu_mean_ns", "queue_delay_median_ns")}
        self.assertEqual(list(dtypes.values()), ["string", "Int64", "Int64", "Float64", "Float64"])
        values = answer.astype(object).where(answer.notna(), None).to_dict("records")
        self.assertEqual(values, answer.rows)
        # What a user does first.
        self.assertEqual(answer.groupby("collective")["exposed_ns"].sum().to_dict()["all_gather"], 160000)

    @needs("pandas")
    def test_what_is_made_of_a_frame_is_a_frame_as_any_other(self):
        import pandas

        answer = nccl_stacks.stacks(COSTS)
        for made in (answer[answer["count"] > 1], answer.copy(), answer.sort_values("count"), answer[["count"]]):
            self.assertIs(type(made), pandas.DataFrame)
        for same in (pickle.loads(pickle.dumps(answer)), copy.copy(answer)):
            self.assertTrue(same.equals(answer))
        self.assertEqual(pickle.loads(pickle.dumps(answer)).verdict, answer.verdict)

    @needs("polars")
    def test_polars_takes_the_rows(self):
        import polars

        self.assertEqual(polars.DataFrame(nccl_stacks.stacks(COSTS).rows)["exposed_ns"].sum(), 520000)

    @needs("duckdb")
    def test_other_engines_read_the_parts_themselves(self):
        import duckdb

        with tempfile.TemporaryDirectory() as folder:
            for rank in range(4):
                part = [PROGRAM, "part", "--quiet", "--output", f"{folder}/{rank}.parquet", RANKS / f"rank{rank}.json.gz"]
                subprocess.run(part, check=True)
            rows = duckdb.execute("SELECT rank, gpu_ns FROM read_parquet(?) WHERE row = 'stack' ORDER BY rank", [f"{folder}/*.parquet"]).fetchall()
            types = dict(duckdb.execute("SELECT column_name, column_type FROM (DESCRIBE FROM read_parquet(?))", [f"{folder}/*.parquet"]).fetchall())
        self.assertEqual(rows, [(row["rank"], row["gpu_ns"]) for row in document("ranks", RANKS)["ranks"]])
        page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
        described = dict(re.findall(r"(?m)^\| `(\w+)` \| (string|int64|double) \| ", page))
        names = {"string": ("VARCHAR",), "int64": ("BIGINT", "UBIGINT", "INTEGER", "UINTEGER"), "double": ("DOUBLE",)}
        self.assertGreater(len(described), 18)
        for name, dtype in described.items():
            self.assertIn(types[name], names[dtype], name)


@unittest.skipUnless(PROGRAM, "NCCL_STACKS_BIN names no program")
class Notebook(unittest.TestCase):
    """What a notebook shows."""

    def shown(self, paths, **options):
        """The same answer without pandas and, if it is installed, with it."""
        with mock.patch.object(_answers, "_frames", lambda: None):
            yield nccl_stacks.stacks(paths, **options)
        if HAS_PANDAS:
            yield nccl_stacks.stacks(paths, **options)

    def test_the_verdict_the_findings_and_the_first_rows(self):
        for answer in self.shown(COSTS):
            page, finding = answer._repr_html_(), answer.findings[0]
            texts = (html.escape(answer.verdict[0]), f"<b>{finding['cost']}</b>: {finding['what']}<br>", "<table>", "6 of 6 rows")
            places = [page.index(text) for text in texts]
            self.assertEqual(places, sorted(places))
            self.assertIn('<td style="text-align: left">model.py(50): backward</td><td style="text-align: right">200,000</td>', page)
            # Of a call path the innermost frame is shown, and all of it is the title.
            self.assertIn('title="train.py(10): main\nmodel.py(50): backward', page)
            self.assertEqual(page.count("<tr>"), 7)
            # No stack has a thread, and so there is no such column; a share has digits.
            self.assertNotIn("<th>thread</th>", page)
            self.assertIn('<td style="text-align: right">0.250</td>', page)

    def test_ten_rows(self):
        with mock.patch.object(_answers, "_frames", lambda: None):
            answer = nccl_stacks.what_if(RANKS)
        self.assertGreater(len(answer), 10)
        self.assertIn(f"10 of {len(answer)} rows", answer._repr_html_())
        self.assertEqual(answer._repr_html_().count("<tr>"), 11)

    def test_names_of_a_trace_are_text(self):
        evil = "<script>alert(1)</script>&\\\"'.py(50): <img src=x onerror=y>"
        with tempfile.TemporaryDirectory() as folder:
            trace = f"{folder}/<b>t.json"
            with open(trace, "w") as file:
                file.write(COSTS.read_text().replace("model.py(50): backward", evil))
            for answer in self.shown(trace):
                page = answer._repr_html_()
                self.assertIn("&lt;script&gt;alert(1)&lt;/script&gt;&amp;", page)
                self.assertEqual(set(re.findall(r"<(/?\w+)", page)) & {"script", "img", "/script"}, set())
                # Within the title's quotes, too: without what is in quotes no tag has anything but a style.
                attributes = set(re.findall(r"<\w+([^<>]*)>", re.sub(r' title="[^"]*"', "", page)))
                self.assertEqual(attributes, {"", ' style="text-align: left"', ' style="text-align: right"'})

    @needs("pandas")
    def test_a_frame_is_shown_as_it_is_now(self):
        answer = nccl_stacks.stacks(COSTS)
        answer["own"] = "<i>"
        answer["headline"] = answer["headline"].str.replace("model.py", "own.py")
        page = answer._repr_html_()
        self.assertIn("<th>own</th>", page)
        self.assertIn("&lt;i&gt;", page)
        self.assertIn(">own.py(50): backward</td>", page)


@unittest.skipUnless(PROGRAM, "NCCL_STACKS_BIN names no program")
class Failures(unittest.TestCase):
    """What goes wrong is an exception in Python's words."""

    def test_a_file_that_is_not_there(self):
        calls = [nccl_stacks.stacks, nccl_stacks.ranks, nccl_stacks.hang, nccl_stacks.what_if, lambda path: nccl_stacks.diff(COSTS, path)]
        for call in [*calls, lambda path: nccl_stacks.sql(path, "SELECT 1")]:
            with self.assertRaises(FileNotFoundError) as caught:
                call("no such.json")
            self.assertEqual(caught.exception.filename, "no such.json")
            self.assertTrue(str(caught.exception).startswith("[Errno 2] No such file or directory"), caught.exception)
        with self.assertRaises(FileNotFoundError) as caught:
            nccl_stacks.hang("no such*.json")
        self.assertEqual(caught.exception.filename, "no such*.json")
        near = str(RANKS / "rank9.json.gz")
        with self.assertRaisesRegex(FileNotFoundError, "near it: .*rank0.json.gz") as caught:
            nccl_stacks.ranks([RANKS / "rank0.json.gz", near])
        self.assertEqual(caught.exception.filename, near)
        with self.assertRaises(FileNotFoundError) as caught:
            nccl_stacks.stacks(COSTS, config="none.conf")
        self.assertEqual(caught.exception.filename, "none.conf")

    def check(self, call, exit_code, message):
        with self.assertRaises(nccl_stacks.Error) as caught:
            call()
        self.assertEqual((str(caught.exception), caught.exception.exit_code), (message, exit_code))

    def test_options_have_pythons_names(self):
        self.check(lambda: nccl_stacks.stacks(COSTS, step=2, function_name="x"), 2, "the argument 'step' cannot be used with 'function_name'")
        message = "the following required arguments were not provided:\n  'function_name'"
        self.check(lambda: nccl_stacks.stacks(COSTS, index=0), 2, message)
        message = "Nothing in the trace looks like a step. Choose with 'function_name', or with 'start_ts' and 'duration'."
        self.check(lambda: nccl_stacks.stacks(COSTS, step=2), 3, message)
        self.check(lambda: nccl_stacks.hang(TESTDATA / "records" / "hang", kernel_name="x"), 2, "unexpected argument 'kernel_name' found")
        with self.assertRaisesRegex(nccl_stacks.Error, "^invalid value 'foo' for 'if_': expected is a rule such as"):
            nccl_stacks.what_if(RANKS, if_="foo")

    def test_texts_name_options_as_parameters(self):
        text = "take --kernel-name '*', --step 3 or --json; choose with --index, or `nccl-stacks ranks`"
        expected = "take kernel_name='*', step=3 or --json; choose with 'index', or `nccl_stacks.ranks`"
        self.assertEqual(_program.in_python(text), expected)
        answer = nccl_stacks.stacks(COSTS)
        answer.document = {"verdict": [text], "notes": [text], "findings": [{"advice": text}, {"advice": None}]}
        self.assertEqual((answer.verdict, answer.notes, answer.findings), ([expected], [expected], [{"advice": expected}, {"advice": None}]))

    def test_other_failures(self):
        self.check(lambda: nccl_stacks.sql(COSTS, "SELECT x FROM y"), 1, "SQL statement 1 (line 1): no such table: y")
        with self.assertRaisesRegex(nccl_stacks.Error, r"^Exceeded: exposed>\+1%: ") as caught:
            nccl_stacks.diff(COSTS, TESTDATA / "costs_later.json", fail_if="exposed>+1%")
        self.assertEqual(caught.exception.exit_code, 5)
        for paths in ([], ()):
            with self.assertRaisesRegex(ValueError, "no paths"):
                nccl_stacks.ranks(paths)

    def test_what_is_missing_is_a_warning_of_the_callers_line(self):
        with self.assertWarnsRegex(nccl_stacks.DamageWarning, "Missing: 1 of 5 ranks: 4") as caught:
            answer = nccl_stacks.ranks(RANKS, expect=5)
        self.assertEqual((answer.exit_code, len(answer.rows), caught.filename), (6, 4, __file__))
        with self.assertWarnsRegex(nccl_stacks.DamageWarning, "Left out: everything from an unterminated element on") as caught:
            nccl_stacks.sql(TESTDATA / "damaged.json", "SELECT 1")
        self.assertEqual(caught.filename, __file__)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            nccl_stacks.ranks(RANKS)

    def test_a_broken_trace_of_an_archive_is_as_loud_as_among_others(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/rank1.json", "w") as file:
                file.write("no trace")
            shutil.copy(RANKS / "rank0.json.gz", folder)
            archive = f"{folder}/traces.zip"
            with zipfile.ZipFile(archive, "w") as file:
                for name in ("rank0.json.gz", "rank1.json"):
                    file.write(f"{folder}/{name}", name)
            for paths in ([f"{folder}/rank0.json.gz", f"{folder}/rank1.json"], archive):
                with self.assertWarnsRegex(nccl_stacks.DamageWarning, r"rank1\.json"):
                    self.assertEqual(nccl_stacks.stacks(paths).rows[0]["count"], 9)

    def test_no_config_file_is_read_that_is_not_named(self):
        def count(**options):
            return sum(row["count"] for row in nccl_stacks.stacks(COSTS, **options).rows)

        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "nccl-stacks.conf")
            with open(config, "w") as file:
                file.write("--kernel-name=ncclDevKernel_AllGather\n")
            here = os.getcwd()
            os.chdir(folder)
            try:
                self.assertEqual(count(), 12)
            finally:
                os.chdir(here)
            with mock.patch.dict(os.environ, {"NCCL_STACKS_CONFIG": config}):
                self.assertEqual(count(), 12)
            self.assertEqual(count(config=config), 2)


class Program(Folder):
    """Where the program is looked for, and what it is asked; with the double."""

    def test_the_variable_comes_first(self):
        with mock.patch.dict(os.environ, {"NCCL_STACKS_BIN": str(DOUBLE), "DOUBLE_VERSION": "double 7"}):
            self.assertEqual(nccl_stacks.find(), str(DOUBLE))
            self.assertEqual(nccl_stacks.version(), "double 7")

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
            with self.assertRaisesRegex(nccl_stacks.Error, "install its wheel") as caught:
                nccl_stacks.find()
        self.assertIsNone(caught.exception.exit_code)

    def test_a_signal_is_named(self):
        trace = self.trace(0, signal=9)
        done = _program.run(str(DOUBLE), ["part", "--output", str(self.folder / "part"), "--", str(trace)])
        error = _program.failure(done)
        self.assertEqual((str(error), error.exit_code), ("nccl-stacks ended by signal 9, and says nothing", -9))

    def test_arguments(self):
        given = _program.arguments({"function_name": "%f%", "index": 0, "family": ["a", "b"], "exact_names": True, "strict": False, "step": None})
        self.assertEqual(given, ["--function-name=%f%", "--index=0", "--family=a", "--family=b", "--exact-names", "--no-config"])
        given = _program.arguments({"if_": "r", "rank": {3: self.folder}, "param": {"k": ["a", "b"]}, "forward_stacks": False, "config": "c"})
        self.assertEqual(given, ["--if=r", f"--rank=3={self.folder}", "--param=k=a", "--param=k=b", "--forward-stacks=off", "--config=c"])

    def test_a_parameter_that_there_is_not(self):
        with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'output'; there are capture_trace, "):
            nccl_stacks.stacks("t.json", output="x")

    @unittest.skipUnless(PROGRAM, "NCCL_STACKS_BIN names no program")
    def test_all_options_are_parameters_but_those_of_the_form(self):
        of_form = set("format json output color weight full_stacks stack_depth guard_csv quiet verbose interactive no_config no_pager help version".split())
        found = set()
        for command in ("", "ranks", "hang", "diff", "what-if", "sql"):
            text = subprocess.run([PROGRAM, *command.split(), "--help"], capture_output=True, text=True, check=True).stdout
            found |= set(re.findall(r"(?m)^\s+(?:-\w, )?--([a-z-]+)(?: [<\[].*)?$", text))
        names = {"if_" if name == "if" else name.replace("-", "_") for name in found}
        self.assertEqual(names - of_form, set(PARAMETERS))


if __name__ == "__main__":
    unittest.main()
