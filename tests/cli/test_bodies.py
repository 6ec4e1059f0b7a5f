"""Where a body comes from: a file, standard input, an editor; and what becomes of the text."""

import io
import os
import pty
import stat
import sys
from contextlib import contextmanager

import pytest

from zcsyncd.bus.requests import BODY_BYTES
from zcsyncd.cli.bodies import body_from
from zcsyncd.errors import Refused, RevisionConflict, TooLarge, Unreadable, UsageError


@contextmanager
def a_person_at_stdin(monkeypatch):
    """Make stdin a real terminal for a while."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        yield
    os.close(ours)


@pytest.fixture
def editor(tmp_path):
    """Give a maker of editors: each notes what it was given, then does as its script says with the file."""
    noted = tmp_path / "noted"

    def make(script: str) -> dict[str, str]:
        program = tmp_path / "an editor"
        note = (
            f'ls -ld "$(dirname "$1")" "$1" > "{noted}.modes"; cp "$1" "{noted}"; echo "$1" > "{noted}.path"'
        )
        program.write_text(f"#!/bin/sh\n{note}\n{script}\n")
        program.chmod(0o755)
        return {"PATH": os.environ["PATH"], "EDITOR": f"'{program}'"}

    make.noted = noted
    return make


def path_of(editor) -> str:
    """Tell which file the editor was given."""
    return (editor.noted.parent / "noted.path").read_text().rstrip("\n")


def read(source, monkeypatch, content=b""):
    """Take a body from a source, with some bytes at stdin."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    with body_from(source, "", "a", {}) as body:
        return body


@pytest.mark.parametrize(
    "content", [b"one\r\ntwo", "记\u202e\x00\x1b\n\n".encode(), b"\xef\xbb\xbf# x\n", b" x"]
)
def test_bytes_are_taken_as_they_are(tmp_path, monkeypatch, content):
    """Line ends, marks, control characters, last line feed: nothing of a body is changed on its way."""
    file = tmp_path / "body"
    file.write_bytes(content)
    for source, given in ((str(file), b""), (None, content), ("-", content)):
        assert read(source, monkeypatch, given).encode() == content


@pytest.mark.parametrize("content", [b"", b" \n\t\n"])
def test_an_empty_body_is_a_slip(monkeypatch, content):
    """A command that failed before the pipe does not blank a fact."""
    with pytest.raises(UsageError, match="nothing was written"):
        read(None, monkeypatch, content)


def test_bodies_that_cannot_be(tmp_path, monkeypatch):
    """Not UTF-8, missing, a directory, too large: an error that names the source."""
    file = tmp_path / "body"
    file.write_bytes(b"caf\xe9")
    with pytest.raises(Unreadable, match=r"not UTF-8 \(byte 4\)"):
        read(str(file), monkeypatch)
    for place in (tmp_path / "none", tmp_path, "a\0b"):
        with pytest.raises(Unreadable, match="cannot be read"):
            read(str(place), monkeypatch)
    assert len(read(None, monkeypatch, b"x" * BODY_BYTES)) == BODY_BYTES
    with pytest.raises(TooLarge, match="standard input holds more than 524,288 bytes"):
        read(None, monkeypatch, b"x" * (BODY_BYTES + 1))
    with pytest.raises(TooLarge):
        read("/dev/zero", monkeypatch)


def test_a_closed_stdin(monkeypatch):
    """With stdin closed and no file named there is no body."""
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="closed"), body_from(None, "", "a", {}):
        pass


def test_an_editor_shows_the_present_body(editor, monkeypatch):
    """The text lies in a private directory while it is edited, under a name that an editor knows, and is gone then."""
    env = editor('printf "more\\n" >> "$1"')
    with a_person_at_stdin(monkeypatch), body_from(None, "before\n", "sub/a fact!.md", env) as body:
        assert body == "before\nmore\n"
        path = path_of(editor)
        assert os.path.basename(path) == "a_fact.md"
    assert editor.noted.read_text() == "before\n"
    modes = [line.split()[0][:10] for line in (editor.noted.parent / "noted.modes").read_text().splitlines()]
    assert sorted(modes) == [stat.filemode(stat.S_IFREG | 0o600), stat.filemode(stat.S_IFDIR | 0o700)]
    assert not os.path.exists(os.path.dirname(path))


def test_visual_goes_before_editor(editor, monkeypatch):
    """VISUAL counts first; one that is empty does not count."""
    env = editor('echo a > "$1"')
    for more in ({"VISUAL": env["EDITOR"], "EDITOR": "false"}, {"VISUAL": " "}):
        with a_person_at_stdin(monkeypatch), body_from(None, "", "a", {**env, **more}) as body:
            assert body == "a\n"


@pytest.mark.parametrize(
    ("env", "kind", "said"),
    [
        ({}, UsageError, "neither VISUAL nor EDITOR"),
        ({"EDITOR": "/no/such/editor -x"}, UsageError, "cannot be run"),
        ({"EDITOR": "'open"}, UsageError, "no command"),
        ({"EDITOR": "false"}, Refused, "ended with 1: nothing was written"),
        ({"EDITOR": "true"}, UsageError, "the body is empty"),
    ],
)
def test_an_editor_that_does_not_do(env, kind, said, monkeypatch):
    """No editor, one that is not there, one that fails, one left in haste: nothing is written."""
    path = {"PATH": os.environ["PATH"]}
    with (
        a_person_at_stdin(monkeypatch),
        pytest.raises(kind, match=said),
        body_from(None, "", "a", {**path, **env}),
    ):
        raise AssertionError


def test_a_text_that_could_not_be_written_is_kept(editor, monkeypatch):
    """What a person has typed is not lost over a conflict: the hint says where it lies."""
    env = editor('echo typed > "$1"')
    with pytest.raises(RevisionConflict) as caught, a_person_at_stdin(monkeypatch):
        with body_from(None, "", "a", env):
            raise RevisionConflict("changed since", hint="read it again")
    path = path_of(editor)
    assert caught.value.hint == f"read it again; your text is kept in {path}"
    with open(path) as file:
        assert file.read() == "typed\n"
    os.unlink(path)
    os.rmdir(os.path.dirname(path))


def test_a_bug_while_writing_leaves_nothing_behind(editor, monkeypatch):
    """Whatever else happens, the private directory goes."""
    env = editor('echo typed > "$1"')
    with pytest.raises(KeyError), a_person_at_stdin(monkeypatch), body_from(None, "", "a", env):
        raise KeyError
    assert not os.path.exists(os.path.dirname(path_of(editor)))
