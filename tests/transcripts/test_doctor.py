"""The doctor on a real machine: a daemon that runs, one that hangs, none; and with everything broken."""

import json
import os
import signal
import socket
import sqlite3
import time
from contextlib import closing, suppress

import pytest

from tests.transcripts.machine import Machine, Running, fact_text, save
from zcsyncd.cli.console import Console
from zcsyncd.cli.doctor import examine
from zcsyncd.cli.render import Paint
from zcsyncd.errors import Refused

SECRETS = (
    "topsecretproject",
    "fact-nobody-knows",
    "a-description-of-mine",
    "body of mine",
    "odd-directory-name",
)
CHECKS = [
    "versions", "configuration", "places", "daemon", "endpoint", "probe", "environment", "roots", "service", "database",
    "log", "limits", "disk", "clock",
]  # fmt: skip


def examined(machine: Machine, *words: str, code: int = 0, **env: str) -> dict[str, list[dict]]:
    """Run the doctor; give its rows by check. It has to end as expected, and never with a traceback."""
    done = machine.cli("doctor", "--json", *words, **env)
    assert "Traceback" not in done.stderr
    assert done.returncode == code, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert answer["ok"] is (code == 0)
    rows: dict[str, list[dict]] = {}
    for row in answer["checks"]:
        assert set(row) == {"check", "state", "what", "why", "mend", "data"}
        rows.setdefault(row["check"], []).append(row)
    assert answer["counts"] == {
        state: sum(row["state"] == state for row in answer["checks"])
        for state in ("ok", "note", "warning", "error")
    }
    return rows


def states(rows: dict[str, list[dict]], check: str) -> set[str]:
    return {row["state"] for row in rows.get(check, [])}


def said(rows: dict[str, list[dict]], check: str) -> str:
    return "\n".join(str(row["what"]) for row in rows.get(check, []))


def test_a_healthy_daemon(machine: Machine) -> None:
    """Every check is made, none finds an error, and a probe goes from the disk to a subscriber."""
    project = machine.project("app").make({"a.md": fact_text()})
    daemon = machine.start()
    listener = daemon.listen()
    rows = examined(machine)
    assert [check for check in CHECKS if check not in rows] == []
    (probe,) = rows["probe"]
    assert probe["state"] == "ok"
    assert probe["data"]["wrote"] is True
    assert 0 < probe["data"]["ms"] < 5_000
    event = listener.until_topic("daemon/probed")
    assert event["dir"] is None
    assert event["data"]["ms"] <= probe["data"]["ms"] + 1
    assert "1 memory directory" in said(rows, "roots")
    assert states(rows, "endpoint") == {"ok"}
    assert rows["endpoint"][0]["data"]["lockPid"] == daemon.pid
    assert states(rows, "database") == {"ok"}
    assert states(rows, "environment") == {"ok"}
    assert "error" not in states(rows, "places")
    assert os.listdir(project.memory) != []
    daemon.stop()


def test_nothing_that_is_a_persons_is_shown(machine: Machine) -> None:
    """Without --paths neither text nor JSON holds a name of a project, fact, directory, or what one says."""
    secret = machine.project(SECRETS[0]).make()
    save(secret.memory / f"{SECRETS[1]}.md", fact_text(*SECRETS[1:4]))
    named = machine.home / SECRETS[4]
    asked = machine.place / SECRETS[4] / "memory"
    for path in (named, asked):
        path.mkdir(parents=True)
    machine.configure(
        f"dirs: [{named}]\nmute: {{{named}: [entry-dangling]}}\nroots: {{zcode: [{named}]}}\n"
        f"layouts: {{zcode: {{cwds: [{secret.cwd}]}}}}\nignore: [{SECRETS[4]}]\nlog: {{level: debug}}\n"
    )
    pi = secret.cwd / ".pi" / "zcode-memory.json"
    pi.parent.mkdir()
    pi.write_text('{"dir": 7}')
    storage = machine.place / SECRETS[0]
    storage.mkdir()
    daemon = machine.start()
    daemon.client(
        cwd=str(secret.cwd),
        dirs=[str(asked)],
        env={"ZCODE_STORAGE_DIR": str(storage)},
    ).call("daemon.flush")
    for env in ({}, {"ZCODE_STORAGE_DIR": str(storage)}):
        for words in ((), ("--json",)):
            done = machine.cli("doctor", *words, **env)
            assert done.returncode == 0, done.stdout + done.stderr
            for word in (*SECRETS, secret.memory.parent.name, str(machine.home)):
                assert word not in done.stdout + done.stderr, word
    daemon.stop()
    machine.configure(
        f"dirs: [{SECRETS[4]}]\n{SECRETS[0]}: 1\nmute: {{{SECRETS[4]}: [x]}}\nroots: {{zcode: [/a, {SECRETS[0]}]}}\n"
    )
    for words in ((), ("--json",)):
        done = machine.cli("doctor", *words)
        assert done.returncode == 1
        for word in (*SECRETS, str(machine.home)):
            assert word not in done.stdout + done.stderr, word


