"""The verbs that write, mend and take back: what they ask, what they say, how they end. The daemon is scripted."""

import io
import json
import os
import pty
import select
import subprocess
import sys
import time
from unittest import mock

import pytest

from tests.cli.fake_daemon import error, scripted
from zcsyncd.cli.main import main

REVISION = "mtime:1700000000000:size:60"
WRITTEN = {
    "file": "a.md",
    "absolutePath": "/m/a.md",
    "action": "overwrote",
    "index": "unchanged",
    "revision": REVISION,
}
READ = {
    "file": "a.md", "absolutePath": "/m/a.md", "name": "a", "description": "what", "type": "user", "body": "before\n",
    "truncated": None, "sizeBytes": 60, "mtimeMs": 1, "revision": REVISION, "contentHash": "0" * 64,
}  # fmt: skip
NOT_FOUND = error("not-found", -32000, "no fact “a” in /m")
HEAD = ("--description", "what", "--type", "user")


def run(shell, *words, given=""):
    """Run one verb in this process, with a text at stdin: most of a process's time would go into imports."""
    streams = [io.TextIOWrapper(io.BytesIO(text.encode()), newline="") for text in (given, "", "")]
    with (
        mock.patch.dict(os.environ, shell.env, clear=True),
        mock.patch.multiple(sys, argv=["zcsyncd"], stdin=streams[0], stdout=streams[1], stderr=streams[2]),
    ):
        code = main(words)
        told = []
        for stream in streams[1:]:
            stream.flush()
            told.append(stream.buffer.getvalue().decode())
    return subprocess.CompletedProcess(words, code, *told)


def typed(shell, *words, keys="", **env):
    """Run one verb at a terminal (stdin and stderr); give its exit code, stdout, and what the terminal showed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        shell.command(*words), cwd=shell.home, env={**shell.env, **env}, stdin=theirs, stdout=subprocess.PIPE,
        stderr=theirs, encoding="utf-8",
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, keys.encode())
    out = process.communicate(timeout=30)[0]
    said = b""
    while select.select([ours], [], [], 0)[0]:
        try:
            said += os.read(ours, 65_536)
        except OSError:
            break
    os.close(ours)
    return process.returncode, out, said.decode()


# -- write -----------------------------------------------------------------------------------------------------------


def test_a_body_from_stdin_is_written(shell):
    """Name, head and body go to the daemon as they are; the page says what was done."""
    with scripted(shell, memory_write=WRITTEN) as daemon:
        done = run(shell, "memory", "write", "a", *HEAD, "--dir", "/m", given="one\r\n\ttwo")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"overwrote a.md; the index is as it was\n/m/a.md\nrevision {REVISION}\n"
    asked = {
        "name": "a",
        "description": "what",
        "type": "user",
        "body": "one\r\n\ttwo",
        "mode": "upsert",
        "dir": "/m",
    }
    assert daemon.asked == [("memory.write", asked)]


def test_the_answer_as_json(shell):
    """`--json` is the daemon's answer."""
    with scripted(shell, memory_write=WRITTEN):
        done = run(shell, "memory", "write", "a", *HEAD, "--dir", "/m", "--json", given="x")
    assert json.loads(done.stdout) == WRITTEN


def test_create_and_revision_are_passed_on(shell):
    """--create and --if-revision go to the daemon; its conflict is exit code 6."""
    conflict = error("already-exists", -32001, "/m/a.md exists already")
    with scripted(shell, memory_write=conflict) as daemon:
        done = run(
            shell,
            "memory",
            "write",
            "a",
            *HEAD,
            "--create",
            "--if-revision",
            REVISION,
            "--dir",
            "/m",
            given="x",
        )
    assert done.returncode == 6
    assert done.stderr == "zcsyncd: /m/a.md exists already\n"
    ((_, asked),) = daemon.asked
    assert (asked["mode"], asked["ifRevision"]) == ("create", REVISION)


