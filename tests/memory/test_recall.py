"""The manifest that ZCode's recall makes of a directory, and how much of a body it shows."""

import base64
import json
import os
import stat as stat_bits
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcsyncd.memory import recall
from zcsyncd.memory.fact import FileStat, parse_fact, unreadable_fact

CASES = json.loads((Path(__file__).parents[1] / "vectors" / "manifest.json").read_text("utf-8"))["cases"]
# Cases whose entries or order are not ZCode's, each with the reason. There are none.
EXCEPTIONS: dict[str, str] = {}


# --- a directory on disk -----------------------------------------------------------------------------------------


def build(case, top):
    """Lay out a case's tree below `top` and give the memory directory."""
    root = top / "root"
    root.mkdir()
    (top / "outside").mkdir()
    for place, files in ((root, case["files"]), (top / "outside", case.get("outsideFiles", {}))):
        for name, told in files.items():
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            content = base64.b64decode(told["b64"]) if "b64" in told else told["text"].encode()
            path.write_bytes(content)
            os.utime(path, ns=(told["mtimeNs"], told["mtimeNs"]))
            if "mode" in told:
                path.chmod(int(told["mode"], 8))
    for name in case.get("dirs", ()):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, target in case.get("symlinks", {}).items():
        (root / name).symlink_to(target)
    for name, mode in case.get("dirModes", {}).items():
        (root / name).chmod(int(mode, 8))
    return root


def facts_of(root):
    """Walk a memory directory as recall does: its facts, and whether a directory could not be listed."""
    facts, blind = [], False
    places = [""]
    while places:
        place = places.pop()
        try:
            entries = list(os.scandir(os.path.join(root, place)))
        except PermissionError:
            blind = True
            continue
        for entry in entries:
            file = f"{place}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                places.append(f"{file}/")
            elif recall.is_candidate(file):
                fact = fact_of(entry.path, file)
                facts += [fact] if fact else []
    return facts, blind


def fact_of(path, file):
    """Read one file; None for what is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    if not stat_bits.S_ISREG(status.st_mode):
        return None
    stat = FileStat(status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
    try:
        content = Path(path).read_bytes()
    except PermissionError as error:
        return unreadable_fact(file, stat, error.strerror, read_at_ns=0)
    return parse_fact(file, content, stat, read_at_ns=0, symlink=os.path.islink(path))


def told(root):
    """Give a directory's manifest in the vectors' shape, and its text."""
    facts, blind = facts_of(root)
    entries = recall.manifest(facts, unreadable_directory=blind)
    assert {entry.filename for entry in entries} == recall.recalled(facts, unreadable_directory=blind)
    return [as_told(entry) for entry in entries], recall.render(entries)


def as_told(entry):
    """Put an entry into the shape of the vectors."""
    shaped = {"filename": entry.filename, "mtimeMs": entry.mtime_ms}
    shaped |= {"type": entry.type} if entry.type else {}
    return shaped | ({"description": entry.description} if entry.description else {})


# --- the manifest ------------------------------------------------------------------------------------------------


def test_the_vectors_are_all_here():
    """No case of the vectors got lost, and no exception stands for a case that is not there."""
    assert len(CASES) == 294
    assert len({case["kind"] for case in CASES}) == 147
    assert EXCEPTIONS.keys() <= {case["id"] for case in CASES}


@pytest.mark.skipif(sys.platform == "win32", reason="the names and modes of these trees cannot be made there")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_manifest_is_zcodes(case, tmp_path, as_ordinary_user):
    """A real directory gives ZCode's entries, in its order, and its text to the byte."""
    root = build(case, tmp_path)

    def check():
        entries, rendered = told(root)
        assert (entries == case["entries"]) is (case["id"] not in EXCEPTIONS)
        assert (rendered == case["rendered"]) is (case["id"] not in EXCEPTIONS)

    try:
        if case.get("needsNonRoot"):
            as_ordinary_user(check, root)
        else:
            check()
    finally:
        for name in case.get("dirModes", {}):
            (root / name).chmod(0o755)


def fact(file="a.md", mtime_ns=0, content=b"x"):
    """Make a fact of that name and time."""
    return parse_fact(file, content, FileStat(mtime_ns, 0, len(content), 1), read_at_ns=0)


def test_the_newest_200_are_recalled():
    """The 201st by mtime is not recalled; what recall cannot decode takes nobody's place."""
    facts = [fact(f"{number}.md", number * 10**9) for number in range(201)]
    assert recall.recalled(facts) == {f"{number}.md" for number in range(1, 201)}
    facts[200] = fact("200.md", 200 * 10**9, b"\x00")
    assert recall.recalled(facts) == {f"{number}.md" for number in range(200)}


