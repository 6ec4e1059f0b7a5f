"""Two agents and one memory: a session of hooks on one side, another agent's tool on the other; a transcript."""

import os
import subprocess

from tests.plugins.hooks import HookHost
from tests.transcripts.machine import entry, fact_text, save


def other(running, project):
    return running.client(cwd=str(project.cwd), host="pi", id=f"{project.cwd.name}-pi")


def write(client, name, description="When it turns", body="Words.\n", mode="create"):
    return client.call(
        "memory.write", name=name, description=description, type="project", body=body, mode=mode
    )


def hooked(running, project, host="zcode"):
    made = HookHost(running.machine, project.cwd, f"{project.cwd.name}-{host}", host)
    made.start()
    return made


def row(running, host):
    rows = running.call("session.list")["sessions"]
    return next(one for one in rows if (one["host"], one["id"]) == (host.host, host.session))


def test_the_story_of_two_agents(running, project):
    """A session starts, prompts and stops; another agent writes; the next prompt names the new entry, a third is silent."""
    zcode = hooked(running, project)
    assert zcode.prompt() is None
    zcode.stop()
    write(other(running, project), "harbour-tide")
    news = zcode.prompt()
    assert "harbour-tide" in news
    assert "When it turns" in news
    assert "pi" in news
    assert zcode.prompt() is None
    zcode.stop()
    assert zcode.prompt() is None


def test_output_that_was_lost_is_said_again(running, project):
    """A host that closed the pipe, or killed the hook before it spoke, was told nothing; a stop confirms what was said."""
    zcode = hooked(running, project)
    write(other(running, project), "harbour-tide")
    said = b'{"hook_event_name":"UserPromptSubmit","session_id":"%s","cwd":"%s"}\n' % (
        zcode.session.encode(),
        str(project.cwd).encode(),
    )
    for _ in range(2):
        reader, writer = os.pipe()
        os.close(reader)
        assert zcode.raw(said, stdout=writer).returncode == 0
        os.close(writer)
        zcode.stop()
    assert "harbour-tide" in zcode.prompt()
    zcode.stop()
    assert zcode.prompt() is None


def test_news_of_a_long_run_come_after_a_tool(running, project):
    """A read of a memory file tells them in the middle of a turn; a read elsewhere asks nobody."""
    zcode = hooked(running, project)
    write(other(running, project), "harbour-tide")
    assert zcode.after("Read", project.cwd / "README.md") is None
    assert "harbour-tide" in zcode.after("Read", project.memory / "a.md")
    assert zcode.after("Read", project.memory / "b.md") is None


def test_what_the_session_wrote_itself_is_no_news_to_it(running, project):
    """Facts and index, whole or edited, by the host's own tools; to another session they are."""
    zcode, claude = hooked(running, project), hooked(running, project, "claude-code")
    fact, index = project.memory / "mine.md", project.memory / "MEMORY.md"
    text = fact_text("mine")
    save(fact, text)
    assert zcode.after("Write", fact, content=text) is None
    whole = index.read_text() + entry("mine.md")
    save(index, whole)
    assert zcode.after("Edit", index, old_string="x", new_string="y") is None
    running.call("daemon.flush")
    assert zcode.prompt() is None
    assert "mine" in claude.prompt()
    assert row(running, zcode)["index"] == "current"


def test_reads_are_reported_as_they_were(running, project):
    """Whole, in part, and one that is outdated before it is reported."""
    zcode = hooked(running, project)
    listener = running.listen(project)
    content = (project.memory / "a.md").read_text()
    lines = content.count("\n")
    whole = {"file": {"content": content, "startLine": 1, "numLines": lines, "totalLines": lines}}
    zcode.after("Read", project.memory / "a.md", whole)
    zcode.after("Read", project.memory / "b.md", offset=2, limit=3)
    listener.flush()
    told = [
        (one["absolutePath"][-4:], one["kind"], one.get("range")) for one in listener.of("read-state/read")
    ]
    assert told == [("a.md", "full", None), ("b.md", "partial", [2, 4])]
    session = {"host": "zcode", "id": zcode.session}
    assert {tuple(one["session"].items()) for one in listener.of("read-state/read")} == {
        tuple(session.items())
    }
    same = running.client(host="zcode", id=zcode.session, cwd=str(project.cwd))
    states = same.call("readState.check", paths=[str(project.memory / "a.md"), str(project.memory / "b.md")])
    assert [one["state"] for one in states["states"]] == ["current", "partial"]
    other_text = {"file": {**whole["file"], "content": "something else\n" * lines}}
    zcode.after("Read", project.memory / "a.md", other_text)
    [one] = same.call("readState.check", paths=[str(project.memory / "a.md")])["states"]
    assert one["state"] == "unread", "what it had is nowhere any more: it knows nothing of what is there now"


