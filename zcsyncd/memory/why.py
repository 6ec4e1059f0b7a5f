"""Why a fact is or is not seen, place by place: a snapshot and a file to reasons for a person. Pure.

The places: `index` (an entry or a hub file of MEMORY.md reaches it), `prompt` (what the model gets at the start of a
session), `recall` (what ZCode lists and shows when it looks for facts), `page` (ZCode's memory page).

Rule 1: the first reason of a place tells whether the fact is seen there; further ones are about how.
Rule 2: what the audit says is told in its words, with its code; only what is known is said (docs/format.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from zcsyncd.errors import NotFound
from zcsyncd.layouts.layout import Caps
from zcsyncd.memory.audit.finding import Finding, listed, shown
from zcsyncd.memory.audit.index_rules import entry_findings, index_findings, unindexed_findings
from zcsyncd.memory.audit.names import INDEX_NAME, hidden_place
from zcsyncd.memory.audit.scene import CLOSED_KINDS, Scene, set_scene
from zcsyncd.memory.fact import Fact
from zcsyncd.memory.index import Entry, Index
from zcsyncd.memory.recall import BODY_BYTES, BODY_LINES, MANIFEST_FACTS, recalled
from zcsyncd.memory.revision import node_mtime_ms
from zcsyncd.memory.snapshot import Snapshot

Place = Literal["index", "prompt", "recall", "page"]
PLACES: tuple[Place, ...] = ("index", "prompt", "recall", "page")

_ENTRY_NOTES = frozenset({"entry-case", "entry-duplicate", "entry-drift", "entry-hidden"})
"""What is worth a word about an entry that reaches the fact all the same."""
_FRONT_CODES = ("front-matter-missing", "front-matter-unclosed", "front-matter-invalid", "front-matter-alias")
_DESCRIPTION_CODES = ("description-missing", "description-cut", "description-multiline")
_TYPE_CODES = ("type-missing", "type-unknown")
_RECALL_NOTES = frozenset(
    {*_FRONT_CODES, *_DESCRIPTION_CODES, *_TYPE_CODES, "body-over-recall", "fact-encoding", "fact-unreadable"}
)
_OVER_CODES = ("index-over-lines", "index-over-units")


@dataclass(frozen=True, slots=True)
class Reason:
    """One sentence about one place."""

    place: Place
    seen: bool
    """Whether the fact is seen in that place; the same in all reasons of a place."""
    reason: str
    code: str | None = None
    """The finding that says the same, if there is one."""
    line: int | None = None
    """1-based: of the index for `index` and `prompt`, of the fact for `recall`."""
    hint: str | None = None
    """What to do."""

    def to_wire(self) -> dict[str, object]:
        """Give it as the wire has it; members that do not apply are absent."""
        members = {"code": self.code, "line": self.line, "hint": self.hint}
        return {
            "place": self.place,
            "seen": self.seen,
            "reason": self.reason,
            **{name: value for name, value in members.items() if value is not None},
        }


def why(snapshot: Snapshot, file: str, caps: Caps, findings: Iterable[Finding] = ()) -> dict[str, object]:
    """Give `visible` and `reasons` of `memory.read` for a fact, in the order of the places (docs/protocol.md).

    `caps` are the layout's. `findings` are the directory's open ones: they know what a snapshot cannot show by
    itself, such as an entry that was lost.

    Raises:
        NotFound: the snapshot has no such fact.
    """
    reasons = why_seen(snapshot, file, caps, findings)
    visible = {place: _first(reasons, place).seen for place in PLACES}
    return {"visible": visible, "reasons": [reason.to_wire() for reason in reasons]}


def why_seen(
    snapshot: Snapshot, file: str, caps: Caps, findings: Iterable[Finding] = ()
) -> tuple[Reason, ...]:
    """Give the reasons as records; see `why`.

    Raises:
        NotFound: the snapshot has no such fact.
    """
    fact = snapshot.facts.get(file)
    if fact is None:
        raise _no_fact(snapshot, file)
    look = _look(snapshot, fact, caps, findings)
    return (*_index_reasons(look), *_prompt_reasons(look), *_recall_reasons(look), *_page_reasons(look))


def _first(reasons: Iterable[Reason], place: Place) -> Reason:
    return next(reason for reason in reasons if reason.place == place)


def _no_fact(snapshot: Snapshot, file: str) -> NotFound:
    """Say that there is no such fact, and what is in its way if something is known to be."""
    folder = file
    while folder:
        stray = snapshot.strays.get(folder)
        if stray is not None and stray.kind in CLOSED_KINDS:
            what = "is a symlink" if stray.kind == "symlinked-directory" else "cannot be read"
            hint = f"{shown(folder)} {what}: neither ZCode's recall nor we look into it"
            return NotFound(f"no fact {shown(file)} is known in {snapshot.directory}", hint=hint)
        folder = folder.rpartition("/")[0]
    return NotFound(f"no fact {shown(file)} in {snapshot.directory}")


# --- what is looked at ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Look:
    """A fact in its directory, and what reaches it."""

    scene: Scene
    fact: Fact
    entries: tuple[Entry, ...]
    """The entries that the model can see as such and that name it, in the file's order."""
    hidden: tuple[Entry, ...]
    """Those in a comment or a code fence."""
    hubs: tuple[tuple[Fact, Entry], ...]
    """Facts that link to it, each with an entry that names it."""
    findings: tuple[Finding, ...]
    """The caller's first: they know more than the snapshot's own."""

    def finding(self, code: str) -> Finding | None:
        """Give a finding of this code about the fact, or about an entry that means it."""
        file = self.fact.file
        for finding in self.findings:
            if finding.code != code:
                continue
            if finding.file == file or (finding.target and self.scene.place(finding.target) == file):
                return finding
        return None

    def index_finding(self, *codes: str) -> Finding | None:
        """Give the first finding about the index as a whole, in the order of the codes."""
        for code in codes:
            for finding in self.findings:
                if finding.code == code:
                    return finding
        return None


