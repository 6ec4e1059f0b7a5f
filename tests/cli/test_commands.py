"""The verbs with a real daemon: one question, one answer, shown as text and as JSON."""

import json
import os
import select
import time

WAIT_S = 30.0

FACT = "---\nname: {name}\ndescription: {text}\nmetadata:\n  node_type: memory\n  type: project\n---\nbody\n"


def follow(shell, *words: str):
    """Start `events`; give the process once its subscription stands."""
    before = shell.json("status")["bus"]["subscriptions"]
    process = shell.start("events", *words)
    until = time.monotonic() + WAIT_S
    while shell.json("status")["bus"]["subscriptions"] == before:
        assert process.poll() is None
        assert time.monotonic() < until
    return process


def read_until(process, word: str) -> str:
    """Read a following verb's stdout until a word is in it."""
    text = ""
    until = time.monotonic() + WAIT_S
    while word not in text:
        assert time.monotonic() < until, text
        if select.select([process.stdout], [], [], 1)[0]:
            part = os.read(process.stdout.fileno(), 65_536).decode()
            assert part, text
            text += part
    return text


def end(process) -> str:
    """End a following verb; give what it said on stderr."""
    process.terminate()
    with process:
        return process.stderr.read()


def test_directories_are_listed_and_found(shell, daemon):
    """`dirs` lists what there is, `dirs CWD` finds the directory of a project, or where it would be."""
    cwd = shell.project()
    assert shell.run("dirs").stdout.startswith("no memory directories yet")
    found = shell.json("dirs", str(cwd))
    assert found["dir"] is None
    assert "no memory yet" in shell.run("dirs", ".", cwd=cwd).stdout
    follower = follow(shell, "--topic", "memory/dir-added")
    memory = shell.memory(cwd, "flat-types")
    assert str(memory) == found["computedDir"]
    read_until(follower, "memory/dir-added")
    assert end(follower) == ""
    assert shell.json("dirs", str(cwd))["dir"] == str(memory)
    assert str(memory) in shell.run("dirs", ".", cwd=cwd).stdout
    (row,) = shell.json("dirs")["dirs"]
    assert (row["dir"], row["facts"], row["label"]) == (str(memory), 11, "app")
    head, line = shell.run("dirs").stdout.splitlines()
    assert head.split() == ["PROJECT", "LAYOUT", "FACTS", "ENTRIES", "FINDINGS", "DIRECTORY"]
    assert line.split()[:3] == ["app", "zcode", "11"]


def test_a_finding_is_told_dismissed_and_told_again(shell, daemon):
    """`audit` exits with 1 for an error, with 0 once a person has dismissed it, and shows it under --all."""
    cwd = shell.project()
    shell.memory(cwd, "ko-clean")
    done = shell.run("audit", cwd=cwd)
    assert done.returncode == 1
    assert done.stdout.startswith("error front-matter-invalid  ")
    (finding,) = findings(shell, cwd)
    assert shell.run("audit", "--dismiss", finding["key"]).returncode == 0
    done = shell.run("audit", cwd=cwd)
    assert (done.returncode, done.stdout) == (0, "")
    assert "(dismissed)" in shell.run("audit", "--all", cwd=cwd).stdout
    assert shell.run("audit", "--dismiss", finding["key"], "--undo").returncode == 0
    assert shell.run("audit", cwd=cwd).returncode == 1


def findings(shell, cwd):
    """Give what `audit --json` tells."""
    answer = json.loads(shell.run("audit", "--json", cwd=cwd).stdout)
    assert answer["total"] == len(answer["findings"])
    return answer["findings"]


def test_a_pending_finding_is_shown_but_does_not_count(shell, daemon):
    """What waits for its other half is marked and fails nothing, even with --fail-on warning."""
    cwd = shell.project()
    memory = shell.memory(cwd, "flat-types")
    assert shell.run("audit", cwd=cwd).returncode == 0
    (memory / "new.md").write_text(FACT.format(name="new", text="not indexed yet"))
    done = shell.run("audit", "--fail-on", "warning", cwd=cwd)
    assert done.returncode == 0
    assert "warning fact-unindexed  new.md  (pending)" in done.stdout


