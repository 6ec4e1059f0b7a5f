"""Whatever lies in a memory directory: a finding with file and line, never a traceback, nothing lost, nothing written."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.transcripts.machine import VECTORS, Machine, Project, Running, entry, fact_text, save
from zcsyncd.errors import Unreadable, ZcsyncdError


def _state(top: Path) -> dict[str, tuple[Any, ...]]:
    """All that can be seen of a tree without touching it: names, kinds, bytes, times, modes, links."""
    seen: dict[str, tuple[Any, ...]] = {}
    for place, names, files in os.walk(os.fsencode(top)):
        for name in (b".", *names, *files):
            path = os.path.join(place, name)
            status = os.lstat(path)
            content: Any = None
            if stat.S_ISREG(status.st_mode):
                # The reading's own trace (atime) is no change; O_NOATIME would need the owner.
                with contextlib.suppress(PermissionError), open(path, "rb") as file:
                    content = file.read()
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            seen[os.fsdecode(path)] = (
                status.st_mode,
                status.st_uid,
                status.st_ino,
                status.st_nlink,
                status.st_size,
                status.st_mtime_ns,
                status.st_ctime_ns,
                content,
            )
    return seen


def _ask_everything(running: Running, project: Project) -> None:
    """Put every question about a directory that there is; only errors of ours may come back."""
    client = running.client()
    listed = client.call("memory.list", dir=project.dir)["facts"]
    for number, fact in enumerate(listed):
        with contextlib.suppress(ZcsyncdError):
            client.call("memory.read", dir=project.dir, name=fact["file"], full=number % 2 == 0)
    for asked in ({"fresh": True, "severity": "info"}, {"severity": "error"}, {"limit": 0}):
        client.call("audit.get", dir=project.dir, **asked)
    with contextlib.suppress(ZcsyncdError):
        client.call("memory.index", dir=project.dir)
    client.call("dirs.list")
    client.call("dirs.resolve", cwd=str(project.cwd))
    client.call("status")
    client.call("daemon.flush", rescan=True)


def test_watching_and_auditing_touch_nothing(shared: Running, project: Project) -> None:
    """A whole session of reads, audits and rescans leaves bytes, times, modes and inodes of the tree as they were."""
    project.make({"a.md": fact_text("a"), "sub/b.md": "broken", "c.md": "---\nname: [\n---\n"})
    save(project.memory / "MEMORY.md", entry("a.md") + entry("a.md") + entry("gone.md"))
    (project.memory / ".MEMORY.md.lock").write_text("1\n")
    (project.memory / "x.md.tmp.1.0123456789ab").write_text("left over")
    os.symlink("a.md", project.memory / "link.md")
    shared.call("daemon.flush")
    before = _state(shared.machine.home)
    client = shared.client(id="untouched-1", cwd=str(project.cwd), reason="start")
    client.call("memory.read", name="a")
    _ask_everything(shared, project)
    for words in (("audit", project.dir, "--all"), ("memory", "list", "--dir", project.dir)):
        assert shared.machine.cli(*words).returncode in (0, 1)
    assert _state(shared.machine.home) == before


def test_all_oddities_of_the_vectors_at_once(machine: Machine) -> None:
    """Every file of every vector in one directory: the daemon stays up, answers everything, and leaves them alone."""
    project = machine.project().make({"healthy.md": fact_text("healthy")})
    daemon = machine.start()
    listener = daemon.listen(project)
    cases = json.loads((VECTORS / "manifest.json").read_text())["cases"]
    written = 0
    for number, case in enumerate(cases):
        top = project.memory / f"case{number}"
        for name, file in case["files"].items():
            path = top / name
            raw = (
                base64.b64decode(file["b64"])
                if "b64" in file
                else file["text"].encode("utf-8", "surrogatepass")
            )
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(raw)
                os.utime(path, ns=(file["mtimeNs"], file["mtimeNs"]))
            except (OSError, OverflowError):
                continue  # a name or a time that this file system cannot hold
            written += 1
        links = case.get("symlinks") or {}
        for name, target in links.items() if isinstance(links, dict) else links:
            with contextlib.suppress(OSError):
                os.symlink(target, top / name)
    assert written > 500
    listener.flush()
    before = _state(project.memory)
    _ask_everything(daemon, project)
    listener.flush()
    told = {change["file"] for change in listener.changes()}
    listed, total = [], 1
    while len(listed) < total:
        page = daemon.call("memory.list", dir=project.dir, offset=len(listed))
        listed += page["facts"]
        total = page["total"]
    assert {fact["file"] for fact in listed} == told | {"healthy.md"}
    assert _state(project.memory) == before
    project.fact("healthy.md", body="Still told.")
    listener.flush()
    assert listener.kinds("healthy.md") == ["updated"]
    shown = machine.cli("audit", project.dir, "--all")
    assert shown.returncode == 1, shown.stderr
    daemon.stop()
    daemon = machine.start()
    again = daemon.listen(project, since=listener.heard[-1]["cursor"])
    again.flush()
    assert again.changes() == []
    daemon.stop()


NAMES = [
    "记忆.md",
    "with spaces and 'quotes'.md",
    "line\nbreak.md",
    "tab\tand \x1b[31mred.md",
    "right\u202eleft.md",
    "emoji 🧠.md",
    "-rf.md",
    "..md",
    ".hidden.md",
    "a" * 252 + ".md",
    os.fsdecode(b"not-utf8-\xff\xfe.md"),
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_odd_names_come_through_whole(shared: Running, project: Project, name: str) -> None:
    """A file of any name is told, listed, read and found again under exactly that name."""
    project.make({"MEMORY.md": "# Memory\n"}, index=False)
    listener = shared.listen(project)
    listener.forget()
    (project.memory / name).write_text(fact_text("odd", body="Odd."))
    listener.flush()
    assert [(change["kind"], change["file"]) for change in listener.changes()] == [("added", name)]
    assert [fact["file"] for fact in shared.call("memory.list", dir=project.dir)["facts"]] == [name]
    answer = shared.call("memory.read", dir=project.dir, name=name)
    assert (answer["file"], answer["absolutePath"]) == (name, str(project.memory / name))
    assert "Odd." in answer["body"]
    shared.call("audit.get", dir=project.dir, severity="info")
    (project.memory / name).unlink()
    listener.flush()
    assert listener.kinds(name) == ["added", "deleted"]


def test_odd_names_are_harmless_on_a_terminal(shared: Running, project: Project) -> None:
    """The CLI shows control and bidirectional characters and broken encodings as escapes, one entry a line."""
    project.make({}, index=False)
    for name in NAMES:
        (project.memory / name).write_text(fact_text("odd\u202e"))
    shared.call("daemon.flush")
    for words in (("memory", "list", "--dir", project.dir), ("audit", project.dir, "--all"), ("dirs",)):
        done = shared.machine.cli(*words)
        assert done.returncode in (0, 1), done.stderr
        assert not {"\x1b", "\u202e", "\t"} & set(done.stdout)
        assert "Traceback" not in done.stderr
    plain = shared.machine.cli("memory", "list", "--dir", project.dir, LANG="C", LC_ALL="C", PYTHONUTF8="0")
    assert plain.returncode == 0, plain.stderr


def test_a_fact_of_binary_bytes(shared: Running, project: Project) -> None:
    """Bytes that are no text are told and kept, with a finding, and reading them gives an error or the bytes' text."""
    project.make({"one.md": fact_text("one")})
    listener = shared.listen(project)
    listener.forget()
    save(project.memory / "binary.md", bytes(range(256)) * 8)
    save(project.memory / "nul.md", b"---\nname: nul\n---\n\0\0\0")
    save(project.memory / "cut.md", fact_text("cut", body="记忆").encode()[:-2])
    listener.flush()
    assert sorted(listener.kinds()) == ["added"] * 3
    codes = {(one["file"], one["code"]) for one in shared.call("audit.get", dir=project.dir)["findings"]}
    assert ("nul.md", "fact-unreadable") in codes or ("nul.md", "fact-encoding") in codes
    assert {file for file, code in codes if code in ("fact-unreadable", "fact-encoding")} >= {
        "binary.md",
        "cut.md",
    }
    _ask_everything(shared, project)


