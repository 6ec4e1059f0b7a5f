"""Answers of what is written, mended, found and taken back, to text: one function per answer. Pure.

Rule 1: everything from outside is made harmless on its way into a line (zcsyncd.cli.answer does it for members).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zcsyncd.cli.answer import Answer, number_of, rows_of, text_of
from zcsyncd.cli.diffs import diff_lines
from zcsyncd.cli.render import Paint, amount, counted, fitted, harmless, harmless_lines
from zcsyncd.cli.table import Cell, Column, table

# -- write, forget, search -------------------------------------------------------------------------------------------

_ENTRIES = {
    "inserted": "its entry is in the index now",
    "updated": "its entry was updated",
    "removed": "its entry is gone from the index",
    "unchanged": "the index is as it was",
}


def write_page(answer: Answer, *, cells: int | None, paint: Paint) -> list[str]:
    """Show what was written: the file, what became of the index, the revision."""
    lines = [_done(answer, paint), paint(text_of(answer, "absolutePath"), "dim")]
    if answer.get("revision") is not None:
        lines.append(paint(f"revision {text_of(answer, 'revision')}", "dim"))
    return fitted(lines, cells)


def _done(answer: Answer, paint: Paint) -> str:
    entry = text_of(answer, "index")
    action = text_of(answer, "action", "written")
    return f"{action} {paint(text_of(answer, 'file'), 'bold')}; {_ENTRIES.get(entry, entry)}"


def forget_page(answer: Answer, *, purged: bool, program: str, cells: int | None, paint: Paint) -> list[str]:
    """Show what was forgotten, and how it is had back."""
    entry = text_of(answer, "index")
    lines = [f"forgot {paint(text_of(answer, 'file'), 'bold')}; {_ENTRIES.get(entry, entry)}"]
    if answer.get("saved") is not None:
        lines.append(f"`{program} history restore {number_of(answer, 'saved')}` brings it back")
    elif purged:
        lines.append("nothing of what it said is kept")
    else:
        lines.append(paint("it is not saved: it cannot be had back", "yellow"))
    return fitted(lines, cells)


def search_page(
    answer: Answer, *, label: Callable[[object], str], cells: int | None, paint: Paint
) -> list[str]:
    """Show what was found: project, file and line; what the fact is about; the words in their place."""
    lines: list[str] = []
    for hit in rows_of(answer, "hits"):
        place = paint(text_of(hit, "file"), "bold")
        if hit.get("line") is not None:
            place += f":{number_of(hit, 'line')}"
        lines.append(f"{paint(harmless(label(hit.get('dir'))), 'cyan')}  {place}")
        lines += [f"    {paint(text_of(hit, 'description'), 'dim')}"] if hit.get("description") else []
        lines += [f"    {text_of(hit, 'snippet')}"] if hit.get("snippet") else []
    if not lines:
        lines.append("nothing found")
    if answer.get("complete") is False:
        lines.append(paint("the index of words is still being built: there may be more", "yellow"))
    return fitted(lines, cells)


_PLACES = {
    "index": "in the index",
    "prompt": "in the prompt",
    "recall": "in recall",
    "page": "on ZCode's page",
}


def why_lines(answer: Answer, *, cells: int | None, paint: Paint) -> list[str]:
    """Show where a fact is seen, where not, and for which reasons."""
    lines: list[str] = []
    for reason in rows_of(answer, "reasons"):
        place = text_of(reason, "place")
        seen = paint("seen", "green") if reason.get("seen") is True else paint("not seen", "yellow")
        code = text_of(reason, "code")
        tail = f" {paint(f'({code})', 'dim')}" if code else ""
        lines.append(f"{seen} {_PLACES.get(place, place)}: {text_of(reason, 'reason')}{tail}")
        lines += [f"    → {text_of(reason, 'hint')}"] if reason.get("hint") is not None else []
    return fitted(lines, cells)


# -- repair ----------------------------------------------------------------------------------------------------------


def repair_page(answer: Answer, *, again: str, undo: str, cells: int | None, paint: Paint) -> list[str]:
    """Show a repair: its diff; each fix; what is left, and why; what to do next.

    `again` is the command that applies it, `undo` the one that takes it back.
    """
    fixes = rows_of(answer, "fixes")
    applied = answer.get("applied") is True
    lines = diff_lines(str(answer.get("diff") or ""), paint)
    if answer.get("diffCut") is True:
        lines.append(paint("… the diff is longer; the list of fixes is whole", "yellow"))
    told = [_fix(fix, applied=applied, paint=paint) for fix in fixes]
    told += [_skipped(row, paint) for row in rows_of(answer, "skipped")]
    command = ""
    if not fixes:
        told.append("nothing to mend" if not told else "nothing that can be mended")
    elif not applied:
        told.append(f"{counted(len(fixes), 'fix', 'fixes')}, nothing is written yet; this does it:")
        command = again
    else:
        told += _holders(answer)
        is_saved = answer.get("saved") is not None
        told.append(f"{counted(len(fixes), 'fix', 'fixes')} written; {_before(answer, paint)}")
        command = undo if is_saved else ""
    # A command stands on a line of its own, and whole: it is there to be copied.
    return [*lines, *([""] if lines else []), *fitted(told, cells), *([f"    {command}"] if command else [])]


def _fix(fix: Answer, *, applied: bool, paint: Paint) -> str:
    place = text_of(fix, "file")
    if fix.get("line") is not None:
        place += f":{number_of(fix, 'line')}"
    word = "mended" if applied else "fix"
    return f"{paint(word, 'green')} {paint(text_of(fix, 'code'), 'bold')}  {place}  {text_of(fix, 'does')}"


def _skipped(row: Answer, paint: Paint) -> str:
    code = paint(text_of(row, "code"), "bold")
    return f"{paint('left', 'yellow')} {code}  {text_of(row, 'reason')}  {paint('key ' + text_of(row, 'key'), 'dim')}"


def _before(answer: Answer, paint: Paint) -> str:
    if answer.get("saved") is None:
        return paint("what was there before is not saved", "yellow")
    return f"what was there before is saved as {number_of(answer, 'saved')}; this takes it back:"


def _holders(answer: Answer) -> list[str]:
    holders = [
        f"{text_of(session, 'host')} {text_of(session, 'id')[:8]}".rstrip()
        for session in rows_of(answer, "heldBy")
    ]
    return [f"still with the old index before their model: {', '.join(holders)}"] if holders else []


# -- history ---------------------------------------------------------------------------------------------------------

_REASONS = {
    "updated": "another pen",
    "file": "another pen (bytes only)",
    "deleted": "deleted by another pen",
    "renamed": "renamed by another pen",
    "write": "memory write",
    "forget": "memory forget",
    "repair": "repair",
    "restore": "history restore",
}


def history_page(
    answer: Answer, where: str, *, clock: Callable[[str], str], cells: int | None, paint: Paint
) -> list[str]:
    """Show saved versions, one a line, the newest first. `clock` shows a time of the wire."""
    versions = rows_of(answer, "versions")
    if not versions:
        return fitted([f"no saved versions in {harmless(where)}"], cells)
    columns = [
        Column("SAVED", right=True, fixed=True),
        Column("UNTIL", fixed=True),
        Column("REPLACED BY"),
        Column("WRITTEN BY"),
        Column("SIZE", right=True, fixed=True),
        Column("FILE"),
    ]
    rows = [_version_row(version, clock) for version in versions]
    total = f"{counted(len(versions), 'version')} in {harmless(where)}"
    return [*table(columns, rows, cells=cells, paint=paint), *fitted([paint(total, "dim")], cells)]


def _version_row(version: Answer, clock: Callable[[str], str]) -> list[Cell | str]:
    reason = text_of(version, "reason")
    by = version.get("by")
    is_absent = version.get("contentHash", "") is None
    return [
        Cell(str(number_of(version, "saved")), "bold"),
        clock(str(version.get("at"))),
        _REASONS.get(reason, reason),
        text_of(by, "host") if isinstance(by, dict) else "-",
        Cell("no file", "yellow") if is_absent else amount(number_of(version, "sizeBytes")),
        text_of(version, "file"),
    ]


def show_page(answer: Answer) -> list[str]:
    """Show a saved version: its text and nothing else, but for characters that cannot be seen."""
    text = str(answer.get("text") or "")
    return harmless_lines(text.removesuffix("\n")) if text else []


def restored_lines(answers: Sequence[Answer], *, cells: int | None, paint: Paint) -> list[str]:
    """Show what was restored, a line for each file."""
    words = {"created": "brought back", "overwrote": "restored", "removed": "removed again"}
    lines = [] if answers else ["all is as it was before"]
    for answer in answers:
        action, entry = text_of(answer, "action"), text_of(answer, "index")
        line = f"{words.get(action, action)} {paint(text_of(answer, 'file'), 'bold')}"
        lines.append(line + (f"; {_ENTRIES.get(entry, entry)}" if entry != "unchanged" else ""))
    return fitted(lines, cells)
