"""What a memory directory was: what was lost, deleted, fought over; batch by batch. Pure.

Rule 1: a loss is remembered when it is seen, and is over when the directory shows that it is mended, never by age.
Rule 2: what our own pen does raises no loss; it may end one.
Rule 3: a batch costs by what changed in it. All facts are walked only when entries vanished or many facts went.
Rule 4: everything here is bounded; the oldest goes first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args
from urllib.parse import unquote

from zcsyncd.layouts.layout import Caps
from zcsyncd.memory.audit.history_rules import (
    MASS_FILES,
    blank_keys,
    fact_of,
    lacks,
    loss_key,
    open_losses,
)
from zcsyncd.memory.audit.index_rules import indexed
from zcsyncd.memory.audit.names import INDEX_NAME, hidden_place
from zcsyncd.memory.audit.scene import set_scene
from zcsyncd.memory.fact import Fact
from zcsyncd.memory.index import Entry, Index
from zcsyncd.memory.snapshot import Snapshot
from zcsyncd.memory.text import MARK, decode

MAX_LOSSES = 1_000
"""An index holds at most 200 entries that the model sees: five whole indexes may be lost."""
MAX_LOSS_CHARS = 300_000
"""Of all their words: the row that remembers them is written at each change to it."""
MAX_LISTED_FILES = 500
MAX_LISTED_CHARS = 60_000
MAX_DELETIONS = 20_000
"""A fifth of a hundred thousand facts."""
MAX_KEPT_DELETIONS = 500
"""What of them outlives a restart, which a minute seldom holds."""
MAX_REMOVALS = 200
MAX_STATES = 8
"""Of one file; four tell that two alternate."""
MAX_STATE_FILES = 500
MAX_FORMER = 20
"""Earlier versions of an index that a text is compared with: so many are kept by default."""
DELETIONS_MS = 60_000
"""Facts that went within one minute are one deletion."""
CONTENTION_MS = 600_000
"""States that alternate within ten minutes are a fight, and it is over ten minutes after the last change of hands."""
SHRUNK_BYTES = 1024
"""A smaller fact may halve."""
ALTERNATING = 4
"""A, B, A, B."""

LossCode = Literal["entry-lost", "fact-blanked", "fact-shrunk", "mass-delete", "contention"]


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that was there and that another pen destroyed. One for each code, file and target."""

    code: LossCode
    at_ms: int
    """When the daemon saw it, epoch milliseconds; of `mass-delete` and `contention` the last time."""
    file: str | None = None
    """fact-*, contention: the file; entry-lost: the index's file; mass-delete: None."""
    target: str | None = None
    """entry-lost: the entry's target."""
    title: str = ""
    """entry-lost: the entry as it was, see `memory.entries.Entry`."""
    hook: str = ""
    line: int | None = None
    """entry-lost: where it stood in the former index, 1-based."""
    single: bool = False
    """entry-lost: the only line that its write took out; it waits for the grace."""
    held_in: str | None = None
    """SHA-256 (hex) of the raw bytes of the former index or fact that holds what was lost. None: nobody knows."""
    held_as: str | None = None
    """fact-*: the name that the fact had then, under which that version is saved. None: the same as now."""
    size: int = 0
    """fact-shrunk: bytes before."""
    lost: tuple[str, ...] = ()
    """fact-blanked: the keys; mass-delete: files that went, at most `MAX_LISTED_FILES`."""
    count: int = 0
    """mass-delete: how many went; contention: 1 once it is over and only a dismissal keeps it."""
    by: tuple[str, str] | None = None
    """Host and id of the session that did it, where that is known."""


