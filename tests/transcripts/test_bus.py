"""The bus of a running daemon: its files, who may have it, sessions and their scope, subscriptions."""

from __future__ import annotations

import json
import os
import signal
import stat
from pathlib import Path

import pytest

from tests.transcripts.machine import Machine, Project, Running, entry, fact_text, save, until
from zcsyncd.errors import InvalidParams, NotFound, Refused, UnsupportedProtocol, ZcsyncdError


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# -- coming and going -----------------------------------------------------------------------------------------


def test_the_bus_is_private_and_one_daemons_only(machine: Machine) -> None:
    """Socket and `endpoint.json` are 0600, kept from a second daemon (exit 4, with the other's pid), and gone after
    SIGTERM."""
    daemon = machine.start()
    assert (_mode(machine.runtime), _mode(machine.state)) == (0o700, 0o700)
    assert _mode(machine.runtime / "bus.sock") == 0o600
    assert _mode(machine.endpoint) == 0o600
    told = json.loads(machine.endpoint.read_text())
    assert (told["address"], told["pid"], told["protocol"]) == (machine.address, daemon.pid, 1)
    assert {"host", "startedAt", "version"} < told.keys()
    private = [path for path in machine.state.rglob("*") if path.is_file() and _mode(path) & 0o077]
    assert private == [], "what is kept of a person's memory is open to others"
    inode = (machine.runtime / "bus.sock").stat().st_ino
    second = machine.cli("run")
    assert second.returncode == 4
    assert str(daemon.pid) in second.stderr
    assert "Traceback" not in second.stderr
    assert (machine.runtime / "bus.sock").stat().st_ino == inode
    daemon.call("ping")
    os.kill(daemon.pid, signal.SIGTERM)
    daemon.wait(0)
    assert not machine.endpoint.exists()
    assert not (machine.runtime / "bus.sock").exists()


def test_a_stale_socket_is_replaced(machine: Machine) -> None:
    """After kill -9 the next daemon takes over socket, lock and endpoint of the dead one."""
    machine.start().kill()
    assert (machine.runtime / "bus.sock").exists()
    assert machine.endpoint.exists()
    refused = machine.cli("status")
    assert refused.returncode == 3
    daemon = machine.start()
    assert json.loads(machine.endpoint.read_text())["pid"] == daemon.pid
    daemon.stop()


def test_stop_is_answered_when_all_is_down(machine: Machine) -> None:
    """`daemon.stop` is answered after the endpoint file has gone; a subscriber hears `daemon/stopping` before."""
    daemon = machine.start()
    listener = daemon.listen()
    assert daemon.client().call("daemon.stop") == {}
    assert not machine.endpoint.exists()
    listener.until_topic("daemon/stopping")
    daemon.wait(0)
    assert not (machine.runtime / "bus.sock").exists()


def test_an_interrupt_during_the_start_ends_it_cleanly(machine: Machine) -> None:
    """A daemon that is told to leave while it still begins leaves, with code 0."""
    machine.project().make({f"f{n}.md": fact_text(f"f{n}") for n in range(50)})
    daemon = machine.launch()
    until(machine.endpoint.exists, "the endpoint file")
    os.kill(daemon.pid, signal.SIGINT)
    daemon.wait(0)
    assert not machine.endpoint.exists()


def test_an_open_runtime_directory_is_refused(machine: Machine) -> None:
    """A runtime directory that others may enter is no place for the bus: one line, exit 7, nothing started."""
    machine.runtime.chmod(0o755)
    done = machine.cli("run")
    assert done.returncode == 7, done.stderr
    assert str(machine.runtime) in done.stderr
    assert "Traceback" not in done.stderr
    assert not (machine.runtime / "bus.sock").exists()


# -- subscriptions --------------------------------------------------------------------------------------------


def test_topics_and_directories_filter(shared: Running, project: Project) -> None:
    """A subscription is told what its globs and directories let through, and nothing else."""
    other = Project(shared.machine.home, project.cwd.with_name("other" + project.cwd.name))
    project.make({"one.md": fact_text("one")})
    other.make({"two.md": fact_text("two")})
    shared.call("daemon.flush")
    index = shared.listen(project, topics=["memory/i*"])
    everything = shared.listen(project, other)
    project.fact("one.md", body="Changed.")
    save(project.memory / "MEMORY.md", entry("one.md", hook="Changed"))
    other.fact("two.md", body="Changed.")
    for listener in (index, everything):
        listener.flush()
    assert index.topics == ["memory/index"]
    assert {event["dir"] for event in everything.heard} == {project.dir, other.dir}
    by_cwd = shared.listen(cwd=str(project.cwd), since=everything.begun, topics=["memory/*"])
    by_cwd.flush()
    assert {event["dir"] for event in by_cwd.heard} == {project.dir}


