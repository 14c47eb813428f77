"""A progress bar on standard error, for people only.

It appears on a terminal, after half a second, with the rate and the time left, and goes when the
work is done. Anywhere else, and in a run that is done sooner, it writes nothing. Why not rich's
own refreshing: a thread that redraws takes the interpreter from the engine, so the engine's calls
redraw, ten times a second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

APPEARS_S = 0.5
REDRAWS_S = 0.1


class Progress:
    """A context manager to be called with how many more requests are done; calls are cheap::

    with Progress(len(trace), "paged") as progress:
        simulate(..., progress=progress)

    With `bytes_` what is counted is bytes of a download.
    """

    def __init__(
        self,
        total: int,
        label: str = "",
        *,
        stream: IO[str] | None = None,
        no_color: bool = False,
        bytes_: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._total, self._label, self._no_color, self._bytes = total, label, no_color, bytes_
        self._done = 0
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._shown: tuple[RichProgress, TaskID] | None = None
        terminal = self._stream.isatty()
        self._next = clock() + APPEARS_S if terminal else float("inf")

    def __call__(self, more: int) -> None:
        """`more` requests of the total are done; redraws now and then."""
        self.reach(self._done + more, self._total)

    def reach(self, done: int, total: int) -> None:
        """`done` of `total` are done (0 = nobody knows of how many); redraws now and then."""
        self._done, self._total = done, total
        now = self._clock()
        if now >= self._next:
            self._next = now + REDRAWS_S
            self._draw()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the bar away, whatever happened."""
        if self._shown is not None:
            self._shown[0].stop()
            self._shown = None
        self._next = float("inf")

    def _draw(self) -> None:
        if self._shown is None:
            self._shown = self._appear()
        bar, task = self._shown
        bar.update(task, completed=self._done, total=self._total or None, refresh=True)

    def _appear(self) -> tuple[RichProgress, TaskID]:
        from rich import progress as parts
        from rich.text import Text

        from pagedsim.present.numbers import plain, significant
        from pagedsim.present.tables import console

        class Rate(parts.ProgressColumn):
            """Requests a second, of wall time."""

            def render(self, task: parts.Task) -> Text:
                return Text(f"{significant(task.finished_speed or task.speed)}/s")

        requests = parts.MofNCompleteColumn(), Rate()
        counted = (parts.DownloadColumn(), parts.TransferSpeedColumn()) if self._bytes else requests
        bar = parts.Progress(
            parts.TextColumn("{task.description}", markup=False),
            parts.BarColumn(),
            *counted,
            parts.TimeRemainingColumn(),
            console=console(no_color=self._no_color, file=self._stream),
            auto_refresh=False,
            transient=True,
        )
        bar.start()
        return bar, bar.add_task(plain(self._label, 24), total=self._total)


@contextmanager
def busy(what: str, *, no_color: bool = False) -> Iterator[Callable[[str], None]]:
    """A spinner on standard error, if that is a terminal, for what may take a second or more.

    What it yields changes the words.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    from pagedsim.present.numbers import plain
    from pagedsim.present.tables import console

    with console(stderr=True, no_color=no_color).status(plain(what, 60)) as status:
        yield lambda words: status.update(plain(words, 60))


__all__ = ["Progress", "busy"]
