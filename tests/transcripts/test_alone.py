"""Writing without a running daemon: the same rules, the same history, and nobody misses it afterwards."""

import pytest

from tests.transcripts.machine import entry, fact_text, save
from zcsyncd.daemon.alone import answer_alone
from zcsyncd.errors import AlreadyExists, AlreadyRunning, NotFound, Refused

NOTE = {
    "name": "deploy",
    "description": "How we deploy",
    "type": "project",
    "body": "With make.\n",
    "mode": "create",
}


@pytest.fixture
def alone(machine):
    """Ask as the control command does when nobody listens."""
    return lambda method, **params: answer_alone(machine.env, method, params)


def test_a_fact_is_written_found_forgotten_and_had_back(machine, alone):
    """Each request by a process of its own, as it were: what one saved the next one has."""
    project = machine.project().make({"a.md": fact_text("a")})
    index = (project.memory / "MEMORY.md").read_text()
    answer = alone("memory.write", dir=project.dir, **NOTE)
    assert (answer["action"], answer["index"]) == ("created", "inserted")
    with pytest.raises(AlreadyExists):
        alone("memory.write", dir=project.dir, **NOTE)
    assert [hit["file"] for hit in alone("memory.search", query="deploy")["hits"]] == ["deploy.md"]
    saved = alone("memory.forget", dir=project.dir, name="deploy")["saved"]
    assert (project.memory / "MEMORY.md").read_text() == index
    assert [v["file"] for v in alone("history.list", dir=project.dir)["versions"]][:1] == ["deploy.md"]
    alone("history.restore", saved=saved)
    assert (project.memory / "deploy.md").read_bytes().endswith(b"With make.\n")
    alone("history.undo", dir=project.dir)
    assert not (project.memory / "deploy.md").exists()


def test_the_first_memory_of_a_project(machine, alone):
    """Its directory is made."""
    project = machine.project()
    project.cwd.mkdir(parents=True)
    alone("memory.write", cwd=str(project.cwd), **NOTE)
    assert (project.memory / "MEMORY.md").read_text() == "- [deploy](deploy.md) — How we deploy\n"


def test_a_subscriber_that_comes_back_hears_of_it(machine, alone):
    """It is in the journal as if the daemon had run, and the daemon itself finds nothing new."""
    project = machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start()
    cursor = daemon.call("daemon.flush")["cursor"]
    daemon.stop()
    alone("memory.write", dir=project.dir, **NOTE)
    daemon = machine.start()
    listener = daemon.listen(project, since=cursor)
    listener.flush()
    assert {change["file"]: change["kind"] for change in listener.changes()} == {
        "deploy.md": "added",
        "MEMORY.md": "updated",
    }
    daemon.stop()


def test_what_was_lost_meanwhile_is_not_hidden(machine, alone):
    """Another pen's overwrite before ours is told as that, and our repair mends it."""
    project = machine.project().make({f"{name}.md": fact_text(name) for name in "abcd"})
    daemon = machine.start()
    daemon.call("daemon.flush", rescan=True)
    daemon.stop()
    save(project.memory / "MEMORY.md", "# Memory\n\n" + entry("a.md") + entry("b.md"))
    alone("memory.write", dir=project.dir, **NOTE)
    lost = {f["target"] for f in alone("audit.get", dir=project.dir)["findings"] if f["code"] == "entry-lost"}
    assert lost == {"c.md", "d.md"}
    assert "](c.md)" in alone("memory.repair", dir=project.dir)["diff"]


def test_what_is_there_is_saved_as_well(machine, alone):
    """A write brings all of the directory into the history: what is deleted afterwards can be had back."""
    project = machine.project().make({f"{name}.md": fact_text(name) for name in "abcdefgh"})
    alone("memory.write", dir=project.dir, **NOTE)
    for name in "abcdef":
        (project.memory / f"{name}.md").unlink()
    assert alone("audit.get", dir=project.dir)["findings"]
    gone = {v["file"] for v in alone("history.list", dir=project.dir)["versions"] if v["reason"] == "deleted"}
    assert gone == {f"{name}.md" for name in "abcdef"}


def test_a_running_daemon_is_not_bypassed(machine, alone):
    """It holds the lock: whoever finds it silent is told so, and nothing is written."""
    project = machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start()
    with pytest.raises(AlreadyRunning):
        alone("memory.write", dir=project.dir, **NOTE)
    assert not (project.memory / "deploy.md").exists()
    daemon.stop()


def test_the_rules_are_the_same(machine, alone):
    """A symlink is refused, a strange directory is not written."""
    project = machine.project().make({"a.md": fact_text("a")})
    outside = project.cwd / "outside.md"
    outside.write_text("mine")
    (project.memory / "deploy.md").symlink_to(outside)
    with pytest.raises((Refused, AlreadyExists)):
        alone("memory.write", dir=project.dir, **NOTE)
    assert outside.read_text() == "mine"
    with pytest.raises((Refused, NotFound)):
        alone("memory.write", dir=str(machine.home / "strange" / "memory"), **NOTE)