def test_with_paths_everything_is_named(machine: Machine) -> None:
    """--paths shows places and messages whole, the home still as `~`; of what facts say it shows nothing."""
    save(machine.project(SECRETS[0]).make().memory / "a.md", fact_text(*SECRETS[1:4]))
    machine.configure(f"dirs: [{SECRETS[4]}]\n")
    done = machine.cli("doctor", "--paths")
    assert str(machine.state) in done.stdout
    assert SECRETS[4] in done.stdout
    for word in SECRETS[1:4]:
        assert word not in done.stdout


def test_without_a_daemon(machine: Machine) -> None:
    """That nobody answers is a warning, no failure; the rest is examined, and nothing is made."""
    before = sorted(machine.place.rglob("*"))
    rows = examined(machine)
    assert states(rows, "daemon") == {"warning"}
    assert states(rows, "probe") == {"note"}
    assert states(rows, "database") == {"note"}
    assert sorted(machine.place.rglob("*")) == before


def test_a_daemon_that_was_killed(machine: Machine) -> None:
    """What it left behind is told as that, and its database can be checked with what its log holds."""
    machine.project("app").make({"a.md": fact_text()})
    machine.start().kill()
    before = {
        path.name: path.read_bytes() for path in machine.state.glob("state.db*") if path.suffix != ".db-shm"
    }
    rows = examined(machine)
    assert states(rows, "daemon") == {"warning"}
    assert "left the note of its address behind" in said(rows, "endpoint")
    assert states(rows, "database") == {"ok"}
    after = {
        path.name: path.read_bytes() for path in machine.state.glob("state.db*") if path.suffix != ".db-shm"
    }
    assert {name: after[name] for name in before if not name.endswith("shm")} == {
        name: content for name, content in before.items() if not name.endswith("shm")
    }
    assert "Traceback" not in machine.cli("doctor").stdout


def test_a_daemon_that_hangs(machine: Machine) -> None:
    """It listens and says nothing: an error, within seconds."""
    daemon = machine.start()
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        rows = examined(machine, code=1)
        assert time.monotonic() - begun < 15
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    assert "does not answer" in said(rows, "daemon")
    assert states(rows, "probe") == {"note"}
    daemon.stop()


def test_another_environment_than_the_daemons(machine: Machine) -> None:
    """A root that this shell has and the daemon has not: told, with what to do; sessions' words as well."""
    daemon = machine.start()
    other = machine.home / "elsewhere"
    other.mkdir()
    rows = examined(machine, ZCODE_STORAGE_DIR=str(other))
    assert "ZCODE_STORAGE_DIR is set otherwise here and not set in the daemon" in said(rows, "environment")
    assert "is not watched by the daemon" in said(rows, "roots")
    daemon.client(cwd=str(machine.home), env={"ZCODE_STORAGE_DIR": "/elsewhere"})
    rows = examined(machine)
    assert "in sessions of pi and not set in the daemon" in said(rows, "environment")
    daemon.stop()


def test_an_undone_configuration(machine: Machine) -> None:
    """Mistakes are errors with their lines; the doctor goes on by the defaults, and talks to the daemon that runs."""
    daemon = machine.start()
    machine.configure("audit:\n  grace_s: -1\nwach: {}\n")
    rows = examined(machine, code=1)
    lines = [row["data"]["line"] for row in rows["configuration"]]
    assert sorted(lines) == [2, 3]
    assert states(rows, "probe") == {"ok"}
    daemon.stop()


