"""The contestants and their listeners as processes of ours: started, asked, ended by their own id. Door: subprocess."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Self

from benchmarks.home import Home
from zcsyncd.bus.client import Client
from zcsyncd.errors import NoDaemon

START_S = 30.0
END_S = 20.0
FLUSH_S = 120.0
SAVED_S = 300.0

Told = list[tuple[str, str | None, int]]
Stamps = list[tuple[int, int]]


class Process:
    """A process of ours; its output goes to a file in its home."""

    kind = ""

    def __init__(self, home: Home, argv: Sequence[str], **more: object) -> None:
        self.home = home
        self.log = open(os.path.join(home.base, f"{self.kind or 'process'}.log"), "ab")
        self.child = subprocess.Popen(
            list(argv),
            env=home.env,
            **{"stdin": subprocess.DEVNULL, "stdout": self.log, "stderr": self.log, **more},
        )

    @property
    def pid(self) -> int:
        return self.child.pid

    def wait_for(self, path: str) -> None:
        """Wait until a file is there."""
        until = time.monotonic() + START_S
        while not os.path.exists(path):
            if self.child.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{self.kind} did not start: {self.words()}")
            time.sleep(0.005)

    def words(self) -> str:
        """What it wrote."""
        with open(self.log.name, encoding="utf-8", errors="replace") as file:
            return file.read()[-2000:]

    def cpu_s(self) -> float:
        """CPU seconds so far, all threads, in steps of 10 ms."""
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def fine_cpu_s(self) -> float:
        """CPU seconds of the threads that live now, to the nanosecond where the kernel counts so."""
        try:
            total = 0
            for thread in os.listdir(f"/proc/{self.pid}/task"):
                with open(f"/proc/{self.pid}/task/{thread}/schedstat", encoding="ascii") as file:
                    total += int(file.read().split()[0])
        except FileNotFoundError:
            return self.cpu_s()
        return total / 1e9

    def rss_mib(self) -> float:
        """Resident memory."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024

    def end(self) -> None:
        """End it, politely first."""
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(END_S)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        self.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Contestant(Process):
    """Something that watches its home's projects and tells at `address`."""

    address = ""

    def listen(self) -> Listener:
        """Give a listener that is subscribed."""
        return Listener(self)


class Zcsyncd(Contestant):
    """The daemon, as `zcsyncd run` starts it; `wrapper`: a module that runs the same in its own way."""

    kind = "zcsyncd"

    def __init__(self, home: Home, wrapper: Sequence[str] = ("-m", "zcsyncd")) -> None:
        super().__init__(home, [sys.executable, *wrapper, "run"])
        endpoint = os.path.join(home.state, "endpoint.json")
        try:
            self.wait_for(endpoint)
            with open(endpoint, encoding="utf-8") as file:
                self.address = json.load(file)["address"]
            self.flush()
        except BaseException:
            self.end()
            raise

    def ask(self, method: str, **params: object) -> dict:
        """Ask one question on a connection of its own."""
        with Client(self.address, timeout_s=START_S) as client:
            return client.call(method, params, timeout_s=FLUSH_S)

    def flush(self) -> None:
        """Wait until it is ready and everything on the disk has been told."""
        self.ask("daemon.flush")

    def wait_until_saved(self) -> None:
        """Wait until versions and words of all files are saved, which happens in the background after the first scan."""
        until = time.monotonic() + SAVED_S
        while self.ask("memory.search", query="build", limit=1).get("complete") is False:
            if time.monotonic() > until:
                raise RuntimeError(f"not everything was saved within {SAVED_S:g} s")
            time.sleep(0.05)

    def end(self) -> None:
        if self.child.poll() is None and self.address:
            with contextlib.suppress(NoDaemon, OSError):
                self.ask("daemon.stop")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(END_S)
        super().end()


class Watchman(Contestant):
    """watchman with the shortest settle time that it takes."""

    kind = "watchman"

    def __init__(self, home: Home, settle_ms: int = 1) -> None:
        self.address = os.path.join(home.run, "watchman.sock")
        with open(os.path.join(home.projects, ".watchmanconfig"), "w", encoding="utf-8") as file:
            json.dump({"settle": settle_ms}, file)
        places = {"sockname": "sock", "logfile": "log", "pidfile": "pid"}
        options = [
            f"--{option}={os.path.join(home.run, f'watchman.{end}')}" for option, end in places.items()
        ]
        super().__init__(home, ["watchman", "--foreground", "--no-save-state", *options])
        try:
            self.wait_for(self.address)
        except BaseException:
            self.end()
            raise

    @staticmethod
    def there() -> bool:
        """Tell whether it is installed."""
        return shutil.which("watchman") is not None


class Relay(Contestant):
    """The bare relay."""

    kind = "relay"

    def __init__(self, home: Home) -> None:
        self.address = os.path.join(home.run, "relay.sock")
        super().__init__(home, [sys.executable, "-m", "benchmarks.relay", home.projects, self.address])
        try:
            self.wait_for(self.address)
        except BaseException:
            self.end()
            raise


class Listener(Process):
    """A subscriber of one contestant, in a process of its own."""

    kind = "listener"

    def __init__(self, contestant: Contestant) -> None:
        argv = [sys.executable, "-m", "benchmarks.listener", contestant.kind, contestant.address]
        super().__init__(
            contestant.home,
            [*argv, contestant.home.projects],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self.child.stdout.readline() != "ready\n":
            self.end()
            raise RuntimeError(f"no subscription to {contestant.kind}: {self.words()} {contestant.words()}")

    def told(self, quiet_s: float) -> Told:
        """Give what it was told since the last call, once nothing has come for `quiet_s`."""
        self.child.stdin.write(f"dump {quiet_s}\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())

    def end(self) -> None:
        super().end()
        self.child.stdin.close()
        self.child.stdout.close()


def save_all(home: Home, saves: list[tuple[str, str]], interval_s: float = 0.0, group: int = 1) -> Stamps:
    """Have another process save these texts; give the times around each move into place."""
    job = json.dumps({"saves": saves, "interval_s": interval_s, "group": group})
    argv = [sys.executable, "-m", "benchmarks.saver"]
    done = subprocess.run(
        argv, input=job, env=home.env, stdout=subprocess.PIPE, text=True, check=True, timeout=300
    )
    return json.loads(done.stdout)
