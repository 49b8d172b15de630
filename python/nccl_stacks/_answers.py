"""The program's commands as functions. Each asks for the answer as JSON, and makes a frame of its main table."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, cast

from . import _program
from ._answer import Row, Rows
from ._options import Files, Path

if TYPE_CHECKING:
    import pandas
    from typing_extensions import Unpack

    from ._options import Options
    from ._pandas import Frame

ANSWERED = (0, 3, 4, 6)
"""The exit codes with which there can be an answer: also without stacks, of a hang, and of what is left of damaged traces."""


def _columns(names: str) -> Mapping[str, str]:
    """Of each column where its value is in a row of the document, if that is not a field of the same name: fields with points between them."""
    return {name: path or name for name, _, path in (each.partition("=") for each in names.split())}


COST = """
exposed_ns=cost.exposed_ns count gpu_ns=cost.gpu_time.total_ns collective=messages.collectives share_of_window=cost.share_of_window
gpu_mean_ns=cost.gpu_time.mean_ns gpu_median_ns=cost.gpu_time.median_ns gpu_p95_ns=cost.gpu_time.p95_ns gpu_min_ns=cost.gpu_time.min_ns
gpu_max_ns=cost.gpu_time.max_ns critical_ns=cost.critical_ns queue_delay_median_ns=cost.queue_delay.median_ns bytes_min=messages.bytes.min
bytes_max=messages.bytes.max bus_gb_per_s=messages.bandwidth.bus_gb_per_s
"""
PATHS = "thread captured=captured.frames forward=forward.frames frames"
STACKS = _columns(f"headline {COST} rank {PATHS}")
RANKS = _columns(
    "rank caused_ns waited_ns late_count exposed_ns gpu_ns transfer_ns kernels left_out_ns wall_ns queue_empty_share"
    " offset_ns uncertainty_ns host trace"
)
ENTRIES = _columns("rank lag_ns last_share added_ns largest_lag_ns calls score limit group stream")
FAULTS = ("culprits", "missing_ranks", "stuck_ranks", "odd_ranks")
HANG = _columns(f"group state {' '.join(FAULTS)} waiting_ranks unknown_ranks collective sequence distance source ranks")
DIFF = _columns(f"""
headline exposed_change_ns=change.exposed_ns gpu_change_ns=change.gpu_time_ns count_change=change.count
exposed_before_ns=before.each.exposed_ns exposed_after_ns=after.each.exposed_ns gpu_before_ns=before.each.gpu_time_ns
gpu_after_ns=after.each.gpu_time_ns count_before=before.each.count count_after=after.each.count {PATHS}
""")
RUNS = _columns("""
headline waited_change_ns=change.waited_ns caused_change_ns=change.caused_ns late_change=change.late_count
waited_before_ns=before.each.waited_ns waited_after_ns=after.each.waited_ns caused_before_ns=before.each.caused_ns
caused_after_ns=after.each.caused_ns late_before=before.each.late_count late_after=after.each.late_count frames
""")
RULES = _columns("rule saves_ns saves_share")


class DamageWarning(UserWarning):
    """The answer lacks something: a trace is damaged, or ranks are not there. The warning says what."""


def stacks(paths: Files, **options: Unpack[Options]) -> Frame:
    """The call stacks that launched collective kernels, the one that is exposed for longest first.

    `paths` is a trace, a folder, a pattern, an archive or a list of these; several are the ranks of a job. `options` are those of the
    program, with `_` for `-`. With `group_by` a row is a group, and its first columns are the keys. An answer is a `pandas.DataFrame`, without
    pandas a list of dicts; `verdict`, `findings`, `notes`, `document`, `rows` and `exit_code` are its attributes.

    Columns: the innermost line of the user's own code (`headline`), the collectives, how many kernels (`count`), how long no compute kernel
    ran beside them (`exposed_ns`), how long they ran (`gpu_ns`, of one kernel the mean, median and so on), their share of the window (0 to 1),
    with `sort="critical"` how long they are on the critical path, from launch to start (`queue_delay_median_ns`), the sizes in bytes, busbw in
    GB/s, with `per_rank` the rank, and the call path, a line for each caller, the outermost first (`frames`). All times are in ns.

    >>> answer = nccl_stacks.stacks("trace.json.gz", step=3)
    >>> answer[["headline", "count", "exposed_ns"]].head()
    >>> nccl_stacks.stacks("traces/", group_by="module", per_rank=True)
    """
    return _answer(*_ask([], paths, options))


def ranks(paths: Files, **options: Unpack[Options]) -> Frame:
    """The ranks of a job, the one that the others waited for longest first.

    `paths` are the traces of the ranks, their parts, or NCCL's own records of calls.

    Columns: the rank, how long others waited for it (`caused_ns`), how long it waited, at how many collectives it was late, how long its
    collectives were exposed, ran, and ran without waiting (`transfer_ns`), and how far its clock is ahead, with the error of that. Of records
    without times of kernels: how much later than its peers the rank enters (`lag_ns`), and at which share of calls last (0 to 1). All times
    are in ns. The document has more tables: `stacks`, `groups`, `steps`, `pairs`, `sizes`.

    >>> answer = nccl_stacks.ranks("traces/")
    >>> answer.verdict[0], answer["rank"].iloc[0]
    >>> pandas.json_normalize(answer.document["pairs"])
    """
    return _answer(*_ask(["ranks"], paths, options))


def hang(paths: Files, **options: Unpack[Options]) -> Frame:
    """Whether a job hangs, by NCCL's own records: the groups that wait, the one where it begins first.

    `paths` are dumps of the flight recorder, recordings, answers of RAS, logs, or folders of these.

    Columns: the group, what its ranks do (`hung`: they wait for others; `lagging`: some have done less; `open`: all have come, and it has not
    ended), the collective and its number in the group, the ranks at fault (`culprits`, of which some are `missing_ranks`, `stuck_ranks` or
    `odd_ranks`), those that wait and those without records, as lists, and how many groups are between it and the origin (`distance`).
    `answer.document["outcome"]` is `hung`, `lagging`, `unclear`, `nothing_seen` or `clear`; `exit_code` is 4 if the job hangs. Times, of
    `processes` in the document, are in ns.

    >>> answer = nccl_stacks.hang("dumps/")
    >>> answer.document["outcome"], answer.document["culprits"]
    ('hung', [2])
    """
    return _answer(*_ask(["hang"], paths, options))


def diff(before: Path, after: Path, **options: Unpack[Options]) -> Frame:
    """Two traces side by side, the stack that changed most first; with `ranks=True` two folders of the ranks of a job.

    Columns: the headline, the change in exposed time, in time and in the number of kernels (`exposed_change_ns`, …), both sides of each, and
    the call path; with `ranks=True` the same of the time of waiting, of what others waited (`caused`) and of late kernels. Times are in ns.
    All are per step, or per what `answer.document["per"]` says. A stack that is new has None before, and one that is gone None after.

    `fail_if="exposed>+5%"` raises `Error` with the exit code 5 if a bound is exceeded.

    >>> answer = nccl_stacks.diff("before.json.gz", "after.json.gz")
    >>> answer[answer["count_change"] > 0]
    """
    return _answer(*_ask(["diff"], [before, after], options))


def what_if(paths: Files, **options: Unpack[Options]) -> Frame:
    """What a job would take if something were different, what saves most first.

    `if_` is a rule or a list of rules, which are tried one by one and all together; without it those that save most are found.

    Columns: the rule, how much earlier the job ends (`saves_ns`, in ns), and that as a share of its length (0 to 1).

    >>> nccl_stacks.what_if("traces/", if_="rank 3 like peers")
    """
    return _answer(*_ask(["what-if"], paths, options))


def sql(paths: Files, statements: str = "", **options: Unpack[Options]) -> pandas.DataFrame:
    """The rows of a query, in the order of the query, as a `pandas.DataFrame`; without pandas a list of dicts.

    `statements` is SQLite's SQL over the tables of docs/sql.md; one of them can have rows. Or `query` is the name or the file of a named
    query, with `param` for its parameters. Columns that end with `_ns`, and `ts` and `dur`, are in ns.

    >>> nccl_stacks.sql("trace.json.gz", "SELECT name, SUM(dur) AS ns FROM slice GROUP BY name ORDER BY ns DESC LIMIT 5")
    >>> nccl_stacks.sql("trace.json.gz", query="kernels", param={"family": "nccl"}, step=3)
    """
    if not (statements or options.get("query") or options.get("file")):
        raise ValueError("there are no statements: give some, or a query, or a file of them")
    text, _ = _ask(["sql"], paths, options, statements)
    # Within JSON lines are never empty.
    sets = [json.loads(each) for each in text.split("\n\n") if each]
    if len(sets) > 1:
        raise ValueError(f"{len(sets)} statements have rows; ask for each by itself")
    rows = sets[0] if sets else []
    frames = _frames()
    return cast("pandas.DataFrame", frames.frame(rows) if frames else rows)


def _ask(command: Sequence[str], paths: Files, options: Mapping[str, Any], typed: str = "") -> tuple[str, int]:
    """What the program writes, and its exit code."""
    files = [os.fspath(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    if command != ["diff"]:
        # Of the two paths there, each may be a pattern, which the program knows, too.
        files = [file for path in files for file in _program.matches(path)]
    if not files:
        raise ValueError("there are no paths")
    given = [*command, *_program.arguments(options), "--quiet", "--format=json", "--", *files]
    done = _program.run(_program.find(), given, typed)
    if done.returncode not in ANSWERED or (done.returncode and not done.stdout):
        raise _program.failure(done)
    if done.stderr:
        # Of the line that called the function that called this.
        warnings.warn(_program.in_python(done.stderr), DamageWarning, stacklevel=3)
    return done.stdout.strip(), done.returncode


def _answer(text: str, exit_code: int) -> Frame:
    document = json.loads(text)
    described, columns = _TABLES[document["schema"]](document)
    rows = [{name: _plain(_field(row, path)) for name, path in columns.items()} for row in described]
    frames = _frames()
    answer = frames.Frame(frames.frame(rows, columns)) if frames else Rows(rows)
    answer.document, answer.rows, answer.exit_code = document, rows, exit_code
    return cast("Frame", answer)


def _frames() -> Any:
    """The module of frames; None without pandas."""
    try:
        from . import _pandas
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        return None
    return _pandas


def _field(row: Any, path: str) -> Any:
    """A field of an object, or null below what is null. The name of a group's key may have points."""
    if path in row:
        return row[path]
    for name in path.split("."):
        row = None if row is None else row[name]
    return row