def test_after_a_compaction_it_is_told_once_more(running, project):
    """What was said since the start may be gone from the model's context."""
    zcode = hooked(running, project)
    write(other(running, project), "harbour-tide")
    assert "harbour-tide" in zcode.prompt()
    assert zcode.prompt() is None
    zcode.start("compact")
    assert "harbour-tide" in zcode.prompt()
    zcode.start("clear")
    assert zcode.prompt() is None


def test_an_outdated_index_is_asked_about(running, project):
    """Where that hook was chosen: the person is asked, never refused; after reading it again nobody is."""
    zcode = hooked(running, project)
    index = project.memory / "MEMORY.md"
    assert zcode.before("Write", index, content="# Memory\n") is None
    write(other(running, project), "harbour-tide")
    output = zcode.before("Write", index, content="# Memory\n")
    assert output["permissionDecision"] == "ask"
    assert "Read it again" in output["permissionDecisionReason"]
    text = index.read_text()
    zcode.after("Read", index, {"file": {"content": text, "startLine": 1, "numLines": 9, "totalLines": 9}})
    assert zcode.before("Write", index, content=text) is None


def test_an_announced_write_is_attributed(running, project):
    """With that hook, who wrote what stands in the events."""
    zcode = hooked(running, project)
    listener = running.listen(project)
    fact = project.memory / "a.md"
    assert zcode.before("Edit", fact, old_string="x", new_string="y") is None
    save(fact, fact_text("a", body="by ZCode itself"))
    listener.flush()
    [event] = [one for one in listener.of("memory/changed") if one["changes"][0]["file"] == "a.md"]
    assert event["by"] == {"host": "zcode", "id": zcode.session}


def test_a_session_of_claude_code_is_told_of_one_of_zcode(running, project):
    """Hooks on both sides."""
    zcode, claude = hooked(running, project), hooked(running, project, "claude-code")
    fact = project.memory / "a.md"
    zcode.before("Write", fact, content="x")
    save(fact, fact_text("a", description="Said otherwise"))
    zcode.after("Write", fact, content=fact_text("a", description="Said otherwise"))
    running.call("daemon.flush")
    assert "a.md" in claude.prompt()
    assert zcode.prompt() is None


def test_a_daemon_that_was_restarted_goes_on(machine):
    """The session, its token and its news outlive the daemon."""
    project = machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start()
    zcode = HookHost(machine, project.cwd)
    zcode.start()
    write(other(daemon, project), "harbour-tide")
    assert "harbour-tide" in zcode.prompt()
    daemon.kill()
    assert zcode.prompt() is None
    daemon = machine.start()
    assert zcode.prompt() is None, "it was confirmed late, but is not said again"
    write(other(daemon, project), "second")
    assert "second" in zcode.prompt()
    daemon.stop()


def test_hooks_side_by_side_lose_nothing(running, project):
    """A host runs its hooks at the same time: what none of them said is said later, and no file is left behind."""
    zcode = hooked(running, project)
    write(other(running, project), "harbour-tide")
    said = (
        b'{"hook_event_name":"PostToolUse","session_id":"%s","cwd":"%s","tool_name":"Read","tool_input":{"file_path":"%s"}}\n'
        % (zcode.session.encode(), str(project.cwd).encode(), str(project.memory / "a.md").encode())
    )
    running_ones = [
        subprocess.Popen(
            ["/bin/sh", "-c", zcode.line],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=running.machine.env,
        )
        for _ in range(6)
    ]
    told = [one.communicate(said, timeout=20)[0] for one in running_ones]
    write(other(running, project), "second")
    later = zcode.prompt()
    said = sum(b"harbour-tide" in one for one in told)
    assert said == 1 or (said == 0 and "harbour-tide" in later)
    assert "second" in later
    assert zcode.prompt() is None
    place = running.machine.state / "hooks" / "zcode"
    assert {path.suffix for path in place.iterdir() if not path.name.startswith("last.")} == {".json"}