@dataclass(frozen=True, slots=True)
class Past:
    """What is remembered of a directory beside its last snapshot."""

    losses: tuple[Loss, ...] = ()
    """The oldest first."""
    deletions: tuple[tuple[int, str], ...] = ()
    """Facts that went within the last minute, not by our hand: when (epoch ms), file; in order."""
    states: Mapping[str, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    """What a file said in the last ten minutes: when (epoch ms), and a hash of what it said."""
    peak: int = 0
    """Facts there were before the first of `deletions`."""
    gone: Mapping[str, str] = field(default_factory=dict)
    """The content hash that each of `deletions` had: one that comes back under another name was a rename."""
    removals: tuple[tuple[int, str], ...] = ()
    """Facts whose entry somebody took out by an edit: when (epoch ms), the fact's file; in order."""
    away_ms: int | None = None
    """Since when the index is gone, unreadable or empty. None: it is there."""


_CAPS = Caps(0, 0)  # what is asked of a scene here does not hang on them
_KEYS = ("name", "description", "type")
_ILLEGIBLE = frozenset({"front-matter-invalid", "front-matter-alias", "front-matter-unclosed"})
"""Keys may be there and cannot be read; these say so themselves."""

_Seen = tuple[tuple[int, str], ...]
"""When (epoch ms) a file said what, as a hash."""
_Name = tuple[str, str | None, str | None]
_Changed = tuple[str, Fact | None, Fact | None]
"""A fact's file, what it was, what it is."""


def follow(
    past: Past,
    before: Snapshot | None,
    after: Snapshot,
    *,
    at_ms: int,
    files: Collection[str] | None,
    ours: bool,
    bytes_of: Callable[[str], bytes | None],
    former_indexes: Callable[[], Sequence[str]],
    still_there: Callable[[str], bool] = lambda _file: True,
    by: tuple[str, str] | None = None,
) -> Past:
    """Remember what one settled batch did to a directory; gives `past` itself when there is nothing to remember.

    `before` None: the directory is new, nothing was lost. `at_ms`: epoch milliseconds. `files`: the only ones that
    may differ, None: any. `ours`: our own pen wrote, or a writer that knew what it overwrote. `bytes_of` gives kept
    bytes by content hash (None: not kept); the present index's are asked for, too. `former_indexes` gives the content
    hashes of the index's earlier saved versions, the newest first; the present one's only if it was saved before this
    batch. `still_there` asks the disk for a fact's file: a disappearance settles later than a write, so a file may be
    gone that `after` still has. Those three are called only where an entry vanished. `by`: the session that wrote,
    where that is known. Source: docs/audit.md.
    """
    if before is None:
        return past
    known = past
    changed = _changed_facts(before, after, files)
    rewritten = _is_rewritten(before.index, after.index)
    if not changed and not rewritten:
        return past
    index = [(_index_file(before, after), before.index, after.index)] if rewritten else []
    past = _with_states(past, [*changed, *index], at_ms, ours=ours)
    if changed:
        past = _with_moves(past, changed)
        past = _with_returns(past, changed)
        if not ours:
            past = _with_damage(past, changed, at_ms)
            past = _with_deletions(past, before, after, changed, at_ms)
    if rewritten:
        write = _Write(before, after, at_ms, bytes_of, former_indexes, still_there)
        past = _with_entries(past, write, ours=ours)
    return past if by is None else _done_by(past, known, by)


def _done_by(past: Past, known: Past, by: tuple[str, str]) -> Past:
    """Say of the losses that are new who did it."""
    if past.losses is known.losses:
        return past
    old = frozenset(known.losses)
    return replace(past, losses=tuple(one if one in old else replace(one, by=by) for one in past.losses))


def end(past: Past, snapshot: Snapshot, *, now_ms: int, dismissed: Collection[str] = ()) -> Past:
    """Leave out what is over, see `open_losses`; gives `past` itself when nothing is.

    `dismissed`: keys of findings that a person does not want to hear of. Their losses stay remembered as long as the
    directory shows them; time alone ends none of them, so that they are not found anew.
    """
    past = _without_old(past, now_ms)
    if not past.losses and not past.removals:
        return past
    scene = set_scene(snapshot, _CAPS, now_ms)
    losses = open_losses(past.losses, scene)
    if any(_is_over(loss, now_ms) for loss in losses):
        losses = tuple(
            replace(loss, count=1) if _is_over(loss, now_ms) else loss
            for loss in losses
            if not _is_over(loss, now_ms) or loss_key(snapshot.directory, loss) in dismissed
        )
    removals = past.removals
    if removals and scene.index_read:
        reached = indexed(snapshot)
        removals = tuple(gone for gone in removals if gone[1] in snapshot.facts and gone[1] not in reached)
    if losses == past.losses and len(removals) == len(past.removals):
        return past
    return replace(past, losses=losses, removals=removals)


def _is_over(loss: Loss, now_ms: int) -> bool:
    return loss.code == "contention" and now_ms - loss.at_ms >= CONTENTION_MS


def due_ms(past: Past) -> int | None:
    """Give when time alone ends something that is told, in epoch milliseconds; None: never."""
    ends = [
        loss.at_ms + CONTENTION_MS for loss in past.losses if loss.code == "contention" and not loss.count
    ]
    return min(ends, default=None)


def let_go(past: Past, file: str) -> Past:
    """Forget every trace of a file, its name and its hashes: a person wants it to be gone."""
    losses = [
        replace(loss, lost=tuple(one for one in loss.lost if one != file), count=loss.count - 1)
        if loss.code == "mass-delete" and file in loss.lost
        else loss
        for loss in past.losses
        if file not in {loss.file, loss.held_as, loss.target, unquote(loss.target or "")}
    ]
    return replace(
        past,
        losses=tuple(losses),
        deletions=tuple(gone for gone in past.deletions if gone[1] != file),
        states={name: seen for name, seen in past.states.items() if name != file},
        gone={name: digest for name, digest in past.gone.items() if name != file},
        removals=tuple(gone for gone in past.removals if gone[1] != file),
    )


# -- what changed --------------------------------------------------------------------------------------------


def _changed_facts(before: Snapshot, after: Snapshot, files: Collection[str] | None) -> list[_Changed]:
    old, new = before.facts, after.facts
    names: Iterable[str] = files if files is not None else {**old, **new}
    changed = []
    for file in names:
        was, now = old.get(file), new.get(file)
        if was is now:  # shared between the snapshots, or no fact at all
            continue
        if was is None or now is None or was.content_hash != now.content_hash:
            changed.append((file, was, now))
    if len(changed) > 1:
        changed.sort(key=lambda change: change[0])
    return changed


def _index_file(before: Snapshot, after: Snapshot) -> str:
    index = after.index or before.index
    return index.file if index is not None else INDEX_NAME


def _is_rewritten(was: Index | None, now: Index | None) -> bool:
    if was is now:
        return False
    return was is None or now is None or was.content_hash != now.content_hash or was.encoding != now.encoding


def _with_losses(past: Past, new: Sequence[Loss]) -> Past:
    """Add losses; each takes the place of the one with its code, file and target."""
    if not new:
        return past
    replaced = {_name(loss) for loss in new}
    kept = [loss for loss in past.losses if _name(loss) not in replaced]
    # Of one write the first entries are the ones that the model saw; of many writes the last ones count.
    new = _within_bounds(list({_name(loss): loss for loss in new}.values()))
    both = _within_bounds([*reversed(new), *reversed(kept)])
    return replace(past, losses=tuple(reversed(both)))


def _name(loss: Loss) -> _Name:
    return loss.code, loss.file, loss.target


def _within_bounds(losses: list[Loss]) -> list[Loss]:
    chars = 0
    for number, loss in enumerate(losses[:MAX_LOSSES]):
        chars += len(loss.title) + len(loss.hook) + len(loss.target or "") + sum(map(len, loss.lost))
        if chars > MAX_LOSS_CHARS:
            return losses[:number]
    return losses[:MAX_LOSSES]


# -- states that alternate -----------------------------------------------------------------------------------


def _with_states(
    past: Past,
    pairs: Iterable[tuple[str, Fact | Index | None, Fact | Index | None]],
    at_ms: int,
    *,
    ours: bool,
) -> Past:
    """Remember what files say now. Our own writes are states, too, but only another pen's makes a fight.

    A file that was taken away and made again goes on where it was: some editors save so.
    """
    states: dict[str, _Seen] | None = None
    fights = []
    for file, was, now in pairs:
        old, new = _state(was), _state(now)
        known = (past.states if states is None else states).get(file, ())
        if new == old or (old is None and not known):
            continue
        seen = [state for state in known if at_ms - state[0] <= CONTENTION_MS]
        # The state before stood until now.
        seen += [(at_ms, state) for state in (old, new) if state is not None]
        seen = [state for place, state in enumerate(seen) if not place or seen[place - 1][1] != state[1]]
        states = dict(past.states) if states is None else states
        states.pop(file, None)
        states[file] = tuple(seen[-MAX_STATES:])
        if new is not None and _alternates(seen) and not ours:
            fights.append(Loss("contention", at_ms, file))
    if states is None:
        return past
    if len(states) > MAX_STATE_FILES:
        states = _young_states(states, at_ms)
    return _with_losses(replace(past, states=states), fights)


def _state(file: Fact | Index | None) -> str | None:
    """Give a hash of what a file says; None: nothing (it is gone, unreadable, or empty: half-written).

    Of a fact it is the meaning: the stamps that ZCode puts into what it has just written are no other state.
    """
    if file is None or file.content_hash is None or file.encoding is None or not file.stat.size:
        return None
    return (file.meaning_hash if isinstance(file, Fact) else None) or file.content_hash


def _alternates(seen: Sequence[tuple[int, str]]) -> bool:
    if len(seen) < ALTERNATING:
        return False
    (_, one), (_, other), (_, third), (_, fourth) = seen[-ALTERNATING:]
    return one == third and other == fourth and one != other


def _young_states(states: Mapping[str, _Seen], now_ms: int) -> dict[str, _Seen]:
    """Leave out what is older than ten minutes, and of the rest the files that have been quiet for longest."""
    young = [(file, seen) for file, seen in states.items() if now_ms - seen[-1][0] <= CONTENTION_MS]
    return dict(sorted(young, key=lambda item: item[1][-1][0])[-MAX_STATE_FILES:])


# -- facts that lost something -------------------------------------------------------------------------------


def _with_moves(past: Past, changed: Iterable[_Changed]) -> Past:
    """Let what is remembered of a fact follow it to its new name."""
    if not past.losses:
        return past
    come = {now.content_hash: file for file, was, now in changed if was is None and now is not None}
    moved = {
        file: come[was.content_hash]
        for file, was, now in changed
        if was is not None and now is None and was.content_hash is not None and was.content_hash in come
    }
    if not moved or not any(loss.code.startswith("fact-") and loss.file in moved for loss in past.losses):
        return past
    return replace(
        past,
        losses=tuple(
            _moved(loss, moved[loss.file or ""])
            if loss.code.startswith("fact-") and loss.file in moved
            else loss
            for loss in past.losses
        ),
    )


def _moved(loss: Loss, file: str) -> Loss:
    """Give the loss of a fact that has another name by now; what was saved of it stays under the name it had."""
    held_as = loss.held_as or loss.file
    return replace(loss, file=file, held_as=None if held_as == file else held_as)


def _with_damage(past: Past, changed: Iterable[_Changed], at_ms: int) -> Past:
    new = []
    known: dict[_Name, Loss] = {}
    for file, was, now in changed:
        if was is None or now is None or now.encoding is None or was.encoding is None:
            continue
        loss = _damage(file, was, now, at_ms)
        if loss is not None:
            known = known or {_name(one): one for one in past.losses if one.code.startswith("fact-")}
            first = known.get(_name(loss))
            new.append(_joined(first, loss) if first is not None and lacks(was, first) else loss)
    return _with_losses(past, new)


def _damage(file: str, was: Fact, now: Fact, at_ms: int) -> Loss | None:
    """Tell what one write took from a fact. One whose body stayed is blanked, however much of it went."""
    if was.body_hash is not None and was.body_hash == now.body_hash:
        gone = blank_keys(now) - blank_keys(was)
        if gone and not any(remark.code in _ILLEGIBLE for remark in now.remarks):
            keys = tuple(key for key in _KEYS if key in gone)
            return Loss("fact-blanked", at_ms, file, held_in=was.content_hash, lost=keys)
    size = was.stat.size
    if size < SHRUNK_BYTES or now.stat.size * 2 >= size:
        return None
    if was.encoding != now.encoding and was.meaning_hash == now.meaning_hash:
        return None  # UTF-16 has twice the bytes of UTF-8
    return Loss("fact-shrunk", at_ms, file, held_in=was.content_hash, size=size)


def _joined(first: Loss, then: Loss) -> Loss:
    """Join a loss with an earlier one of its kind that is not mended: the first version holds what both took."""
    keys = tuple(key for key in _KEYS if key in {*first.lost, *then.lost})
    return replace(first, at_ms=then.at_ms, lost=keys)


# -- many facts that went ------------------------------------------------------------------------------------


def _with_deletions(
    past: Past, before: Snapshot, after: Snapshot, changed: Iterable[_Changed], at_ms: int
) -> Past:
    went = {
        file: was.content_hash or ""
        for file, was, now in changed
        if was is not None and now is None and hidden_place(file) is None
    }
    if not went:
        return past
    known = [gone for gone in past.deletions if at_ms - gone[0] <= DELETIONS_MS and gone[1] not in went]
    # What fell out of the window was there before the window's first.
    peak = max(past.peak - (len(past.deletions) - len(known)), len(known)) if known else len(before.facts)
    loss = _mass_delete(past)
    # What a loss holds already is told by its time, so no later deletion may have an earlier one.
    at_ms = max(at_ms, known[-1][0] + 1 if known else 0, loss.at_ms + 1 if loss else 0)
    deletions = [*known, *((at_ms, file) for file in went)][-MAX_DELETIONS:]
    hashes = {**past.gone, **went}
    if _are_many(len(deletions), peak):
        elsewhere = {fact.content_hash for fact in after.facts.values()}
        deletions = [gone for gone in deletions if hashes[gone[1]] not in elsewhere]
    past = replace(
        past,
        deletions=tuple(deletions),
        gone={file: hashes[file] for _, file in deletions},
        peak=peak if deletions else 0,
    )
    return _with_mass_delete(past, after, at_ms) if _are_many(len(deletions), peak) else past


def _are_many(count: int, peak: int) -> bool:
    return count >= MASS_FILES and count * 5 >= peak


def _with_mass_delete(past: Past, after: Snapshot, at_ms: int) -> Past:
    """Remember the deletions of this minute as one loss, together with what an earlier one took and is missing."""
    known = _mass_delete(past) or Loss("mass-delete", -1)
    listed = {file: None for file in known.lost if file not in after.facts}
    count = known.count - len(known.lost) + len(listed)
    chars = sum(map(len, listed))
    for when, file in past.deletions:
        if when <= known.at_ms or file in listed:
            continue
        count += 1
        chars += len(file)
        if len(listed) < MAX_LISTED_FILES and chars <= MAX_LISTED_CHARS:
            listed[file] = None
    return _with_losses(past, [replace(known, at_ms=at_ms, lost=tuple(listed), count=count)])


def _mass_delete(past: Past) -> Loss | None:
    return next((loss for loss in past.losses if loss.code == "mass-delete"), None)


def _with_returns(past: Past, changed: Iterable[_Changed]) -> Past:
    """Take back deletions whose content came under another name, and those of files that are there again."""
    if not past.gone:
        return past
    come = [now for _, was, now in changed if was is None and now is not None]
    names = {fact.file for fact in come}
    contents = {fact.content_hash for fact in come} - {None}
    back = {file for file, digest in past.gone.items() if file in names or digest in contents}
    if not back:
        return past
    known, losses = _mass_delete(past), past.losses
    renamed = back - names
    if known is not None and renamed.intersection(known.lost):
        lost = tuple(file for file in known.lost if file not in renamed)
        fewer = replace(known, lost=lost, count=known.count - (len(known.lost) - len(lost)))
        still = (fewer,) if _are_many(fewer.count, past.peak) else ()
        losses = tuple(one for loss in losses for one in (still if loss is known else (loss,)))
    return replace(
        past,
        losses=losses,
        deletions=tuple(gone for gone in past.deletions if gone[1] not in back),
        gone={file: digest for file, digest in past.gone.items() if file not in back},
    )


def _without_old(past: Past, now_ms: int) -> Past:
    """Let go of what no rule can need any more."""
    if past.deletions and now_ms - past.deletions[-1][0] > DELETIONS_MS:
        past = replace(past, deletions=(), gone={}, peak=0)
    if past.states and any(now_ms - seen[-1][0] > CONTENTION_MS for seen in past.states.values()):
        past = replace(past, states=_young_states(past.states, now_ms))
    return past


# -- entries that vanished -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Write:
    """A batch in which the index changed."""

    before: Snapshot
    after: Snapshot
    at_ms: int
    bytes_of: Callable[[str], bytes | None]
    former_indexes: Callable[[], Sequence[str]]
    still_there: Callable[[str], bool]


def _with_entries(past: Past, write: _Write, *, ours: bool) -> Past:
    was, now = write.before.index, write.after.index
    if past.away_ms is not None and not _is_away(now):
        past = _at_return(past, write)
    elif past.away_ms is None and _is_away(now) and not _is_away(was):
        past = replace(past, away_ms=write.at_ms)
    if ours or was is None or was.encoding is None:
        return past
    lost = _lost_entries(write, was)
    if not lost:
        return past
    if now is None or now.encoding is None:
        # Nobody knows what will be in the index when it comes back; until then nothing is told of entries.
        return _with_losses(past, [_entry_loss(was, entry, write.at_ms) for entry, _ in lost])
    if len({entry.line for entry, _ in lost}) > 1:
        return _with_losses(past, [_entry_loss(was, entry, write.at_ms) for entry, _ in lost])
    if _is_from_old_copy(write, was.content_hash, now):
        return _with_losses(past, [_entry_loss(was, entry, write.at_ms, single=True) for entry, _ in lost])
    return _with_removals(past, write.at_ms, [place for _, place in lost])


def _is_away(index: Index | None) -> bool:
    return index is None or index.encoding is None or not index.stat.size


def _lost_entries(write: _Write, was: Index) -> list[tuple[Entry, str]]:
    """Give the entries that vanished though their facts are there and nothing else reaches them, with the facts."""
    now = write.after.index
    written = {entry.target for entry in now.entries} if now is not None else frozenset()
    vanished: dict[str, Entry] = {}
    for entry in was.entries:
        if not entry.hidden and entry.target not in written:
            vanished.setdefault(entry.target, entry)
    if not vanished:
        return []
    scene = set_scene(write.after, _CAPS, write.at_ms)
    reached = indexed(write.after) if scene.index_read else frozenset()
    lost: dict[str, Entry] = {}
    for target, entry in vanished.items():
        place = fact_of(target, scene)
        if place is not None and place not in reached:
            lost.setdefault(place, entry)
    if not lost:
        return []
    facts = write.after.facts
    # A fact that was copied to its new name, and not yet taken from its old one, is reached by the new one.
    told = {facts[file].content_hash for file in reached if file in facts} - {None}
    return [
        (entry, place)
        for place, entry in lost.items()
        if facts[place].content_hash not in told and write.still_there(place)
    ]


def _entry_loss(was: Index, entry: Entry, at_ms: int, *, single: bool = False) -> Loss:
    return Loss(
        "entry-lost",
        at_ms,
        was.file,
        entry.target,
        title=entry.title,
        hook=entry.hook,
        line=entry.line,
        single=single,
        held_in=was.content_hash,
    )


def _at_return(past: Past, write: _Write) -> Past:
    """Judge what the index lacks that was away: as if one write had led from what it was to what it is."""
    scene = set_scene(write.after, _CAPS, write.at_ms)
    away = [loss for loss in past.losses if loss.code == "entry-lost" and loss.at_ms == past.away_ms]
    past = replace(past, away_ms=None)
    missing = open_losses(away, scene)
    now = write.after.index
    if not missing or now is None or len({loss.line for loss in missing}) > 1:
        return past
    others = tuple(loss for loss in past.losses if loss not in missing)
    past = replace(past, losses=others)
    if _is_from_old_copy(write, missing[0].held_in, now):
        return _with_losses(past, [replace(loss, single=True) for loss in missing])
    places = [fact_of(loss.target or "", scene) for loss in missing]
    return _with_removals(past, write.at_ms, [place for place in places if place is not None])


def _with_removals(past: Past, at_ms: int, places: Sequence[str]) -> Past:
    kept = [gone for gone in past.removals if gone[1] not in places]
    removals = (*kept, *((at_ms, place) for place in places))
    return replace(past, removals=removals[-MAX_REMOVALS:])


def _is_from_old_copy(write: _Write, held_in: str | None, now: Index) -> bool:
    """Tell whether an index is an earlier version of it plus entries that its writer added.

    Those are entry lines that the version before this write did not have either: what it had was known to the writer.
    """
    new, before = (_lines_of(write.bytes_of, digest) for digest in (now.content_hash, held_in))
    if new is None or before is None:
        return False
    previous = {text for _, text in before}
    entry_lines = {entry.line for entry in now.entries}
    for digest in write.former_indexes()[:MAX_FORMER]:
        earlier = _lines_of(write.bytes_of, digest)
        if earlier is None or digest == held_in:
            continue
        known = {text for _, text in earlier}
        without_own = [
            text for number, text in new if text in known or number not in entry_lines or text in previous
        ]
        if without_own == [text for _, text in earlier]:
            return True
    return False


def _lines_of(bytes_of: Callable[[str], bytes | None], digest: str | None) -> list[tuple[int, str]] | None:
    """Give the lines of kept bytes that are not blank, with their 1-based numbers; None: they are not kept."""
    content = bytes_of(digest) if digest is not None else None
    decoded = decode(content) if content is not None else None
    if decoded is None:
        return None
    text = decoded.text.removeprefix(MARK).replace("\r\n", "\n").replace("\r", "\n")
    return [
        (number, stripped) for number, line in enumerate(text.split("\n"), 1) if (stripped := line.rstrip())
    ]


# -- rows ----------------------------------------------------------------------------------------------------

_LOSS_FIELDS = {one.name: one.default for one in fields(Loss)}
_LOSS_CODES: frozenset[str] = frozenset(get_args(LossCode))
_encode = json.JSONEncoder(separators=(",", ":")).encode


def past_row(past: Past) -> str:
    """Give what outlives a restart as compact ASCII JSON.

    That is all but the states of files that have not come back to an earlier one (nearly every save makes such), and
    of a very large deletion all but the last files.
    """
    deletions = past.deletions[-MAX_KEPT_DELETIONS:]
    row: dict[str, object] = {
        "losses": [_loss_row(loss) for loss in past.losses],
        "deletions": [[when, file, past.gone.get(file, "")] for when, file in deletions],
        "peak": past.peak,
        "states": _lasting_states(past),
        "removals": past.removals,
    }
    row = {name: value for name, value in row.items() if value}
    if past.away_ms is not None:
        row["awayMs"] = past.away_ms
    return _encode(row)


def past_from(text: str) -> Past:
    """Give the past of a row. One that is none of ours remembers nothing."""
    try:
        row = json.loads(text)
        deletions = [
            (_int(when), _str(file), _str(digest)) for when, file, digest in row.get("deletions", ())
        ]
        away_ms = row.get("awayMs")
        return Past(
            losses=tuple(_loss_from(loss) for loss in row.get("losses", ()) if loss["code"] in _LOSS_CODES),
            deletions=tuple((when, file) for when, file, _ in deletions),
            states={
                file: tuple((_int(when), _str(digest)) for when, digest in seen)
                for file, seen in row.get("states", {}).items()
            },
            peak=_int(row.get("peak", 0)),
            gone={file: digest for _, file, digest in deletions},
            removals=tuple((_int(when), _str(file)) for when, file in row.get("removals", ())),
            away_ms=None if away_ms is None else _int(away_ms),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Past()


def same_row(one: Past, other: Past) -> bool:
    """Tell whether two pasts have the same row, cheaply: most saves change nothing in it."""
    if one is other:
        return True
    return (
        (one.losses is other.losses or one.losses == other.losses)
        and (one.deletions is other.deletions or one.deletions == other.deletions)
        and one.removals == other.removals
        and (one.peak, one.away_ms) == (other.peak, other.away_ms)
        and _last_the_same(one.states, other.states)
    )


def _lasting_states(past: Past) -> dict[str, _Seen]:
    """Give the states of files that have come back to an earlier one: what may become a fight after a restart."""
    return {file: seen for file, seen in past.states.items() if _lasts(seen)}


def _lasts(seen: _Seen) -> bool:
    return len(seen) > 2 and len({state for _, state in seen}) < len(seen)


def _last_the_same(one: Mapping[str, _Seen], other: Mapping[str, _Seen]) -> bool:
    for file, seen in one.items():
        then = other.get(file, ())
        if then is not seen and then != seen and (_lasts(seen) or _lasts(then)):
            return False
    return not any(_lasts(other[file]) for file in other.keys() - one.keys())


def _loss_row(loss: Loss) -> dict[str, object]:
    """Give a loss without the fields that say nothing."""
    values = {name: getattr(loss, name) for name in _LOSS_FIELDS}
    return {name: value for name, value in values.items() if value != _LOSS_FIELDS[name]}


def _loss_from(row: dict[str, Any]) -> Loss:
    values = {name: row[name] for name in _LOSS_FIELDS if name in row}
    for name, value in values.items():
        expected = _LOSS_TYPES.get(name, str)
        if type(value) is not expected:
            message = f"{name} is no {expected.__name__}"
            raise TypeError(message)
    if "lost" in values:
        values["lost"] = tuple(_str(file) for file in values["lost"])
    if "by" in values:
        host, session = values["by"]
        values["by"] = (_str(host), _str(session))
    return Loss(**values)


_LOSS_TYPES = {"at_ms": int, "line": int, "single": bool, "size": int, "lost": list, "count": int, "by": list}


def _int(value: object) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
