"""The table of rules: each code's severity, whether a repair mends it, whether it waits. Pure.

Rule 1: a code is a stable word; people's scripts and plugins match on it (docs/audit.md).
Rule 2: a code has one severity, but for `entry-hidden`: a warning where nothing else reaches the fact.
Rule 3: a new rule is a row here, a function in the tuple of judge.py, a row in docs/audit.md, and a test.
Rule 4: the history rules say what only a past can tell; their findings come from what past.py remembers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from zcsyncd.memory.audit.finding import Finding, Severity, key_of


@dataclass(frozen=True, slots=True)
class Rule:
    """What all findings of one code have in common."""

    code: str
    severity: Severity
    says: str
    """One line for people: what the code means."""
    fixable: bool = False
    """A repair exists; a single finding may still not be fixable (a symlink, a file that is not UTF-8)."""
    graced: bool = False
    """What it needs takes two writes: pending until the grace period is over."""


_INDEX_RULES = (
    Rule("index-missing", "warning", "there are facts, but no index", fixable=True, graced=True),
    Rule("index-unreadable", "error", "the index cannot be read or decoded"),
    Rule("index-encoding", "warning", "the index is not UTF-8"),
    Rule("index-swallowed", "error", "a leading `---` makes ZCode drop part of the index", fixable=True),
    Rule("index-over-lines", "error", "the index has more lines than ZCode injects"),
    Rule("index-over-units", "error", "the index is longer than ZCode injects"),
    Rule("index-near-cap", "warning", "the index is nearly as long as ZCode injects"),
    Rule("entry-dangling", "error", "an entry's target does not exist", fixable=True, graced=True),
    Rule("entry-outside", "warning", "an entry's target leaves the memory directory"),
    Rule("entry-duplicate", "warning", "two entries have one target", fixable=True),
    Rule("entry-case", "warning", "an entry's target is spelled in other case on disk", fixable=True),
    Rule("entry-inline", "info", "a paragraph or bullet of the index has no link"),
    Rule("entry-long", "info", "an entry's line is long"),
    Rule("entry-drift", "info", "an entry's hook and the fact's description share no word", fixable=True),
    Rule("entry-hidden", "info", "an entry stands inside a comment or a code fence"),
    Rule(
        "warning-on-disk", "warning", "ZCode's prompt-only warning was written into the index", fixable=True
    ),
    Rule("fact-unindexed", "warning", "no entry reaches a fact", fixable=True, graced=True),
)
_FACT_RULES = (
    Rule("fact-unreadable", "error", "a fact cannot be read or decoded"),
    Rule("fact-encoding", "warning", "a fact is not UTF-8"),
    Rule("front-matter-missing", "warning", "a fact does not begin with `---`"),
    Rule("front-matter-unclosed", "error", "no closing `---` within the lines that ZCode reads"),
    Rule("front-matter-invalid", "error", "the front matter is not valid YAML"),
    Rule("front-matter-alias", "error", "an unquoted `*` makes an undefined YAML alias", fixable=True),
    Rule("description-multiline", "warning", "a description or file name has a line break", fixable=True),
    Rule("description-missing", "warning", "a fact has no description"),
    Rule("description-cut", "warning", "an unquoted ` #` cuts the description", fixable=True),
    Rule("type-missing", "info", "a fact has no type"),
    Rule("type-unknown", "warning", "a fact's type is none of the four that ZCode knows"),
    Rule("type-flat", "info", "a fact's type stands at the top level", fixable=True),
    Rule("name-empty", "warning", "a fact's name is empty", fixable=True),
    Rule("name-duplicate", "warning", "two facts have one name"),
    Rule("body-over-recall", "info", "a fact's body is longer than recall shows"),
    Rule("fact-not-recalled", "warning", "more facts than recall looks at"),
    Rule("symlink", "info", "a fact or a directory is a symlink"),
    Rule("hidden-dir-recalled", "info", "recall lists facts of a dot-directory"),
    Rule("leftover-temp", "warning", "a writer died and left its temporary file"),
    Rule("conflict-copy", "warning", "a sync tool left a conflict copy"),
    Rule("name-unsafe", "warning", "a name that another system cannot hold"),
    Rule("link-dangling", "info", "a `[[link]]` that no fact answers to"),
)
_HISTORY_RULES = (
    # A single lost entry waits for its grace, by finding; `history restore` is no repair, so the others have none.
    Rule("entry-lost", "error", "an overwrite from an old copy took entries out of the index", fixable=True),
    Rule("fact-blanked", "error", "front matter keys vanished while the body stayed"),
    Rule("fact-shrunk", "warning", "one write took more than half of a fact"),
    Rule("mass-delete", "error", "many facts were deleted within one minute"),
    Rule("contention", "warning", "two writers overwrite each other"),
)
_DIRECTORY_RULES = (
    Rule("dir-unreadable", "error", "a subdirectory cannot be read: ZCode lists nothing at all"),
)

RULES: Mapping[str, Rule] = MappingProxyType(
    {rule.code: rule for rule in (*_INDEX_RULES, *_HISTORY_RULES, *_FACT_RULES, *_DIRECTORY_RULES)}
)
"""Every rule by its code."""
KEPT_FINDINGS = 2048
"""Findings that are remembered: what is said of a directory seldom changes, and a key is a hash to work out."""


def found(
    directory: str,
    code: str,
    message: str,
    *,
    file: str | None = None,
    target: str | None = None,
    line: int | None = None,
    hint: str | None = None,
    fixable: bool = True,
    key_target: str | None = None,
) -> Finding:
    """Make a finding of a rule.

    `fixable` False: this one cannot be mended though others of its code can. `key_target` stands in the key
    for `target`, where the two differ.
    """
    return _made(directory, code, message, file, target, line, hint, fixable, key_target)


@lru_cache(maxsize=KEPT_FINDINGS)
def _made(  # noqa: PLR0917 -- the cache finds positional arguments twice as fast
    directory: str,
    code: str,
    message: str,
    file: str | None,
    target: str | None,
    line: int | None,
    hint: str | None,
    fixable: bool,
    key_target: str | None,
) -> Finding:
    rule = RULES[code]
    return Finding(
        key=key_of(code, directory, file, target if key_target is None else key_target),
        code=code,
        severity=rule.severity,
        file=file,
        target=target,
        line=line,
        message=message,
        hint=hint,
        fixable=rule.fixable and fixable,
        graced=rule.graced,
    )
