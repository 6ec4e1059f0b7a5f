"""The hook as a host calls it: the installed command line, in a process, with and without a daemon."""

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.plugins.hooks import SPELLINGS, HookHost, name_of, recorded
from zcsyncd.install.hosts_command import Program, hook_line

ROOT = Path(__file__).resolve().parents[2]
SLACK_S = 3.0
"""What a busy machine adds to an interpreter's start and our quarter of a second."""
PROMPT = {"hook_event_name": "UserPromptSubmit", "session_id": "s-1", "cwd": "/home/u/app", "prompt": "?"}


@pytest.fixture
def host(machine):
    return HookHost(machine, machine.home / "code" / "app")


def line(said):
    return json.dumps(said).encode() + b"\n"


def is_silent(done):
    return (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


# -- nothing there, nothing right ------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_without_a_daemon_every_event_is_silent(machine, host, spelling):
    """And leaves behind when it was called, for this user only."""
    for said in recorded(spelling, host.cwd):
        assert is_silent(host.raw(line(said)))
        assert host.took_s < SLACK_S
    place = machine.state / "hooks" / "zcode"
    names = {"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"}
    assert {path.name for path in place.iterdir()} == {f"last.{name}" for name in names}
    for path in (place, *place.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"{",
        b"null\n",
        b"[1]\n",
        b'"x"\n',
        b"\xff\xfe\x00\n",
        b"{}\n{}\n",
        b"[" * 100_000,
        line({"hook_event_name": ["Stop"], "session_id": {}, "cwd": 5}),
        line({**PROMPT, "cwd": "relative"}),
        line({**PROMPT, "session_id": "../../../etc/passwd\0"}),
        line({**PROMPT, "session_id": "\ud800"}),
        line({**PROMPT, "tool_input": "x", "tool_response": [1]}),
    ],
)
def test_odd_input_is_silent(host, data):
    """Whatever comes on stdin, the host works on."""
    assert is_silent(host.raw(data))


def test_a_line_may_be_spread_over_several(machine, host):
    """A host that writes its JSON for people is understood."""
    assert is_silent(host.raw(json.dumps(PROMPT, indent=2).encode()))
    assert (machine.state / "hooks" / "zcode" / "last.UserPromptSubmit").exists()


def test_a_host_that_keeps_stdin_open_does_not_hang_us(machine, host):
    """With a line it is answered; without one the deadline ends the wait."""
    for data in (line(PROMPT), line(PROMPT)[:-1], b""):
        reader, writer = os.pipe()
        try:
            os.write(writer, data)
            assert is_silent(host.raw(None, stdin=reader))
            assert host.took_s < SLACK_S
        finally:
            os.close(reader)
            os.close(writer)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_failure(host, closed):
    """Hosts start their hooks in odd ways."""
    host.line = f"{{ {host.line}; }} {closed}"
    assert host.raw(line(PROMPT)).returncode == 0