def test_an_unknown_key_is_not_found(shell, daemon):
    """Dismissing what is not there gives exit code 5."""
    assert shell.run("audit", "--dismiss", "nothing").returncode == 5


def test_a_directory_that_the_daemon_does_not_keep_is_read_directly(shell, daemon, samples):
    """`audit DIR` and `memory --dir DIR` work on any directory beside a running daemon."""
    done = shell.run("audit", str(samples / "ko-clean"))
    assert done.returncode == 1
    assert "front-matter-invalid" in done.stdout
    assert shell.json("memory", "list", "--dir", str(samples / "ko-clean"))["total"] == 13


def test_memory_with_and_without_a_daemon_is_the_same(shell, daemon):
    """List, read and index give the same JSON whether the daemon answers or the disk is read."""
    cwd = shell.project()
    memory = shell.memory(cwd, "en-one-unindexed")
    words = [
        ("list",),
        ("read", "feedback_cesos_ti_lepiri_mema_sibep"),
        ("read", "feedback_cesos_ti_lepiri_mema_sibep.md", "--full"),
        ("index",),
    ]
    asked = [shell.json("memory", *word, cwd=cwd) for word in words]
    assert shell.run("stop").returncode == 0
    daemon.wait(WAIT_S)
    assert [shell.json("memory", *word, cwd=cwd) for word in words] == asked
    assert asked[0]["dir"] == str(memory)


def test_reading_what_is_not_there(shell, daemon):
    """A missing fact is exit code 5, the index exit code 7 with the verb that shows it, a project without memory 5."""
    cwd = shell.project()
    assert shell.run("memory", "list", cwd=cwd).returncode == 5
    shell.memory(cwd, "flat-types")
    missing = shell.run("memory", "read", "user_lug", cwd=cwd)
    assert missing.returncode == 5
    assert "user_luge.md" in missing.stderr
    index = shell.run("memory", "read", "MEMORY.md", cwd=cwd)
    assert index.returncode == 7
    assert "zcsyncd memory index" in index.stderr


def test_two_facts_of_one_name_are_a_conflict(shell, daemon):
    """A name that two facts have is exit code 6, and both files are named."""
    cwd = shell.project()
    memory = shell.memory(cwd)
    for file in ("a.md", "b.md"):
        (memory / file).write_text(FACT.format(name="twin", text="one of two"))
    done = shell.run("memory", "read", "twin", cwd=cwd)
    assert done.returncode == 6
    assert "a.md, b.md" in done.stderr


def test_a_place_that_is_never_kept_is_refused(shell, daemon):
    """Allowing a file system's root is exit code 7; a directory that is not there is 5."""
    assert shell.run("dirs", "--allow", "/").returncode == 7
    assert shell.run("dirs", "--allow", str(shell.place / "none")).returncode == 5


def test_a_directory_is_allowed_and_taken_back(shell, daemon):
    """`dirs --allow DIR` lets a directory in, `--undo` takes that back."""
    other = shell.place / "other" / "memory"
    other.mkdir(parents=True)
    (other / "a.md").write_text(FACT.format(name="a", text="elsewhere"))
    assert shell.run("dirs", "--allow", str(other)).stdout == f"allowed: {other}\n"
    assert [row["dir"] for row in shell.json("dirs")["dirs"]] == [str(other)]
    assert shell.run("dirs", "--allow", str(other), "--undo").stdout == f"no longer allowed: {other}\n"
    assert shell.json("dirs")["dirs"] == []


def test_what_a_projects_file_names_is_not_read_behind_the_daemons_back(shell, daemon):
    """A directory that only a project's file names stays unread until it is allowed, or named by a person."""
    private = shell.place / "private"
    private.mkdir()
    (private / "secret.md").write_text(FACT.format(name="secret", text="not for this project"))
    cwd = shell.project()
    (cwd / ".pi").mkdir()
    (cwd / ".pi" / "zcode-memory.json").write_text(json.dumps({"dir": str(private)}))
    done = shell.run("memory", "list", cwd=cwd)
    assert done.returncode == 7
    assert "secret" not in done.stdout + done.stderr
    assert shell.run("stop").returncode == 0
    done = shell.run("memory", "list", cwd=cwd)
    assert done.returncode == 7
    assert "secret" not in done.stdout + done.stderr
    assert "secret.md" in shell.run("memory", "list", "--dir", str(private)).stdout


