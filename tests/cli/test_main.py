"""The words of the command line, and how it ends: exit codes, one line, silence."""

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress

import pytest

VERBS = [
    (),
    ("run",),
    ("stop",),
    ("status",),
    ("dirs",),
    ("audit",),
    ("events",),
    ("memory",),
    ("memory", "list"),
    ("memory", "read"),
    ("memory", "index"),
    ("memory", "search"),
    ("memory", "write"),
    ("memory", "forget"),
    ("repair",),
    ("history",),
    ("history", "list"),
    ("history", "show"),
    ("history", "diff"),
    ("history", "restore"),
    ("history", "undo"),
    ("history", "purge"),
    ("service",),
    ("service", "install"),
    ("service", "uninstall"),
    ("service", "start"),
    ("service", "stop"),
    ("service", "restart"),
    ("service", "reload"),
    ("service", "status"),
    ("service", "show"),
    ("service", "logs"),
    ("setup",),
    ("uninstall",),
]
SCREEN_LINES = 24
SCREEN_CELLS = 80


class SilentServer:
    """Accepts connections and answers with what it was told to, or with nothing at all."""

    def __init__(self, path: str, answer: bytes = b"") -> None:
        self.answer = answer
        self.open: list[socket.socket] = []
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listening.bind(path)
        self.listening.listen(8)
        self.thread = threading.Thread(target=self.accept)
        self.thread.start()

    def accept(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            self.open.append(connection)
            if self.answer:
                with suppress(OSError):  # the client may have heard enough
                    connection.sendall(self.answer)

    def close(self) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self.thread.join()
        for connection in self.open:
            connection.close()


@contextmanager
def silent_server(shell, answer: bytes = b""):
    """Run one for a while; give its address."""
    path = str(shell.place / "odd.sock")
    server = SilentServer(path, answer)
    try:
        yield path
    finally:
        server.close()


@pytest.mark.parametrize("words", VERBS)
def test_help_fits_one_screen(shell, words):
    """`--help` of the command and of every verb has at most 24 lines of 80 cells."""
    done = shell.run(*words, "--help")
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert len(lines) <= SCREEN_LINES
    assert max(map(len, lines)) <= SCREEN_CELLS
    assert lines[0].startswith("usage: zcsyncd")


def test_help_names_every_verb_and_no_other(shell):
    """The command's help lists the verbs, each on one line."""
    text = shell.run("--help").stdout
    listed = [line.split()[0] for line in text.splitlines() if line.startswith("    ")]
    assert listed == [
        "run",
        "stop",
        "status",
        "dirs",
        "audit",
        "repair",
        "events",
        "memory",
        "history",
        "service",
        "plugin",
        "setup",
        "uninstall",
        "doctor",
    ]


def test_version(shell):
    """`--version` names the program and its version."""
    from zcsyncd import __version__

    done = shell.run("--version")
    assert (done.returncode, done.stdout) == (0, f"zcsyncd {__version__}\n")


def test_without_words_the_help_is_shown(shell):
    """Nothing to do is a usage error that shows what could be done."""
    done = shell.run()
    assert done.returncode == 2
    assert done.stdout == ""
    assert "usage: zcsyncd" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("audit", "--fail-on", "fatal"),
        ("audit", "--undo"),
        ("audit", "a", "b"),
        ("audit", "--fail"),
        ("dirs", "--undo"),
        ("dirs", ".", "--allow", "x"),
        ("dirs", "--allow"),
        ("memory",),
        ("memory", "write"),
        ("memory", "read"),
        ("memory", "write", "a", "--type", "note"),
        ("memory", "search"),
        ("memory", "search", "a", "--limit", "0"),
        ("history",),
        ("history", "show"),
        ("history", "show", "first"),
        ("history", "restore", "1", "2"),
        ("repair", "a", "b"),
        ("repair", "--fix"),
        ("status", "--address", "--config"),
        ("events", "extra"),
        ("run", "--json"),
        ("--json", "run"),
        ("--nonsense", "status"),
    ],
)
def test_a_mistake_in_the_words_is_two_lines(shell, words):
    """A command line that does not fit gives exit code 2, what is wrong, and where help is."""
    done = shell.run(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first.startswith("zcsyncd: ")
    assert "--help` tells what fits" in second


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("status", "--json"),
        ("stop",),
        ("dirs",),
        ("dirs", "."),
        ("dirs", "--allow", "/x"),
        ("events",),
        ("audit", "--dismiss", "k"),
    ],
)
def test_a_daemon_that_is_down_is_one_line(shell, words):
    """Without a daemon: exit code 3 and one line with what was probed and how to start it."""
    done = shell.run(*words)
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert str(shell.place / "run" / "bus.sock") in done.stderr
    assert "zcsyncd run" in done.stderr


