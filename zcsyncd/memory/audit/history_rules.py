"""The rules on what a directory was: losses that are remembered become findings until they are mended. Pure.

Rule 1: a loss is told only as far as the directory still shows it; what is mended is silent though it is remembered.
Rule 2: nothing is said of entries while the index is gone or cannot be read: that is a finding of its own.
Rule 3: no finding quotes a fact's body; names, keys, sizes and times are all that is told.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from zcsyncd.memory.audit.finding import Finding, key_of, listed, shown
from zcsyncd.memory.audit.index_rules import indexed
from zcsyncd.memory.audit.names import hidden_place
from zcsyncd.memory.audit.rules import found

if TYPE_CHECKING:  # past.py imports this package
    from collections.abc import Callable, Iterable

    from zcsyncd.memory.audit.scene import Scene
    from zcsyncd.memory.fact import Fact
    from zcsyncd.memory.past import Loss, Past

MASS_FILES = 5
"""Fewer facts that went at once are a person's tidying."""
SHOWN_FILES = 20
"""Names of missing facts in one message."""
_UNIX = datetime(1970, 1, 1, tzinfo=UTC)
_IF_MEANT = "if it was meant so, dismiss this finding"


# -- which losses are not over -------------------------------------------------------------------------------


def open_losses(losses: Iterable[Loss], scene: Scene) -> tuple[Loss, ...]:
    """Leave out the losses that the directory shows to be over.

    An entry's is over when the entry is back (inside a comment, too: that is told by itself), a hub file reaches the
    fact, or the fact is gone. While there is no index that can be read, nobody knows. A fact's is over when the keys
    or half of the bytes are back, or the fact is gone; a mass deletion when fewer than `MASS_FILES` of its files are
    missing; contention when the file is gone. What time ends is not asked here, see `past.end`.
    """
    every = tuple(losses)
    if not every:
        return every
    reached: frozenset[str] = frozenset()
    if scene.index_read and any(loss.code == "entry-lost" for loss in every):
        reached = indexed(scene.snapshot)
    still = tuple(loss for loss in every if _is_open(loss, scene, reached))
    return every if len(still) == len(every) else still


def _is_open(loss: Loss, scene: Scene, reached: frozenset[str]) -> bool:
    facts = scene.snapshot.facts
    if loss.code == "entry-lost":
        return _entry_is_missing(loss.target or "", scene, reached)
    if loss.code == "mass-delete":
        return len(_missing_files(loss, scene)) >= MASS_FILES
    file = loss.file or ""
    if loss.code == "contention":
        index = scene.snapshot.index
        return file in facts or (index is not None and index.file == file)
    return file in facts and lacks(facts[file], loss)


def lacks(fact: Fact, loss: Loss) -> bool:
    """Tell whether a fact still lacks what a fact-* loss took from it."""
    if fact.content_hash is not None and fact.content_hash == loss.held_in:
        return False
    if loss.code == "fact-blanked":
        return bool(_missing_keys(loss, fact))
    return fact.stat.size * 2 < loss.size


def _entry_is_missing(target: str, scene: Scene, reached: frozenset[str]) -> bool:
    place = fact_of(target, scene)
    if place is None:
        return False
    return not scene.index_read or (place not in reached and target not in scene.hidden)


def fact_of(target: str, scene: Scene) -> str | None:
    """Give the fact that an entry's target reaches. None: there is none, or it was put away in a dot-directory."""
    place = scene.place(target)
    if place is None or place not in scene.snapshot.facts or hidden_place(place) is not None:
        return None
    return place


def _missing_files(loss: Loss, scene: Scene) -> list[str]:
    return [file for file in loss.lost if file not in scene.snapshot.facts]


def _missing_keys(loss: Loss, fact: Fact) -> tuple[str, ...]:
    gone = blank_keys(fact)
    return tuple(key for key in loss.lost if key in gone)


def blank_keys(fact: Fact) -> frozenset[str]:
    """Give which of name, description and type a fact does not have. A type that ZCode does not know is one."""
    gone = {key for key in ("name", "description") if not (getattr(fact, key) or "").strip()}
    if fact.type is None and all(remark.code != "type-unknown" for remark in fact.remarks):
        gone.add("type")
    return frozenset(gone)


# -- findings ------------------------------------------------------------------------------------------------


def history_findings(past: Past, scene: Scene) -> tuple[Finding, ...]:
    """Tell each loss that is not over: what is lost, when, and what to do."""
    return tuple(
        _TELL[loss.code](loss, scene)
        if loss.by is None
        else replace(_TELL[loss.code](loss, scene), by=loss.by)
        for loss in open_losses(past.losses, scene)
        if loss.code != "entry-lost" or scene.index_read
    )


