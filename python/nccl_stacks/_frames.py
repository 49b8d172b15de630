"""The stacks of traces as a frame of pandas, polars or pyarrow.

The way is a part in Parquet, the same file that `nccl-stacks part` writes: no second description of the columns is on the way, and no
extension has to be compiled. pandas and pyarrow read it through pyarrow, polars by itself.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Optional, Union, overload

from . import _paths, _program

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

PathLike = Union[str, "os.PathLike[str]"]
Value = Union[str, int, float, bool, None, Sequence[Union[str, int, float]]]
Library = Literal["pandas", "polars", "pyarrow"]
Damage = Sequence[tuple[str, Optional[str]]]
"""Of each trace, what is wrong with it, a line each."""


class DamageWarning(UserWarning):
    """A trace is damaged. What could be read of it is in the frame; the warning says what could not."""


@dataclass(frozen=True)
class Column:
    """A column of the frames: its name, its type in Arrow, the unit of its values, and what it is."""

    name: str
    dtype: str
    unit: str
    text: str


COLUMNS: Sequence[Column] = (
    Column("trace", "string", "", "the trace; in an archive, its name there"),
    Column("rank", "int64", "", "the rank in the job; null if nothing says it"),
    Column("world_size", "int64", "ranks", "how many ranks the job has; null if nothing says it"),
    Column("stack_hash", "string", "", "the call path as 16 hexadecimal digits, the same in every trace and process; null without one"),
    Column("headline", "string", "", "the innermost function of the user's own code"),
    Column("frames", "string", "", "the call path, a line for each caller, the outermost first"),
    Column("captured", "string", "", "the call path that put the kernel into a CUDA graph, in the same form"),
    Column("forward", "string", "", "for the backward pass, the call path of the forward operator, in the same form"),
    Column("thread", "string", "", "the thread that launched, where callers were found on another"),
    Column("collective", "string", "", "all_reduce, all_gather …, or the name of the kernel"),
    Column("group_ranks", "string", "", "the global ranks of the process group: 0-7"),
    Column("group_description", "string", "", "what the process group is called"),
    Column("size_class", "int64", "bytes", "the largest power of two not above the size; null if unknown"),
    Column("count", "int64", "kernels", "how many"),
    Column("gpu_ns", "int64", "ns", "how long they ran, in all"),
    Column("gpu_min_ns", "int64", "ns", "the shortest"),
    Column("gpu_max_ns", "int64", "ns", "the longest"),
    Column("gpu_squares_ns2", "double", "ns²", "the sum of the squares of how long they ran"),
    Column("gpu_histogram", "string", "", "how many ran how long: bucket:count, separated by blanks"),
    Column("exposed_ns", "int64", "ns", "how long no compute kernel ran beside them, in all"),
    Column("longest_start_ns", "int64", "ns", "when the longest began, on the trace's own clock"),
)
"""The columns of the frames of `stacks`, in order."""

_NAMES = [column.name for column in COLUMNS]
_READ = ["row", "damage", *_NAMES]
"""What is read of a part. The column `document`, the largest, is for the program alone."""


@overload
def stacks(paths: PathLike | Sequence[PathLike], *, frame: Literal["pandas"] = "pandas", **options: Value) -> pandas.DataFrame: ...
@overload
def stacks(paths: PathLike | Sequence[PathLike], *, frame: Literal["polars"], **options: Value) -> polars.DataFrame: ...
@overload
def stacks(paths: PathLike | Sequence[PathLike], *, frame: Literal["pyarrow"], **options: Value) -> pyarrow.Table: ...


def stacks(paths: PathLike | Sequence[PathLike], *, frame: Library = "pandas", **options: Value) -> Any:
    """The call stacks that launched the collectives of traces, one row for each stack, process group, collective and class of sizes.

    `paths` is a trace, a folder or a pattern of traces, or a list of these. `options` are those of `nccl-stacks part`, with `_` for
    `-`: `stacks("t.json.gz", function_name="%forward%", index=0, family="nccl")`. True is an option without a value, a list is an
    option that is repeated, and None and False are options that are not given.

    `frame` is what is returned: "pandas" (the default; with nullable dtypes, so that integers stay integers), "polars" or "pyarrow".
    `COLUMNS` has the names, types and units. All times are whole nanoseconds.

    No config file is read, unless `config="nccl-stacks.conf"` names one.

    Raises `NotFound` if there is no program, `TraceError` if a trace, or one of an archive, cannot be read, `UsageError` if an option is
    wrong, `Failed`, of which these two are, for whatever else the program ends with, `Error`, of which all of these are, if `paths` has no
    traces, ValueError if `frame` is none of these three, and ImportError if its library is not installed. A trace that is damaged gives a
    `DamageWarning`.
    """
    read = _READERS.get(frame)
    if read is None:
        raise ValueError(f"frame is {frame!r}, and not one of {', '.join(map(repr, _READERS))}")
    reader = read()  # At once: what is not installed is said before any trace is read.
    program = _program.find()
    given = arguments(options)
    if not any(option.split("=")[0] in _program.OF_CONFIG for option in given):
        given.append(_program.NO_CONFIG)
    traces = _paths.expand([paths] if isinstance(paths, (str, os.PathLike)) else list(paths)).traces
    with tempfile.TemporaryDirectory(prefix="nccl-stacks-") as folder:
        parts = [os.path.join(folder, f"{number}.parquet") for number in range(len(traces))]

        def make(job: tuple[str, str]) -> None:
            trace, part = job
            _program.check(program, ["part", *given, "--output", part, "--", trace])

        # Each run has threads of its own for a large trace; two at a time hide the start of small ones.
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(make, zip(traces, parts)))
        answer, damage = reader(parts)
    for trace, lines in dict.fromkeys(damage):
        if lines:
            warnings.warn(f"{trace}: {lines}", DamageWarning, stacklevel=2)
    return answer


def arguments(options: Mapping[str, Value]) -> list[str]:
    """Python's keyword arguments as the program's options."""
    given = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            given.append(option)
        elif isinstance(value, (str, int, float)):
            given.append(f"{option}={value}")
        else:
            given.extend(f"{option}={each}" for each in value)
    return given


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("frames of pandas and pyarrow need pyarrow: pip install pyarrow") from error

    def read(parts: Sequence[str]) -> tuple[pyarrow.Table, Damage]:
        tables = [pyarrow.parquet.read_table(part, columns=_READ) for part in parts]
        table = pyarrow.concat_tables(tables, promote_options="default")
        ranks = table.filter(pyarrow.compute.field("row") == "rank")
        damage = [(row["trace"], row["damage"]) for row in ranks.select(["trace", "damage"]).to_pylist()]
        chosen = table.filter(pyarrow.compute.field("row") == "stack").select(_NAMES)
        types = {"string": pyarrow.string(), "int64": pyarrow.int64(), "double": pyarrow.float64()}
        fields = [pyarrow.field(column.name, types[column.dtype]) for column in COLUMNS]
        return chosen.cast(pyarrow.schema(fields)), damage

    return read


def _pandas() -> Any:
    table = _pyarrow()
    try:
        import pandas
        import pyarrow
    except ImportError as error:
        raise ImportError("frames of pandas need pandas: pip install pandas") from error
    # Without these, a column of integers with one null becomes one of floats, which have no place for all nanoseconds.
    types = {
        pyarrow.int64(): pandas.Int64Dtype(),
        pyarrow.float64(): pandas.Float64Dtype(),
        pyarrow.string(): pandas.StringDtype("pyarrow"),
    }

    def read(parts: Sequence[str]) -> tuple[pandas.DataFrame, Damage]:
        chosen, damage = table(parts)
        return chosen.to_pandas(types_mapper=types.get), damage

    return read


def _polars() -> Any:
    try:
        import polars
    except ImportError as error:
        raise ImportError("frames of polars need polars: pip install polars") from error

    def read(parts: Sequence[str]) -> tuple[polars.DataFrame, Damage]:
        table = polars.concat([polars.read_parquet(part, columns=_READ) for part in parts], how="vertical_relaxed")
        ranks = table.filter(polars.col("row") == "rank")
        damage = ranks.select("trace", "damage").rows()
        types = {"string": polars.String, "int64": polars.Int64, "double": polars.Float64}
        chosen = table.filter(polars.col("row") == "stack")
        return chosen.select([polars.col(column.name).cast(types[column.dtype]) for column in COLUMNS]), damage

    return read


_READERS = {"pandas": _pandas, "polars": _polars, "pyarrow": _pyarrow}
"""What reads parts into a frame. Each looks for its library at once, before any trace is read."""
