"""What the wire says about one memory directory: a snapshot to the answers of `memory.*` and `audit.get`. Pure.

The daemon's handlers and the control client's offline verbs share these, so both give the same shapes
(docs/protocol.md, "Requests").

Rule 1: a snapshot tells which facts there are; what is said about one file's text comes from that file's bytes and
from the mtime that was read with them, so that an answer never mixes two states of a file.
"""

from __future__ import annotations

import hashlib
import json
import ntpath
import posixpath
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING

from zcsyncd.errors import Ambiguous, InvalidParams, NotFound, Refused, Unreadable
from zcsyncd.memory.audit import indexed
from zcsyncd.memory.fact import read_view
from zcsyncd.memory.injection import inject
from zcsyncd.memory.revision import mtime_ms, revision
from zcsyncd.memory.text import decode, well_formed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from zcsyncd.layouts.layout import Caps
    from zcsyncd.memory.audit.finding import Finding
    from zcsyncd.memory.fact import Fact
    from zcsyncd.memory.repair import Fix, Repair
    from zcsyncd.memory.snapshot import Snapshot

INDEX_NAME = "MEMORY.md"
ENDING = ".md"
SORTS = ("file", "name", "mtime", "size")
"""What `memory.list` sorts by: `mtime` the newest first, as ZCode's recall does, `size` the largest first."""
NEAR_MATCHES = 3
DIFF_BYTES = 700_000
"""A longer diff is cut, so that the rest of the answer finds room on its line of 1 MiB."""
MOST_FIXES = 500
PAGE_BYTES = 1_000_000
"""A page of `memory.list` ends before it may grow longer than a line (1 MiB)."""
ROW_BYTES = 200
"""What a row has beside its texts."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def list_answer(
    snapshot: Snapshot,
    recalled: Collection[str],
    *,
    limit: int = 500,
    offset: int = 0,
    type: str | None = None,  # noqa: A002 - the wire's word
    sort: str = "file",
) -> dict[str, object]:
    """Give the answer to `memory.list`: one page of facts; `total` counts those of that type on all pages.

    `recalled` are the files that ZCode's recall lists. `sort` is one of `SORTS`; facts without a name come last.
    """
    reached = indexed(snapshot)
    facts = [fact for fact in snapshot.facts.values() if type is None or fact.type == type]
    facts.sort(key=lambda fact: fact.file)
    if sort == "name":
        facts.sort(key=lambda fact: (fact.name is None, (fact.name or "").casefold()))
    elif sort == "mtime":
        facts.sort(key=lambda fact: -fact.stat.mtime_ns)
    elif sort == "size":
        facts.sort(key=lambda fact: -fact.stat.size)
    return {
        "dir": snapshot.directory,
        "total": len(facts),
        "facts": _fitting(
            _fact_row(fact, is_indexed=fact.file in reached, is_recalled=fact.file in recalled)
            for fact in facts[offset : offset + limit]
        ),
    }


def _fitting(rows: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    """Take rows as far as one line of the wire holds them: descriptions may be long, and the next page has the rest."""
    taken: list[dict[str, object]] = []
    size = 0
    for row in rows:
        # As JSON a character has six bytes at the most.
        size += ROW_BYTES + 6 * sum(len(text) for text in row.values() if isinstance(text, str))
        if taken and size > PAGE_BYTES:
            break
        taken.append(row)
    return taken


def _fact_row(fact: Fact, *, is_indexed: bool, is_recalled: bool) -> dict[str, object]:
    return {
        "file": fact.file,
        "name": fact.name,
        "description": fact.description,
        "type": fact.type,
        "mtimeMs": mtime_ms(fact.stat.mtime_ns),
        "sizeBytes": fact.stat.size,
        "revision": revision(fact.stat.mtime_ns, fact.stat.size),
        "indexed": is_indexed,
        "recalled": is_recalled,
        "malformed": fact.malformed,
    }


def read_answer(
    directory: str, file: str, content: bytes, mtime_ns: int, *, full: bool = False
) -> dict[str, object]:
    """Give the answer to `memory.read` for a fact's bytes and the mtime that was read with them.

    The body is what ZCode's recall shows; `full` gives all of it. `restLine` (1-based line of the file) is there
    only when something was cut: the rest begins with it. `encoding` is there only when it is not UTF-8.

    Raises:
        Unreadable: ZCode cannot decode the bytes either.
    """
    view = read_view(content, full=full)
    if view.encoding is None:
        raise Unreadable(
            f"{absolute(directory, file)} holds bytes that are no text in UTF-8, UTF-16 with a BOM or GBK",
            hint="rewrite the file in UTF-8",
            file=file,
        )
    answer: dict[str, object] = {
        "file": file,
        "absolutePath": absolute(directory, file),
        "name": view.name,
        "description": view.description,
        "type": view.type,
        "body": view.body,
        "truncated": view.truncated,
        "sizeBytes": len(content),
        "mtimeMs": mtime_ms(mtime_ns),
        "revision": revision(mtime_ns, len(content)),
        "contentHash": hashlib.sha256(content).hexdigest(),
    }
    if view.rest_line is not None:
        answer["restLine"] = view.rest_line
    if view.encoding != "utf-8":
        answer["encoding"] = view.encoding
    return answer


def index_answer(directory: str, content: bytes | None, mtime_ns: int, caps: Caps) -> dict[str, object]:
    """Give the answer to `memory.index`: exactly what the host puts before its model. None: there is no index.

    Raises:
        Unreadable: ZCode cannot decode the bytes either (it then silently goes without an index).
    """
    if content is None:
        return {
            "text": "",
            "truncated": False,
            "lines": 0,
            "units": 0,
            "textHash": None,
            "contentHash": None,
            "revision": None,
        }
    injection = inject(content, caps)
    if injection is None:
        raise Unreadable(
            f"{absolute(directory, INDEX_NAME)} holds bytes that are no text in UTF-8, UTF-16 with a BOM or GBK: "
            "the model gets no index",
            hint="rewrite the file in UTF-8",
            file=INDEX_NAME,
        )
    return {
        "text": injection.text,
        "truncated": injection.truncated,
        "lines": injection.lines,
        "units": injection.units,
        "textHash": injection.text_hash,
        "contentHash": hashlib.sha256(content).hexdigest(),
        "revision": revision(mtime_ns, len(content)),
    }


def saved_answer(directory: str, file: str, content: bytes) -> dict[str, object]:
    """Give the answer to `history.show`: the text of a saved version, as ZCode reads it, all of it.

    `encoding` is there only when it is not UTF-8. Bytes that are no text in any encoding come as UTF-8 with U+FFFD in
    the place of what is none, and `encoding` is null.
    """
    decoded = decode(content)
    text = decoded.text if decoded else content.decode("utf-8", "replace")
    answer: dict[str, object] = {"dir": directory, "file": file, "text": well_formed(text)}
    if decoded is None or decoded.encoding != "utf-8":
        answer["encoding"] = decoded.encoding if decoded else None
    return answer


def repair_answer(
    repair: Repair,
    diff: str,
    *,
    applied: bool,
    revision: str | None,
    saved: int | None,
    held_by: Iterable[Mapping[str, str]],
) -> dict[str, object]:
    """Give the answer to `memory.repair`. A diff that no line of the wire could hold is cut, and `diffCut` says so."""
    shown = _cut_to(diff, DIFF_BYTES)
    answer: dict[str, object] = {
        "diff": shown,
        "fixes": [_fix(fix) for fix in repair.fixes[:MOST_FIXES]],
        "skipped": [{"key": s.key, "code": s.code, "reason": s.reason} for s in repair.skipped[:MOST_FIXES]],
        "applied": applied,
        "revision": revision,
        "saved": saved,
        "heldBy": [dict(session) for session in held_by],
    }
    if len(shown) < len(diff):
        answer["diffCut"] = True
    return answer


def _cut_to(text: str, most: int) -> str:
    """Cut a text so that it takes at most so many bytes as JSON."""
    while (size := len(json.dumps(text))) > most:
        text = text[: len(text) * most // size]
    return text


def _fix(fix: Fix) -> dict[str, object]:
    row: dict[str, object] = {"key": fix.key, "code": fix.code, "file": fix.file, "does": fix.does}
    if fix.target is not None:
        row["target"] = fix.target
    if fix.line is not None:
        row["line"] = fix.line
    return row


def finding_answer(
    finding: Finding, directory: str, since_ms: int, *, pending: bool, dismissed: bool
) -> dict[str, object]:
    """Give a Finding as the wire has it; members that do not apply are absent.

    `since_ms` is when the daemon first saw the defect, in epoch milliseconds.
    """
    answer: dict[str, object] = {
        "key": finding.key,
        "code": finding.code,
        "severity": finding.severity,
        "dir": directory,
    }
    members = {"file": finding.file, "target": finding.target, "line": finding.line}
    answer.update({name: value for name, value in members.items() if value is not None})
    answer["message"] = finding.message
    if finding.hint is not None:
        answer["hint"] = finding.hint
    if finding.by is not None:
        answer["by"] = {"host": finding.by[0], "id": finding.by[1]}
    answer.update(fixable=finding.fixable, since=time_text(since_ms), pending=pending, dismissed=dismissed)
    return answer


def time_text(epoch_ms: int) -> str:
    """Give a time as the wire has it: RFC 3339, UTC, milliseconds."""
    moment = _EPOCH + timedelta(milliseconds=epoch_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{epoch_ms % 1000:03d}Z"


def find_fact(snapshot: Snapshot, name: str) -> Fact:
    """Find a fact by its exact file name, else by that without `.md`, else by a front matter name that only it has.

    Files in sub-directories are named with `/`.

    Raises:
        Ambiguous: several facts have that front matter name; `data["files"]` lists them.
        Refused: the name is the index's (`memory.index` reads that), or leads out of the directory.
        NotFound: no fact answers to the name; `data["near"]` lists files whose names are like it.
    """
    found = seek_fact(snapshot, name)
    if found is not None:
        return found
    near = _near(snapshot, name)
    raise NotFound(
        f"no fact “{name}” in {snapshot.directory}",
        hint=f"did you mean {', '.join(near)}?" if near else None,
        near=near,
    )


def seek_fact(snapshot: Snapshot, name: str) -> Fact | None:
    """Find a fact as `find_fact` does; None: no fact answers to the name, and none is looked for that comes near.

    Raises:
        Ambiguous, Refused, Unreadable: as there.
    """
    if name != INDEX_NAME:
        for file in (name, name + ENDING):
            if file in snapshot.facts:
                return snapshot.facts[file]
        named = sorted(file for file, fact in snapshot.facts.items() if fact.name == name)
        if len(named) > 1:
            raise Ambiguous(
                f"{len(named)} facts in {snapshot.directory} are named “{name}”: {', '.join(named)}",
                hint="ask for one by its file name",
                files=named,
            )
        if named:
            return snapshot.facts[named[0]]
    unreadable = _no_readable_fact(snapshot, name)
    if unreadable is not None:
        raise unreadable
    return None


def _no_readable_fact(snapshot: Snapshot, name: str) -> Refused | Unreadable | None:
    """Say why a name cannot be a fact's; None: it could be."""
    if name in {INDEX_NAME, INDEX_NAME.removesuffix(ENDING)}:
        return Refused(f"{INDEX_NAME} is the index of {snapshot.directory}, no fact", hint="memory.index")
    if name.startswith("/") or ".." in name.replace("\\", "/").split("/"):
        return Refused(
            f"“{name}” does not lie in {snapshot.directory}", hint="name a fact or a file below it"
        )
    for file in (name, name + ENDING):
        stray = snapshot.strays.get(file)
        if stray is not None and stray.kind in ("special", "broken-link"):
            what = "is a symlink to nothing" if stray.kind == "broken-link" else "is not a regular file"
            return Unreadable(
                f"{absolute(snapshot.directory, file)} {what}", hint="put a regular file in its place"
            )
    return None


def _near(snapshot: Snapshot, name: str) -> list[str]:
    """List files whose stem or name is like `name`, the likest first."""
    spelled: dict[str, str] = {}
    for file, fact in sorted(snapshot.facts.items()):
        for word in (fact.name, posixpath.basename(file).removesuffix(ENDING), file.removesuffix(ENDING)):
            if word:
                spelled.setdefault(word.casefold(), file)
    wanted = posixpath.basename(name).removesuffix(ENDING).casefold()
    likest = get_close_matches(wanted, spelled, n=2 * NEAR_MATCHES, cutoff=0.6)
    return list(dict.fromkeys(spelled[word] for word in likest))[:NEAR_MATCHES]


def time_ms(text: str, parameter: str) -> int:
    """Read a time of the wire (RFC 3339); give epoch milliseconds.

    Raises: InvalidParams, which names the parameter.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidParams(f"{parameter} must be a time as 2026-11-30T16:21:00Z, not {text!r}")
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def absolute(directory: str, file: str) -> str:
    """Give a file's absolute path in the spelling of the system that its directory is spelled for."""
    if not directory.startswith("/") and ntpath.splitdrive(directory)[0]:
        return ntpath.join(directory, file.replace("/", "\\"))
    return posixpath.join(directory, file)