def test_an_index_of_five_mebibytes(shared: Running, project: Project) -> None:
    """An index that no host would take is a finding and an error for the reader, and costs the daemon nothing."""
    project.make({"one.md": fact_text("one")})
    listener = shared.listen(project)
    listener.forget()
    save(
        project.memory / "MEMORY.md", entry("one.md") * (5 * 1024 * 1024 // len(entry("one.md").encode()) + 1)
    )
    listener.flush()
    assert listener.kinds("MEMORY.md") == ["updated"]
    assert listener.codes("appeared") == ["index-unreadable"]
    with pytest.raises(Unreadable):
        shared.call("memory.index", dir=project.dir)
    fact = shared.call("memory.list", dir=project.dir)["facts"][0]
    assert fact["file"] == "one.md"
    project.write_index("one.md")
    listener.flush()
    assert "index-unreadable" in listener.codes("cleared")


def test_an_index_of_many_entries_fits_the_wire(shared: Running, project: Project) -> None:
    """An index just below the bound, full of dangling entries, is told in events that fit a line."""
    project.make({"one.md": fact_text("one")})
    listener = shared.listen(project)
    listener.forget()
    text = "".join(entry(f"{'x' * 150}{number}.md", "T" * 150, "H" * 300) for number in range(2_000))
    save(project.memory / "MEMORY.md", text)
    listener.flush()
    assert "memory/index" in listener.topics
    assert "bus/gap" not in listener.topics
    listener.until(
        lambda _: "entry-dangling" in listener.codes("appeared"), "the dangling entries, after the grace"
    )
    listener.flush()
    assert "bus/gap" not in listener.topics
    total, seen = 1, 0
    while seen < total:
        page = shared.call("audit.get", dir=project.dir, offset=seen)
        total, seen = page["total"], seen + len(page["findings"])
    assert total >= 2_000


def test_what_is_no_file_but_is_called_so(shared: Running, project: Project) -> None:
    """A FIFO, a socket, a device and a directory called `x.md` stop nobody, are no facts, and are left alone."""
    project.make({"one.md": fact_text("one")})
    listener = shared.listen(project)
    listener.forget()
    os.mkfifo(project.memory / "fifo.md")
    (project.memory / "folder.md").mkdir()
    (project.memory / "folder.md" / "inner.md").write_text(fact_text("inner"))
    listening = socket.socket(socket.AF_UNIX)
    folder = os.open(project.memory, os.O_RDONLY)
    listening.bind(f"/proc/self/fd/{folder}/socket.md")  # the path itself is too long for a socket
    os.close(folder)
    os.symlink("/dev/zero", project.memory / "device.md")
    os.symlink("/dev/null", project.memory / "null.md")
    os.symlink("nowhere", project.memory / "broken.md")
    os.symlink("loop.md", project.memory / "loop.md")
    if os.geteuid() == 0:
        with contextlib.suppress(PermissionError):
            os.mknod(project.memory / "node.md", stat.S_IFCHR | 0o600, os.makedev(1, 5))
    listener.flush(rescan=True)
    listening.close()
    files = {fact["file"] for fact in shared.call("memory.list", dir=project.dir)["facts"]}
    assert files == {"one.md", "folder.md/inner.md"}
    assert {change["file"] for change in listener.changes()} == {"folder.md/inner.md"}
    for name in ("fifo.md", "device.md", "socket.md", "folder.md", "broken.md", "loop.md", "null.md"):
        with pytest.raises(ZcsyncdError):
            shared.call("memory.read", dir=project.dir, name=name)
    _ask_everything(shared, project)
    assert (project.memory / "fifo.md").exists()


def test_an_index_that_is_no_file(shared: Running, project: Project) -> None:
    """A FIFO, a directory or a link to a device called `MEMORY.md` is an error for who reads it, never a hang."""
    project.make({"one.md": fact_text("one")})
    index = project.memory / "MEMORY.md"
    listener = shared.listen(project)
    listener.forget()
    for make in (os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)):
        index.rmdir() if index.is_dir() else index.unlink()
        make(index)
        listener.flush()
        with pytest.raises(ZcsyncdError):
            shared.call("memory.index", dir=project.dir)
        shared.call("audit.get", dir=project.dir, fresh=True)
    index.unlink()
    project.write_index("one.md")
    listener.flush()
    assert shared.call("memory.index", dir=project.dir)["lines"] == 3