def with_history(findings: list[Finding], past: Past, scene: Scene, muted: frozenset[str]) -> list[Finding]:
    """Add to a directory's findings what its past says of it.

    An entry that was lost says all that `fact-unindexed` would say of its fact. Where an entry was taken out by an
    edit, that finding's hint tells when.
    """
    told = [finding for finding in history_findings(past, scene) if finding.code not in muted]
    lost = {fact_of(finding.target or "", scene) for finding in told if finding.code == "entry-lost"}
    removed = {file: at_ms for at_ms, file in past.removals}
    if lost or removed:
        findings = [_with_time(finding, removed) for finding in findings if not _is_absorbed(finding, lost)]
    return findings + told


def _is_absorbed(finding: Finding, lost: set[str | None]) -> bool:
    return finding.code == "fact-unindexed" and finding.file in lost


def _with_time(finding: Finding, removed: dict[str, int]) -> Finding:
    if finding.code != "fact-unindexed" or finding.file not in removed:
        return finding
    told = f"its entry was removed at {moment(removed[finding.file])}"
    return replace(finding, hint=f"{finding.hint}; {told}" if finding.hint else told)


def loss_key(directory: str, loss: Loss) -> str:
    """Give the key that a loss's finding has."""
    return key_of(loss.code, directory, loss.file, loss.target)


def moment(at_ms: int) -> str:
    """Give a time as people and programs read it: RFC 3339 in UTC, whole seconds."""
    try:
        at = _UNIX + timedelta(seconds=at_ms // 1000)
    except OverflowError:  # a clock that runs wild
        return "an unknown time"
    return f"{at:%Y-%m-%dT%H:%M:%S}Z"


def _entry_lost(loss: Loss, scene: Scene) -> Finding:
    if scene.index_writable:
        hint = f"`zcsyncd repair --apply` puts it back where it was; {_IF_MEANT}"
    else:
        hint = f"save the index as UTF-8, then `zcsyncd repair --apply` puts it back; {_IF_MEANT}"
    finding = found(
        scene.directory,
        "entry-lost",
        f"the entry for {shown(loss.target or '')} went at {moment(loss.at_ms)} as if the index had been written "
        "from an old copy: the fact is still there, and the model does not know of it",
        file=loss.file,
        target=loss.target,
        hint=hint,
        fixable=scene.index_writable,
    )
    return replace(finding, graced=True) if loss.single else finding


def _fact_blanked(loss: Loss, scene: Scene) -> Finding:
    keys = _missing_keys(loss, scene.snapshot.facts[loss.file or ""])
    named = " and ".join(f"`{key}`" for key in keys)
    return found(
        scene.directory,
        "fact-blanked",
        f"its front matter lost {named} at {moment(loss.at_ms)}, while its text stayed as it was",
        file=loss.file,
        hint=_restore(loss),
    )


def _fact_shrunk(loss: Loss, scene: Scene) -> Finding:
    size = scene.snapshot.facts[loss.file or ""].stat.size
    return found(
        scene.directory,
        "fact-shrunk",
        f"one write at {moment(loss.at_ms)} took more than half of it: it had {loss.size:,} bytes and has {size:,}",
        file=loss.file,
        hint=_restore(loss),
    )


def _restore(loss: Loss) -> str:
    if loss.held_as is None:
        back = "`zcsyncd history restore` brings back the version before (`zcsyncd history list` names it)"
    else:
        # It comes back where it was: the fact under the name of now is left as it is.
        back = (
            f"the version before is saved as {shown(loss.held_as)}, the name that it had then: `zcsyncd history list` "
            "names it there, and `zcsyncd history restore` brings that file back"
        )
    return f"{back}; {_IF_MEANT}"


def _mass_delete(loss: Loss, scene: Scene) -> Finding:
    missing = _missing_files(loss, scene)
    more = max(0, loss.count - len(loss.lost))
    return found(
        scene.directory,
        "mass-delete",
        f"{loss.count:,} facts were deleted in one go, the last of them at {moment(loss.at_ms)}; "
        f"{len(missing) + more:,} of them are still missing: {_files(missing, more)}",
        hint=f"`zcsyncd history restore` brings each back (`zcsyncd history list` names them); {_IF_MEANT}",
    )


def _files(missing: list[str], more: int) -> str:
    rest = len(missing) - SHOWN_FILES + more if len(missing) > SHOWN_FILES else more
    return listed(missing[:SHOWN_FILES]) + (f" and {rest:,} more" if rest else "")


def _contention(loss: Loss, scene: Scene) -> Finding:
    return found(
        scene.directory,
        "contention",
        f"two states of it alternate, the last time at {moment(loss.at_ms)}: two writers overwrite each other",
        file=loss.file,
        hint="find out which two programs write it, and have one of them read it anew; `zcsyncd history list` shows "
        "the states, and this ends ten minutes after the last change of hands",
    )


_TELL: dict[str, Callable[[Loss, Scene], Finding]] = {
    "entry-lost": _entry_lost,
    "fact-blanked": _fact_blanked,
    "fact-shrunk": _fact_shrunk,
    "mass-delete": _mass_delete,
    "contention": _contention,
}