def test_events_are_told_in_words_as_they_come(shell, daemon):
    """`events` names time, project, topic and what changed, at once, and nothing else."""
    cwd = shell.project("tide pool")
    memory = shell.memory(cwd, "flat-types")
    shell.json("memory", "list", cwd=cwd)
    process = follow(shell)
    (memory / "new.md").write_text(FACT.format(name="new", text="A \u202e trap"))
    text = read_until(process, "new.md")
    assert end(process) == ""
    words = text.split("\n")[0].split("  ")
    assert words[1:3] == ["tide-pool", "memory/changed"]
    assert words[3] == "added new.md — A \\u202e trap"


def test_events_as_json_and_by_topic(shell, daemon):
    """`events --json` is one object a line; `--topic` leaves the others out."""
    cwd = shell.project()
    memory = shell.memory(cwd, "flat-types")
    shell.json("memory", "list", cwd=cwd)
    process = follow(shell, "--json", "--topic", "memory/index")
    (memory / "new.md").write_text(FACT.format(name="new", text="A trap"))
    index = memory / "MEMORY.md"
    index.write_bytes(index.read_bytes().rstrip(b"\n") + b"\n- [New](new.md) \xe2\x80\x94 A trap\n")
    text = read_until(process, "new.md")
    assert end(process) == ""
    events = [json.loads(line) for line in text.splitlines()]
    assert {event["topic"] for event in events} == {"memory/index"}
    assert events[-1]["dir"] == str(memory)


def test_following_ends_with_its_place_and_goes_on_there(shell, daemon):
    """When the daemon stops, `events` exits with 3 and tells the cursor from which `--since` misses nothing."""
    cwd = shell.project()
    memory = shell.memory(cwd, "flat-types")
    process = follow(shell)
    (memory / "one.md").write_text(FACT.format(name="one", text="first"))
    read_until(process, "one.md")
    done = shell.run("stop")
    assert (done.returncode, done.stdout) == (0, "stopped\n")
    with process:
        said = process.stderr.read()
    assert process.returncode == 3
    assert "--since " in said
    cursor = said.split("--since ")[1].split("`")[0]
    daemon.wait(WAIT_S)
    (memory / "two.md").write_text(FACT.format(name="two", text="while it was down"))
    again = shell.start("run")
    try:
        until = time.monotonic() + WAIT_S
        while shell.run("status").returncode != 0:
            assert time.monotonic() < until
        process = shell.start("events", "--since", cursor)
        text = read_until(process, "two.md")
        assert "one.md" not in text
        end(process)
    finally:
        again.terminate()
        again.communicate(timeout=WAIT_S)


def test_a_cursor_that_is_none_is_told(shell, daemon):
    """`--since` with something that is no cursor is a usage error."""
    done = shell.run("events", "--since", "yesterday")
    assert done.returncode == 2
    assert "since" in done.stderr


def test_a_second_daemon_is_refused(shell, daemon):
    """`run` beside a running daemon is exit code 4 and names the other's process."""
    done = shell.run("run")
    assert done.returncode == 4
    assert str(daemon.pid) in done.stderr


def test_after_stop_a_new_one_can_start_at_once(shell, daemon):
    """`stop` returns when the process is gone, so that `zcsyncd stop && zcsyncd run` works."""
    import threading

    reaper = threading.Thread(target=daemon.wait)  # as a shell or a service manager would
    reaper.start()
    assert shell.run("stop").returncode == 0
    reaper.join(WAIT_S)
    assert daemon.returncode == 0
    assert not (shell.place / "state" / "endpoint.json").exists()
    assert shell.run("stop").returncode == 3