def test_a_fact_keeps_what_is_not_given(shell):
    """Without --description and --type those of the fact are taken, with the revision that they were read at."""
    with scripted(shell, memory_read=READ, memory_write=WRITTEN) as daemon:
        assert (
            run(shell, "memory", "write", "a", "--type", "project", "--dir", "/m", given="new").returncode
            == 0
        )
    (_, looked), (_, asked) = daemon.asked
    assert looked == {"dir": "/m", "name": "a", "full": True}
    assert (asked["description"], asked["type"], asked["ifRevision"]) == ("what", "project", REVISION)
    assert asked["mode"] == "upsert"


@pytest.mark.parametrize("create", [(), ("--create",)])
def test_a_new_fact_needs_its_head(shell, create):
    """A fact that is new has nothing to keep: what is missing is named, exit code 2."""
    with scripted(shell, memory_read=NOT_FOUND) as daemon:
        done = run(shell, "memory", "write", "a", "--type", "user", *create, "--dir", "/m", given="new")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "zcsyncd: the fact a is new: --description must be given"
    assert [method for method, _ in daemon.asked] == ([] if create else ["memory.read"])


@pytest.mark.parametrize("body", ["before\n", "\nbefore\n"])
def test_nothing_changed_is_not_written(shell, body):
    """A fact that says already what is to be written keeps its time; the blank line above its body does not count."""
    with scripted(shell, memory_read={**READ, "body": body}) as daemon:
        done = run(shell, "memory", "write", "a", "--dir", "/m", "--json", given="before\n")
    assert json.loads(done.stdout)["action"] == "unchanged"
    assert [method for method, _ in daemon.asked] == ["memory.read"]


def test_the_first_fact_of_a_working_directory(shell, monkeypatch):
    """Where there is no memory yet, `cwd` is sent, so that the daemon makes the directory."""
    monkeypatch.chdir(shell.home)
    none = {"dir": None, "computedDir": "/c", "source": "none", "others": [], "warnings": []}
    with scripted(shell, dirs_resolve=none, memory_write=WRITTEN) as daemon:
        assert run(shell, "memory", "write", "a", *HEAD, given="x").returncode == 0
    assert [method for method, _ in daemon.asked] == ["dirs.resolve", "memory.write"]
    assert daemon.asked[1][1]["cwd"] == str(shell.home)
    assert "dir" not in daemon.asked[1][1]


def test_an_editor_and_a_pen_that_was_faster(shell):
    """The editor shows the present body; the write goes with its revision; a conflict keeps the text."""
    editor = shell.place / "editor"
    editor.write_text('#!/bin/sh\necho more >> "$1"\n')
    editor.chmod(0o755)
    conflict = error(
        "revision-conflict", -32002, "/m/a.md changed since", hint="read it again", revision=None
    )
    with scripted(shell, memory_read=READ, memory_write=[WRITTEN, conflict]) as daemon:
        words = ("memory", "write", "a", "--dir", "/m")
        code, out, _ = typed(shell, *words, EDITOR=str(editor))
        assert (code, out.splitlines()[0]) == (0, "overwrote a.md; the index is as it was")
        code, out, said = typed(shell, *words, EDITOR=str(editor))
    _, asked = daemon.asked[1]
    assert (asked["body"], asked["ifRevision"]) == ("before\nmore\n", REVISION)
    assert (code, out) == (6, "")
    kept = said.split("your text is kept in ")[1].split()[0]
    with open(kept) as file:
        assert file.read() == "before\nmore\n"
    os.unlink(kept)
    os.rmdir(os.path.dirname(kept))


def test_what_was_not_there_is_made_not_written_over(shell):
    """A new fact from an editor is a `create`: somebody may have made it while the person was typing."""
    editor = shell.place / "editor"
    editor.write_text('#!/bin/sh\necho new > "$1"\n')
    editor.chmod(0o755)
    with scripted(shell, memory_read=NOT_FOUND, memory_write=WRITTEN) as daemon:
        assert typed(shell, "memory", "write", "a", *HEAD, "--dir", "/m", VISUAL=str(editor))[0] == 0
    assert daemon.asked[1][1]["mode"] == "create"


