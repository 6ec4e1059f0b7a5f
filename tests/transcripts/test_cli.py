"""The control command beside a real daemon, and without one."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from pathlib import Path

import pytest

from tests.transcripts.machine import (
    PATIENCE_S,
    SAMPLES,
    Machine,
    Project,
    Running,
    entry,
    fact_text,
    save,
    until,
)


def _three(project: Project) -> None:
    project.make(
        {
            "one.md": fact_text("one", description="Says one"),
            "two.md": fact_text("two", type="user", body="Line.\n" * 300),
            "sub/three.md": "no front matter\n",
        }
    )


def test_status_in_its_forms(shared: Running, project: Project) -> None:
    """`status` tells how the daemon is, `--address` where it listens, `--config` every setting and its source."""
    machine = shared.machine
    _three(project)
    shared.call("daemon.flush")
    plain = machine.cli("status")
    assert (plain.returncode, plain.stderr) == (0, "")
    assert str(shared.pid) in plain.stdout
    assert "\x1b" not in plain.stdout
    assert machine.json("status")["daemon"]["pid"] == shared.pid
    assert machine.cli("status", "--address").stdout.strip() == machine.address
    assert machine.json("status", "--address") == {"address": machine.address}
    rows = {row["key"]: row for row in machine.json("status", "--config")["settings"]}
    assert rows["audit.grace_s"]["source"] == "config.yaml line 2"
    assert rows["settle.quiet_ms"]["source"] == "default"
    assert rows["bus.address"]["value"] == machine.address


def test_dirs_and_the_directory_of_a_cwd(shared: Running, project: Project) -> None:
    """`dirs` lists every directory, `dirs CWD` finds one working directory's, the current one's relative spelling too."""
    _three(project)
    shared.call("daemon.flush")
    assert project.cwd.name in shared.machine.cli("dirs").stdout
    listed = shared.machine.json("dirs")
    assert project.dir in [one["dir"] for one in listed["dirs"]]
    assert listed["total"] == len(listed["dirs"])
    assert shared.machine.json("dirs", ".", cwd=project.cwd)["dir"] == project.dir
    missing = shared.machine.json("dirs", str(project.cwd / "nothing-here-yet"))
    assert (missing["dir"], missing["source"]) == (None, "none")


def test_audit_exits_by_what_it_finds(shared: Running, project: Project) -> None:
    """Exit 1 from `--fail-on` on, pending findings do not count; the working directory's memory is the default."""
    machine = shared.machine
    project.make({"one.md": fact_text("one")})
    shared.call("daemon.flush")
    clean = machine.cli("audit", cwd=project.cwd)
    assert (clean.returncode, clean.stderr) == (0, "")
    save(project.memory / "MEMORY.md", entry("one.md") * 2)
    assert machine.cli("audit", project.dir).returncode == 0
    warned = machine.cli("audit", project.dir, "--fail-on", "warning")
    assert warned.returncode == 1
    assert "entry-duplicate" in warned.stdout
    assert "MEMORY.md:2" in warned.stdout
    save(project.memory / "bad.md", "---\nname: a: b\n---\n")
    failed = machine.cli("audit", project.dir)
    assert failed.returncode == 1, failed.stdout
    assert "front-matter-invalid" in failed.stdout
    (key,) = [
        one["key"]
        for one in machine.json("audit", project.dir)["findings"]
        if one["code"] == "front-matter-invalid"
    ]
    assert machine.cli("audit", "--dismiss", key).returncode == 0
    assert "front-matter-invalid" not in machine.cli("audit", project.dir).stdout
    assert "front-matter-invalid" in machine.cli("audit", project.dir, "--all").stdout
    assert machine.cli("audit", "--dismiss", "no-such-key").returncode == 5


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        ("flat-types", set()),
        ("index-one-level-up", set()),
        ("en-one-unindexed", {"fact-unindexed", "front-matter-missing"}),  # both of the one fact
        ("ko-clean", {"front-matter-invalid"}),
    ],
)
def test_samples_say_what_they_should_through_the_cli(machine: Machine, sample: str, said: set[str]) -> None:
    """On real directories' clones `zcsyncd audit` is silent, or names the one thing that is wrong, without a daemon."""
    found = machine.json("audit", str(SAMPLES / sample))["findings"]
    assert sorted(one["code"] for one in found) == sorted(said)
    assert len({one["file"] for one in found}) <= 1