def test_a_directory_may_be_awaited(shared: Running, project: Project) -> None:
    """A subscription to a directory that does not exist yet hears of it when it comes."""
    listener = shared.listen(project)
    project.make({"one.md": fact_text("one")})
    listener.until_topic("memory/dir-added")
    listener.flush()
    assert "added" in listener.kinds("one.md")


def test_since_replays_what_was_missed_then_goes_on(shared: Running, project: Project) -> None:
    """`since` gives what came after it in order, each with its own cursor, and then what happens now."""
    project.make({"one.md": fact_text("one")})
    first = shared.listen(project)
    first.forget()
    for number in range(5):
        project.fact("one.md", body=f"{number}")
        first.flush()
    cursors = [event["cursor"] for event in first.heard]
    for position, cursor in enumerate(cursors):
        late = shared.listen(project, since=cursor)
        assert late.begun == cursor
        late.call("ping")
        assert [event["cursor"] for event in late.gather()] == cursors[position + 1 :]
    project.fact("one.md", body="live")
    late.flush()
    assert late.kinds() == ["updated"]


def test_another_journal_is_a_gap(shared: Running, project: Project) -> None:
    """A `since` of another journal, or ahead of the head, is told as `journal-reset`, then it goes on live."""
    head = shared.call("ping")["cursor"]
    ahead = f"{head.partition(':')[0]}:{10**9}"
    for since in ("0123456789abcdef:7", ahead):
        listener = shared.listen(since=since, topics=["memory/changed"])
        listener.call("ping")
        (gap,) = listener.gather()
        assert (gap["topic"], gap["data"]) == ("bus/gap", {"reason": "journal-reset", "missed": None})
        assert gap["cursor"].partition(":")[0] == head.partition(":")[0]
        project.make({"one.md": fact_text("one", body=since)})
        listener.flush()
        assert any(change["file"] == "one.md" for change in listener.changes(directory=project.dir))


def test_a_cursor_that_is_none_is_a_mistake(shared: Running) -> None:
    """Nonsense for `since` is `invalid-params` that names it, and leaves no subscription behind."""
    client = shared.client()
    with pytest.raises(InvalidParams, match="since"):
        client.call("events.subscribe", since="yesterday")
    with pytest.raises(ZcsyncdError):
        client.call("events.unsubscribe", subscription=1)


def test_after_unsubscribing_nothing_comes(shared: Running, project: Project) -> None:
    """`events.unsubscribe` ends the events of that subscription and of no other on the connection."""
    project.make({"one.md": fact_text("one")})
    listener = shared.listen(project)
    second = listener.call("events.subscribe", dir=project.dir)["subscription"]
    listener.forget()
    listener.call("events.unsubscribe", subscription=listener.subscription)
    project.fact("one.md", body="Changed.")
    listener.call("daemon.flush")
    heard = []
    while (event := listener.next_event(0.001)) is not None:
        heard.append(event["subscription"])
    assert set(heard) == {second}


# -- sessions -------------------------------------------------------------------------------------------------


def test_hello_gives_the_directory_of_the_cwd(shared: Running, project: Project) -> None:
    """A session learns its directory, once it exists, and every call without `dir` means it."""
    client = shared.client()
    ask = {"host": "pi", "id": "hello-1", "cwd": str(project.cwd)}
    assert client.hello("test", "1", ask)["dir"] is None
    with pytest.raises(NotFound) as missing:
        client.call("memory.list")
    assert project.dir in str(missing.value.hint), "whoever asks too early is told where it would be"
    project.make({"one.md": fact_text("one")})
    shared.call("daemon.flush")
    answer = client.hello("test", "1", ask)
    assert (answer["dir"], answer["ready"], answer["protocol"]) == (project.dir, True, 1)
    assert answer["limits"] == {"lineBytes": 1_048_576}
    assert client.call("memory.list")["dir"] == project.dir
    assert client.call("audit.get") == {"total": 0, "findings": []}


def test_a_version_that_nobody_speaks(shared: Running) -> None:
    """`hello` with unknown versions only is refused, and says which one is spoken."""
    with pytest.raises(UnsupportedProtocol):
        shared.client().call("hello", protocol=[2, 3])