def test_a_body_of_every_size_up_to_the_bound(shell):
    """Half a MiB of plain text goes; one whose escapes do not fit a line is told as too large, not cut off."""
    with scripted(shell, memory_write=WRITTEN) as daemon:
        assert run(shell, "memory", "write", "a", *HEAD, "--dir", "/m", given="x" * 524_288).returncode == 0
        done = run(shell, "memory", "write", "a", *HEAD, "--dir", "/m", given="\x01" * 524_288)
    assert done.returncode == 7
    assert "as one line of JSON" in done.stderr
    assert len(daemon.asked) == 1


def test_an_index_is_no_fact(shell):
    """`memory write MEMORY` is refused with a word about how the index is written."""
    refusal = error("refused", -32003, "MEMORY.md is the index", hint="memory.index")
    with scripted(shell, memory_read=refusal):
        done = run(shell, "memory", "write", "MEMORY", "--dir", "/m", given="x")
    assert done.returncode == 7
    assert "zcsyncd repair` mends them" in done.stderr


def test_a_daemon_that_says_nothing_is_not_passed_by(shell):
    """One that listens but does not answer may be at it: exit code 3, nothing done directly, and a word about it."""
    with scripted(shell, ping=None, memory_write=None):
        done = run(shell, "memory", "write", "a", *HEAD, "--dir", "/m", given="x")
    assert done.returncode == 3
    first, second = done.stderr.splitlines()
    assert "does not answer within" in first
    assert "history list" in second


# -- forget ----------------------------------------------------------------------------------------------------------

FORGOTTEN = {"file": "a.md", "index": "removed", "saved": 7}


def test_a_fact_is_forgotten(shell):
    """`memory forget` says how it is had back, and asks nobody."""
    with scripted(shell, memory_forget=FORGOTTEN) as daemon:
        done = run(shell, "memory", "forget", "a", "--dir", "/m", "--if-revision", REVISION)
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "forgot a.md; its entry is gone from the index"
    assert "history restore 7" in done.stdout
    assert daemon.asked == [
        ("memory.forget", {"dir": "/m", "name": "a", "purge": False, "ifRevision": REVISION})
    ]


@pytest.mark.parametrize(("keys", "goes"), [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False)])
@pytest.mark.parametrize("words", [("memory", "forget", "a", "--purge"), ("history", "purge")])
def test_what_cannot_be_had_back_is_asked_about(shell, words, keys, goes):
    """At a terminal a person has to type yes; anything else leaves all as it is, exit code 1."""
    answers = {"memory_forget": {**FORGOTTEN, "saved": None}, "history_purge": {"removed": 2}}
    with scripted(shell, **answers) as daemon:
        code, _, said = typed(shell, *words, "--dir", "/m", keys=keys)
    assert "[y/N]" in said
    assert code == (0 if goes else 1)
    assert len(daemon.asked) == goes


@pytest.mark.parametrize("words", [("memory", "forget", "a", "--purge"), ("history", "purge")])
def test_where_nobody_can_be_asked_yes_has_to_be_said(shell, words):
    """Without a terminal nothing is removed for good but with --yes."""
    answers = {"memory_forget": {**FORGOTTEN, "saved": None}, "history_purge": {"removed": 1}}
    with scripted(shell, **answers) as daemon:
        done = run(shell, *words, "--dir", "/m", given="y\n")
        assert done.returncode == 2
        assert "--yes" in done.stderr
        assert daemon.asked == []
        done = run(shell, *words, "--dir", "/m", "--yes")
    assert done.returncode == 0
    assert ("nothing of what it said is kept" in done.stdout) or (
        done.stdout == "1 saved version removed from /m\n"
    )


# -- search, why -----------------------------------------------------------------------------------------------------