def test_the_daemon_says_of_a_sample_what_the_cli_says(shared: Running, project: Project) -> None:
    """A sample in a real root gets the same findings from the daemon, after the grace, as from the disk."""
    for name in sorted((SAMPLES / "en-one-unindexed").iterdir()):
        project.memory.mkdir(parents=True, exist_ok=True)
        (project.memory / name.name).write_bytes(name.read_bytes())
    listener = shared.listen(project)
    listener.until(lambda _: "fact-unindexed" in _codes(shared, project), "the finding")
    assert sorted(_codes(shared, project)) == ["fact-unindexed", "front-matter-missing"]


def _codes(shared: Running, project: Project) -> list[str]:
    return [one["code"] for one in shared.call("audit.get", dir=project.dir)["findings"]]


def test_memory_verbs_say_the_same_with_and_without_a_daemon(machine: Machine) -> None:
    """List, read and index give equal JSON from the daemon and from the disk."""
    project = machine.project()
    _three(project)
    verbs = [
        ("memory", "list"),
        ("memory", "read", "two"),
        ("memory", "read", "sub/three.md", "--full"),
        ("memory", "index"),
    ]
    without = [machine.json(*words, cwd=project.cwd) for words in verbs]
    assert "read directly" in _said_on_a_terminal(machine, "memory", "index", "--dir", project.dir)
    daemon = machine.start()
    assert [machine.json(*words, cwd=project.cwd) for words in verbs] == without
    assert _said_on_a_terminal(machine, "memory", "index", "--dir", project.dir) == ""
    missing = machine.cli("memory", "read", "nobody", cwd=project.cwd)
    assert (missing.returncode, missing.stdout) == (5, "")
    index = machine.cli("memory", "read", "MEMORY.md", cwd=project.cwd)
    assert index.returncode == 7
    assert "memory index" in index.stderr
    daemon.stop()