@pytest.mark.parametrize("words", [("status",), ("--debug", "status"), ("dirs",)])
def test_a_daemon_that_hangs_counts_as_none(shell, words):
    """Somebody who listens but does not answer gives exit code 3 within a few seconds, and is told as such."""
    with silent_server(shell) as path:
        begun = time.monotonic()
        done = shell.run(*words, ZCSYNCD_SOCKET=path)
        assert 1.9 < time.monotonic() - begun < 15
    assert done.returncode == 3
    assert "does not answer within 2 s" in done.stderr
    assert path in done.stderr
    assert ("Traceback" in done.stderr) == ("--debug" in words)


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"[]\n", b"\xff\xfe\n", b"{}\n", b"x" * 2_000_000]
)
def test_a_stranger_at_the_address_is_no_traceback(shell, answer):
    """Whatever answers at the address, it is told in a line or two."""
    with silent_server(shell, answer) as path:
        done = shell.run("status", ZCSYNCD_SOCKET=path)
    assert done.returncode in {3, 70}
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert 1 <= done.stderr.count("\n") <= 2


def test_the_address_is_told_without_a_daemon(shell):
    """`status --address` names where the daemon would listen, as text and as JSON."""
    address = str(shell.place / "run" / "bus.sock")
    assert shell.run("status", "--address").stdout == address + "\n"
    assert shell.json("status", "--address") == {"address": address}
    other = str(shell.place / "other.sock")
    assert shell.run("status", "--address", ZCSYNCD_SOCKET=other).stdout == other + "\n"


def test_settings_are_told_with_their_source(shell):
    """`status --config` shows each value and where it comes from, without a daemon."""
    (shell.place / "config.yaml").write_text("audit:\n  grace_s: 5\n")
    rows = {row["key"]: row for row in shell.json("status", "--config")["settings"]}
    assert rows["audit.grace_s"] == {"key": "audit.grace_s", "value": 5, "source": "config.yaml line 2"}
    assert rows["log.level"]["source"] == "default"
    text = shell.run("status", "--config").stdout
    assert "config.yaml line 2" in text


def test_every_mistake_of_the_configuration_is_told(shell):
    """A wrong configuration gives exit code 2 and a line for each mistake, with its line number."""
    (shell.place / "config.yaml").write_text("audit:\n  grace_s: soon\nnonsense: 1\n")
    for words in (("status", "--config"), ("run",)):
        done = shell.run(*words)
        assert done.returncode == 2
        assert "line 2" in done.stderr
        assert "line 3" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_bug_is_one_line_and_a_traceback_on_demand():
    """What nobody foresaw ends with 70: one line, or with --debug the traceback."""
    from zcsyncd.cli.outcome import ended

    def act() -> int:
        raise KeyError("x\x1b[31m")

    for debug in (False, True):
        read, write = os.pipe()
        saved = sys.stderr
        with os.fdopen(write, "w") as sys.stderr:
            code = ended(act, debug=debug)
        sys.stderr = saved
        with os.fdopen(read) as said:
            text = said.read()
        assert code == 70
        assert ("Traceback" in text) == debug
        assert "this is a bug: KeyError" in text


def test_a_closed_pipe_is_quiet(shell):
    """`zcsyncd … | head` ends without a word on stderr."""
    facts = shell.place / "many"
    facts.mkdir()
    for number in range(3000):
        (facts / f"fact-{number:05}-{'x' * 60}.md").write_text("no front matter\n")
    read, write = os.pipe()
    process = shell.start("audit", str(facts), stdout=write)
    os.close(write)
    os.read(read, 10)
    os.close(read)
    assert process.stderr is not None
    with process:
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_an_interrupt_is_quiet(shell, daemon):
    """Ctrl-C while following ends with 130 and without a word."""
    process = shell.start("events")
    until = time.monotonic() + 20
    while shell.json("status")["bus"]["subscriptions"] == 0:
        assert time.monotonic() < until
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "")


@pytest.mark.parametrize(
    "words",
    [
        ("--json", "memory", "list"),
        ("memory", "--json", "list"),
        ("memory", "list", "--json"),
        ("--json", "memory", "--debug", "list"),
    ],
)
def test_json_and_debug_stand_anywhere(shell, samples, words):
    """Before the verb, behind its group, at the end: the answer is the same JSON."""
    done = shell.run(*words, "--dir", str(samples / "ko-clean"))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["total"] > 0


def read_terminal(end: int, until: str) -> str:
    """Read what was written to a terminal until some text is there, or until nobody writes any more."""
    written = b""
    while until.encode() not in written and select.select([end], [], [], 30)[0]:
        try:
            written += os.read(end, 65_536)
        except OSError:
            break
    return written.decode()