@pytest.mark.parametrize("words", [[], [""], ["vim"], ["zcode", "9.9.9", "more"], ["--help"]])
def test_any_words_are_silent(machine, words):
    """An older or newer entry calls us with others."""
    done = subprocess.run(
        [sys.executable, "-IS", str(ROOT / "zcsyncd/plugins/run_hook.py"), *words],
        input=line(PROMPT),
        env=machine.env,
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert is_silent(done)


def test_a_program_that_is_gone_is_silent(machine, host, tmp_path):
    """The wrapper ends with 0: an entry that outlives the package does no harm."""
    script = str(ROOT / "zcsyncd/plugins/run_hook.py")
    for program in (
        Program(str(tmp_path / "gone/python"), script, "1"),
        Program(sys.executable, str(tmp_path / "zcsyncd/plugins/run_hook.py"), "1"),
        Program(str(tmp_path), script, "1"),
    ):
        host.line = hook_line(program, "zcode")
        done = host.raw(line(PROMPT))
        if program.python != str(tmp_path):
            assert is_silent(done)


def test_a_package_that_is_half_there_is_silent(machine, host, tmp_path):
    """As in the middle of an upgrade: the script is there, a module is missing or broken."""
    place = tmp_path / "zcsyncd" / "plugins"
    place.mkdir(parents=True)
    script = place / "run_hook.py"
    script.write_bytes((ROOT / "zcsyncd/plugins/run_hook.py").read_bytes())
    host.line = hook_line(Program(sys.executable, str(script), "1"), "zcode")
    assert is_silent(host.raw(line(PROMPT)))
    (place / "hook.py").write_text("def main(:\n")
    assert is_silent(host.raw(line(PROMPT)))


def test_odd_paths_in_the_command_line(machine, tmp_path):
    """Spaces, quotes and dollars in the paths, and in what moves our places."""
    odd = tmp_path / 'it\'s a "place" $HOME `x`; #'
    odd.mkdir()
    (odd / "python").symlink_to(sys.executable)
    state = odd / "state"
    program = Program(
        str(odd / "python"),
        str(ROOT / "zcsyncd/plugins/run_hook.py"),
        "1",
        (("ZCSYNCD_STATE_DIR", str(state)),),
    )
    host = HookHost(machine, machine.home)
    host.line = hook_line(program, "zcode")
    assert is_silent(host.raw(line(PROMPT)))
    assert (state / "hooks" / "zcode" / "last.UserPromptSubmit").exists()


def test_the_plain_command_does_the_same(machine):
    """`zcsyncd hook HOST`, which no help text names."""
    done = machine.cli("hook", "zcode")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for words in (("--help",), ("hook", "--help")):
        assert "hook " not in machine.cli(*words).stdout.replace("hooks", "")


def test_a_state_directory_that_cannot_be_used(machine, host, as_ordinary_user):
    """A file in its place, or no right to write: still silent."""
    machine.env["ZCSYNCD_STATE_DIR"] = str(machine.config_file.parent / "a-file")
    Path(machine.env["ZCSYNCD_STATE_DIR"]).write_text("x")
    assert is_silent(host.raw(line(PROMPT)))
    machine.env["ZCSYNCD_STATE_DIR"] = "relative"
    assert is_silent(host.raw(line(PROMPT)))
    machine.env["ZCSYNCD_STATE_DIR"] = str(machine.state)
    machine.state.chmod(0o500)

    def check():
        assert is_silent(host.raw(line(PROMPT)))

    as_ordinary_user(check, machine.place)


# -- daemons that do not answer --------------------------------------------------------------------------------------


@contextlib.contextmanager
def listening(machine, act):
    """Something listens where the daemon would; `act` is given each connection."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.bind(machine.address)
        door.listen(8)
        held = []

        def serve():
            while True:
                try:
                    connection, _ = door.accept()
                except OSError:
                    return
                held.append(connection)
                with contextlib.suppress(OSError):
                    act(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            door.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in held:
                connection.close()


def _half(connection):
    connection.recv(65_536)
    connection.sendall(b'{"jsonrpc":"2.0","id":1,"result":{"dir":nu')
    connection.close()


def _drip(connection):
    connection.recv(65_536)
    until = time.monotonic() + 2
    while time.monotonic() < until:
        connection.sendall(b" ")
        time.sleep(0.01)


def _flood(connection):
    connection.recv(65_536)
    for _ in range(400):
        connection.sendall(b"x" * 65_536)


def _noise(connection):
    connection.recv(65_536)
    connection.sendall(b"\xff\xfe\n[]\n{}\n")


def _odd(connection):
    connection.recv(65_536)
    connection.sendall(
        b'{"id":1,"result":{"dir":5}}\n{"id":2,"result":{"token":7,"text":["x"]}}\n{"id":99}\n'
    )


def _errors(connection):
    connection.recv(65_536)
    error = b'"error":{"code":-32009,"message":"the first scan still runs","data":{"code":"not-ready"}}}\n'
    connection.sendall(b'{"id":1,' + error + b'{"id":2,' + error)


@pytest.mark.parametrize(
    "act", [lambda _connection: None, lambda c: c.close(), _half, _drip, _flood, _noise, _odd, _errors]
)
def test_a_daemon_that_does_not_answer_rightly_is_silence(machine, host, act):
    """Mute, gone at once or in the middle of a line, dripping, flooding, talking nonsense, not ready."""
    machine.env["ZCSYNCD_SOCKET"] = machine.address
    with listening(machine, act):
        assert is_silent(host.raw(line(PROMPT)))
        assert host.took_s < SLACK_S


def test_a_daemon_that_hangs_is_silence(machine):
    """Stopped as by SIGSTOP: every hook ends within its deadline, and after it goes on the news are told."""
    project = machine.project().make({"a.md": "x"})
    daemon = machine.start()
    host = HookHost(machine, project.cwd)
    host.start()
    daemon.client(cwd=str(project.cwd), id="other").call(
        "memory.write", name="tide", description="When it turns", type="project", body="x", mode="create"
    )
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        for said in recorded("both", project.cwd, project.memory):
            assert is_silent(host.raw(line(said)))
            assert host.took_s < SLACK_S
        assert is_silent(host.raw(line({**PROMPT, "cwd": str(project.cwd)})))
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    for claim in (machine.state / "hooks" / "zcode").glob("*.speaks"):
        os.utime(claim, (0, 0))
    assert "tide" in host.prompt()
    daemon.kill()
    assert is_silent(host.raw(line(PROMPT)))


# -- a daemon that answers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["zcode", "claude-code"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_recorded_event_is_answered_as_hosts_want_it(running, project, name, spelling):
    """With news waiting all the time: prompts and tools on memory tell them, in the host's shape; the others nothing."""
    host = HookHost(running.machine, project.cwd, f"{project.cwd.name}-{spelling}", name)
    other = running.client(cwd=str(project.cwd), id="other")
    told = {}
    for number, said in enumerate(recorded(spelling, project.cwd, project.memory)):
        other.call(
            "memory.write", name=f"n{number}", description="New", type="project", body="x", mode="create"
        )
        output = host.send(said)
        if output is not None:
            told.setdefault(name_of(said), []).append(output)
    assert set(told) == {"UserPromptSubmit", "PostToolUse"}
    assert len(told["PostToolUse"]) == 4
    for output in (one for each in told.values() for one in each):
        assert "[zcsyncd]" in output["additionalContext"]


def test_what_outlives_its_session_is_swept(running, project):
    """Two weeks after its last hook a session's file goes; the stamps stay."""
    host = HookHost(running.machine, project.cwd)
    host.start()
    place = running.machine.state / "hooks" / "zcode"
    old, young = place / "old.json", place / "young.json"
    for path, age_s in ((old, 15 * 86_400), (young, 13 * 86_400)):
        path.write_text("{}")
        os.utime(path, (time.time() - age_s,) * 2)
    os.utime(place / "last.SessionStart", (0, 0))
    host.start()
    assert (old.exists(), young.exists(), (place / "last.SessionStart").stat().st_mtime > 0) == (
        False,
        True,
        True,
    )


@pytest.mark.parametrize("session", ["../../x", "a/b", ".", "ü", "x" * 200, "a b", "CON", "last.Stop"])
def test_any_id_of_a_session_has_its_own_file(running, project, session):
    """Below our own directory, whatever it is."""
    place = running.machine.state / "hooks" / "zcode"
    host = HookHost(running.machine, project.cwd, session)
    before = set(place.iterdir()) if place.exists() else set()
    host.start()
    new = [path for path in set(place.iterdir()) - before if not path.name.startswith("last.")]
    assert len(new) == 1
    assert json.loads(new[0].read_text())["dir"] == project.dir


def test_a_claim_of_a_hook_that_was_killed_lapses(running, project):
    """As long as it may be at work only reports are made; then the next one speaks."""
    host = HookHost(running.machine, project.cwd, f"{project.cwd.name}-s")
    host.start()
    running.client(cwd=str(project.cwd), id="other").call(
        "memory.write", name="tide", description="x", type="project", body="x", mode="create"
    )
    claim = running.machine.state / "hooks" / "zcode" / f"{host.session}.json.speaks"
    claim.write_bytes(b"")
    os.utime(claim, (time.time() + 60,) * 2)
    assert is_silent(host.raw(line({**PROMPT, "session_id": host.session, "cwd": str(project.cwd)})))
    os.utime(claim, (time.time() - 5,) * 2)
    assert "tide" in host.prompt()
    assert not claim.exists()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"token": 5, "dir": []}', b"\xff", b'{"token": "unknown"}']
)
def test_a_broken_note_of_a_session_is_none(running, project, content):
    """It is written anew, and nothing is lost."""
    host = HookHost(running.machine, project.cwd, f"{project.cwd.name}-s")
    host.start()
    file = running.machine.state / "hooks" / "zcode" / f"{host.session}.json"
    file.write_bytes(content)
    running.client(cwd=str(project.cwd), id="other").call(
        "memory.write", name="tide", description="x", type="project", body="x", mode="create"
    )
    assert "tide" in host.prompt()
    assert json.loads(file.read_text())["token"]
