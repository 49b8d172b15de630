"""What a run shows while it runs: on standard error alone, because standard output is the answer's."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Screen:
    """Messages, and on a terminal a line that is written over and over. In a log there is no such line."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self._began = time.monotonic()
        self._line = ""

    def say(self, text: str) -> None:
        """Writes a message."""
        self.clear()
        print(f"fleet: {_visible(text)}", file=self._stream, flush=True)

    def show(self, made: int, failed: int, total: int) -> None:
        """Writes how far the run is, if that has changed."""
        if not self._is_terminal:
            return
        done = made + failed
        left = (time.monotonic() - self._began) / done * (total - done) if done else 0
        line = f"{made} of {total} parts" + (f", {failed} failed" if failed else "")
        if line != self._line:
            self._stream.write(f"\r\x1b[K{line}" + (f", {left:.0f} s left" if left else ""))
            self._stream.flush()
            self._line = line

    def clear(self) -> None:
        """Removes the line, so that something else can be written."""
        if self._line:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._line = ""


def _visible(text: str) -> str:
    """A message in which only lines are apart: names of files and what is in traces could move a terminal's cursor, or forge an answer."""
    return "".join(letter if letter.isprintable() or letter == "\n" else ascii(letter)[1:-1] for letter in text)