def test_a_directory_that_the_daemon_does_not_keep_is_read_directly(shared: Running, tmp_path: Path) -> None:
    """`--dir` takes any directory; one that the daemon does not know is read from the disk, and a remark says so."""
    (tmp_path / "x.md").write_text(fact_text("x"))
    done = shared.machine.cli("memory", "list", "--dir", str(tmp_path), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert "read directly" in _said_on_a_terminal(shared.machine, "memory", "list", "--dir", str(tmp_path))
    assert [fact["file"] for fact in json.loads(done.stdout)["facts"]] == ["x.md"]


def _said_on_a_terminal(machine: Machine, *words: str) -> str:
    """Run a verb whose stderr is a terminal; give what it said there."""
    ours, theirs = os.openpty()
    try:
        subprocess.run(
            machine.command(*words),
            env=machine.env,
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            timeout=PATIENCE_S,
            check=True,
        )
        os.set_blocking(ours, False)
        try:
            return os.read(ours, 10_000).decode()
        except BlockingIOError:
            return ""
    finally:
        os.close(ours)
        os.close(theirs)


def _follow(machine: Machine, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        machine.command("events", *words),
        env={**machine.env, "PYTHONUNBUFFERED": "1"},
        cwd=machine.home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE_S)
    assert ready, "no line came"
    return process.stdout.readline()


def test_events_are_followed_from_a_cursor(machine: Machine) -> None:
    """`events --json --since` gives what came after the cursor, one event a line, then what happens; it ends in peace
    by an interrupt, and with exit 3 and the place to go on when the daemon goes."""
    project = machine.project().make({"one.md": fact_text("one")})
    daemon = machine.start()
    cursor = daemon.call("ping")["cursor"]
    project.fact("one.md", body="Before.")
    daemon.call("daemon.flush")
    followers = [_follow(machine, "--json", "--since", cursor, "--topic", "memory/c*") for _ in range(2)]
    for follower in followers:
        first = json.loads(_line(follower))
        assert (first["topic"], first["data"]["changes"][0]["file"]) == ("memory/changed", "one.md")
    plain = _follow(machine, "--since", cursor)
    assert "one.md" in _line(plain)
    project.fact("two.md")
    for follower in followers:
        live = json.loads(_line(follower))
        assert live["data"]["changes"][0]["kind"] == "added"
    os.kill(followers[0].pid, signal.SIGINT)
    out, err = followers[0].communicate(timeout=PATIENCE_S)
    assert (followers[0].returncode, out, err) == (130, "", "")
    daemon.stop()
    _, err = followers[1].communicate(timeout=PATIENCE_S)
    assert followers[1].returncode == 3
    assert f"--since {live['cursor'].partition(':')[0]}:" in err
    plain.communicate(timeout=PATIENCE_S)


def test_stop_returns_when_it_is_gone(machine: Machine) -> None:
    """After `zcsyncd stop` the process is gone and a new daemon starts at once; without one, exit 3."""
    daemon = machine.start()
    stopping = subprocess.Popen(machine.command("stop"), env=machine.env, stdout=subprocess.PIPE, text=True)
    daemon.wait(0)  # a process that nobody waits for would still be there, as a zombie
    assert stopping.communicate(timeout=PATIENCE_S)[0] == "stopped\n"
    assert stopping.returncode == 0
    machine.start().stop()
    nobody = machine.cli("stop")
    assert nobody.returncode == 3


def test_without_a_daemon_one_line_says_what_was_tried(machine: Machine) -> None:
    """Exit 3, one line: the address that was probed and how to start one."""
    for words in (("status",), ("dirs",), ("events",)):
        done = machine.cli(*words)
        assert (done.returncode, done.stdout) == (3, "")
        assert len(done.stderr.splitlines()) == 1
        assert machine.address in done.stderr
        assert "zcsyncd run" in done.stderr


def test_a_daemon_that_hangs_is_told_as_such(machine: Machine) -> None:
    """A stopped process is no daemon: exit 3 and `does not answer within 2 s`; when it wakes it serves again."""
    project = machine.project().make({"one.md": fact_text("one")})
    daemon = machine.start()
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        asking = [
            subprocess.Popen(
                machine.command(*words),
                env=machine.env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for words in (("status",), ("dirs",), ("memory", "list", "--dir", project.dir))
        ]
        said = [process.communicate(timeout=PATIENCE_S) for process in asking]
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    assert [process.returncode for process in asking] == [3, 3, 0]
    for _, err in said[:2]:
        assert "does not answer within 2 s" in err
        assert len(err.splitlines()) == 1
    assert "one.md" in said[2][0]
    assert machine.cli("status").returncode == 0
    daemon.stop()


def test_mistakes_of_the_configuration_are_told_all_at_once(machine: Machine) -> None:
    """Every mistake with its key and line, exit 2, nothing started, no traceback."""
    machine.configure(
        "audit:\n  grace_s: soon\nmute:\n  '*': [no-such-code]\nwatch:\n  mode: sometimes\nnonsense: 1\nroots:\n  zcode: [relative]\n"
    )
    done = machine.cli("run")
    assert done.returncode == 2
    for word in (
        "line 2",
        "grace_s",
        "line 4",
        "no-such-code",
        "line 6",
        "sometimes",
        "line 7",
        "nonsense",
        "line 9",
    ):
        assert word in done.stderr, word
    assert "Traceback" not in done.stderr
    assert not machine.endpoint.exists()
    machine.configure("audit: [\n")
    broken = machine.cli("run")
    assert broken.returncode == 2
    assert "config.yaml line" in broken.stderr
    assert "Traceback" not in broken.stderr


def test_what_is_ignored_muted_or_named_in_the_configuration(machine: Machine) -> None:
    """Ignored files are no facts, muted codes are not told, named directories and roots are kept."""
    project, loud = machine.project().make({"one.md": fact_text("one")}), machine.project("loud")
    loud.make({"one.md": fact_text("one")})
    named = machine.home / "named"
    named.mkdir()
    save(named / "n.md", fact_text("n"))
    more = Project(machine.home, machine.home / "code" / "more")
    moved = Path(str(more.memory).replace(str(machine.root), str(machine.home / "moved")))
    moved.mkdir(parents=True)
    save(moved / "m.md", fact_text("m"))
    machine.configure(
        f"ignore: ['drafts/', '*.skip.md']\nmute:\n  {project.dir}: [entry-duplicate]\naudit: {{grace_s: 0}}\n"
        f"dirs: [{{dir: {named}, layout: zcode}}]\nroots:\n  zcode: [{machine.home / 'moved'}]\n"
    )
    daemon = machine.start()
    assert {one["dir"] for one in daemon.call("dirs.list")["dirs"]} == {
        project.dir,
        loud.dir,
        str(named),
        str(moved),
    }
    listener = daemon.listen()
    for each in (project, loud):
        (each.memory / "drafts").mkdir()
        save(each.memory / "drafts" / "d.md", fact_text("d"))
        save(each.memory / "x.skip.md", fact_text("x"))
        save(each.memory / "MEMORY.md", entry("one.md") * 2)
    save(named / "n.md", fact_text("n", body="Changed."))
    save(moved / "m2.md", fact_text("m2"))
    listener.flush()
    assert sorted({change["file"] for change in listener.changes()}) == ["MEMORY.md", "m2.md", "n.md"]
    told = [(one["code"], one["dir"]) for data in listener.of("memory/audit") for one in data["appeared"]]
    assert ("entry-duplicate", loud.dir) in told
    assert ("entry-duplicate", project.dir) not in told
    assert not [
        one
        for one in daemon.call("audit.get", dir=project.dir)["findings"]
        if one["code"] == "entry-duplicate"
    ]
    daemon.stop()


def test_a_polling_daemon_tells_the_same(machine: Machine) -> None:
    """With `watch.mode: poll` changes are told too, `status` says so, and a flush is a true barrier."""
    project = machine.project().make({"one.md": fact_text("one")})
    machine.configure("watch: {mode: poll, poll_s: 0.1}\n")
    daemon = machine.start()
    assert daemon.call("status")["daemon"]["watcher"] == "polling"
    listener = daemon.listen(project)
    for number in range(1, 9):
        project.fact("one.md", body=f"Save {number}.")
        listener.flush()
        assert listener.kinds("one.md") == ["updated"] * number
    project.fact("two.md")
    listener.until(lambda _: listener.changes("two.md"), "a change without a flush")
    daemon.stop()


def test_an_absurd_environment_is_one_line(machine: Machine) -> None:
    """A relative socket or state directory is a mistake that is told in one line, exit 2."""
    for name, value in (("ZCSYNCD_SOCKET", "bus.sock"), ("ZCSYNCD_STATE_DIR", "state")):
        done = machine.cli("run", **{name: value})
        assert done.returncode == 2, done.stderr
        assert name in done.stderr
        assert "Traceback" not in done.stderr


def test_a_socket_path_that_is_too_long_falls_back(machine: Machine) -> None:
    """A runtime directory too deep for a socket gets a short name that daemon and client both find."""
    deep = machine.place / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    deep.chmod(0o700)
    machine.env["ZCSYNCD_RUNTIME_DIR"] = str(deep)
    daemon = machine.launch()
    until(machine.endpoint.exists, "the endpoint file")
    address = json.loads(machine.endpoint.read_text())["address"]
    assert len(address) <= 107
    assert machine.cli("status").returncode == 0
    os.kill(daemon.pid, signal.SIGTERM)
    daemon.wait(0)
    assert not Path(address).exists()
    Path(address).parent.rmdir()


def test_the_verbs_fit_one_screen_and_start_quickly(machine: Machine) -> None:
    """`--help` fits on a screen of 24 lines, and a usage mistake is exit 2 in two lines."""
    shown = machine.cli("--help")
    assert shown.returncode == 0
    assert len(shown.stdout.splitlines()) <= 24
    wrong = machine.cli("frobnicate")
    assert wrong.returncode == 2
    assert len(wrong.stderr.splitlines()) <= 2