def test_a_session_reaches_its_own_directories_only(shared: Running, project: Project) -> None:
    """Another project's memory is refused in every form, and its name is not told."""
    secret = Project(shared.machine.home, project.cwd.with_name("secret" + project.cwd.name))
    project.make({"one.md": fact_text("one")})
    secret.make({"two.md": fact_text("two")})
    save(secret.memory / "MEMORY.md", entry("two.md") + entry("two.md"))
    shared.call("daemon.flush")
    key = shared.call("audit.get", dir=secret.dir)["findings"][0]["key"]
    client = shared.client(id="scope-1", cwd=str(project.cwd), dirs=[str(secret.cwd.parent)])
    for method, params in (
        ("memory.list", {"dir": secret.dir}),
        ("memory.list", {"cwd": str(secret.cwd)}),
        ("memory.read", {"dir": secret.dir, "name": "two"}),
        ("memory.read", {"dir": f"{project.dir}/../../{secret.memory.parent.name}/memory", "name": "two"}),
        ("memory.index", {"dir": secret.dir}),
        ("audit.get", {"dir": secret.dir}),
        ("audit.dismiss", {"key": key}),
        ("events.subscribe", {"dir": secret.dir}),
        ("events.subscribe", {"cwd": str(secret.cwd)}),
        ("dirs.resolve", {"cwd": str(secret.cwd)}),
        ("dirs.allow", {"dir": secret.dir, "allow": True}),
        ("daemon.stop", {}),
    ):
        with pytest.raises(Refused) as refused:
            client.call(method, params)
        assert type(refused.value) is Refused, method
    assert [one["dir"] for one in client.call("dirs.list")["dirs"]] == [project.dir]
    assert "secret" not in json.dumps(client.call("status"))
    assert client.call("dirs.resolve")["dir"] == project.dir
    client.call("daemon.flush")

    cursor = client.call("events.subscribe")["cursor"]
    secret.fact("two.md", body="Nobody's business.")
    project.fact("one.md", body="Ours.")
    client.call("daemon.flush")
    heard = []
    while (event := client.next_event(0.001)) is not None:
        heard.append(event["dir"])
    assert heard
    assert set(heard) == {project.dir}, cursor


def test_a_session_may_ask_for_everything(shared: Running, project: Project) -> None:
    """With `"scope":"all"` a session reaches every directory, as a person's dashboard does."""
    project.make({"one.md": fact_text("one")})
    shared.call("daemon.flush")
    client = shared.client(id="all-1", cwd=str(shared.machine.home / "nowhere"), scope="all")
    assert client.call("memory.list", dir=project.dir)["total"] == 1
    assert client.call("dirs.list")["total"] == shared.call("dirs.list")["total"]


def test_a_read_in_a_session_is_told(shared: Running, project: Project) -> None:
    """A whole read carries its content's hash, a cut one none; other sessions hear nothing; a replay says so."""
    project.make({"small.md": fact_text("small"), "large.md": fact_text("large", body="Word. " * 1000)})
    shared.call("daemon.flush")
    reader = shared.client(id="read-1", cwd=str(project.cwd))
    before = reader.call("events.subscribe", topics=["read-state/*"])["cursor"]
    other = shared.client(id="read-2", cwd=str(project.cwd))
    other.call("events.subscribe")
    small = reader.call("memory.read", name="small")
    large = reader.call("memory.read", name="large")
    whole = reader.call("memory.read", name="large", full=True)
    events = [reader.next_event(5) for _ in range(3)]
    assert [event["data"]["kind"] for event in events] == ["full", "truncated", "full"]
    assert events[0]["data"] == {
        "absolutePath": small["absolutePath"],
        "kind": "full",
        "mtimeMs": small["mtimeMs"],
        "sizeBytes": small["sizeBytes"],
        "contentHash": small["contentHash"],
        "session": {"host": "pi", "id": "read-1"},
    }
    assert large["truncated"] == "bytes"
    assert "contentHash" not in events[1]["data"]
    assert events[2]["data"]["contentHash"] == whole["contentHash"]
    other.call("daemon.flush")
    assert other.next_event(0.001) is None, "a session hears of its own reads only"

    replay = shared.client(id="read-1", cwd=str(project.cwd))
    replay.call("events.subscribe", topics=["read-state/*"], since=before)
    for event in events:
        again = replay.next_event(5)
        assert again["cursor"] == event["cursor"]
        assert again["data"] == {**event["data"], "replayed": True}


def test_a_read_without_a_session_is_told_to_nobody(shared: Running, project: Project) -> None:
    """The CLI and scripts leave no trace by reading, and a change of a file is no read."""
    project.make({"one.md": fact_text("one")})
    listener = shared.listen(project)
    listener.forget()
    shared.call("memory.read", dir=project.dir, name="one")
    shared.call("memory.index", dir=project.dir)
    project.fact("one.md", body="Changed.")
    listener.flush()
    assert listener.topics == ["memory/changed"]