def test_an_interrupt_tells_a_person_where_to_go_on(shell, daemon):
    """Ctrl-C at a terminal: the cursor from which to go on, as a command; nothing is missed with it."""
    ours, theirs = pty.openpty()
    process = shell.start("events", "--topic", "memory/*", stderr=theirs)
    os.close(theirs)
    until = time.monotonic() + 20
    while shell.json("status")["bus"]["subscriptions"] == 0:
        assert time.monotonic() < until
    memory = shell.memory(shell.project())
    assert process.stdout is not None
    for shown in ("a.md", "c.md"):
        (memory / shown).write_text("---\nname: a\ndescription: b\n---\n")
        while shown not in process.stdout.readline():
            assert process.poll() is None
    process.send_signal(signal.SIGINT)
    said = read_terminal(ours, "\n")
    process.stdout.close()
    assert process.wait(20) == 130
    os.close(ours)
    cursor = re.search(r"zcsyncd: go on with `.*zcsyncd events --since (\S+)`", said)[1]
    (memory / "b.md").write_text("---\nname: b\ndescription: c\n---\n")
    following = shell.start("events", "--since", cursor, "--json")
    assert following.stdout is not None
    told: list[str] = []
    while "b.md" not in told:
        event = json.loads(following.stdout.readline())
        if event["topic"] == "memory/changed":
            told += [change["file"] for change in event["data"]["changes"]]
    following.kill()
    following.communicate(timeout=20)
    # What was being shown at that moment may come once more; what came before it does not, and nothing is missing.
    assert told in (["b.md"], ["c.md", "b.md"])


def test_a_closed_stdout_is_no_bug(shell, samples):
    """With stdout closed the answer goes nowhere, and the exit code still tells."""
    words = shell.command("audit", str(samples / "ko-clean"))
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *words],
        env=shell.env,
        cwd=shell.home,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (shell.run("audit", str(samples / "ko-clean")).returncode, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "words", [("status", "--config"), ("--help",), ("memory", "list", "--dir", "{samples}")]
)
def test_a_full_disk_is_one_line(shell, samples, words):
    """What cannot be written to stdout is told in one line; it is no bug of ours."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            shell.command(*(word.format(samples=samples / "ko-clean") for word in words)),
            env=shell.env,
            cwd=shell.home,
            stdout=full,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            check=False,
        )
    assert done.returncode == 7
    assert re.fullmatch("zcsyncd: the answer could not be written to stdout: .*\n", done.stderr)


def on_a_terminal(shell, *words: str, cells: int = 60, **env: str) -> str:
    """Run a verb with a terminal for stdout; give what it wrote there."""
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, cells, 0, 0))
    process = subprocess.Popen(
        shell.command(*words),
        env={**shell.env, "TERM": "xterm", **env},
        cwd=shell.home,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    written = b""
    while select.select([ours], [], [], 30)[0]:
        try:
            part = os.read(ours, 65_536)
        except OSError:
            break
        if not part:
            break
        written += part
    os.close(ours)
    process.wait(30)
    return written.decode()


def test_colour_only_on_a_terminal(shell, samples):
    """A terminal gets colour, unless NO_COLOR asks for none; a pipe never does."""
    words = ("audit", str(samples / "ko-clean"))
    assert "\x1b[31;1m" in on_a_terminal(shell, *words)
    assert "\x1b" not in on_a_terminal(shell, *words, NO_COLOR="1")
    assert "\x1b" not in on_a_terminal(shell, *words, TERM="dumb")
    assert "\x1b" not in shell.run(*words).stdout


def test_a_terminal_is_told_that_all_is_well(shell, samples):
    """On a terminal a directory in order gets a line; a pipe gets silence."""
    words = ("audit", str(samples / "flat-types"))
    assert "in order" in on_a_terminal(shell, *words)
    assert shell.run(*words).stdout == ""


def test_what_is_shown_keeps_to_the_terminal(shell, samples):
    """On a narrow terminal no line is wider than it, but for a path that is."""
    from zcsyncd.cli.render import width

    text = on_a_terminal(shell, "memory", "list", "--dir", str(samples / "ko-clean"), cells=70, NO_COLOR="1")
    lines = text.replace("\r\n", "\n").splitlines()
    assert len(lines) >= 15
    assert all(width(line) <= 70 for line in lines if not line.lstrip().startswith("/"))
    text = on_a_terminal(shell, "audit", str(samples / "ko-clean"), cells=50)
    lines = text.replace("\r\n", "\n").splitlines()
    assert all(width(line) <= 50 for line in lines if not line.lstrip().startswith("/"))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_narrow_encoding_gets_escapes(shell, samples, encoding):
    """A stdout that cannot hold Korean is given escapes, not an error."""
    done = subprocess.run(
        shell.command("memory", "list", "--dir", str(samples / "ko-clean")),
        env={**shell.env, "PYTHONUTF8": "0", "PYTHONIOENCODING": encoding},
        cwd=shell.home,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    assert b"\\u" in done.stdout


def test_json_is_ascii_and_whole(shell):
    """JSON carries what a file holds escaped, never raw."""
    memory = shell.place / "m"
    memory.mkdir()
    (memory / "a\u202eb\x1b.md").write_text('---\nname: "x"\ndescription: "\\e[31m \u200b 메"\n---\nbody\n')
    done = shell.run("memory", "list", "--dir", str(memory), "--json")
    assert done.stdout.isascii()
    (fact,) = json.loads(done.stdout)["facts"]
    assert fact["file"] == "a\u202eb\x1b.md"
    assert fact["description"] == "\x1b[31m \u200b 메"
    text = shell.run("memory", "list", "--dir", str(memory)).stdout
    assert "a\\u202eb\\x1b.md" in text
    assert "\\x1b[31m \\u200b 메" in text
    assert "\x1b" not in text
