"""kill -9 at every step of a write: old bytes or new ones, and after a sweep nothing left over."""

import errno
import os
import signal

import pytest

from zcsyncd.errors import RevisionConflict
from zcsyncd.memory import exchange, pen
from zcsyncd.memory.pen import STEPS, Pen, sweep, temp_name

OLD, NEW, THEIRS = b"old\n", b"new\n", b"theirs\n"


def unsupported(*_):
    raise exchange.Unsupported


def no_links(*_, **__):
    raise OSError(errno.EPERM, "Operation not permitted")


def take_exchange():
    exchange.exchange = unsupported
    exchange.rename_new = unsupported


def take_links():
    take_exchange()
    os.link = no_links


def nothing():
    """Take nothing away."""


def replace(it):
    it.replace("a.md", NEW, expected=it.read("a.md"), temp=temp_name("a.md"))


def restore(it):
    it.replace("a.md", NEW, expected=it.read("a.md"), temp=temp_name("a.md"), mtime_ns=10**18)


def create(it):
    it.replace("b.md", NEW, expected=None, temp=temp_name("b.md"), mtime_ns=10**18)


def remove(it):
    it.remove("a.md", expected=it.read("a.md"), temp=temp_name("a.md"))


BEGINNING = ("temp-made", "written", "synced", "compared")
WAYS = [
    # what is done, what the system lacks, whether another writes after the comparison, the steps
    (replace, nothing, False, (*BEGINNING, "exchanged", "checked", "temp-gone", "directory-synced")),
    (restore, nothing, False, (*BEGINNING, "exchanged", "checked", "temp-gone", "directory-synced")),
    (replace, nothing, True, (*BEGINNING, "exchanged", "exchanged-back", "temp-gone")),
    (replace, take_exchange, False, (*BEGINNING, "renamed", "directory-synced")),
    (create, nothing, False, (*BEGINNING, "renamed", "directory-synced")),
    (create, take_exchange, False, (*BEGINNING, "linked", "temp-gone", "directory-synced")),
    (create, take_links, False, (*BEGINNING, "claimed", "renamed", "directory-synced")),
    (remove, nothing, False, ("compared", "set-aside", "checked", "temp-gone", "directory-synced")),
    (remove, nothing, True, ("compared", "set-aside", "put-back")),
    (remove, take_exchange, False, ("compared", "set-aside", "checked", "temp-gone", "directory-synced")),
    (remove, take_exchange, True, ("compared", "set-aside", "put-back")),
    (remove, take_links, True, ("compared", "set-aside", "put-back")),
]
IDS = [f"{way[0].__name__}-{way[1].__name__}{'-other' if way[2] else ''}" for way in WAYS]


def in_child(directory, act, take, other, stop_at):
    """Do it in a process that kills itself at a step; give how it ended and the steps that it came to."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            take()

            def step(name):
                os.write(writer, name.encode() + b"\n")
                if name == "compared" and other:
                    with open(f"{directory}/other", "wb") as file:
                        file.write(THEIRS)
                    os.rename(f"{directory}/other", f"{directory}/a.md")
                if name == stop_at:
                    os.kill(os.getpid(), signal.SIGKILL)

            pen.step = step
            with Pen(directory) as it:
                try:
                    act(it)
                    code = 0
                except RevisionConflict:
                    code = 6
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        seen = tuple(pipe.read().split())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), seen


def content(path):
    return path.read_bytes() if path.exists() else None


def has_exchange(directory):
    folder = os.open(directory, os.O_RDONLY)
    try:
        exchange.exchange(folder, "none", "neither")
    except exchange.Unsupported:
        return False
    except FileNotFoundError:
        return True
    finally:
        os.close(folder)


@pytest.fixture
def memory(tmp_path):
    directory = tmp_path / "memory"
    directory.mkdir()
    if not has_exchange(directory):
        pytest.skip("no renames that swap on this system")
    (directory / "a.md").write_bytes(OLD)
    return directory


@pytest.mark.parametrize(("act", "take", "other", "steps"), WAYS, ids=IDS)
def test_the_steps_are_these(memory, act, take, other, steps):
    """Undisturbed, each way takes just the steps that the next test stops it at."""
    code, seen = in_child(str(memory), act, take, other, None)
    assert seen == steps
    assert code == (6 if other else 0)
    assert sorted(os.listdir(memory)) == sorted(
        ["a.md"] * (act is not remove or other) + ["b.md"] * (act is create)
    )


def test_every_step_is_visited():
    """No step is left out of the table above."""
    assert {step for way in WAYS for step in way[3]} == set(STEPS)


@pytest.mark.parametrize(
    ("act", "take", "other", "stop_at"),
    [(*way[:3], step) for way in WAYS for step in way[3]],
    ids=[f"{name}-{step}" for way, name in zip(WAYS, IDS, strict=True) for step in way[3]],
)
def test_killed_at_a_step(memory, act, take, other, stop_at):
    """Old bytes or new ones under the name, whole; a sweep leaves no trace; what another wrote is not lost."""
    code, seen = in_child(str(memory), act, take, other, stop_at)
    assert code == -signal.SIGKILL
    if stop_at != "claimed":  # there the name is taken by an empty file until the sweep
        check(memory, act, other, stop_at)
    kept = []
    for name in os.listdir(memory):
        sweep(str(memory / name), keep=kept.append)
    assert set(os.listdir(memory)) <= {"a.md", "b.md"}
    check(memory, act, other, stop_at)
    if other and "compared" in seen:
        assert content(memory / "a.md") == THEIRS or THEIRS in kept


def check(memory, act, other, stop_at):
    a, b = content(memory / "a.md"), content(memory / "b.md")
    if act is create:
        assert (a, b) in ((OLD, None), (OLD, NEW))
        if stop_at == "directory-synced":
            assert b == NEW
    elif act is remove:
        assert a in ((THEIRS, None) if other else (OLD, None))
        if stop_at in ("temp-gone", "directory-synced"):
            assert a is None
    else:
        assert a in ((THEIRS, OLD, NEW) if other else (OLD, NEW))
        if stop_at == "directory-synced":
            assert a == NEW
        if act is restore and a == NEW:
            assert os.stat(memory / "a.md").st_mtime_ns == 10**18


def test_what_is_read_meanwhile_is_old_or_new(memory):
    """At every step a reader finds a whole file under the name of one that is replaced, never none."""
    seen = set()

    def step(name):
        seen.add((name, content(memory / "a.md")))

    for take in (nothing, take_exchange):
        (memory / "a.md").write_bytes(OLD)
        patch = pytest.MonkeyPatch()
        try:
            patch.setattr(exchange, "exchange", exchange.exchange)
            patch.setattr(exchange, "rename_new", exchange.rename_new)
            patch.setattr(pen, "step", step)
            take()
            with Pen(str(memory)) as it:
                replace(it)
        finally:
            patch.undo()
    assert {read for _, read in seen} == {OLD, NEW}
    assert {read for name, read in seen if name in BEGINNING} == {OLD}
