"""What a transcript is made of: a machine with a home, a daemon, a checking client, a listener, saved files.

Nothing sleeps to wait: whatever is awaited is a fact, under a timeout.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from zcsyncd.bus.client import Client
from zcsyncd.errors import NoDaemon
from zcsyncd.layouts import zcode

CHECKOUT = Path(__file__).resolve().parents[2]
SAMPLES = CHECKOUT / "tests" / "samples"
VECTORS = CHECKOUT / "tests" / "vectors"
PATIENCE_S = 20.0
"""How long any fact may take on a busy machine; none is awaited for its own sake."""
_LOOK_EVERY_S = 0.01


def until(fact: Callable[[], Any], what: str = "the fact", patience_s: float = PATIENCE_S) -> Any:
    """Give the first true value of `fact`; fails the test when there is none within the patience.

    For facts that nobody tells us of: a file that appears, a process that ends.
    """
    deadline = time.monotonic() + patience_s
    while not (value := fact()):
        assert time.monotonic() < deadline, f"{what} did not come within {patience_s:g} s"
        time.sleep(_LOOK_EVERY_S)
    return value


# -- answers and events, checked ------------------------------------------------------------------------------


class Contract:
    """What `describe` promises; every answer and event of these tests is held against it."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        self.described = described
        self.results = {name: _validator(one["result"]) for name, one in described["methods"].items()}
        self.event = _validator(described["event"])
        self.topics = {name: _validator(one["data"]) for name, one in described["topics"].items()}

    def check_result(self, method: str, result: object) -> None:
        _fits(self.results[method], result, f"the answer to {method}")

    def check_event(self, event: dict[str, Any]) -> None:
        _fits(self.event, event, "an event")
        assert event["topic"] in self.topics, f"an event of a topic that nobody described: {event}"
        _fits(self.topics[event["topic"]], event["data"], event["topic"])


def _validator(schema: Any) -> Draft202012Validator:
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def _fits(validator: Draft202012Validator, value: object, what: str) -> None:
    # One line instead of the whole schema and the whole value.
    wrong = next(validator.iter_errors(value), None)
    assert wrong is None, f"{what} does not fit `describe`: {wrong.json_path}: {wrong.message[:500]}"


class Asking(Client):
    """The project's own client, whose every answer and event has to fit what `describe` says."""

    contract: Contract | None = None

    def call(self, method: str, params: Any = None, /, **named: Any) -> dict[str, Any]:
        named.setdefault("timeout_s", PATIENCE_S)
        result = super().call(method, params, **named)
        if Asking.contract is None:
            Asking.contract = Contract(result if method == "describe" else super().call("describe"))
        Asking.contract.check_result(method, result)
        return result

    def next_event(self, timeout_s: float | None = None) -> dict[str, Any] | None:
        event = super().next_event(timeout_s)
        if event is not None:
            assert Asking.contract is not None
            Asking.contract.check_event(event)
        return event


def sequence(cursor: str) -> int:
    return int(cursor.rpartition(":")[2])


class Listener(Asking):
    """A subscriber on a connection of its own that keeps all it is told, in order."""

    def __init__(self, address: str, **asked: Any) -> None:
        super().__init__(address)
        self.heard: list[dict[str, Any]] = []
        self._places: dict[int, int] = {}
        self.connect()
        answer = self.call("events.subscribe", asked)
        self.subscription, self.begun = answer["subscription"], answer["cursor"]

    def hear(self, timeout_s: float = PATIENCE_S) -> dict[str, Any] | None:
        event = self.next_event(timeout_s)
        if event is not None:
            place = sequence(event["cursor"])
            before = self._places.get(event["subscription"], -1)
            assert place > before or event["topic"] == "bus/gap", f"a cursor went back: {before} to {place}"
            self._places[event["subscription"]] = place
            self.heard.append(event)
        return event

    def flush(self, **asked: Any) -> list[dict[str, Any]]:
        """Everything that was on disk before is announced: give all that was heard so far."""
        self.call("daemon.flush", asked)
        return self.gather()

    def gather(self) -> list[dict[str, Any]]:
        """Take what has come already."""
        while self._events:
            self.hear()
        return self.heard

    def until(self, fits: Callable[[dict[str, Any]], Any], what: str = "an event") -> dict[str, Any]:
        """Give the first event, heard or to come, that fits."""
        for event in self.gather():
            if fits(event):
                return event
        deadline = time.monotonic() + PATIENCE_S
        while (left_s := deadline - time.monotonic()) > 0:
            event = self.hear(left_s)
            if event is not None and fits(event):
                return event
        raise AssertionError(f"{what} was not told; heard: {json.dumps(self.heard, indent=1)[-4000:]}")

    def until_topic(self, topic: str, **data: Any) -> dict[str, Any]:
        return self.until(
            lambda event: (
                event["topic"] == topic
                and all(event["data"].get(key) == value for key, value in data.items())
            ),
            f"{topic} {data or ''}",
        )

    def forget(self) -> None:
        """Begin to listen anew: what is on disk now was told."""
        self.flush()
        self.heard.clear()

    @property
    def topics(self) -> list[str]:
        return [event["topic"] for event in self.heard]

    def changes(self, file: str | None = None, directory: Path | str | None = None) -> list[dict[str, Any]]:
        """Every change told so far, in order (of one file)."""
        return [
            change
            for event in self.heard
            if event["topic"] == "memory/changed" and directory in (None, event["dir"], Path(event["dir"]))
            for change in event["data"]["changes"]
            if file in (None, change["file"])
        ]

    def kinds(self, file: str | None = None) -> list[str]:
        return [change["kind"] for change in self.changes(file)]

    def of(self, topic: str) -> list[dict[str, Any]]:
        return [event["data"] for event in self.heard if event["topic"] == topic]

    def codes(self, member: str) -> list[str]:
        return [finding["code"] for data in self.of("memory/audit") for finding in data[member]]


