"""An answer as a frame of pandas. It is imported when an answer is there, so that nothing waits for pandas that needs none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas

from ._answer import SHOWN, Answer, Row

DTYPES: list[tuple[set[type], str]] = [({bool}, "boolean"), ({int}, "Int64"), ({int, float}, "Float64"), ({str}, "string")]
"""The nullable types. Without them a column of integers with one null becomes one of floats, which have no place for all nanoseconds."""


class Frame(Answer, pandas.DataFrame):
    """An answer: a `pandas.DataFrame` of the rows of its main table, with the verdict, the findings and the rest as attributes."""

    # By these names pandas knows attributes from columns.
    _metadata = ["document", "rows", "exit_code"]

    def _shown(self) -> tuple[list[Row], int]:
        # Of the frame as it is now, which may have been sorted, or have got columns.
        first = self.head(SHOWN).astype(object)
        rows = first.where(first.notna(), None).to_dict("records")
        return [{str(name): value for name, value in row.items()} for row in rows], len(self)


def frame(rows: list[Row], names: Iterable[str] = ()) -> pandas.DataFrame:
    """Rows as a frame, each column with the nullable type of its values. Lists stay lists. Without rows it has columns of these names."""
    names = rows[0] if rows else names
    return pandas.DataFrame({name: _column([row[name] for row in rows]) for name in names})


def _column(values: list[Any]) -> pandas.Series[Any]:
    kinds = {type(value) for value in values if value is not None}
    return pandas.Series(values, dtype=next((dtype for of, dtype in DTYPES if kinds and kinds <= of), "object"))
