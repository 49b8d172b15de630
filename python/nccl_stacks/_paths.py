"""From what is named on a command line to traces: files, patterns, folders and lists, each trace once.

The rules are the program's own, so that a folder means the same here and there. They are needed here because the traces are shared
out before the program sees them.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from ._program import Error

SUFFIXES = (
    ".json", ".json.gz", ".json.zst", ".pftrace", ".perfetto-trace", ".zip", ".tar", ".tar.gz", ".tgz", ".tar.zst",
    ".sqlite", ".sqlite.gz", ".sqlite.zst",
)  # fmt: skip
"""How the names of those files end that count in a folder."""


@dataclass
class Expanded:
    """The traces, as absolute paths in the order in which they are named, and those that were named more than once."""

    traces: list[str] = field(default_factory=list)
    repeated: dict[str, int] = field(default_factory=dict)


def expand(named: Sequence[str | os.PathLike[str]]) -> Expanded:
    """All traces that `named` names. `@FILE` is a list, a name on each line; empty lines and those that begin with `#` are none.

    Files that do not exist stay in the list: to say so is up to the program, which knows what else a path can be.
    """
    expanded = Expanded()
    first: dict[str, str] = {}
    for name in named:
        for file in _files(os.fspath(name)):
            path = os.path.abspath(file)
            # A link leads to the same trace.
            real = os.path.realpath(path)
            if real in first:
                kept = first[real]
                expanded.repeated[kept] = expanded.repeated.get(kept, 1) + 1
            else:
                first[real] = path
                expanded.traces.append(path)
    if not expanded.traces:
        raise Error(f"no traces in {', '.join(os.fspath(name) for name in named) or 'an empty list'}")
    return expanded


def _files(name: str, lists: tuple[str, ...] = ()) -> list[str]:
    """The files that a name means; `lists` are those that name it."""
    if name.startswith("@") and not os.path.exists(name):
        own = os.path.realpath(name[1:])
        if own in lists:
            raise Error(f"the list {name[1:]} names itself")
        return [file for line in _lines(name[1:]) for file in _files(line, (*lists, own))]
    if os.path.isdir(name):
        with os.scandir(name) as entries:
            return sorted(entry.path for entry in entries if entry.name.endswith(SUFFIXES) and entry.is_file())
    if any(letter in name for letter in "*?[") and not os.path.exists(name):
        found = sorted(glob.glob(name))
        if not found:
            raise Error(f"no file matches {name}")
        return [file for each in found for file in _files(each, lists)]
    return [name]


def _lines(path: str) -> list[str]:
    """The names in a list. As with xargs, relative ones are relative to the current folder, not to the list's."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except OSError as error:
        raise Error(f"the list {path} cannot be read: {error.strerror}") from error
    return [line for line in lines if line and not line.startswith("#")]