def test_one_unreadable_directory_empties_the_manifest():
    """ZCode lists nothing at all then."""
    assert recall.manifest([fact()], unreadable_directory=True) == []
    assert recall.recalled([fact()], unreadable_directory=True) == frozenset()


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("a.md", True),
        (".md", True),
        (".git/a.md", True),
        ("MEMORY.md/a.md", True),
        ("memory.md", True),
        ("MEMORY.md.md", True),
        ("MEMORY.md", False),
        ("sub/MEMORY.md", False),
        ("a.MD", False),
        ("a.md.bak", False),
        ("md", False),
    ],
)
def test_candidates(file, expected):
    """Names count exactly as written."""
    assert recall.is_candidate(file) is expected


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (
            ["_x", "-y", "1", "10", "9", "a", "A", "ab", "Ab", "b", "B"],
            "signs, digits, letters; small before large",
        ),
        (["cote", "coté", "côte", "côté", "d"], "accents count after letters"),
        (["a b", "a_b", "a-b", "a.b", "a@b", "a+b", "a0b", "aab"], "signs have an order of their own"),
        (
            ["a/a/b", "a/z", "a", "b/a", "b", "c"],
            "a directory stands before its namesake, its content with it",
        ),
        (["z", "α", "ж", "한", "中"], "scripts follow each other"),
    ],
)
def test_equal_times_are_listed_as_icu_sorts(names, why):
    """Facts of one mtime stand in the order of a sorted listing."""
    facts = [fact(f"{name}.md") for name in sorted(names)]
    shown = [entry.filename.removesuffix(".md") for entry in recall.manifest(facts)]
    assert shown == names, why


@pytest.mark.parametrize(
    ("mtime_ms", "expected"),
    [
        (0.0, "1970-01-01T00:00:00.000Z"),
        (-0.5, "1970-01-01T00:00:00.000Z"),
        (-1500.5, "1969-12-31T23:59:58.500Z"),
        (1764500000000.9998, "2025-11-30T10:53:20.000Z"),
        (951782400000.0, "2000-02-29T00:00:00.000Z"),
        (253402300799999.0, "9999-12-31T23:59:59.999Z"),
        (253402300800000.0, "+010000-01-01T00:00:00.000Z"),
        (-62167219200001.0, "-000001-12-31T23:59:59.999Z"),
        (8.64e15, "+275760-09-13T00:00:00.000Z"),
    ],
)
def test_times_are_written_as_in_javascript(mtime_ms, expected):
    """UTC with milliseconds, truncated, whatever the year."""
    entry = recall.ManifestEntry("a.md", None, None, mtime_ms)
    assert recall.render([entry]) == f"- a.md ({expected})"


# --- the body ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "kept", "truncated"),
    [
        ("", "", None),
        ("a\n" * 200, "a\n" * 200, None),
        ("a\n" * 199 + "a", "a\n" * 199 + "a", None),
        ("a\n" * 200 + "b", "a\n" * 200, "lines"),
        ("\n" * 201, "\n" * 200, "lines"),
        ("a" * 4096, "a" * 4096, None),
        ("a" * 4097, "a" * 4096, "bytes"),
        ("中" * 1365 + "a", "中" * 1365 + "a", None),
        ("中" * 1366, "中" * 1365, "bytes"),
        ("a" * 4094 + "🚀", "a" * 4094, "bytes"),
        (("a" * 30 + "\n") * 201, ("a" * 30 + "\n") * 132 + "aaaa", "both"),
        ("a\n" * 200 + "b" * 4096, "a\n" * 200, "lines"),
    ],
)
def test_cut(body, kept, truncated):
    """200 lines, then 4,096 bytes at a whole character; the cap that cut is named."""
    assert recall.cut(body) == (kept, truncated)


@pytest.mark.parametrize(
    ("body", "lines"), [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2), ("\n\na", 3)]
)
def test_line_count(body, lines):
    """A last line break begins no line."""
    assert recall.line_count(body) == lines


@given(st.text(st.sampled_from("a中🚀\n"), max_size=3000))
def test_what_is_kept_is_a_beginning(body):
    """The part that is shown begins the body, fits both caps, and is all of it when no cap is named."""
    kept, truncated = recall.cut(body)
    assert body.startswith(kept)
    assert recall.line_count(kept) <= recall.BODY_LINES
    assert len(kept.encode()) <= recall.BODY_BYTES
    assert (kept == body) is (truncated is None)