def _plain(value: Any) -> Any:
    """Frames as lines, and the keys of a map of counts as a text; lists of ranks as they are."""
    if isinstance(value, dict):
        return ", ".join(value)
    return "\n".join(value) if isinstance(value, list) and value and isinstance(value[0], str) else value


Table = tuple[list[Row], Mapping[str, str]]


def _of_stacks(document: Row) -> Table:
    keys = document["grouped_by"]
    if not keys:
        return document["stacks"], STACKS
    columns = {**{key: key for key in keys}, **{name: path for name, path in _columns(COST).items() if name not in keys}}
    return [{**row, **row["key"]} for row in document["groups"]], columns


def _of_hang(document: Row) -> Table:
    none: Row = dict.fromkeys(FAULTS, [])
    return [{**none, **row, "state": state} for state in ("hung", "lagging", "open") for row in document[state]], HANG


def _of_rules(document: Row) -> Table:
    length = document["length_ns"]
    return [{**row, "saves_share": row["saves_ns"] / length if length else None} for row in document["answers"]], RULES


def _costliest(rows: list[Row], cost: str) -> list[Row]:
    return sorted(rows, key=lambda row: -int(row[cost]))


def _changed(rows: list[Row]) -> list[Row]:
    """The rows with the change of each number; what is on one side only was or is 0 on the other."""

    def change(before: Row, after: Row) -> Row:
        return {name: after.get(name, 0) - before.get(name, 0) for name in before or after}

    none: Row = {"each": {}}
    return [{**row, "change": change((row["before"] or none)["each"], (row["after"] or none)["each"])} for row in rows]


_TABLES: Mapping[str, Callable[[Row], Table]] = {
    "nccl-stacks/stacks": _of_stacks,
    "nccl-stacks/ranks": lambda document: (_costliest(document["ranks"], "caused_ns"), RANKS),
    "nccl-stacks/ranks-entries": lambda document: (_costliest(document["ranks"], "lag_ns"), ENTRIES),
    "nccl-stacks/hang": _of_hang,
    "nccl-stacks/diff": lambda document: (_changed(document["changes"]), DIFF),
    "nccl-stacks/ranks-diff": lambda document: (_changed(document["stacks"]), RUNS),
    "nccl-stacks/what-if": _of_rules,
}
"""Of each schema the rows of the main table, the costliest first, and its columns."""