def _look(snapshot: Snapshot, fact: Fact, caps: Caps, findings: Iterable[Finding]) -> _Look:
    scene = set_scene(snapshot, caps, 0)  # no rule that is asked here goes by time
    every = snapshot.index.entries if snapshot.index is not None else ()
    naming = tuple(entry for entry in every if scene.place(entry.target) == fact.file)
    own = chain(index_findings(scene), entry_findings(scene), unindexed_findings(scene))
    return _Look(
        scene=scene,
        fact=fact,
        entries=tuple(entry for entry in naming if not entry.hidden),
        hidden=tuple(entry for entry in naming if entry.hidden),
        hubs=tuple(_hubs(scene, fact.file)),
        findings=(*findings, *own),
    )


def _hubs(scene: Scene, file: str) -> Iterator[tuple[Fact, Entry]]:
    for target, entry in scene.entries.items():
        hub = scene.snapshot.facts.get(scene.place(target) or "")
        if hub is not None and hub.file != file and any(scene.place(link) == file for link in hub.references):
            yield hub, entry


def _told(place: Place, finding: Finding, *, seen: bool) -> Reason:
    return Reason(place, seen, finding.message, finding.code, finding.line, finding.hint)


# --- the index -----------------------------------------------------------------------------------------------------


def _index_reasons(look: _Look) -> Iterator[Reason]:
    index = look.scene.snapshot.index
    if index is None or not look.scene.index_read:
        yield _no_index(look, "index")
        return
    if look.entries:
        entry = look.entries[0]
        yield Reason("index", True, f"line {entry.line} of {index.file} has an entry for it", line=entry.line)
        yield from _entry_notes(look)
    elif look.hubs:
        hub, entry = look.hubs[0]
        reason = (
            f"the hub file {shown(hub.file)} links to it, and line {entry.line} of {index.file} names that"
        )
        yield Reason("index", True, reason, line=entry.line)
        yield from _entry_notes(look)
    else:
        yield _unreached(look, index)


def _no_index(look: _Look, place: Place) -> Reason:
    """Say why there is no index to speak of."""
    unreadable = look.index_finding("index-unreadable")
    if unreadable is not None:
        message = unreadable.message
        reason = message if INDEX_NAME in message else f"{INDEX_NAME} {message}"
        return Reason(place, False, reason, unreadable.code, hint=unreadable.hint)
    missing = look.index_finding("index-missing")
    hint = missing.hint if missing is not None else None
    return Reason(
        place, False, f"there is no {INDEX_NAME}: the model sees no fact", "index-missing", hint=hint
    )


