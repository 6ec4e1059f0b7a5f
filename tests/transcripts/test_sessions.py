"""Two agents and one memory: what each has read, what it is told, and when it is told again."""

import os
import unicodedata

import pytest

from tests.transcripts.machine import entry, fact_text, save, until
from zcsyncd.errors import NotFound, Refused, RevisionConflict


def two(project):
    project.make({"a.md": fact_text("a"), "b.md": fact_text("b")})


def agent(daemon, project, name, reason="start", **more):
    return daemon.client(cwd=str(project.cwd), id=f"{project.cwd.name}-{name}", reason=reason, **more)


def write(client, name="new-fact", description="What is new", body="Words.\n"):
    return client.call(
        "memory.write", name=name, description=description, type="project", body=body, mode="upsert"
    )


def state(client, path):
    [one] = client.call("readState.check", paths=[str(path)])["states"]
    return one["state"]


def test_what_another_agent_wrote_is_news_until_it_is_confirmed(shared, project):
    """A reads the index, B writes: A's check says stale, its news name the entry; again; confirmed, empty; compacted,
    once more."""
    two(project)
    shared.call("daemon.flush", rescan=True)
    a, b = agent(shared, project, "A"), agent(shared, project, "B")
    a.call("memory.index")
    a.call("memory.read", name="a")
    assert state(a, project.memory / "a.md") == "current"
    assert a.call("session.news")["text"] == ""
    write(b)
    write(b, "a", "Said otherwise")
    assert state(a, project.memory / "a.md") == "stale"
    assert state(b, project.memory / "a.md") == "current"
    for _ in range(2):
        news = a.call("session.news")
        assert news["index"]["stale"]
        assert [one["target"] for one in news["index"]["added"]] == ["new-fact.md"]
        assert {one["file"]: one["kind"] for one in news["changes"]} == {
            "MEMORY.md": "updated",
            "a.md": "updated",
            "new-fact.md": "added",
        }
        assert "new-fact" in news["text"]
    assert b.call("session.news")["text"] == ""
    assert a.call("session.confirm", token=news["token"], told=True)["confirmed"]
    assert a.call("session.news")["text"] == ""
    again = agent(shared, project, "A", reason="compact")
    assert "new-fact" in again.call("session.news")["text"]
    assert state(again, project.memory / "a.md") == "unread"


def test_what_is_not_confirmed_is_said_again(shared, project):
    """Told `false` as well as nothing; an older token confirms nothing."""
    two(project)
    shared.call("daemon.flush", rescan=True)
    a, b = agent(shared, project, "A"), agent(shared, project, "B")
    write(b)
    old = a.call("session.news")["token"]
    a.call("session.confirm", told=False)
    write(b, "second")
    news = a.call("session.news")
    assert "second" in news["text"]
    assert "new-fact" in news["text"]
    assert not a.call("session.confirm", token=old, told=True)["confirmed"]
    assert a.call("session.news", commit=True)["text"]
    assert a.call("session.news")["text"] == ""


def test_a_session_is_the_same_over_connections_and_restarts(machine):
    """Its reads and its baseline are kept; what happened while the daemon was down is news."""
    project = machine.project()
    two(project)
    daemon = machine.start()
    a = agent(daemon, project, "A")
    a.call("memory.read", name="a")
    agent(daemon, project, "A", reason="attach").call("memory.read", name="b")
    daemon.kill()
    project.fact("b.md", body="other words")
    daemon = machine.start()
    again = agent(daemon, project, "A", reason="attach")
    assert state(again, project.memory / "a.md") == "current"
    assert state(again, project.memory / "b.md") == "stale"
    assert "b.md" in again.call("session.news")["text"] or "b" in again.call("session.news")["text"]
    [row] = daemon.call("session.list")["sessions"]
    assert (row["host"], row["reads"], row["index"]) == ("pi", 2, "current")
    again.call("session.end")
    assert daemon.call("session.list")["total"] == 0
    daemon.stop()


