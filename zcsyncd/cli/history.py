"""The verbs of saved versions: list, show, compare, restore, take back, purge. Door: the bus, the disk."""

from __future__ import annotations

import os
from argparse import Namespace
from datetime import UTC, datetime

from zcsyncd.cli.act_pages import history_page, restored_lines, show_page
from zcsyncd.cli.alone import ask_or_do
from zcsyncd.cli.answer import number_of, rows_of
from zcsyncd.cli.asking import Daemon
from zcsyncd.cli.console import Console, agreed, clock
from zcsyncd.cli.diffs import diff_lines, diff_of
from zcsyncd.cli.render import harmless
from zcsyncd.cli.where import directory_of
from zcsyncd.cli.writing import SAID_NO
from zcsyncd.errors import NotFound, ProtocolError, Unreadable, UsageError
from zcsyncd.memory.disk import read_file
from zcsyncd.memory.text import decode


def cmd_history_list(words: Namespace, console: Console) -> int:
    """List saved versions, the newest first."""
    daemon = Daemon(console.env)
    directory = directory_of(words.dir, daemon, console)
    asked: dict[str, object] = {"dir": directory}
    asked |= {"file": words.file} if words.file is not None else {}
    asked |= {"limit": words.limit} if words.limit is not None else {}
    answer, note = ask_or_do(daemon, "history.list", asked)
    console.show(
        answer,
        lambda: history_page(answer, directory, clock=clock, cells=console.cells, paint=console.paint),
        note,
    )
    return 0


def cmd_history_show(words: Namespace, console: Console) -> int:
    """Show a saved version."""
    answer, note = ask_or_do(Daemon(console.env), "history.show", {"saved": words.saved})
    console.show(answer, lambda: show_page(answer), note)
    return 0


def cmd_history_diff(words: Namespace, console: Console) -> int:
    """Compare a saved version with another one, or with what the file is now."""
    daemon = Daemon(console.env)
    before, note = ask_or_do(daemon, "history.show", {"saved": words.saved})
    file = str(before.get("file"))
    if words.other is not None:
        after, note = ask_or_do(daemon, "history.show", {"saved": words.other})
        text, name = str(after.get("text") or ""), f"{after.get('file')} (saved {words.other})"
    else:
        directory = before.get("dir")
        if not isinstance(directory, str):
            raise ProtocolError(
                "the daemon does not tell whose version that is", hint="stop it and start it anew"
            )
        text, name = _text_now(directory, file), f"{file} (now)"
    diff = diff_of(str(before.get("text") or ""), text, f"{file} (saved {words.saved})", name)
    console.show(
        {"file": file, "diff": diff},
        lambda: diff_lines(diff, console.paint) or ["no difference"],
        note,
    )
    return 0


def _text_now(directory: str, file: str) -> str:
    """Give what a file says now, as ZCode decodes it; empty when it is not there."""
    try:
        content, _ = read_file(directory, file)
    except NotFound:
        return ""
    decoded = decode(content)
    if decoded is None:
        raise Unreadable(f"{os.path.join(directory, file)} is no text that ZCode can decode")
    return decoded.text


def cmd_history_restore(words: Namespace, console: Console) -> int:
    """Make a file what it was."""
    asked: dict[str, object] = {"saved": words.saved}
    if words.if_revision is not None:
        asked["ifRevision"] = words.if_revision
    answer, note = ask_or_do(Daemon(console.env), "history.restore", asked)
    console.show(answer, lambda: restored_lines([answer], cells=console.cells, paint=console.paint), note)
    return 0


def cmd_history_undo(words: Namespace, console: Console) -> int:
    """Take back our last act on a directory: all of its files become what they were before it."""
    daemon = Daemon(console.env)
    directory = directory_of(words.dir, daemon, console)
    answer, note = ask_or_do(daemon, "history.undo", {"dir": directory})
    console.show(
        answer,
        lambda: restored_lines(rows_of(answer, "files"), cells=console.cells, paint=console.paint),
        note,
    )
    return 0


def cmd_history_purge(words: Namespace, console: Console) -> int:
    """Remove saved versions for good."""
    before = None if words.before is None else _moment(words.before)
    daemon = Daemon(console.env)
    directory = directory_of(words.dir, daemon, console)
    what = f"{words.file} in {directory}" if words.file is not None else f"all files in {directory}"
    when = f" from before {words.before}" if before is not None else ""
    if not words.yes and not agreed(f"Remove the saved versions of {what}{when} for good?"):
        console.remark("nothing was removed")
        return SAID_NO
    asked: dict[str, object] = {"dir": directory}
    asked |= {"file": words.file} if words.file is not None else {}
    asked |= {"before": before} if before is not None else {}
    answer, note = ask_or_do(daemon, "history.purge", asked)
    count = number_of(answer, "removed")
    said = f"{count:,} saved version{'' if count == 1 else 's'} removed from {harmless(directory)}"
    console.show(answer, lambda: [said], note)
    return 0


def _moment(text: str) -> str:
    """Give a date (its first moment, local) or a date and time (local, unless it names its zone) as the wire has it.

    Raises:
        UsageError: it is neither.
    """
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
        if moment.year < 1970:
            raise ValueError(text)  # noqa: TRY301 - the same complaint
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(
            f"--before {text}: that is no date", hint="as 2026-11-30, or 2026-11-30T16:21"
        ) from error
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