def _entry_notes(look: _Look) -> Iterator[Reason]:
    """Tell what the audit has to say about entries that name it, each thing once."""
    targets = {entry.target for entry in (*look.entries, *look.hidden)}
    told: set[str] = set()
    for finding in look.findings:
        if finding.code in _ENTRY_NOTES and finding.target in targets and finding.key not in told:
            told.add(finding.key)
            yield _told("index", finding, seen=True)


def _unreached(look: _Look, index: Index) -> Reason:
    """Say why no entry reaches it: it was lost, it is hidden, it was put away, or there is none."""
    lost = look.finding("entry-lost")
    if lost is not None:
        return Reason("index", False, lost.message, lost.code, lost.line, lost.hint)
    hidden = look.finding("entry-hidden")
    if look.hidden and hidden is not None:
        return _told("index", hidden, seen=False)
    folder = hidden_place(look.fact.file)
    if folder is not None:
        reason = (
            f"no entry of {index.file} reaches it: it was put away in {shown(folder)}, and nothing is amiss"
        )
        return Reason("index", False, reason)
    missed = look.finding("fact-unindexed")
    hint = missed.hint if missed is not None else None
    reason = f"no entry of {index.file} reaches it, and no hub file links to it"
    return Reason("index", False, reason, "fact-unindexed", hint=hint)


# --- the prompt ----------------------------------------------------------------------------------------------------


def _prompt_reasons(look: _Look) -> Iterator[Reason]:
    index = look.scene.snapshot.index
    if index is None or not look.scene.index_read:
        yield _no_index(look, "prompt")
        return
    given = [entry for entry in look.entries if _is_given(index, entry)]
    if given:
        entry = _in_view(index, given)
        yield Reason(
            "prompt", True, f"the model gets its entry, line {entry.line} of {index.file}", line=entry.line
        )
        garbled = look.index_finding("index-unreadable")
        if garbled is not None:
            yield _told("prompt", garbled, seen=True)
    else:
        yield _not_given(look, index)


def _is_given(index: Index, entry: Entry) -> bool:
    return entry.target not in index.swallowed and entry.target not in index.beyond


def _in_view(index: Index, given: list[Entry]) -> Entry:
    """Choose of several entries one that the model gets: what is swallowed stands before it, what is cut off behind.

    An index knows by target what the model gets, not by line.
    """
    cut = min((remark.line or 1 for remark in index.remarks if remark.code in _OVER_CODES), default=None)
    before = [entry for entry in given if cut is None or entry.line < cut]
    return before[-1] if before else given[0]


def _not_given(look: _Look, index: Index) -> Reason:
    """Say why the model does not get an entry of it."""
    if look.entries:
        return _dropped(look, index, look.entries[0])
    if look.hubs:
        given = [pair for pair in look.hubs if _is_given(index, pair[1])]
        hub, entry = given[0] if given else look.hubs[0]
        if given:
            reason = (
                f"the model gets the entry of the hub file {shown(hub.file)} (line {entry.line}): it learns of this "
                "fact when it reads that"
            )
        else:
            reason = f"the model does not get the entry of the hub file {shown(hub.file)} (line {entry.line}) either"
        return Reason("prompt", False, reason, line=entry.line)
    reached = _unreached(look, index)
    if reached.code == "entry-hidden":
        reason = f"the model does not get line {reached.line} of {index.file} as an entry"
        return Reason("prompt", False, reason, reached.code, reached.line, reached.hint)
    return Reason("prompt", False, "the model gets no entry that reaches it", reached.code, hint=reached.hint)


def _dropped(look: _Look, index: Index, entry: Entry) -> Reason:
    if entry.target in index.swallowed:
        finding = look.index_finding("index-swallowed")
        code, what = "index-swallowed", "ZCode drops it together with the `---` in line 1"
    else:
        finding = look.index_finding(*_OVER_CODES)
        code = finding.code if finding is not None else _OVER_CODES[0]
        caps = look.scene.caps
        most = f"{caps.lines} lines" if code == _OVER_CODES[0] else f"{caps.units} UTF-16 units"
        what = f"it stands behind the {most} that the model gets"
    reason = f"the model does not get its entry, line {entry.line} of {index.file}: {what}"
    hint = finding.hint if finding is not None else None
    return Reason("prompt", False, reason, code, entry.line, hint)


