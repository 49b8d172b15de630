"""An answer: the rows of its main table, the document that they are of, and what a notebook shows of it."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from ._program import in_python

Row = dict[str, Any]
SHOWN = 10
"""How many rows a notebook shows."""
WIDTH = 60
"""How many letters of a cell a notebook shows; the others are its title."""


class Answer:
    """What each answer has beside its rows.

    `document` is the program's whole answer as `--json` writes it, a dict that docs/exporting.md describes. `rows` is the main table as a list
    of dicts, for other libraries: `polars.DataFrame(answer.rows)`. `exit_code` is the program's: 0, 3 if no kernel has a launch, 4 if the
    job hangs, 6 if the answer lacks something. What is made of an answer, such as a copy or a selection of its rows, is a frame or a list
    as any other.
    """

    document: dict[str, Any]
    rows: list[Row]
    exit_code: int

    @property
    def verdict(self) -> list[str]:
        """The answer in sentences, the most important first."""
        return [in_python(sentence) for sentence in self.document["verdict"]]

    @property
    def findings(self) -> list[dict[str, Any]]:
        """What to look at first, the most important first, each with its cost, its place, the evidence and what to do."""
        return [{**finding, "advice": finding["advice"] and in_python(finding["advice"])} for finding in self.document["findings"]]

    @property
    def notes(self) -> list[str]:
        """How far to trust the answer."""
        return [in_python(note) for note in self.document["notes"]]

    def _repr_html_(self) -> str:
        verdict = "".join(f"<p><b>{_text(sentence)}</b></p>" for sentence in self.verdict)
        findings = "".join(f"<li>{_finding(finding)}</li>" for finding in self.findings)
        notes = "".join(f"<p><small>{_text(note)}</small></p>" for note in self.notes)
        return f"<div>{verdict}<ol>{findings}</ol>{table(*self._shown())}{notes}</div>"

    def _shown(self) -> tuple[list[Row], int]:
        """The first rows, and how many there are."""
        return self.rows[:SHOWN], len(self.rows)


class Rows(Answer, list[Row]):
    """An answer without pandas: the list of its rows."""


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)


def _finding(finding: Mapping[str, Any]) -> str:
    advice = [f"First: {finding['advice']}"] if finding["advice"] else []
    return f"<b>{_text(finding['cost'])}</b>: {_text(finding['what'])}<br>{_text(' '.join([*finding['evidence'], *advice]))}"


def table(rows: list[Row], of: int) -> str:
    """Rows as a table of HTML without the columns that are empty, and how many there are."""
    if not rows:
        return "<p>No rows.</p>"
    names = [name for name in rows[0] if any(row[name] not in (None, "", []) for row in rows)]
    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(_cell(row[name]) for name in names)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{len(rows)} of {of:,} rows</p>"


def _cell(value: object) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f'<td style="text-align: right">{value:,.{3 * (value % 1 != 0 and abs(value) < 1000)}f}</td>'
    # The innermost frame, which is the last line, tells the most.
    text = "" if value is None else str(value)
    line = text.rpartition("\n")[2]
    short = line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"
    title = f' title="{_text(text)}"' if short != text else ""
    return f'<td style="text-align: left"{title}>{_text(short)}</td>'
