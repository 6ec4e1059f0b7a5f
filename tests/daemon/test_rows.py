"""Records to rows and back: what a restart finds is what was there."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcsyncd.daemon.rows import (
    distrusted,
    fact_from,
    fact_row,
    finding_from,
    finding_row,
    index_from,
    index_row,
)
from zcsyncd.memory.audit.finding import Finding
from zcsyncd.memory.fact import Fact, FileStat, Remark
from zcsyncd.memory.index import Entry, Index

texts = st.text(max_size=12) | st.sampled_from(["caf\udce9", "\ud83d", "\x00", "\u2028", "名"])
maybe = st.none() | texts
numbers = st.integers(-1, 2**63 - 1)
stats = st.builds(FileStat, numbers, numbers, numbers, numbers)
remarks = st.lists(st.builds(Remark, texts, texts, st.none() | numbers, maybe, maybe), max_size=3).map(tuple)
names = st.lists(texts, max_size=3).map(tuple)
entries = st.lists(st.builds(Entry, texts, texts, texts, numbers, st.booleans()), max_size=3).map(tuple)
facts = st.builds(
    Fact, texts, stats, numbers, maybe, maybe, maybe, maybe, maybe, st.booleans(), maybe, names, names,
    st.booleans(), st.booleans(), remarks,
)  # fmt: skip
indexes = st.builds(
    Index,
    texts,
    stats,
    numbers,
    maybe,
    maybe,
    maybe,
    numbers,
    numbers,
    st.booleans(),
    entries,
    names,
    names,
    remarks,
)
findings = st.builds(
    Finding, texts, texts, st.sampled_from(["error", "warning", "info"]), maybe, maybe, st.none() | numbers, texts,
    maybe, st.booleans(), st.booleans(),
)  # fmt: skip


@given(facts)
def test_a_fact_comes_back_as_it_was(fact):
    """Every field, whatever a file is called and whatever was remarked about it."""
    assert fact_from(fact_row(fact)) == fact


@given(indexes)
def test_an_index_comes_back_as_it_was(index):
    """Every field, entries and remarks too."""
    assert index_from(index_row(index)) == index


@given(findings)
def test_a_finding_comes_back_as_it_was(finding):
    """Every field; what was told once is known by it."""
    assert finding_from(finding_row(finding)) == finding


FACT = Fact(
    file="sub/a.md",
    stat=FileStat(1, 2, 3, 4),
    read_at_ns=5,
    content_hash="c",
    encoding="utf-8",
    name="n",
    description=None,
    type="user",
    malformed=False,
    meaning_hash="m",
    links=("l",),
    references=("r.md",),
    symlink=False,
    listed=True,
    remarks=(Remark("code", "says", 3, "do", "target"),),
    body_hash="b",
)
INDEX = Index(
    file="MEMORY.md",
    stat=FileStat(1, 2, 3, 4),
    read_at_ns=5,
    content_hash="c",
    encoding="utf-8",
    text_hash="t",
    lines=1,
    units=2,
    truncated=True,
    entries=(Entry("a.md", "A", "hook", 1, hidden=True),),
    beyond=("b.md",),
    swallowed=("s.md",),
    remarks=(Remark("code", "says", 3, "do", "target"),),
)
FINDING = Finding(
    "k:1", "code", "error", "a.md", None, 7, "says", "do", fixable=True, graced=False, by=("pi", "s")
)

GOLDEN = {
    "fact": '["sub/a.md",[1,2,3,4],5,"c","utf-8","n",null,"user",false,"m",["l"],["r.md"],false,true,'
    '[["code","says",3,"do","target"]],"b"]',
    "index": '["MEMORY.md",[1,2,3,4],5,"c","utf-8","t",1,2,true,[["a.md","A","hook",1,true]],["b.md"],["s.md"],'
    '[["code","says",3,"do","target"]]]',
    "finding": '["k:1","code","error","a.md",null,7,"says","do",true,false,["pi","s"]]',
}


@pytest.mark.parametrize(
    ("kind", "record", "write", "read"),
    [
        ("fact", FACT, fact_row, fact_from),
        ("index", INDEX, index_row, index_from),
        ("finding", FINDING, finding_row, finding_from),
    ],
)
def test_rows_of_former_versions_are_read(kind, record, write, read):
    """A row as it lies in people's state files: who changes a record's fields changes what every state file means,
    and has to raise SCHEMA_VERSION (daemon.database) and write new rows here."""
    assert write(record) == GOLDEN[kind]
    assert read(GOLDEN[kind]) == record


def test_a_fact_of_schema_1_is_read():
    """It has no body hash: the database distrusts such rows, so that the next look works it out."""
    assert fact_from(GOLDEN["fact"].removesuffix(',"b"]') + "]") == replace(FACT, body_hash=None)


@pytest.mark.parametrize(
    ("record", "names"),
    [
        (FileStat, "mtime_ns ctime_ns size inode"),
        (Remark, "code message line hint target"),
        (Entry, "target title hook line hidden"),
        (
            Fact,
            "file stat read_at_ns content_hash encoding name description type malformed meaning_hash links"
            " references symlink listed remarks body_hash",
        ),
        (
            Index,
            "file stat read_at_ns content_hash encoding text_hash lines units truncated entries beyond swallowed"
            " remarks",
        ),
        (Finding, "key code severity file target line message hint fixable graced by"),
    ],
)
def test_fields_are_stored_in_their_order(record, names):
    """Rows are lists: another order, or a field between, would give every stored value another meaning."""
    assert [field.name for field in fields(record)] == names.split()


@pytest.mark.parametrize("row", ["[]", "x", '["a.md"]', GOLDEN["fact"][:-1] + ",1]", "{}", "null"])
def test_what_is_no_row_is_told(row):
    """A row of another shape raises what `daemon.database` takes for a broken file, and is never half-read."""
    for read in (fact_from, index_from):
        with pytest.raises((ValueError, TypeError, LookupError)):
            read(row)


def test_another_version_reads_every_file_again():
    """What is distrusted keeps its hashes, so that equal bytes are no news, under a stat that no file has."""
    for record in (FACT, INDEX):
        known = distrusted(record)
        assert known.stat == FileStat(-1, -1, -1, -1)
        assert known.content_hash == record.content_hash


def test_a_row_is_one_line_of_ascii():
    """Whatever a name holds, the row is text that SQLite and a person's tools take."""
    odd = Fact(
        **{**{field.name: getattr(FACT, field.name) for field in fields(Fact)}, "file": "\ud83d\n名.md"}
    )
    assert fact_row(odd).isascii()
    assert "\n" not in fact_row(odd)
    assert json.loads(fact_row(odd))[0] == odd.file