def test_outdated_reads_are_told_as_they_become_so(shared, project):
    """One event for each session that had read it, after the change and the index; none for mtime alone; not twice."""
    two(project)
    shared.call("daemon.flush", rescan=True)
    listener = shared.listen(project)
    a, b = agent(shared, project, "A"), agent(shared, project, "B")
    for client in (a, b):
        client.call("memory.read", name="a")
    listener.forget()
    os.utime(project.memory / "a.md")
    listener.flush()
    assert listener.of("read-state/stale") == []
    project.fact("a.md", body="other")
    listener.flush()
    assert listener.topics.index("memory/changed") < listener.topics.index("read-state/stale")
    assert {one["session"]["id"][-1] for one in listener.of("read-state/stale")} == {"A", "B"}
    project.fact("a.md", body="third")
    listener.flush()
    assert len(listener.of("read-state/stale")) == 2
    (project.memory / "a.md").unlink()
    listener.flush()
    assert [one["now"] for one in listener.of("read-state/stale")[2:]] == [None, None]


def test_a_stamp_is_told_as_such(shared, project):
    """Other bytes, the same meaning."""
    two(project)
    shared.call("daemon.flush", rescan=True)
    listener = shared.listen(project)
    a = agent(shared, project, "A")
    a.call("memory.read", name="a")
    text = (project.memory / "a.md").read_text()
    save(
        project.memory / "a.md", text.replace("  type: project\n", "  type: project\n  originSessionId: 1\n")
    )
    listener.flush()
    assert [one.get("stamp") for one in listener.of("read-state/stale")] == [True]
    [one] = a.call("readState.check", paths=[str(project.memory / "a.md")])["states"]
    assert (one["state"], one["stamp"]) == ("stale", True)
    assert a.call("session.news")["text"] == ""