# -- files ----------------------------------------------------------------------------------------------------


def fact_text(
    name: str = "a-fact", description: str = "What it says", body: str = "Body.", **more: str
) -> str:
    kind = more.get("type", "project")
    return f"---\nname: {name}\ndescription: {description}\nmetadata:\n  node_type: memory\n  type: {kind}\n---\n\n{body}\n"


def entry(file: str, title: str = "A title", hook: str = "What it says") -> str:
    return f"- [{title}]({file}) — {hook}\n"


def save(path: Path, text: str | bytes) -> None:
    """Save as ZCode does: a temporary file beside it, fsync, rename."""
    raw = text.encode() if isinstance(text, str) else text
    temporary = f"{path}.tmp.{os.getpid()}.{os.urandom(6).hex()}"
    with open(temporary, "xb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


class Project:
    """A working directory and the memory directory that ZCode makes for it."""

    def __init__(self, home: Path, cwd: Path) -> None:
        self.cwd = cwd
        self.memory = Path(zcode.directory(str(home / ".zcode" / "cli"), str(cwd)))
        self.dir = str(self.memory)

    def make(self, files: Mapping[str, str] | None = None, *, index: bool = True) -> Project:
        """Make both directories, with facts and an index that lists them all."""
        self.cwd.mkdir(parents=True, exist_ok=True)
        self.memory.mkdir(parents=True, exist_ok=True)
        for name, text in (files or {}).items():
            path = self.memory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if index and files:
            self.write_index(*(name for name in files if name.endswith(".md")))
        return self

    def write_index(self, *files: str) -> None:
        save(self.memory / "MEMORY.md", "# Memory\n\n" + "".join(entry(name) for name in files))

    def fact(self, name: str, **words: str) -> Path:
        path = self.memory / name
        save(path, fact_text(name.removesuffix(".md"), **words))
        return path


# -- a machine ------------------------------------------------------------------------------------------------


class Running:
    """A daemon that runs."""

    def __init__(self, machine: Machine, process: subprocess.Popen[bytes], stderr: Path) -> None:
        self.machine = machine
        self.process = process
        self.stderr = stderr
        self.ended = False
        self._open: list[Client] = []

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def address(self) -> str:
        return str(json.loads(self.machine.endpoint.read_text())["address"])

    def client(self, **session: Any) -> Asking:
        """Give a connected client; with a session when one is named."""
        client = Asking(self.machine.address)
        client.connect()
        self._open.append(client)
        if session:
            session = {"host": "pi", "id": "s-1", **session}
            client.call("hello", client={"name": "test", "version": "1"}, session=session)
        return client

    def listen(self, *projects: Project, **asked: Any) -> Listener:
        if projects:
            asked["dirs"] = [project.dir for project in projects]
        listener = Listener(self.machine.address, **asked)
        self._open.append(listener)
        return listener

    def plain_socket(self) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(PATIENCE_S)
        made.connect(self.machine.address)
        self._open.append(made)  # type: ignore[arg-type]  # it can be closed, which is all that is asked of it
        return made

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        with Asking(self.machine.address) as client:
            return client.call(method, params)

    def kill(self) -> None:
        """End it as a power cut would, and nobody tells it."""
        os.kill(self.pid, signal.SIGKILL)
        assert self.process.wait(PATIENCE_S) == -signal.SIGKILL
        self.ended = True

    def stop(self) -> None:
        """End it as a service manager does; it has to go in peace, without a word about bugs."""
        if not self.ended:
            os.kill(self.pid, signal.SIGTERM)
            self.wait(0)

    def wait(self, code: int) -> None:
        assert self.process.wait(PATIENCE_S) == code, self.said()
        self.ended = True
        self.check_clean()

    def said(self) -> str:
        return self.stderr.read_text(errors="replace")[-6000:]

    def log(self) -> str:
        return "".join(path.read_text(errors="replace") for path in sorted(self.machine.state.glob("log/*")))

    def check_clean(self) -> None:
        """Nothing that it said is a traceback, a Python warning, or an error."""
        for text in (self.said(), self.log()):
            for word in (
                "Traceback",
                "Warning:",
                "level=ERROR",
                "level=CRITICAL",
                "internal-error",
                "never awaited",
            ):
                assert word not in text, text[-6000:]

    def close(self) -> None:
        for client in self._open:
            client.close()
        if not self.ended and self.process.poll() is None:
            os.kill(self.pid, signal.SIGCONT)
            os.kill(self.pid, signal.SIGKILL)
            self.process.wait(PATIENCE_S)


class Machine:
    """A home, a configuration and the daemon's places, below one short path."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.home = place / "h"
        self.state = place / "s"
        self.runtime = place / "r"
        self.config_file = place / "c" / "config.yaml"
        self.root = self.home / ".zcode" / "cli"
        self.projects = self.root / "memories" / "projects"
        self.endpoint = self.state / "endpoint.json"
        self.running: list[Running] = []
        for path in (self.home, self.state, self.runtime, self.config_file.parent):
            path.mkdir(mode=0o700)
        self.env = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "LANG": "C.UTF-8",
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(place / "x" / "config"),
            "XDG_STATE_HOME": str(place / "x" / "state"),
            "XDG_CACHE_HOME": str(place / "x" / "cache"),
            "XDG_DATA_HOME": str(place / "x" / "data"),
            "XDG_RUNTIME_DIR": str(place / "x" / "run"),
            "ZCSYNCD_STATE_DIR": str(self.state),
            "ZCSYNCD_RUNTIME_DIR": str(self.runtime),
            "ZCSYNCD_CONFIG": str(self.config_file),
            "PYTHONPATH": os.environ.get("ZT_CHECKOUT", str(CHECKOUT)),
        }

    @property
    def address(self) -> str:
        return str(self.runtime / "bus.sock")

    def project(self, name: str = "app") -> Project:
        return Project(self.home, self.home / "code" / name)

    def configure(self, text: str) -> None:
        self.config_file.write_text(text, encoding="utf-8")

    def launch(self, *words: str, **env: str) -> Running:
        """Start a daemon and do not wait for anything."""
        stderr = self.place / f"stderr-{len(self.running)}"
        with open(stderr, "wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-W", "default", "-m", "zcsyncd", "run", *words],
                env={**self.env, **env},
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        self.running.append(Running(self, process, stderr))
        return self.running[-1]

    def start(self, **env: str) -> Running:
        """Start a daemon; give it once its first scan is told."""
        daemon = self.launch(**env)

        def answers() -> bool:
            assert daemon.process.poll() is None, f"the daemon ended: {daemon.said()}"
            with contextlib.suppress(NoDaemon):
                daemon.call("daemon.flush")
                return True
            return False

        until(answers, "a daemon that answers")
        return daemon

    def cli(self, *words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        """Run one verb to its end."""
        return subprocess.run(
            self.command(*words),
            env={**self.env, **env},
            cwd=cwd or self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE_S * 2,
            check=False,
        )

    def json(self, *words: str, cwd: Path | None = None) -> Any:
        done = self.cli(*words, "--json", cwd=cwd)
        assert done.returncode in (0, 1), done.stderr
        return json.loads(done.stdout)

    @staticmethod
    def command(*words: str) -> list[str]:
        return [sys.executable, "-m", "zcsyncd", *words]

    def close(self) -> None:
        for daemon in self.running:
            daemon.close()
        _open_up(self.place)
        shutil.rmtree(self.place, ignore_errors=True)


def _open_up(place: Path) -> None:
    """Let a test's closed directories be removed."""
    for name, _, _ in os.walk(place):
        with contextlib.suppress(OSError):
            os.chmod(name, 0o700)


def new_machine() -> Machine:
    """Make a machine, in memory where there is such a place: hundreds of saves with an fsync each.

    Its path is short: a socket's has 107 bytes, and pytest's own directories use most of them.
    """
    place = next((path for path in ("/dev/shm", "/tmp") if os.access(path, os.W_OK)), None)
    return Machine(Path(os.path.realpath(tempfile.mkdtemp(prefix="zc", dir=place))))
