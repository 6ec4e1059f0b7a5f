"""The words of all facts, for `memory.search`: rows of an FTS5 table, kept in step with the snapshots.

Rule 1: a row says under which content hash it was made, so that after a start only what differs is read again.
Rule 2: what is found is told from the file as it is now: the table holds words cut for searching, not text to show.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from zcsyncd.daemon.database import Database, Transaction, from_stored, stored
from zcsyncd.errors import Refused
from zcsyncd.memory.fact import read_view
from zcsyncd.memory.terms import WEIGHTS, indexed, match

_ROW = "select id from searched where dir = ? and file = ?"
_TAKE_IN = (
    "insert into searched (dir, file, hash) values (?, ?, ?) on conflict (dir, file) do update set hash = ?3"
)
_RANK = f"bm25({', '.join(map(str, WEIGHTS))})"


@dataclass(frozen=True, slots=True)
class Found:
    """A fact that a query found."""

    directory: str
    file: str
    score: float
    """The better the higher."""


class Finder:
    """Adds to transactions what can be searched, and searches it."""

    def __init__(self, database: Database, *, enabled: bool) -> None:
        self.enabled = enabled and database.can_search
        self._database = database
        self._wanted = enabled

    def put(self, work: Transaction, directory: str, file: str, digest: str, content: bytes) -> None:
        """Take in a fact's words; `digest` is the hash of `content`."""
        if not self.enabled:
            return
        view = read_view(content, full=True)
        place = (stored(directory), stored(file))
        add = work.statements.append
        add((f"delete from search where rowid = ({_ROW})", place))
        add(
            (
                _TAKE_IN,
                (*place, digest),
            )
        )
        # A fact is known by its file's name as well.
        name = f"{view.name or ''}\n{file.removesuffix('.md')}"
        words = [indexed(text or "") for text in (name, view.description, view.body)]
        add(
            (
                f"insert into search (rowid, name, description, body) select ({_ROW}), ?, ?, ?",
                (*place, *words),
            )
        )

    def drop(self, work: Transaction, directory: str, file: str | None = None) -> None:
        """Forget the words of a file, or of all files of a directory."""
        if not self.enabled:
            return
        where, place = "dir = ? and file = ?", (stored(directory), stored(file or ""))
        values = place if file is not None else place[:1]
        where = where if file is not None else "dir = ?"
        work.statements.append(
            (f"delete from search where rowid in (select id from searched where {where})", values)
        )
        work.statements.append((f"delete from searched where {where}", values))

    def known(self, directory: str) -> dict[str, str]:
        """Give the hashes under which a directory's files were taken in."""
        rows = self._database.query("select file, hash from searched where dir = ?", (stored(directory),))
        return {from_stored(file): digest for file, digest in rows}

    def directories(self) -> set[str]:
        """Give all directories of which there are words."""
        return {from_stored(name) for (name,) in self._database.query("select distinct dir from searched")}

    def find(self, query: str, directories: Collection[str] | None, limit: int) -> list[Found]:
        """Find facts, the best first: those with all words, or else those with any. None: in all directories.

        Raises: Refused, when this SQLite cannot search, or searching is switched off.
        """
        if not self.enabled:
            if self._wanted:
                raise Refused(
                    "nothing can be searched: this Python's SQLite has no FTS5",
                    hint="use a Python whose SQLite has it; `zcsyncd memory list` lists the facts",
                )
            raise Refused(
                "nothing can be searched: searching is switched off",
                hint="set `search.enabled: true` in the configuration; `zcsyncd memory list` lists the facts",
            )
        for any_word in (False, True):
            expression = match(query, any_word=any_word)
            found = self._rows(expression, directories, limit) if expression is not None else []
            if found:
                return found
        return []

    def _rows(self, expression: str, directories: Collection[str] | None, limit: int) -> list[Found]:
        places = "" if directories is None else f" and s.dir in ({', '.join('?' * len(directories))})"
        rows = self._database.query(
            "select s.dir, s.file, search.rank from search join searched s on s.id = search.rowid"
            f" where search match ? and search.rank match ?{places} order by search.rank limit ?",
            (expression, _RANK, *map(stored, directories or ()), limit),
        )
        return [Found(from_stored(name), from_stored(file), -rank) for name, file, rank in rows]