def test_words_are_searched_in_all_directories(shell):
    """The words go as one query, without a directory unless one is named."""
    hit = {
        "dir": "/x/app-0123456789abcdef/memory",
        "file": "a.md",
        "name": "a",
        "description": "d",
        "score": 1,
        "line": 2,
        "snippet": "s",
    }
    with scripted(shell, memory_search={"hits": [hit]}) as daemon:
        done = run(shell, "memory", "search", "two words", "记忆")
        run(shell, "memory", "search", "x", "--dir", "/m", "--limit", "5")
    assert done.stdout == "app  a.md:2\n    d\n    s\n"
    assert [asked for _, asked in daemon.asked] == [
        {"query": "two words 记忆"},
        {"query": "x", "dir": "/m", "limit": 5},
    ]


def test_why_is_asked_and_shown(shell):
    """`memory read --why` adds the reasons; without it they are not asked for."""
    reasons = [{"place": "prompt", "seen": False, "reason": "no entry leads to it", "code": "fact-unindexed"}]
    with scripted(shell, memory_read={**READ, "visible": {}, "reasons": reasons}) as daemon:
        done = run(shell, "memory", "read", "a", "--why", "--dir", "/m")
        run(shell, "memory", "read", "a", "--dir", "/m")
    assert done.stdout.endswith("\nbefore\n\nnot seen in the prompt: no entry leads to it (fact-unindexed)\n")
    assert [asked.get("why") for _, asked in daemon.asked] == [True, None]


# -- repair ----------------------------------------------------------------------------------------------------------

FIX = {"key": "k", "code": "entry-lost", "file": "MEMORY.md", "line": 1, "does": "puts it back"}
MENDED = {
    "diff": "--- a\n+++ a\n", "fixes": [FIX], "skipped": [], "applied": True, "revision": REVISION, "saved": 3, "heldBy": [],
}  # fmt: skip


def test_a_repair_is_shown_with_the_command_that_does_it(shell):
    """A dry run ends with 0 and the command to type, with its directory and its choices."""
    with scripted(shell, memory_repair={**MENDED, "applied": False, "saved": None}) as daemon:
        done = run(shell, "repair", "/m x", "--fix", "entry-lost", "--key", "k")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "    zcsyncd repair '/m x' --apply --fix entry-lost --key k"
    assert daemon.asked == [
        ("memory.repair", {"dir": "/m x", "apply": False, "codes": ["entry-lost"], "keys": ["k"]})
    ]


def test_a_repair_that_comes_too_early_is_tried_again_once(shell):
    """With --apply, what is refused for a moment is done after it; a second refusal is the answer."""
    early = error("refused", -32003, "/m changed a moment ago", retryAfterMs=300)
    with scripted(shell, memory_repair=[early, MENDED]) as daemon:
        begun = time.monotonic()
        done = run(shell, "repair", "/m", "--apply")
        assert time.monotonic() - begun > 0.3
    assert (done.returncode, done.stderr) == (0, "")
    assert "saved as 3" in done.stdout
    assert done.stdout.splitlines()[-1] == "    zcsyncd history undo --dir /m"
    assert len(daemon.asked) == 2
    with scripted(shell, memory_repair=early) as daemon:
        assert run(shell, "repair", "/m", "--apply").returncode == 7
    assert len(daemon.asked) == 2


def test_other_refusals_of_a_repair_are_final(shell):
    """A refusal that names no time is told at once."""
    with scripted(shell, memory_repair=error("unreadable", -32004, "/m/MEMORY.md cannot be read")) as daemon:
        done = run(shell, "repair", "/m", "--apply")
    assert (done.returncode, len(daemon.asked)) == (7, 1)


# -- history ---------------------------------------------------------------------------------------------------------

SHOWN = {"dir": "/m", "file": "a.md", "text": "one\ntwo\n"}


def test_versions_are_listed(shell):
    """`history list` passes file and limit on, and says when there is nothing."""
    with scripted(shell, history_list={"versions": []}) as daemon:
        done = run(shell, "history", "list", "MEMORY.md", "--limit", "3", "--dir", "/m")
    assert (done.returncode, done.stdout) == (0, "no saved versions in /m\n")
    assert daemon.asked == [("history.list", {"dir": "/m", "file": "MEMORY.md", "limit": 3})]


