"""A memory directory of records only, and the journal that tells of it in the daemon's own words."""

import json

from zcsyncd.daemon.words import changed_data, index_data
from zcsyncd.layouts.layout import Caps
from zcsyncd.memory.changes import changes
from zcsyncd.memory.fact import Fact, FileStat
from zcsyncd.memory.index import Entry, Index
from zcsyncd.memory.snapshot import Snapshot
from zcsyncd.sessions.merge import Event
from zcsyncd.sessions.news import news
from zcsyncd.sessions.session import Read, Session
from zcsyncd.sessions.steps import compacted, confirmed

ME = ("pi", "me")
OTHER = ("zcode", "other")
DIR = "/m"
GRACE_MS = 60_000
START_MS = 1_000_000


def fact(file, content, description="what it says"):
    """Make a fact; `content` is a word for its bytes, and behind a `~` one for its meaning, if that is another."""
    bytes_, _, meaning = content.partition("~")
    stat = FileStat(1_000_000_000, 1_000_000_000, 10, 0)
    return Fact(
        file=file,
        stat=stat,
        read_at_ns=0,
        content_hash=bytes_,
        encoding="utf-8",
        name=file.removesuffix(".md"),
        description=description,
        type="user",
        malformed=False,
        meaning_hash=meaning or bytes_,
        links=(),
        references=(),
        symlink=False,
        listed=True,
        remarks=(),
    )


def index(entries, text="", *, encoding="utf-8", truncated=False):
    """Make an index of (target, title, hook) triples; `text` stands for all that is no entry."""
    lines = tuple(Entry(*entry, line) for line, entry in enumerate(entries, 1))
    word = json.dumps([entries, text])
    return Index(
        file="MEMORY.md",
        stat=FileStat(1_000_000_000, 1_000_000_000, len(word), 0),
        read_at_ns=0,
        content_hash=f"index of {word}" if encoding else None,
        encoding=encoding,
        text_hash=f"text of {word}" if encoding else None,
        lines=len(lines),
        units=5,
        truncated=truncated,
        entries=lines if encoding else (),
        beyond=(),
        swallowed=(),
        remarks=(),
    )


def entry(file):
    """Give the usual entry of a fact."""
    return file, f"Title of {file}", f"hook of {file}"


class SharedMemory:
    """One directory over time. Each write is one settled batch: one `memory/changed`, then one `memory/index`."""

    def __init__(self, directory=DIR):
        self.snapshot = Snapshot(directory, "zcode", index([]))
        self.events = []
        self.now_ms = START_MS

    @property
    def head(self):
        return self.events[-1].sequence if self.events else 0

    def write(self, facts=None, entries=None, *, by=None, text="", descriptions=None, index_file=...):
        """Write facts (None: delete; a pair: the name it is renamed from, and content), and the whole index."""
        before = self.snapshot
        after = dict(before.facts)
        for file, content in (facts or {}).items():
            if content is None:
                del after[file]
            else:
                after[file] = fact(file, content, (descriptions or {}).get(file, "what it says"))
        if index_file is not ...:
            new_index = index_file
        elif entries is None:
            new_index = before.index
        else:
            new_index = index(list(entries), text)
        self.snapshot = Snapshot(before.directory, "zcode", new_index, after)
        self._tell(before, self.snapshot, by)
        return self

    def delete_directory(self):
        """Remove everything."""
        self._tell(self.snapshot, None, None)
        self.snapshot = None

    def wait(self, ms):
        self.now_ms += ms
        return self

    def _tell(self, before, after, by):
        told = changes(before, after)
        for data in changed_data(told, by):
            self._event("memory/changed", data)
        if any(change.file == "MEMORY.md" for change in told):
            caps = Caps(200, 25_000)
            self._event(
                "memory/index",
                index_data(before.index if before else None, after.index if after else None, caps),
            )

    def _event(self, topic, data):
        self.events.append(Event(self.head + 1, self.now_ms, topic, DIR, json.loads(data)))

    def session(self, **members):
        """Give a session that has been told everything so far, and was given the present index."""
        given = {DIR: self.snapshot.index.text_hash if self.snapshot.index else None}
        made = {"index_reads": given, **members}
        return Session(ME, "/cwd", self.now_ms, self.now_ms, "j", self.head, self.head, **made)

    def read(self, file, content=None, *, at_ms=None, **members):
        """Give a full read of a file: of what it holds, or of `content`."""
        known = fact(file, content) if content else self.snapshot.facts[file]
        return Read(
            DIR,
            file,
            "full",
            known.content_hash,
            1,
            10,
            self.now_ms if at_ms is None else at_ms,
            meaning_hash=known.meaning_hash,
            **members,
        )

    def news(self, session, *, alarms=(), grace_ms=GRACE_MS, **others):
        return news(
            session,
            self.events,
            snapshots={DIR: self.snapshot} if self.snapshot else {},
            main=DIR,
            alarms=alarms,
            head=self.head,
            now_ms=self.now_ms,
            grace_ms=grace_ms,
            **others,
        )


def told(session, answer):
    """Confirm an answer."""
    return confirmed(session, answer.told)


def after_compaction(session):
    return compacted(session)


def short(answer):
    """Give kind, file and former name of each change but the index's."""
    return [
        (row["kind"], row["file"], row.get("from")) for row in answer.changes if row["file"] != "MEMORY.md"
    ]
