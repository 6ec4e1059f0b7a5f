"""Inner records to rows of the database and back. Pure.

A row is compact JSON: the database is ours alone. Another version of the program may read a file differently, so it
distrusts the rows that it finds: every file is read again, and the bytes' hashes tell what really changed.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any, TypeVar

from zcsyncd.memory.audit.finding import Finding
from zcsyncd.memory.fact import Fact, FileStat, Remark
from zcsyncd.memory.index import Entry, Index

_File = TypeVar("_File", Fact, Index)
_UNKNOWN_STAT = FileStat(-1, -1, -1, -1)
_FACT_FIELDS = tuple(field.name for field in fields(Fact))
_INDEX_FIELDS = tuple(field.name for field in fields(Index))
_FINDING_FIELDS = tuple(field.name for field in fields(Finding))
_encode = json.JSONEncoder(separators=(",", ":")).encode


def _stat_row(stat: FileStat) -> list[int]:
    return [stat.mtime_ns, stat.ctime_ns, stat.size, stat.inode]


def _remark_rows(remarks: tuple[Remark, ...]) -> list[list[object]]:
    return [[r.code, r.message, r.line, r.hint, r.target] for r in remarks]


def fact_row(fact: Fact) -> str:
    """Give a fact as JSON text."""
    values: list[object] = [getattr(fact, name) for name in _FACT_FIELDS]
    values[1] = _stat_row(fact.stat)
    values[_FACT_FIELDS.index("remarks")] = _remark_rows(fact.remarks)
    return _encode(values)


def fact_from(row: str) -> Fact:
    """Give the fact of a row. One of schema 1 has no body hash: the file is read again (daemon.database)."""
    told: list[Any] = json.loads(row)
    if len(told) == len(_FACT_FIELDS) - 1:
        told.append(None)
    values: dict[str, Any] = dict(zip(_FACT_FIELDS, told, strict=True))
    values["stat"] = FileStat(*values["stat"])
    values["links"] = tuple(values["links"])
    values["references"] = tuple(values["references"])
    values["remarks"] = tuple(Remark(*remark) for remark in values["remarks"])
    return Fact(**values)


def index_row(index: Index) -> str:
    """Give an index as JSON text."""
    values: list[object] = [getattr(index, name) for name in _INDEX_FIELDS]
    values[1] = _stat_row(index.stat)
    values[_INDEX_FIELDS.index("entries")] = [
        [e.target, e.title, e.hook, e.line, e.hidden] for e in index.entries
    ]
    values[_INDEX_FIELDS.index("remarks")] = _remark_rows(index.remarks)
    return _encode(values)


def index_from(row: str) -> Index:
    """Give the index of a row."""
    values: dict[str, Any] = dict(zip(_INDEX_FIELDS, json.loads(row), strict=True))
    values["stat"] = FileStat(*values["stat"])
    values["entries"] = tuple(Entry(*entry) for entry in values["entries"])
    values["remarks"] = tuple(Remark(*remark) for remark in values["remarks"])
    values["beyond"] = tuple(values["beyond"])
    values["swallowed"] = tuple(values["swallowed"])
    return Index(**values)


def finding_row(finding: Finding) -> str:
    """Give a finding as JSON text."""
    return _encode([getattr(finding, name) for name in _FINDING_FIELDS])


def finding_from(row: str) -> Finding:
    """Give the finding of a row."""
    values: dict[str, Any] = dict(zip(_FINDING_FIELDS, json.loads(row), strict=False))
    if values.get("by") is not None:
        values["by"] = tuple(values["by"])
    return Finding(**values)


def distrusted(known: _File) -> _File:
    """Give what is known of a file with a stat that no file has, so that the next look reads it."""
    return replace(known, stat=_UNKNOWN_STAT)