# --- recall --------------------------------------------------------------------------------------------------------


def _recall_reasons(look: _Look) -> Iterator[Reason]:
    snapshot, fact = look.scene.snapshot, look.fact
    closed = sorted(stray.file for stray in snapshot.strays.values() if stray.kind == "unreadable-directory")
    if closed:
        reason = f"recall lists no fact at all, because {listed(closed, 5)} cannot be read"
        hint = "give yourself the permission to read it, or move it out of the memory directory"
        yield Reason("recall", False, reason, "dir-unreadable", hint=hint)
    elif not fact.listed:
        yield _not_listed(fact)
    else:
        yield from _rank_reasons(look)


def _not_listed(fact: Fact) -> Reason:
    for remark in fact.remarks:
        if remark.code == "fact-unreadable":
            return Reason(
                "recall", False, f"recall leaves it out: {remark.message}", remark.code, hint=remark.hint
            )
    return Reason("recall", False, "recall does not look at files of this name")


def _rank_reasons(look: _Look) -> Iterator[Reason]:
    facts, fact = look.scene.snapshot.facts, look.fact
    seen = fact.file in recalled(facts.values())
    rank = _rank(facts.values(), fact)
    if not seen:
        reason = f"it is {rank}: recall looks at the newest {MANIFEST_FACTS}"
        hint = f"merge or remove facts until {MANIFEST_FACTS} are left"
        yield Reason("recall", False, reason, "fact-not-recalled", hint=hint)
        return
    yield Reason("recall", True, f"recall lists it: it is {rank}")
    yield Reason("recall", True, _what_is_shown(fact))
    for remark in fact.remarks:
        if remark.code in _RECALL_NOTES:
            yield Reason("recall", True, remark.message, remark.code, remark.line, remark.hint)
    folder = hidden_place(fact.file)
    if folder is not None:
        reason = f"recall lists it although it lies in the dot-directory {shown(folder)}"
        hint = "keep what is put away outside of the memory directory"
        yield Reason("recall", True, reason, "hidden-dir-recalled", hint=hint)


def _rank(facts: Iterable[Fact], fact: Fact) -> str:
    """Tell which one it is, the newest first; the order of facts of one time is ZCode's affair."""
    time = node_mtime_ms(fact.stat.mtime_ns)
    times = [node_mtime_ms(other.stat.mtime_ns) for other in facts if other.listed]
    newer = sum(other > time for other in times)
    tied = times.count(time)
    number = f"number {newer + 1}" if tied == 1 else f"one of the numbers {newer + 1} to {newer + tied}"
    return f"{number} of {len(times)} facts by time of change, the newest first"


def _what_is_shown(fact: Fact) -> str:
    """Say what recall has of a fact beside its file's name."""
    if fact.encoding is None:
        return "what recall shows of it is not known: we did not read the file"
    codes = {remark.code for remark in fact.remarks}
    description = "its description" if fact.description else "no description"
    kind = f"its type {shown(fact.type)}" if fact.type else "no type"
    if "fact-unreadable" in codes:
        body = "its body, garbled"
    elif "body-over-recall" in codes:
        body = f"the beginning of its body, at most {BODY_LINES} lines and {BODY_BYTES:,} bytes"
    else:
        body = "its whole body"
    return f"recall has {description}, {kind}, and {body}"


# --- ZCode's memory page -------------------------------------------------------------------------------------------


def _page_reasons(look: _Look) -> Iterator[Reason]:
    if look.fact.symlink:
        reason = "it is a symlink: ZCode's memory page hides it"
        hint = "put the file itself here if it is to be seen and edited there"
        yield Reason("page", False, reason, "symlink", hint=hint)
        return
    yield Reason("page", True, "nothing is known that hides it from ZCode's memory page")
    split = look.index_finding("split-root")
    if split is not None:
        yield _told("page", split, seen=True)