def test_a_hosts_own_read_is_reported(shared, project):
    """By whatever path it came; only as good as what the report proves."""
    two(project)
    shared.call("daemon.flush", rescan=True)
    link = project.cwd / "link"
    link.symlink_to(project.memory)
    a = agent(shared, project, "A")
    listener = shared.listen(project)
    status = os.stat(project.memory / "a.md")
    told = {"mtimeMs": status.st_mtime_ns // 1_000_000, "sizeBytes": status.st_size}
    a.call("readState.report", path=str(link / "a.md"), kind="full", **told)
    assert state(a, project.memory / "a.md") == "current"
    a.call("readState.report", path=str(project.memory / "b.md"), kind="partial", range=[1, 3], **told)
    assert state(a, project.memory / "b.md") in ("partial", "stale")
    listener.flush()
    assert [one["kind"] for one in listener.of("read-state/read")] == ["full", "partial"]
    with pytest.raises(NotFound):
        a.call("readState.report", path=str(project.cwd / "README.md"), kind="full")
    assert state(a, project.cwd / "README.md") == "unread"


def test_a_host_that_reads_or_writes_the_index_itself_knows_its_entries(shared, project):
    """A full report of the index as it is now counts as `memory.index`; one in part, or of other bytes, does not."""
    two(project)
    shared.call("daemon.flush", rescan=True)
    a = agent(shared, project, "A")
    index = project.memory / "MEMORY.md"

    def told(kind, **stamp):
        a.call("readState.report", path=str(index), kind=kind, **stamp)
        return a.call("session.news")["index"]

    project.fact("c.md")
    project.write_index("a.md", "b.md", "c.md")
    shared.call("daemon.flush")
    status = os.stat(index)
    stamp = {"mtimeMs": status.st_mtime_ns // 1_000_000, "sizeBytes": status.st_size}
    for kind, given in (("full", {}), ("full", {**stamp, "sizeBytes": 1}), ("partial", stamp)):
        assert told(kind, **given)["stale"]
    assert told("full", **stamp) == {"stale": False, "added": [], "changed": [], "removed": []}
    assert "c.md" not in [one["target"] for one in a.call("session.news")["index"]["added"]]


def test_a_stale_reader_does_not_overwrite(shared, project):
    """An upsert by a session that has read another content is a conflict; one that never read it may."""
    two(project)
    shared.call("daemon.flush", rescan=True)
    a, b = agent(shared, project, "A"), agent(shared, project, "B")
    a.call("memory.read", name="a")
    project.fact("a.md", body="somebody else's")
    with pytest.raises(RevisionConflict):
        write(a, "a")
    write(b, "a")
    a.call("memory.read", name="a")
    write(a, "a", "mine now")


def test_an_announced_write_is_attributed(shared, project):
    """`by` in the event and in the history; the writer is not told of it; who else is at it is told at once."""
    two(project)
    shared.call("daemon.flush", rescan=True)
    a, b = agent(shared, project, "A"), agent(shared, project, "B")
    listener = shared.listen(project)
    path = str(project.memory / "a.md")
    assert a.call("write.intent", path=path) == {"stale": False, "conflicts": []}
    other = b.call("write.intent", path=str(project.memory / "b.md"))
    assert other["conflicts"] == []
    project.fact("a.md", body="by A itself")
    listener.flush()
    [event] = [one for one in listener.of("memory/changed") if one["changes"][0]["file"] == "a.md"]
    assert event["by"]["id"].endswith("-A")
    assert a.call("session.news")["text"] == ""
    assert state(a, path) == "current"
    [conflict] = b.call("write.intent", path=path)["conflicts"]
    assert conflict.pop("until")
    assert conflict == event["by"]
    assert a.call("write.intent", path=path, baseRevision="mtime:1:size:1")["stale"]


def test_a_writer_that_knew_the_index_loses_nothing(shared, project):
    """Entries that an announced writer takes out of an index that it had read are an edit, not a loss."""
    names = [f"{letter}.md" for letter in "abcd"]
    project.make({name: fact_text(name[0]) for name in names})
    shared.call("daemon.flush", rescan=True)
    a = agent(shared, project, "A")
    listener = shared.listen(project)
    a.call("write.intent", path=str(project.memory / "MEMORY.md"))
    save(project.memory / "MEMORY.md", "# Memory\n\n" + entry("a.md") + entry("b.md"))
    listener.flush()
    assert "entry-lost" not in listener.codes("appeared")


def test_who_destroyed_something_is_named(shared, project):
    """An announced writer that did not know what it overwrote: its name stands in the finding."""
    project.make({f"{letter}.md": fact_text(letter) for letter in "abcd"})
    shared.call("daemon.flush", rescan=True)
    a = agent(shared, project, "A", reason="attach")
    listener = shared.listen(project)
    a.call("write.intent", path=str(project.memory / "MEMORY.md"))
    save(project.memory / "MEMORY.md", "# Memory\n\n" + entry("a.md") + entry("b.md"))
    listener.flush()
    by = {"host": "pi", "id": f"{project.cwd.name}-A"}
    told = [one for data in listener.of("memory/audit") for one in data["appeared"]]
    assert [(one["code"], one["by"]) for one in told] == [("entry-lost", by)] * 2
    found = shared.call("audit.get", dir=project.dir)["findings"]
    assert [one["by"] for one in found if one["code"] == "entry-lost"] == [by] * 2
    assert found[0]["message"]


def test_a_fork_knows_what_its_parent_knew(shared, project):
    """Reads and baseline; from then on each has its own."""
    two(project)
    shared.call("daemon.flush", rescan=True)
    a, b = agent(shared, project, "A"), agent(shared, project, "B")
    a.call("memory.read", name="a")
    write(b)
    fork = agent(shared, project, "F", reason="fork", parent=f"{project.cwd.name}-A")
    assert state(fork, project.memory / "a.md") == "current"
    assert "new-fact" in fork.call("session.news", commit=True)["text"]
    assert "new-fact" in a.call("session.news")["text"]


def test_half_a_write_is_not_news_yet(shared, project):
    """A fact without its entry waits for it; then both are told."""
    two(project)
    shared.call("daemon.flush", rescan=True)
    a = agent(shared, project, "A")
    project.fact("late.md")
    shared.call("daemon.flush")
    first = a.call("session.news", commit=True)
    assert "late" not in first["text"]
    project.write_index("a.md", "b.md", "late.md")
    shared.call("daemon.flush")
    assert "late" in a.call("session.news")["text"]


def test_what_came_and_went_is_no_news(shared, project):
    """Nor what is again as it was."""
    two(project)
    shared.call("daemon.flush", rescan=True)
    a = agent(shared, project, "A")
    text = (project.memory / "a.md").read_text()
    project.fact("x.md")
    project.fact("a.md", body="otherwise")
    shared.call("daemon.flush")
    (project.memory / "x.md").unlink()
    (project.memory / "a.md").write_text(text)
    shared.call("daemon.flush")
    news = a.call("session.news")
    assert (news["text"], news["changes"]) == ("", [])


def test_alarms_are_told_once(shared, project):
    """For the person, by way of the model."""
    project.make({f"{letter}.md": fact_text(letter) for letter in "abcd"})
    shared.call("daemon.flush", rescan=True)
    a = agent(shared, project, "A")
    save(project.memory / "MEMORY.md", "# Memory\n\n" + entry("a.md") + entry("b.md"))
    shared.call("daemon.flush")
    news = a.call("session.news", commit=True)
    assert {one["code"] for one in news["alarms"]} == {"entry-lost"}
    assert news["text"]
    assert a.call("session.news")["alarms"] == []


def test_a_session_hears_of_its_own_reads_only(shared, project):
    """And asks about its own directory only."""
    two(project)
    other = shared.machine.project("elsewhere-reads")
    two(other)
    shared.call("daemon.flush", rescan=True)
    a = agent(shared, project, "A")
    with pytest.raises(Refused):
        a.call("readState.report", path=str(other.memory / "a.md"), kind="full")
    with pytest.raises(Refused):
        a.call("write.intent", path=str(other.memory / "a.md"))
    with pytest.raises(Refused):
        shared.call("session.news")
    assert [row["id"] for row in a.call("session.list")["sessions"]] == [f"{project.cwd.name}-A"]


def test_a_purge_forgets_what_was_read(machine):
    """No hash of it is left in the account."""
    project = machine.project()
    two(project)
    daemon = machine.start()
    a = agent(daemon, project, "A")
    digest = a.call("memory.read", name="a")["contentHash"]
    a.call("memory.forget", name="a", purge=True)
    assert digest.encode() not in b"".join(
        path.read_bytes() for path in machine.state.rglob("*") if path.is_file()
    )
    daemon.stop()


def test_names_are_found_in_either_form_of_unicode(shared, project):
    """A path whose accents are written as two characters means the file whose are one; what nobody knows is unread."""
    two(project)
    project.fact("café-à-côté.md")
    shared.call("daemon.flush", rescan=True)
    a = agent(shared, project, "A")
    a.call("memory.read", name="café-à-côté.md")
    a.call("memory.read", name="a")
    names = ["a.md", "café-à-côté.md", unicodedata.normalize("NFD", "café-à-côté.md")]
    names += [f"nobody-{number}.md" for number in range(100)]
    states = a.call("readState.check", paths=[str(project.memory / name) for name in names])["states"]
    assert [one["state"] for one in states] == ["current"] * 3 + ["unread"] * 100


def test_open_news_are_counted_anew_when_they_change(shared, project):
    """`session.list` counts what `session.news` would tell: after a write, once confirmed, and when half a write has
    waited long enough."""
    two(project)
    shared.call("daemon.flush", rescan=True)
    a, b = agent(shared, project, "A"), agent(shared, project, "B")

    def count():
        rows = shared.call("session.list", limit=500)["sessions"]
        return next(row["news"] for row in rows if row["id"] == f"{project.cwd.name}-A")

    assert (count(), count()) == (0, 0)
    write(b)
    assert (count(), count()) == (1, 1)
    write(b, "second")
    assert count() == 2
    a.call("session.news", commit=True)
    assert count() == 0
    project.fact("late.md")
    shared.call("daemon.flush")
    until(lambda: count() == 1, "the news of a fact without an entry")
    agent(shared, project, "A", reason="compact")
    assert count() == 3
