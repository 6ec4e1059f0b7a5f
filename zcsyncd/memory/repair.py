"""A repair: findings and the bytes that they are about to new bytes, each mend told in a sentence; and as a diff. Pure.

Source: docs/audit.md, "Repair".

Rule 1: without a code or a key named, only the index changes, and only by what cannot be a matter of taste.
Rule 2: each mend is the smallest that ends its finding, and is taken only if the index then reads as before but for
it. What cannot be done safely is left, and it is said why.
Rule 3: no fact is ever deleted, nothing is put in another order, and no entry that is in order is written anew.
Rule 4: no mend pushes the index past a cap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from zcsyncd.errors import ZcsyncdError
from zcsyncd.memory.audit import indexed
from zcsyncd.memory.audit.finding import shown
from zcsyncd.memory.audit.index_rules import near_files, why_not_indexable
from zcsyncd.memory.audit.names import ENDING, INDEX_NAME, folded
from zcsyncd.memory.audit.scene import Scene, set_scene
from zcsyncd.memory.entry_lines import (
    Sheet,
    cut_entries,
    entry_text,
    hook_text,
    put_back,
    read_sheet,
    replace_hook,
    retarget,
    with_entry,
)
from zcsyncd.memory.fact import Fact, FileStat, parse_fact
from zcsyncd.memory.front_matter import mend
from zcsyncd.memory.index import inject, parse_index
from zcsyncd.memory.injection import units_of

if TYPE_CHECKING:
    from zcsyncd.layouts.layout import Caps
    from zcsyncd.memory.audit.finding import Finding
    from zcsyncd.memory.entries import Entry
    from zcsyncd.memory.past import Loss
    from zcsyncd.memory.snapshot import Snapshot

DIFF_CONTEXT = 3
"""Lines around a change, as `diff -u` shows them."""

MAX_ROUNDS = 3
"""What cannot be mended is tried again when other mends have changed the index: they may have made room for it."""

_NO_STAT = FileStat(0, 0, 0, 0)
_NO_INDEX = f"there is no {INDEX_NAME} by now"


@dataclass(frozen=True, slots=True)
class Fix:
    """One finding that is mended."""

    key: str
    code: str
    file: str
    """The file that is changed for it."""
    target: str | None
    line: int | None
    """As the finding has it: a line of the file before the repair."""
    does: str
    """One sentence for a person, from the verb on, without a full stop."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """One finding that was chosen and is not mended, or not wholly, and why."""

    key: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Repair:
    """What a repair would do."""

    contents: Mapping[str, bytes]
    """The new bytes of each file that changes; an index that is missing is among them when it is built."""
    fixes: tuple[Fix, ...]
    skipped: tuple[Skipped, ...]


def plan(
    snapshot: Snapshot,
    findings: Sequence[Finding],
    losses: Sequence[Loss],
    contents: Mapping[str, bytes],
    *,
    caps: Caps,
    codes: frozenset[str] | None = None,
    keys: frozenset[str] | None = None,
    bytes_of: Callable[[str], bytes | None] = lambda _hash: None,
) -> Repair:
    """Work out how to mend findings.

    `snapshot` and `findings` are of today, pending findings included if they are to be mended; `losses` are those
    that the directory remembers. `contents` are today's bytes by file: the index (absent: there is none) and the facts
    that findings are about. `codes` and `keys` choose findings, both: those that fit both; without either all of the
    `PLAIN_CODES`. `bytes_of` gives the bytes that a content hash stands for, None when no version is kept.
    """
    chosen = tuple(finding for finding in findings if _is_chosen(finding, codes, keys))
    bench = _Bench(snapshot, caps, dict(contents), tuple(losses), bytes_of)
    left = chosen
    for _ in range(MAX_ROUNDS):
        before = bench.index()
        for code, step in _STEPS.items():
            step(bench, [finding for finding in left if finding.code == code])
        left = bench.not_fixed(left)
        if not left or bench.index() == before:
            break
        bench.forget_skipped(left)
    for finding in chosen:
        if finding.code not in _STEPS:
            bench.skip(finding, _why_never(finding))
    changed = {file: now for file, now in bench.now.items() if contents.get(file) != now}
    return Repair(changed, tuple(bench.fixes), tuple(bench.skipped))


def _is_chosen(finding: Finding, codes: frozenset[str] | None, keys: frozenset[str] | None) -> bool:
    if codes is None and keys is None:
        return finding.code in PLAIN_CODES
    return (codes is None or finding.code in codes) and (keys is None or finding.key in keys)


def _why_never(finding: Finding) -> str:
    if finding.code in {"fact-blanked", "fact-shrunk", "mass-delete"}:
        return "only `history restore` brings content back"
    return f"a person has to settle it: {finding.hint}" if finding.hint else "a person has to settle it"


# -- the bench: what is being mended -------------------------------------------------------------------------


@dataclass(slots=True)
class _Bench:
    """The files as they are by now, and what was done and left so far."""

    snapshot: Snapshot
    caps: Caps
    now: dict[str, bytes]
    losses: tuple[Loss, ...]
    bytes_of: Callable[[str], bytes | None]
    fixes: list[Fix] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    _scene: Scene | None = None
    _read: tuple[bytes, Sheet] | None = None
    """The index as it was read last, and its bytes then."""
    _next: tuple[bytes, Sheet] | None = None
    """What it will be if the last new entry is taken."""
    _measured: tuple[bytes, tuple[int, int]] | None = None
    """Its lines and units as they were counted last, and its bytes then."""
    given: bytes = b""
    """The index as it was given."""

    _facts: dict[str, Fact] = field(default_factory=dict)
    """The snapshot's facts; mended ones are exchanged."""

    def __post_init__(self) -> None:
        self.given = self.index()
        self._facts = dict(self.snapshot.facts)
        self.snapshot = replace(self.snapshot, facts=self._facts)

    def fix(self, finding: Finding, does: str, file: str = INDEX_NAME) -> None:
        self.fixes.append(Fix(finding.key, finding.code, file, finding.target, finding.line, does))

    def skip(self, finding: Finding, reason: str) -> None:
        self.skipped.append(Skipped(finding.key, finding.code, reason))

    def not_fixed(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        """Leave out the findings that are mended."""
        fixed = {fix.key for fix in self.fixes}
        return tuple(finding for finding in findings if finding.key not in fixed)

    def forget_skipped(self, findings: Sequence[Finding]) -> None:
        """Take back that these were left: they are tried again."""
        keys = {finding.key for finding in findings}
        self.skipped = [skipped for skipped in self.skipped if skipped.key not in keys]

    def scene(self) -> Scene:
        """Give the directory's names and facts, mended ones as they are by now; its index is not to be asked."""
        if self._scene is None:
            self._scene = set_scene(self.snapshot, self.caps, 0)
        return self._scene

    def lost_entries(self) -> dict[str | None, Loss]:
        """Give what is remembered of lost entries, by target."""
        return {loss.target: loss for loss in self.losses if loss.code == "entry-lost"}

    def exchange_fact(self, fact: Fact, content: bytes) -> None:
        """Take a mended fact for what it is by now."""
        self.now[fact.file] = content
        self._facts[fact.file] = parse_fact(
            fact.file, content, fact.stat, read_at_ns=fact.read_at_ns, symlink=fact.symlink
        )

    def index(self) -> bytes:
        """Give the index's bytes; one that is not there counts as empty."""
        return self.now.get(INDEX_NAME, b"")

    def sheet(self) -> Sheet:
        """Give the index as lines.

        Raises:
            Refused: it is not UTF-8.
        """
        content = self.index()
        if self._next is not None and self._next[0] == content:
            self._read, self._next = self._next, None
        if self._read is None or self._read[0] != content:
            self._read = (content, read_sheet(content))
        return self._read[1]

    def with_entry(self, line: str) -> bytes:
        """Give the index with one more entry.

        Raises:
            Refused: it is not UTF-8, or has no place where the entry would be seen.
        """
        after = with_entry(self.sheet(), line)
        self._next = (after.content, after)
        return self._next[0]

    def reached(self) -> frozenset[str]:
        """Give the facts that the index reaches by now."""
        read = parse_index(INDEX_NAME, self.index(), _NO_STAT, read_at_ns=0, caps=self.caps)
        return indexed(replace(self.snapshot, index=read))

    def take(self, content: bytes) -> str | None:
        """Take new bytes for the index; or tell which cap they would pass, or pass further than today's do."""
        after = inject(content, self.caps)
        over = self._over(after.lines, after.units) if after else None
        if over is None:
            self.now[INDEX_NAME] = content
            self._measured = (content, (after.lines, after.units) if after else (0, 0))
        return over

    def why_no_room(self, line: str) -> str | None:
        """Tell which cap one more line would pass, without making it: a full index is asked about many facts."""
        lines, units = self._size()
        return self._over(lines + 1, units + units_of(line) + (1 if lines else 0))

    def _over(self, new_lines: int, new_units: int) -> str | None:
        lines, units = self._size()
        most = "are the most that the model gets"
        if new_lines > max(lines, self.caps.lines):
            return f"the index would have {new_lines:,} lines, and {self.caps.lines:,} {most}"
        if new_units > max(units, self.caps.units):
            return f"the index would have {new_units:,} UTF-16 units, and {self.caps.units:,} {most}"
        return None

    def _size(self) -> tuple[int, int]:
        """Give the index's lines and UTF-16 units as the caps count them."""
        content = self.index()
        if self._measured is None or self._measured[0] != content:
            injection = inject(content, self.caps)
            self._measured = (content, (injection.lines, injection.units) if injection else (0, 0))
        return self._measured[1]

    def settle(self, finding: Finding, mended: tuple[bytes, str] | str) -> None:
        """Take new bytes and note what they do; or note why there are none."""
        if isinstance(mended, str):
            self.skip(finding, mended)
            return
        over = self.take(mended[0])
        if over is None:
            self.fix(finding, mended[1])
        else:
            self.skip(finding, over)

    def settle_reached(self, finding: Finding) -> None:
        """Note that the index reaches a fact, by another mend or (the index is as it was) for reasons of its own."""
        if self.index() != self.given:
            self.fix(finding, "is settled with another: the index reaches it again")
        else:
            self.skip(finding, "the index reaches it by now")


_Mended = tuple[bytes, str] | str
"""New bytes of the index and what they do, or why there are none."""


def _each(mended: Callable[[_Bench, Finding], _Mended]) -> Callable[[_Bench, list[Finding]], None]:
    """Make a step of what mends one finding of the index."""

    def step(bench: _Bench, findings: list[Finding]) -> None:
        for finding in findings:
            if INDEX_NAME not in bench.now:
                bench.skip(finding, _NO_INDEX)
                continue
            try:
                bench.settle(finding, mended(bench, finding))
            except ZcsyncdError as error:
                bench.skip(finding, error.message)

    return step


# -- facts ---------------------------------------------------------------------------------------------------

_FACT_DOES = {
    "front-matter-alias": "quotes the values that begin with `*`",
    "description-multiline": "writes the description as one line",
    "description-cut": "quotes the description, so that its ` #` begins no comment",
    "type-flat": "moves `type` below `metadata`",
    "name-empty": "gives it its file's name",
}


def _mend_facts(bench: _Bench, findings: list[Finding]) -> None:
    for finding in findings:
        file = finding.file or ""
        fact, content = bench.snapshot.facts.get(file), bench.now.get(file)
        if fact is None or content is None:
            bench.skip(finding, "the file is not there any more")
        elif not finding.fixable:
            bench.skip(finding, "the file is a symlink, is not UTF-8, or the defect is its name")
        else:
            mended = mend(content, finding.code, file.rpartition("/")[2].removesuffix(ENDING))
            if mended is None or mended == content:
                bench.skip(finding, "its front matter is written in a way that only a person can mend safely")
            else:
                bench.exchange_fact(fact, mended)
                bench.fix(finding, _FACT_DOES[finding.code], file)


# -- the index's own lines -----------------------------------------------------------------------------------


def _unswallow(bench: _Bench, _finding: Finding) -> _Mended:
    """End a leading block: a blank line before it does, and if something in it opens, without its first line."""
    sheet = bench.sheet()
    lost = set(sheet.page.unseen(sheet.page.swallowed))
    wanted = sheet.page.seen | lost
    above = (
        sheet.with_lines(0, [""]),
        "puts a blank line before the `---` in line 1, so that nothing is dropped",
    )
    without = (sheet.without({1}), "takes out the `---` in line 1, so that nothing is dropped")
    for after, does in (above, without):
        if not after.page.swallowed and wanted <= after.page.seen:
            return after.content, does
    return "without its leading `---` something in the index would hide other entries"


def _drop_warnings(bench: _Bench, _finding: Finding) -> _Mended:
    sheet = bench.sheet()
    lines = sheet.page.warnings
    if not lines:
        return "the line is not there any more"
    after = sheet.cut(lines)
    if after is None:
        return "without that line the index would read otherwise"
    what = "the line" if len(lines) == 1 else f"the {len(lines)} lines"
    return after.content, f"takes out {what} that ZCode puts into the prompt only"


def _correct_case(bench: _Bench, finding: Finding) -> _Mended:
    place = bench.scene().place(finding.target or "")
    if place is None or place == finding.target:
        return "the file is not there any more"
    return _pointed(bench, finding.target or "", place)


def _correct_target(bench: _Bench, finding: Finding) -> _Mended:
    target = finding.target or ""
    scene = bench.scene()
    if scene.place(target) is not None:
        return "its file is there again"
    near = near_files(scene, target)
    if len(near) != 1:
        return (
            f"{len(near)} files come near, and only a person knows which is meant"
            if near
            else "no file comes near: bring it back, or take the entry out"
        )
    return _pointed(bench, target, near[0])


def _pointed(bench: _Bench, target: str, place: str) -> _Mended:
    """Point every link that means a target to a file; where that has an entry of its own already, keep one."""
    sheet = bench.sheet()
    lines = sorted({entry.line for entry in sheet.visible() if entry.target == target})
    if not lines:
        return "the entry is not there any more"
    content = sheet.content
    for line in lines:
        content = retarget(content, line, target, place)
    after = read_sheet(content)
    if any(entry.target == target for entry in after.visible()):
        return f"the link to {shown(target)} is written in a way that only a person can mend safely"
    unseen = place not in after.page.seen and target in sheet.page.seen
    if unseen or _out_of_sight(sheet, after) - {target}:
        return f"with {shown(place)} in its place the index would read otherwise"
    does = f"points {_entries_in(lines)} to {shown(place)}, not {shown(target)}"
    kept = [entry for entry in sheet.own(place) if entry.line not in lines]
    moved = [entry for entry in after.own(place) if entry.line in lines]
    if not moved or len(kept[:1]) + len(moved) == 1:
        return content, does
    # The one that is in order stays, unless it says nothing and the other does.
    mended = _with_one(after, [*kept[:1], *moved], place)
    return (
        mended
        if isinstance(mended, str)
        else (mended[0], f"takes {shown(target)} for {shown(place)}, {mended[1]}")
    )


def _entries_in(lines: Sequence[int]) -> str:
    if len(lines) == 1:
        return f"the entry in line {lines[0]}"
    return f"the entries in lines {', '.join(map(str, lines[:-1]))} and {lines[-1]}"


def _drop_repeated(bench: _Bench, findings: list[Finding]) -> None:
    settled: dict[str, str] = {}

    def without_repeated(bench: _Bench, finding: Finding) -> _Mended:
        target = finding.target or ""
        if target in settled:
            return bench.index(), settled[target]
        sheet = bench.sheet()
        own = [entry for entry in sheet.page.own if entry.target == target]
        if len(own) < 2:
            return "there is one entry only by now"
        mended = _with_one(sheet, own, target)
        if not isinstance(mended, str):
            settled[target] = mended[1]
        return mended

    _each(without_repeated)(bench, findings)


def _with_one(sheet: Sheet, entries: Sequence[Entry], target: str) -> _Mended:
    """Leave one of several entries of a target: the first, unless it says nothing and another does."""
    others: set[str] = set()
    for keep in sorted(entries, key=lambda entry: not entry.hook):
        gone = sorted(entry.line for entry in entries if entry is not keep)
        after = cut_entries(sheet, gone)
        if after is None:
            return "without one of them the index would read otherwise"
        named = _out_of_sight(sheet, after)
        if not named:
            which = "the first" if keep is entries[0] else "the first that says something"
            below = " with what is indented below" if len(after.lines) + len(gone) < len(sheet.lines) else ""
            does = f"keeps one entry for {shown(target)}, {which}, in line {keep.line}"
            return after.content, f"{does}, and takes out {_entries_in(gone)}{below}"
        others |= named
    return f"each of the lines also names something that nothing else does: {', '.join(map(shown, sorted(others)))}"


def _targets(sheet: Sheet) -> set[str]:
    return {entry.target for entry in sheet.visible()}


def _out_of_sight(before: Sheet, after: Sheet) -> set[str]:
    """Give the targets that nothing names any more, or nothing that the model sees."""
    return (_targets(before) - _targets(after)) | (before.page.seen - after.page.seen)


def _renew_hook(bench: _Bench, finding: Finding) -> _Mended:
    target = finding.target or ""
    scene = bench.scene()
    fact = scene.snapshot.facts.get(scene.place(target) or "")
    entry = next((entry for entry in bench.sheet().visible() if entry.target == target), None)
    if fact is None or not fact.description or entry is None:
        return "its fact, its description or the entry is not there any more"
    if entry.hook == hook_text(fact.description):
        return "it says so already"
    content = replace_hook(bench.index(), target, entry.hook, fact.description)
    if content is None:
        return "the entry is written in a way that only a person can mend safely"
    named = _out_of_sight(bench.sheet(), read_sheet(content))
    if named:
        return f"its hook also names something that nothing else does: {', '.join(map(shown, sorted(named)))}"
    return content, f"writes the fact's description into the entry for {shown(target)}"


# -- entries that are missing --------------------------------------------------------------------------------


def _bring_back(bench: _Bench, findings: list[Finding]) -> None:
    lost = bench.lost_entries()
    known = [finding for finding in findings if finding.target in lost]
    # In the order of the index that held them: each finds the one before it in its place.
    known.sort(key=lambda finding: (lost[finding.target].held_in or "", lost[finding.target].line or 0))
    reached = bench.reached() if known else frozenset()
    for finding in findings:
        if finding.target not in lost:
            bench.skip(finding, "what was lost is not remembered")
    for finding in known:
        if bench.scene().place(finding.target or "") in reached:
            bench.settle_reached(finding)
        else:
            _each(_brought_back)(bench, [finding])


def _brought_back(bench: _Bench, finding: Finding) -> _Mended:
    loss = bench.lost_entries()[finding.target]
    target = finding.target or ""
    if bench.scene().place(target) is None:
        return "its file is not there any more"
    former = None if loss.held_in is None else bench.bytes_of(loss.held_in)
    content = put_back(bench.index(), former, [loss])
    if content == bench.index():
        return content, "is settled with another: its line names it"
    if former is not None and _dangles(bench, content):
        former = None
        content = put_back(bench.index(), None, [loss])
    how = (
        "back where it was" if former is not None else "at the end of the list, from what is remembered of it"
    )
    return content, f"puts the entry for {shown(target)} {how}"


def _dangles(bench: _Bench, content: bytes) -> bool:
    """Tell whether new bytes name something that is not there and that today's bytes do not name."""
    new = _targets(read_sheet(content)) - _targets(bench.sheet())
    return any(bench.scene().place(target) is None for target in new)


def _add_entries(bench: _Bench, findings: list[Finding]) -> None:
    reached = bench.reached() if findings and INDEX_NAME in bench.now else frozenset()

    def added(bench: _Bench, finding: Finding) -> _Mended:
        fact = bench.snapshot.facts.get(finding.file or "")
        if fact is None:
            return "the file is not there any more"
        why = why_not_indexable(bench.scene(), fact)
        if why is not None:
            return why
        line = _entry_of(fact)
        why = bench.why_no_room(line)
        return why or (
            bench.with_entry(line),
            f"adds an entry for {shown(fact.file)} at the end of the list",
        )

    for finding in sorted(findings, key=lambda finding: finding.file or ""):
        if finding.file in reached:
            bench.settle_reached(finding)
        else:
            _each(added)(bench, [finding])


def _entry_of(fact: Fact) -> str:
    return entry_text(fact.name or "", fact.file, fact.description or "")


def _build_index(bench: _Bench, findings: list[Finding]) -> None:
    for finding in findings:
        if INDEX_NAME in bench.now:
            bench.skip(finding, "there is an index by now")
            continue
        near = [file for file in bench.scene().files if folded(file) == folded(INDEX_NAME)]
        if near:
            bench.skip(finding, f"{shown(near[0])} is called nearly so: rename that to {INDEX_NAME}")
            continue
        facts, left = _for_index(bench)
        entries = len(facts)
        if not entries:
            bench.skip(finding, "no fact has front matter from which an entry could be written")
            continue
        many = "an entry for 1 fact" if entries == 1 else f"entries for {entries:,} facts"
        bench.fix(finding, f"writes {INDEX_NAME} with {many}, in the order of their files")
        if left:
            some = "1 fact does" if left == 1 else f"{left:,} facts do"
            most = f"{bench.caps.lines:,} lines and {bench.caps.units:,} UTF-16 units"
            bench.skip(finding, f"{some} not fit: the model gets {most} at the most")


def _for_index(bench: _Bench) -> tuple[list[str], int]:
    """Write an index of all facts that one may be written for; tell which they are, and how many do not fit."""
    written: list[str] = []
    left = 0
    for file, fact in sorted(bench.snapshot.facts.items()):
        if why_not_indexable(bench.scene(), fact) is not None:
            continue
        try:
            line = _entry_of(fact)
        except ZcsyncdError:
            continue
        if bench.why_no_room(line) is None and bench.take(bench.with_entry(line)) is None:
            written.append(file)
        else:
            left += 1
    return written, left


_STEPS: Mapping[str, Callable[[_Bench, list[Finding]], None]] = {
    "front-matter-alias": _mend_facts,
    "description-multiline": _mend_facts,
    "description-cut": _mend_facts,
    "type-flat": _mend_facts,
    "name-empty": _mend_facts,
    "index-swallowed": _each(_unswallow),
    "warning-on-disk": _each(_drop_warnings),
    "entry-duplicate": _drop_repeated,
    "entry-case": _each(_correct_case),
    "entry-dangling": _each(_correct_target),
    "entry-drift": _each(_renew_hook),
    "entry-lost": _bring_back,
    "fact-unindexed": _add_entries,
    "index-missing": _build_index,
}
"""What mends each code, in this order: what makes room or says how a fact is called comes before what takes room."""
PLAIN_CODES = frozenset(
    {
        "entry-dangling",
        "entry-duplicate",
        "entry-case",
        "warning-on-disk",
        "fact-unindexed",
        "index-missing",
        "entry-lost",
    }
)
"""What is mended when nothing is named: nothing but the index changes by it."""
FIXABLE_CODES = frozenset(_STEPS)
"""Every code that a repair may be asked for."""


# -- the diff ------------------------------------------------------------------------------------------------


def diff(before: Mapping[str, bytes | None], after: Mapping[str, bytes]) -> str:
    """Give the unified diff of all files of `after`, in the order of their names; one that was None is made by it.

    `patch -p1` and `git apply` take it. Bytes that are no UTF-8 are shown as U+FFFD; a change of a line that
    holds some cannot be applied.
    """
    return "".join(
        part
        for file in sorted(after)
        if before.get(file) != after[file]
        for part in _file_diff(file, before.get(file), after[file])
    )


def _file_diff(file: str, old: bytes | None, new: bytes) -> Iterator[str]:
    yield f"--- {'/dev/null' if old is None else _named('a/' + file)}\n"
    yield f"+++ {_named('b/' + file)}\n"
    was, now = _text_lines(old or b""), _text_lines(new)
    start = _alike(was, now)
    end = _alike(was[:start:-1], now[:start:-1])
    first = max(0, start - DIFF_CONTEXT)
    was = was[first : len(was) - max(0, end - DIFF_CONTEXT)]
    now = now[first : len(now) - max(0, end - DIFF_CONTEXT)]
    for group in SequenceMatcher(None, was, now).get_grouped_opcodes(DIFF_CONTEXT):
        (_, a, _, c, _), (_, _, b, _, d) = group[0], group[-1]
        yield f"@@ -{_range(first + a, b - a)} +{_range(first + c, d - c)} @@\n"
        for kind, a, b, c, d in group:
            if kind == "equal":
                yield from map(" ".__add__, map(_ended, was[a:b]))
                continue
            yield from map("-".__add__, map(_ended, was[a:b]))
            yield from map("+".__add__, map(_ended, now[c:d]))


def _text_lines(content: bytes) -> list[str]:
    """Give the lines with their LF: no other sign ends a line for `patch`."""
    lines = content.decode(errors="replace").split("\n")
    return [*(line + "\n" for line in lines[:-1]), *(lines[-1:] if lines[-1] else [])]


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the lines at the beginning that are the same."""
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _range(start: int, length: int) -> str:
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _named(path: str) -> str:
    """Write a file's name as git does: quoted if it holds odd signs, with a tab behind if it holds a blank."""
    if path.isprintable() and not set(path) & {'"', "\\"}:
        return path + "\t" if " " in path else path
    raw = path.encode("utf-8", "surrogateescape")
    quoted = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in raw
    )
    return f'"{quoted}"'