def test_a_tree_of_many_levels(shared: Running, project: Project) -> None:
    """Directories nested beyond any sense are walked as far as they go, and the daemon lives."""
    project.make({"one.md": fact_text("one")})
    listener = shared.listen(project)
    listener.forget()
    deep = project.memory
    for _ in range(40):
        deep = deep / "d"
    deep.mkdir(parents=True)
    save(deep / "deep.md", fact_text("deep"))
    listener.flush()
    assert [change["kind"] for change in listener.changes()] == ["added"]
    os.rename(project.memory / "d", project.cwd.parent / f"{project.cwd.name}-d")
    listener.flush()
    assert [change["kind"] for change in listener.changes()] == ["added", "deleted"]


def test_dotfiles_and_locks_are_nobodys_news(shared: Running, project: Project) -> None:
    """Locks, temporary files and files of other endings are never told as changes."""
    project.make({"one.md": fact_text("one")})
    listener = shared.listen(project)
    listener.forget()
    for name in (
        ".lock",
        "MEMORY.md.lock",
        "x.txt",
        "one.md~",
        "one.md.swp",
        "one.MD",
        "4913",
        "one.md.tmp.7.aaaaaaaaaaaa",
    ):
        (project.memory / name).write_text("x")
    listener.flush(rescan=True)
    assert listener.changes() == []
