"""Writing without a running daemon: the same rules, the same history, and nobody misses it afterwards."""

import shutil

import pytest

from tests.transcripts.machine import entry, fact_text, save, until
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


def told(machine, project, *words):
    """Ask the control command for the findings of a project; give code and target or file of each."""
    answer = machine.json("audit", project.dir, *words)
    return {
        (one["code"], one.get("target") or one.get("file"), one["dismissed"]) for one in answer["findings"]
    }


@pytest.mark.parametrize("killed", [False, True])
def test_an_audit_tells_the_same_losses_without_a_daemon(machine, killed):
    """What the daemon remembers, what was dismissed, and what was destroyed since it went; nothing is written."""
    project = machine.project().make({f"{name}.md": fact_text(name, body="word " * 400) for name in "abcdef"})
    daemon = machine.start()
    until(lambda: len(daemon.call("memory.search", query="word", dir=project.dir)["hits"]) == 6, "all saved")
    save(project.memory / "MEMORY.md", "# Memory\n\n" + "".join(map(entry, ["a.md", "b.md", "e.md", "f.md"])))
    save(project.memory / "a.md", fact_text("a"))
    daemon.call("daemon.flush")
    lost = [
        one for one in daemon.call("audit.get", dir=project.dir)["findings"] if one["code"] == "entry-lost"
    ]
    assert len(lost) == 2
    daemon.call("audit.dismiss", key=lost[0]["key"])
    daemon.call("daemon.flush")
    with_daemon = told(machine, project, "--all")
    assert {code for code, _, _ in with_daemon} >= {"entry-lost", "fact-shrunk"}
    (daemon.kill if killed else daemon.stop)()
    before = {path.name: path.read_bytes() for path in machine.state.glob("state.db")}
    assert told(machine, project, "--all") == with_daemon
    # And what came since: the daemon will say so at its start.
    save(project.memory / "MEMORY.md", "# Memory\n\n" + "".join(map(entry, ["a.md", "b.md"])))
    save(project.memory / "b.md", fact_text("b"))
    since = told(machine, project, "--all")
    assert {
        ("entry-lost", "e.md", False),
        ("entry-lost", "f.md", False),
        ("fact-shrunk", "b.md", False),
    } <= since
    assert {path.name: path.read_bytes() for path in machine.state.glob("state.db")} == before
    daemon = machine.start()
    assert told(machine, project, "--all") == since
    daemon.stop()


def test_a_directory_that_was_made_again_is_told_without_a_daemon(machine):
    """It went while the daemon ran, and came back empty when it did not."""
    project = machine.project().make({f"n{number}.md": fact_text(f"n{number}") for number in range(6)})
    daemon = machine.start()
    shutil.rmtree(project.memory)
    daemon.call("daemon.flush")
    daemon.stop()
    project.memory.mkdir()
    assert ("mass-delete", None, False) in told(machine, project)
    daemon = machine.start()
    assert ("mass-delete", None, False) in told(machine, project)
    daemon.stop()


def test_an_audit_without_a_daemon_says_when_it_cannot_read_what_was(machine):
    """A database that is none is told, with its path; a missing one is no hindrance."""
    project = machine.project().make({"a.md": fact_text("a")})
    assert told(machine, project) == set()
    (machine.state / "state.db").write_bytes(b"no database at all" * 100)
    done = machine.cli("audit", project.dir)
    assert "Traceback" not in done.stderr
    assert "state.db" in done.stderr
    assert done.returncode == 7


def test_create_of_what_exists_is_told_in_the_words_of_the_command(machine, daemon):
    """The wire's mode is no word that a person can type here."""
    project = machine.project().make({"deploy.md": fact_text("deploy")})
    daemon.call("daemon.flush", rescan=True)
    body = machine.home / "body"
    body.write_text("words")
    words = ["memory", "write", "deploy", "--dir", project.dir, "--description", "x", "--type", "user"]
    done = machine.cli(*words, "--create", "--body-file", str(body))
    assert done.returncode == 6
    assert "upsert" not in done.stderr
    assert "--create" in done.stderr


@pytest.mark.parametrize("runs", [True, False])
def test_a_search_that_is_switched_off_is_refused(machine, runs):
    """With the exit code of a refusal and the setting that switches it on; it is no bug."""
    machine.configure("search:\n  enabled: false\n")
    machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start() if runs else None
    done = machine.cli("memory", "search", "word")
    assert done.returncode == 7
    assert "search.enabled" in done.stderr
    assert "bug" not in done.stderr
    if daemon is not None:
        daemon.stop()