def test_versions_are_shown_and_compared(shell):
    """`show` is the text; `diff` compares with the file as it is now, with one that is gone, with another version."""
    memory = shell.place / "m"
    memory.mkdir()
    (memory / "a.md").write_bytes(b"one\n2\n")
    shown = {**SHOWN, "dir": str(memory)}
    with scripted(shell, history_show=shown):
        assert run(shell, "history", "show", "3").stdout == "one\ntwo\n"
        done = run(shell, "history", "diff", "3")
        told = ["--- a.md (saved 3)", "+++ a.md (now)", "@@ -1,2 +1,2 @@", " one", "-two", "+2"]
        assert done.stdout.splitlines() == told
        assert json.loads(run(shell, "history", "diff", "3", "--json").stdout)["diff"].splitlines() == told
        (memory / "a.md").unlink()
        assert run(shell, "history", "diff", "3").stdout.splitlines()[2] == "@@ -1,2 +0,0 @@"
        assert run(shell, "history", "diff", "3", "4").stdout == "no difference\n"


def test_one_file_is_restored(shell):
    """`restore` says what it did; an unknown number is exit code 5, no number 2."""
    with scripted(
        shell, history_restore=[WRITTEN, error("not-found", -32000, "no saved version 9")]
    ) as daemon:
        done = run(shell, "history", "restore", "3", "--if-revision", REVISION)
        assert (done.returncode, done.stdout) == (0, "restored a.md\n")
        assert daemon.asked == [("history.restore", {"saved": 3, "ifRevision": REVISION})]
        assert run(shell, "history", "restore", "9").returncode == 5
        for odd in ("x", "0", "-1", "1.5", "9" * 17, "٣"):
            assert run(shell, "history", "restore", odd).returncode == 2


def test_the_last_act_is_taken_back(shell):
    """`undo` names each file; what another pen has written since is exit code 6."""
    removed = {**WRITTEN, "action": "removed", "index": "removed", "revision": None}
    answers = [{"files": [removed]}, error("revision-conflict", -32002, "/m/a.md was written again")]
    with scripted(shell, history_undo=answers) as daemon:
        done = run(shell, "history", "undo", "--dir", "/m")
        assert done.stdout == "removed again a.md; its entry is gone from the index\n"
        assert run(shell, "history", "undo", "--dir", "/m").returncode == 6
    assert daemon.asked[0] == ("history.undo", {"dir": "/m"})


@pytest.mark.parametrize(
    ("date", "sent"),
    [
        ("2026-11-30", "2026-11-30T05:00:00.000Z"),
        ("2026-11-30T16:21", "2026-11-30T21:21:00.000Z"),
        ("2026-11-30T16:21:00+02:00", "2026-11-30T14:21:00.000Z"),
    ],
)
def test_versions_from_before_a_date_are_purged(shell, date, sent):
    """A date is its first moment, local; a zone that is named counts."""
    with scripted(shell, history_purge={"removed": 1200}) as daemon:
        done = shell.run("history", "purge", "a.md", "--before", date, "--yes", "--dir", "/m", TZ="EST5")
    assert done.stdout == "1,200 saved versions removed from /m\n"
    assert daemon.asked == [("history.purge", {"dir": "/m", "file": "a.md", "before": sent})]


@pytest.mark.parametrize("date", ["yesterday", "2026-02-30", "1960-01-01", "0001-01-01", ""])
def test_a_date_that_is_none_purges_nothing(shell, date):
    """A mistake in the date is exit code 2 before anything is asked."""
    with scripted(shell) as daemon:
        done = run(shell, "history", "purge", "--before", date, "--yes", "--dir", "/m")
    assert (done.returncode, daemon.asked) == (2, [])


# -- without a daemon ------------------------------------------------------------------------------------------------


