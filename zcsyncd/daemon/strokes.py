"""The strokes of one act: drawn by memory.pen in a thread, and told to the loop as they come about. Door: a thread.

    written beside their places ─► synced ─► put in their places ─► `placed` ─► names synced ─► `over`

While the disk has the names the loop takes in what was placed; hence the two moments.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zcsyncd.errors import ZcsyncdError
from zcsyncd.memory.fact import FileStat
from zcsyncd.memory.pen import Existing, Pen, Prepared


@dataclass(frozen=True, slots=True)
class Stroke:
    """One file to be written, or removed, by the pen."""

    file: str
    content: bytes | None
    """None: the file goes."""
    expected: Existing | None
    """What lies there; None: nothing."""
    mtime_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Conflicting:
    """The stroke that could not be made."""

    file: str
    error: ZcsyncdError


@dataclass(frozen=True, slots=True)
class Placed:
    """What became of strokes: the first ones were made, then perhaps one could not be."""

    drawn: tuple[tuple[Stroke, FileStat | None], ...] = ()
    """Each with what stat says of the file now; None: it was removed."""
    conflict: Conflicting | None = None


class Drawing:
    """Strokes that are being made. Made on the loop; both moments are to be awaited.

    `placed` gives `Placed`; `over` the failure of the names' sync, None when there was none. What the pen could not
    foresee is raised where either is awaited.
    """

    def __init__(self, directory: str, strokes: Sequence[Stroke], temps: Mapping[str, str]) -> None:
        """`temps`: the name under which each file of a stroke is written, or set aside, first."""
        self._loop = asyncio.get_running_loop()
        self.placed: asyncio.Future[Placed] = self._loop.create_future()
        self.over = self._loop.run_in_executor(
            None, contextvars.copy_context().run, _draw, directory, strokes, temps, self._tell_placed
        )
        self.over.add_done_callback(self._ended)

    def _tell_placed(self, placed: Placed) -> None:
        self._loop.call_soon_threadsafe(_settle, self.placed, placed)

    def _ended(self, over: asyncio.Future[Conflicting | None]) -> None:
        """Let nobody wait for what will not come."""
        if over.cancelled():
            self.placed.cancel()
        elif (error := over.exception()) is not None and not self.placed.done():
            self.placed.set_exception(error)


def _settle(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        future.set_result(value)


def _draw(
    directory: str,
    strokes: Sequence[Stroke],
    temps: Mapping[str, str],
    placed: Callable[[Placed], object],
) -> Conflicting | None:
    """Make strokes until one fails.

    All that is to be written is written beside its place before the first file is synced, and all is synced before
    the first stroke; the names of one folder are put on the disk once, behind its last stroke.
    """
    drawn: list[tuple[Stroke, FileStat | None]] = []
    conflict = None
    with contextlib.ExitStack() as stack:
        pen = stack.enter_context(Pen(directory))
        ready: list[Prepared | ZcsyncdError | None] = []
        for stroke in strokes:
            one = _prepared(pen, stroke, temps[stroke.file])
            ready.append(stack.enter_context(one) if isinstance(one, Prepared) else one)
        ready = [_synced(one) for one in ready]
        for stroke, one in zip(strokes, ready, strict=True):
            try:
                stat = _draw_one(pen, stroke, one, temps[stroke.file])
            except ZcsyncdError as error:
                conflict = Conflicting(stroke.file, error)
                break
            drawn.append((stroke, stat))
        placed(Placed(tuple(drawn), conflict))
        folders = {stroke.file.rpartition("/")[0]: stroke.file for stroke, _ in drawn}
        for file in folders.values():
            try:
                pen.sync(file)
            except ZcsyncdError as error:
                return Conflicting(file, error)
    return None


def _prepared(pen: Pen, stroke: Stroke, temp: str) -> Prepared | ZcsyncdError | None:
    """Prepare a stroke; None for a removal. A failure is raised only where the stroke is made."""
    if stroke.content is None:
        return None
    try:
        if stroke.expected is None:
            pen.make_folders(stroke.file)
        return pen.prepare(
            stroke.file, stroke.content, expected=stroke.expected, temp=temp, mtime_ns=stroke.mtime_ns
        )
    except ZcsyncdError as error:
        return error


def _synced(one: Prepared | ZcsyncdError | None) -> Prepared | ZcsyncdError | None:
    if isinstance(one, Prepared):
        try:
            one.sync()
        except ZcsyncdError as error:
            return error
    return one


def _draw_one(pen: Pen, stroke: Stroke, ready: Prepared | ZcsyncdError | None, temp: str) -> FileStat | None:
    if isinstance(ready, ZcsyncdError):
        raise ready
    if ready is not None:
        return ready.put()
    assert stroke.expected is not None
    pen.remove(stroke.file, expected=stroke.expected, temp=temp, sync=False)
    return None
