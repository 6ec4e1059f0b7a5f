"""Answers of the daemon (or of `offline`) to text: one function per answer. Pure.

Rule 1: everything from outside is made harmless on its way into a line (zcsyncd.cli.answer does it for members).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from zcsyncd.cli.answer import Answer, names_of, number_of, object_of, rows_of, text_of
from zcsyncd.cli.render import Paint, counted, fitted, harmless, harmless_lines, with_program, wrapped
from zcsyncd.cli.table import Cell, Column, table

SEVERITY_STYLES = {"error": "red bold", "warning": "yellow", "info": "cyan"}
GRAVITY = ("error", "warning", "info")


# -- directories -----------------------------------------------------------------------------------------------------


def dirs_page(answer: Answer, *, cells: int | None, paint: Paint) -> list[str]:
    """Show the memory directories, one a line."""
    rows = rows_of(answer, "dirs")
    if not rows:
        return fitted(["no memory directories yet: they appear here once an agent has written a fact"], cells)
    columns = [
        Column("PROJECT"),
        Column("LAYOUT", fixed=True),
        Column("FACTS", right=True, fixed=True),
        Column("ENTRIES", right=True, fixed=True),
        Column("FINDINGS", fixed=True),
        Column("DIRECTORY", keep_end=True),
    ]
    return table(columns, [_dir_row(row) for row in rows], cells=cells, paint=paint)


def _dir_row(row: Answer) -> list[Cell | str]:
    entries = row.get("entries")
    return [
        Cell(text_of(row, "label"), "bold"),
        text_of(row, "layout"),
        str(number_of(row, "facts")),
        "-" if entries is None else str(number_of(row, "entries")),
        counts_cell(object_of(row, "findings")),
        text_of(row, "dir"),
    ]


def counts_cell(counts: Answer) -> Cell:
    """Show counts by severity in a few cells: `2 errors, 1 warning`; infos are not news."""
    told = [(number_of(counts, severity), severity) for severity in ("error", "warning")]
    words = [counted(number, severity) for number, severity in told if number]
    gravest = next((severity for number, severity in told if number), None)
    return Cell(", ".join(words) or "none", SEVERITY_STYLES.get(gravest or "", "green"))


_SOURCES = {
    "config": "named by a configuration",
    "computed": "where the host keeps it",
    "only-match": "the only directory with this project's name",
    "none": "no memory yet",
}


def resolve_page(answer: Answer, *, program: str, cells: int | None, paint: Paint) -> list[str]:
    """Show which memory directory belongs to a working directory, and why."""
    source = text_of(answer, "source")
    why = _SOURCES.get(source, source)
    if answer.get("dir") is None:
        lines = [paint(why, "yellow"), f"a first fact would go to {text_of(answer, 'computedDir')}"]
    else:
        lines = [f"{paint(text_of(answer, 'dir'), 'bold')}  {paint(f'({why})', 'dim')}"]
    lines += [f"also of this working directory: {other}" for other in names_of(answer, "others")]
    warnings = [with_program(warning, program) for warning in names_of(answer, "warnings")]
    return fitted([*lines, *(paint(f"warning: {warning}", "yellow") for warning in warnings)], cells)


# -- findings --------------------------------------------------------------------------------------------------------


def audit_page(findings: Sequence[Answer], where: str, *, cells: int | None, paint: Paint) -> list[str]:
    """Show findings, the gravest first as they came, and one line that counts them.

    On a terminal (`cells` is not None) a directory in order gets a line, too; otherwise silence says so.
    """
    if not findings and cells is None:
        return []
    lines: list[str] = []
    for finding in findings:
        lines += finding_lines(finding, cells=cells, paint=paint)
    return [*lines, *fitted([_audit_sum(findings, where, paint)], cells)]


def finding_lines(finding: Answer, *, cells: int | None, paint: Paint, indent: str = "") -> list[str]:
    """Show one finding: severity, code and place; what it says; what to do; its key."""
    severity = text_of(finding, "severity")
    marks = [word for word in ("pending", "dismissed") if finding.get(word) is True]
    place = text_of(finding, "file")
    if finding.get("line") is not None:
        place += f":{number_of(finding, 'line')}"
    head = (
        f"{indent}{paint(severity, SEVERITY_STYLES.get(severity))} {paint(text_of(finding, 'code'), 'bold')}"
    )
    head += f"  {place}" if place else ""
    head += f"  {paint('(' + ', '.join(marks) + ')', 'dim')}" if marks else ""
    head += f"  by {session_name(object_of(finding, 'by'))}" if finding.get("by") else ""
    lines = [*fitted([head], cells), *_body(text_of(finding, "message"), indent + "    ", cells)]
    if finding.get("hint") is not None:
        lines += _body("→ " + text_of(finding, "hint"), indent + "    ", cells)
    return [*lines, f"{indent}    {paint('key ' + text_of(finding, 'key'), 'dim')}"]


def session_name(session: Answer) -> str:
    """Name a session in a few cells: its host and the beginning of its id."""
    return f"{text_of(session, 'host', 'a session')} {text_of(session, 'id')[:8]}".rstrip()


def _body(text: str, indent: str, cells: int | None) -> list[str]:
    return [indent + line for line in wrapped(text, None if cells is None else cells - len(indent))]


def _audit_sum(findings: Sequence[Answer], where: str, paint: Paint) -> str:
    where = harmless(where)
    if not findings:
        return f"{paint('in order', 'green')}: nothing to say about {where}"
    open_ones = [one for one in findings if not is_quiet(one)]
    words = [
        counted(number, severity)
        for severity in GRAVITY
        if (number := sum(one.get("severity") == severity for one in open_ones))
    ]
    words += [
        f"{number} {mark}"
        for mark in ("pending", "dismissed")
        if (number := sum(one.get(mark) is True for one in findings))
    ]
    return f"{', '.join(words)} in {where}"


def is_quiet(finding: Answer) -> bool:
    """Tell whether a finding counts for nothing: it waits for its other half, or a person has dismissed it."""
    return finding.get("pending") is True or finding.get("dismissed") is True


def at_least(finding: Answer, severity: str) -> bool:
    """Tell whether a finding is of that severity or graver."""
    own = finding.get("severity")
    return own in GRAVITY and GRAVITY.index(str(own)) <= GRAVITY.index(severity)


# -- sessions --------------------------------------------------------------------------------------------------------

_INDEX_STYLES = {"current": "green", "stale": "yellow", "unread": "dim"}


def sessions_page(
    answer: Answer, *, clock: Callable[[str], str], cells: int | None, paint: Paint
) -> list[str]:
    """Show the sessions of the hosts, one a line. `clock` shows a time of the wire."""
    rows = rows_of(answer, "sessions")
    if not rows:
        return fitted(["no sessions yet: they appear here once a host's plugin says hello"], cells)
    columns = [
        Column("HOST", fixed=True),
        Column("ID"),
        Column("LAST HEARD OF", fixed=True),
        Column("INDEX", fixed=True),
        Column("READS", right=True, fixed=True),
        Column("NEWS", right=True, fixed=True),
        Column("WORKING DIRECTORY", keep_end=True),
    ]
    return table(columns, [_session_row(row, clock) for row in rows], cells=cells, paint=paint)


def _session_row(row: Answer, clock: Callable[[str], str]) -> list[Cell | str]:
    index, news = text_of(row, "index", "-"), number_of(row, "news")
    heard = clock(str(row.get("lastContactAt")))
    return [
        Cell(text_of(row, "host"), "bold"),
        text_of(row, "id"),
        heard.rpartition(".")[0] or heard,  # the millisecond tells nothing here
        Cell(index, _INDEX_STYLES.get(index)),
        str(number_of(row, "reads")),
        Cell(str(news), "yellow" if news else None),
        text_of(row, "cwd"),
    ]


# -- facts and index -------------------------------------------------------------------------------------------------


def list_page(answer: Answer, *, cells: int | None, paint: Paint) -> list[str]:
    """Show the facts of a directory, one a line, and what is not in order with them."""
    facts = rows_of(answer, "facts")
    if not facts:
        return fitted([f"no facts in {text_of(answer, 'dir')}"], cells)
    columns = [
        Column("FILE", keep_end=False),
        Column("TYPE", fixed=True),
        Column("STATE"),
        Column("DESCRIPTION"),
    ]
    lines = table(columns, [_fact_row(fact) for fact in facts], cells=cells, paint=paint)
    total = f"{counted(number_of(answer, 'total'), 'fact')} in {text_of(answer, 'dir')}"
    return [*lines, *fitted([paint(total, "dim")], cells)]


def _fact_row(fact: Answer) -> list[Cell | str]:
    words = [
        word
        for word, is_so in (
            ("malformed", fact.get("malformed") is True),
            ("not indexed", fact.get("indexed") is False),
            ("not recalled", fact.get("recalled") is False),
        )
        if is_so
    ]
    return [
        Cell(text_of(fact, "file"), "bold"),
        text_of(fact, "type", "-"),
        Cell(", ".join(words) or "ok", "yellow" if words else "green"),
        text_of(fact, "description", "-"),
    ]


_CUT = {"lines": "at 200 lines", "bytes": "at 4,096 bytes", "both": "at 200 lines and 4,096 bytes"}


def read_page(answer: Answer, *, paint: Paint) -> list[str]:
    """Show a fact: its head, its body, and where the rest is when it was cut."""
    name = text_of(answer, "name")
    kind = text_of(answer, "type", "no type")
    lines = [f"{paint(name or text_of(answer, 'file'), 'bold')}  {paint(kind, 'dim')}"]
    if answer.get("description") is not None:
        lines.append(text_of(answer, "description"))
    lines.append(paint(text_of(answer, "absolutePath"), "dim"))
    if answer.get("encoding") is not None:
        lines.append(paint(f"not UTF-8 but {text_of(answer, 'encoding')}", "yellow"))
    lines += ["", *harmless_lines(str(answer.get("body") or "").rstrip("\n"))]
    if answer.get("truncated") is not None:
        cut = _CUT.get(str(answer["truncated"]), "")
        where = f", from line {number_of(answer, 'restLine')}," if answer.get("restLine") is not None else ""
        rest = f"(cut {cut}, as recall shows it; `--full` or the file{where} gives the rest)"
        lines += ["", paint(rest, "yellow")]
    return lines


def index_page(answer: Answer, *, paint: Paint) -> list[str]:
    """Show the index exactly as it is put before the model, but for characters that cannot be seen."""
    if answer.get("revision") is None and not answer.get("text"):
        return [paint("no index: the model is shown nothing", "yellow")]
    return harmless_lines(str(answer.get("text") or ""))


def settings_page(
    rows: Sequence[tuple[str, object, str]], file: Answer, *, cells: int | None, paint: Paint
) -> list[str]:
    """Show the effective settings: key, value, where the value comes from; then the file, and whether it is there."""
    columns = [Column("KEY", fixed=True), Column("VALUE"), Column("FROM", keep_end=True)]
    shown: list[list[Cell | str]] = [
        [Cell(harmless(key), "bold"), _setting(value), Cell(harmless(source), "dim")]
        for key, value, source in rows
    ]
    path = text_of(file, "path")
    if file.get("exists") is True:
        last = paint(f"the file is {path}", "dim")
    elif file.get("named") is True:
        last = paint(f"ZCSYNCD_CONFIG names {path} but there is no such file", "yellow")
    else:
        last = paint(f"there is no file {path}", "dim")
    return [*table(columns, shown, cells=cells, paint=paint), *fitted([last], cells)]


def _setting(value: object) -> str:
    if value is None:
        return "-"
    return harmless(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