def test_all_verbs_work_without_a_daemon(shell):
    """Write, find, overwrite, take back, forget, bring back, purge: done directly, with the same history."""
    memory = shell.memory(shell.project())
    at = ("--dir", str(memory))
    done = run(shell, "memory", "write", "a", *HEAD, *at, given="one\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("created a.md; its entry is in the index now\n")
    assert (memory / "MEMORY.md").read_text() == "- [a](a.md) — what\n"
    first = (memory / "a.md").read_bytes()
    assert run(shell, "memory", "search", "what").stdout.startswith("app  a.md:")
    assert run(shell, "memory", "write", "a", *HEAD, "--create", *at, given="two\n").returncode == 6
    assert run(shell, "memory", "write", "a", *at, given="two\n").returncode == 0
    assert run(shell, "history", "undo", *at).stdout == "restored a.md\n"
    assert (memory / "a.md").read_bytes() == first
    assert run(shell, "history", "undo", *at).returncode == 0  # an undo is undone
    assert (memory / "a.md").read_bytes().endswith(b"two\n")
    forgotten = json.loads(run(shell, "memory", "forget", "a", *at, "--json").stdout)
    assert not (memory / "a.md").exists()
    saved = str(forgotten["saved"])
    assert run(shell, "history", "show", saved).stdout.endswith("two\n")
    assert "-two" in run(shell, "history", "diff", saved).stdout.splitlines()
    restored = run(shell, "history", "restore", saved)
    assert restored.stdout == "brought back a.md; its entry is in the index now\n"
    assert (memory / "MEMORY.md").read_text() == "- [a](a.md) — what\n"
    assert "  memory forget  " in run(shell, "history", "list", "MEMORY.md", *at).stdout
    assert run(shell, "memory", "forget", "a", "--purge", "--yes", *at).returncode == 0
    assert run(shell, "history", "list", "a.md", *at).stdout == f"no saved versions in {memory}\n"


def test_the_first_fact_makes_its_directory_without_a_daemon(shell, monkeypatch):
    """In a working directory without memory, the computed directory is made."""
    cwd = shell.project("fresh")
    monkeypatch.chdir(cwd)
    answer = json.loads(run(shell, "memory", "write", "a", *HEAD, "--json", given="one").stdout)
    assert os.path.isfile(answer["absolutePath"])
    assert run(shell, "memory", "list").stdout.splitlines()[1].startswith("a.md  user  ok")


def test_a_repair_without_a_daemon(shell):
    """A directory is mended directly; a remark at a terminal says so."""
    memory = shell.memory(shell.project(), "flat-types")
    index = memory / "MEMORY.md"
    whole = index.read_bytes()
    line = next(line for line in whole.splitlines(keepends=True) if b"](" in line)
    index.write_bytes(whole.replace(line, line * 2))
    code, out, said = typed(shell, "repair", str(memory))
    assert (code, "fix entry-duplicate" in out) == (0, True)
    assert "done directly: no daemon at" in said
    done = run(shell, "repair", str(memory), "--apply")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\n1 fix written; what was there before is saved as " in done.stdout
    assert index.read_bytes() == whole
    assert run(shell, "repair", str(memory)).stdout == "nothing to mend\n"


def test_a_mistake_is_told_the_same_without_a_daemon(shell):
    """Unknown facts, versions, codes and unsafe names end with their exit codes."""
    memory = shell.memory(shell.project())
    at = ("--dir", str(memory))
    for code, words in (
        (5, ("memory", "forget", "nobody", *at)),
        (5, ("history", "show", "99")),
        (5, ("history", "undo", *at)),
        (2, ("repair", str(memory), "--fix", "no-such-code")),
        (2, ("memory", "write", "a", *HEAD, "--if-revision", "3", *at)),
        (7, ("memory", "write", "../a", *HEAD, *at)),
        (5, ("history", "list", "--dir", str(shell.place / "none"))),
    ):
        done = run(shell, *words, given="x")
        assert (done.returncode, done.stdout) == (code, ""), (words, done.stderr)
        assert "Traceback" not in done.stderr