def test_reading_finds_facts_by_file_and_by_name(shared: Running, project: Project) -> None:
    """By exact file, file without ending, then name; twins are `ambiguous`, the index is refused with a hint."""
    project.make(
        {
            "file-a.md": fact_text("Name A", body="A."),
            "sub/file-b.md": fact_text("Name B"),
            "twin-1.md": fact_text("Twin"),
            "twin-2.md": fact_text("Twin"),
        }
    )
    shared.call("daemon.flush")
    for name, file in (
        ("file-a.md", "file-a.md"),
        ("file-a", "file-a.md"),
        ("Name A", "file-a.md"),
        ("sub/file-b", "sub/file-b.md"),
        ("Name B", "sub/file-b.md"),
        ("twin-1", "twin-1.md"),
    ):
        answer = shared.call("memory.read", dir=project.dir, name=name)
        assert answer["file"] == file
        assert answer["absolutePath"] == str(project.memory / file)
    for name, word in (
        ("Twin", "ambiguous"),
        ("MEMORY.md", "refused"),
        ("../../x", "not-found"),
        ("no", "not-found"),
    ):
        with pytest.raises(ZcsyncdError) as error:
            shared.call("memory.read", dir=project.dir, name=name)
        assert error.value.word in (word, "refused"), name
    project.fact("brand-new.md", body="Just now.")
    assert "Just now." in shared.call("memory.read", dir=project.dir, name="brand-new")["body"]


def test_an_asked_directory_waits_for_a_person(machine: Machine) -> None:
    """A directory that a project's file names outside of the project is shown, refused and silent until allowed."""
    project = machine.project()
    outside = machine.home / "notes" / "memory"
    outside.mkdir(parents=True)
    save(outside / "one.md", fact_text("one"))
    (project.cwd / ".pi").mkdir(parents=True)
    (project.cwd / ".pi" / "zcode-memory.json").write_text(json.dumps({"dir": str(outside)}))
    daemon = machine.start()
    listener = daemon.listen()
    client = daemon.client(cwd=str(project.cwd))
    assert [one["dir"] for one in daemon.call("status")["asked"]] == [str(outside)]
    for asked in ({}, {"dir": str(outside)}, {"cwd": str(project.cwd)}):
        for asking in (client, daemon.client()):
            if asked or asking is client:
                with pytest.raises(Refused):
                    asking.call("memory.list", asked)
    save(outside / "two.md", fact_text("two"))
    listener.flush(rescan=True)
    assert listener.changes() == []
    assert daemon.call("dirs.list")["total"] == 0
    with pytest.raises(Refused):
        client.call("dirs.allow", dir=str(outside), allow=True)

    allowed = machine.cli("dirs", "--allow", str(outside))
    assert allowed.returncode == 0, allowed.stderr
    assert daemon.call("status")["asked"] == []
    assert client.call("memory.list")["total"] == 2
    save(outside / "three.md", fact_text("three"))
    listener.flush()
    assert listener.kinds("three.md") == ["added"]
    daemon.stop()
    daemon = machine.start()
    assert [one["dir"] for one in daemon.call("dirs.list")["dirs"]] == [str(outside)]
    undone = machine.cli("dirs", "--allow", str(outside), "--undo")
    assert undone.returncode == 0, undone.stderr
    assert daemon.call("dirs.list")["total"] == 0
    with pytest.raises(ZcsyncdError):
        daemon.call("memory.list", dir=str(outside))
    daemon.stop()


def test_what_can_never_be_memory_is_refused(shared: Running) -> None:
    """Nobody can allow a file-system root, a home, what is above it, or an agent's own directory."""
    home = shared.machine.home
    (home / ".pi" / "agent").mkdir(parents=True, exist_ok=True)
    for path in ("/", str(home), str(home.parent), str(home / ".zcode"), str(home / ".pi" / "agent")):
        with pytest.raises(Refused):
            shared.call("dirs.allow", dir=path, allow=True)


def test_an_environment_that_differs_is_shown(shared: Running, project: Project) -> None:
    """A session whose variables move a root that the daemon does not know of makes `status` tell so."""
    shared.client(id="env-1", cwd=str(project.cwd), env={"ZCODE_STORAGE_DIR": "/somewhere/else"})
    told = shared.call("status")["environment"]
    assert any((one["name"], one["session"]) == ("ZCODE_STORAGE_DIR", "/somewhere/else") for one in told)


def test_describe_is_enough_to_write_a_client(shared: Running) -> None:
    """`describe` names every method and topic with schemas that are valid themselves."""
    answer = shared.call("describe")
    assert {"hello", "ping", "status", "memory.read", "events.subscribe", "daemon.stop"} < answer[
        "methods"
    ].keys()
    assert {"memory/changed", "bus/gap", "daemon/started"} < answer["topics"].keys()
    for method in answer["methods"].values():
        assert method["summary"]
        assert method["params"]["type"] == "object"