def _a_directory(path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()
    path.mkdir(parents=True)


def _garbage(path) -> None:
    path.write_bytes(b"\xff\x00garbage" * 500)


def _open_to_all(path) -> None:
    path.chmod(0o777)


def _a_pipe(path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()
    os.mkfifo(path, 0o600)


def _a_stale_socket(path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.bind(str(path))
    path.chmod(0o666)


def _newer(path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma user_version = 99")


def _a_loop(path) -> None:
    path.symlink_to(path)


def _a_file(path) -> None:
    path.rmdir()
    path.write_text("no directory")


@pytest.mark.parametrize(
    ("place", "do", "check", "state"),
    [
        ("c/config.yaml", _a_directory, "configuration", "error"),
        ("c/config.yaml", _garbage, "configuration", "error"),
        ("c/config.yaml", _a_pipe, "configuration", "error"),
        ("c/config.yaml", _a_loop, "configuration", "error"),
        ("s", _open_to_all, "places", "error"),
        ("r", _open_to_all, "places", "error"),
        ("r", _a_file, "places", "error"),
        ("s", _a_file, "places", "error"),
        ("r/bus.sock", _a_directory, "places", "error"),
        ("r/bus.sock", _garbage, "places", "error"),
        ("r/bus.sock", _a_stale_socket, "places", "warning"),
        ("s/endpoint.json", _garbage, "endpoint", "warning"),
        ("s/endpoint.json", _a_pipe, "places", "error"),
        ("s/endpoint.json", _a_directory, "places", "error"),
        ("s/daemon.lock", _a_directory, "places", "error"),
        ("s/state.db", _garbage, "database", "error"),
        ("s/state.db", _a_directory, "database", "error"),
        ("s/state.db", _a_pipe, "database", "error"),
        ("s/state.db", _newer, "database", "error"),
        ("s/log", _garbage, "places", "error"),
        ("h/.zcode/cli/memories/projects", _a_directory, "roots", "ok"),
        ("h/.zcode", _garbage, "roots", "note"),
    ],
)
def test_garbage_everywhere(machine: Machine, place, do, check, state) -> None:
    """Whatever lies in our places, the doctor names it and ends with an exit code."""
    do(machine.place / place)
    rows = examined(machine, code=int(state == "error"))
    assert state in states(rows, check), rows.get(check)
    assert "this check could not be made" not in json.dumps(rows)


@pytest.mark.parametrize(
    "variable", ["ZCSYNCD_STATE_DIR", "ZCSYNCD_RUNTIME_DIR", "ZCSYNCD_CONFIG", "ZCSYNCD_SOCKET"]
)
def test_variables_that_name_no_place(machine: Machine, variable) -> None:
    """A relative path: the variable is named, and all that can be examined is."""
    rows = examined(machine, code=1, **{variable: "no/absolute/path"})
    assert variable in said(rows, "places") + said(rows, "configuration")
    assert {"versions", "roots", "clock"} <= rows.keys()


def test_what_cannot_be_read_by_an_ordinary_user(machine: Machine, as_ordinary_user) -> None:
    """Closed directories and files are errors that say so, not crashes."""
    machine.project("app").make({"a.md": fact_text()})
    machine.start().stop()
    console = Console(machine.env, as_json=True, paint=Paint(on=False), cells=None)
    examine(console, paths=False)  # what is loaded late is loaded now
    closed = (machine.state / "state.db", machine.state / "log", machine.projects, machine.config_file.parent)

    def check() -> None:
        for path in closed:
            path.chmod(0)
        rows = examine(console, paths=False)
        wrong = {row.check for row in rows if row.state == "error"}
        assert {"configuration", "places", "database", "roots"} <= wrong, rows
        assert not any("could not be made" in row.what for row in rows), rows

    as_ordinary_user(check, machine.place)


def test_a_broken_journal_of_a_running_daemon_is_no_crash(machine: Machine) -> None:
    """The socket was taken away, and the note of the address: what runs is told by the lock."""
    daemon = machine.start()
    os.unlink(machine.endpoint)
    rows = examined(machine)
    assert "the note of its address is not there" in said(rows, "endpoint")
    os.unlink(machine.address)
    rows = examined(machine)
    assert states(rows, "daemon") == {"warning"}
    os.kill(daemon.pid, signal.SIGTERM)
    daemon.wait(0)


def test_a_session_may_not_probe(daemon: Running) -> None:
    """It reaches its own directories; whether the daemon lives is a person's question."""
    client = daemon.client(cwd="/nowhere")
    with pytest.raises(Refused, match="does not probe"):
        client.call("daemon.probe")
    answer = daemon.call("daemon.probe")
    assert (answer["alive"], answer["wrote"], answer["token"]) == (True, True, "")


def test_polling_is_probed_as_far_as_it_goes(machine: Machine) -> None:
    """Where no file can tell, the way behind the watcher is probed, and it is said so."""
    machine.configure("watch:\n  mode: poll\n  poll_s: 0.5\n")
    daemon = machine.start()
    (probe,) = examined(machine)["probe"]
    assert (probe["state"], probe["data"]["wrote"]) == ("ok", False)
    daemon.stop()


def test_a_page_for_people(machine: Machine) -> None:
    """One line a row, those of a check together; the last line says how many want somebody."""
    done = machine.cli("doctor")
    lines = done.stdout.splitlines()
    assert lines[0] == "versions"
    assert lines[-1].endswith("warning") or lines[-1].endswith("warnings")
    assert [line for line in lines if line in CHECKS] == CHECKS[:6] + CHECKS[7:]
