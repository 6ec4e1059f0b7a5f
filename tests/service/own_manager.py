"""A real `systemd --user` of this test run's own, with its own user, home, run-time directory and process numbers."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
USER = 61_999
HOME = "/run/home"
RUNTIME = f"/run/user/{USER}"
WAIT_S = 30.0
PROGRAMS = ("unshare", "nsenter", "setpriv", "mount", "umount", "systemctl", "systemd-analyze", "systemd-run")
PLACES = ("/usr/lib/systemd/systemd", "/lib/systemd/systemd")


class CannotRun(Exception):
    """Why there can be no service manager here."""


class OwnManager:
    """Starts it, runs commands as its user, and leaves nothing behind."""

    def __init__(self, place: Path) -> None:
        systemd = next((one for one in PLACES if os.path.exists(one)), None)
        if sys.platform != "linux" or systemd is None:
            raise CannotRun("there is no systemd here")
        if os.geteuid() != 0:
            raise CannotRun("only root can make the namespaces for a service manager of its own")
        missing = [name for name in PROGRAMS if shutil.which(name) is None]
        if missing:
            raise CannotRun(f"{', '.join(missing)} is missing")
        self.log = place / "manager.log"
        self._group = f"zcsyncd-test-{os.getpid()}"
        reached = dict.fromkeys(map(os.path.realpath, (sys.base_prefix, sys.prefix, ROOT)))
        needed = [one for one in reached if not one.startswith("/usr") and one != "/"]
        inner = [
            sys.executable,
            "-B",
            str(Path(__file__).with_name("inside.py")),
            str(USER),
            self._group,
            systemd,
        ]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *inner, *needed],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        try:
            self._begin()
        except CannotRun:
            self.close()
            raise

    def _begin(self) -> None:
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise CannotRun(
                f"its namespaces cannot be made: {self.log.read_text(errors='replace').strip()[-200:]}"
            )
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        self.first_pid = int(children[0])
        until = time.monotonic() + WAIT_S
        while self.run("systemctl", "--user", "is-system-running").stdout.strip() not in {
            "running",
            "degraded",
        }:
            if time.monotonic() > until or self._process.poll() is not None:
                raise CannotRun(f"it does not come up: {self.log.read_text(errors='replace')[-400:]}")
            time.sleep(0.1)
        done = self.run(sys.executable, "-P", "-m", "zcsyncd", "--version")
        if done.returncode != 0:
            raise CannotRun(f"its user cannot reach this checkout: {done.stderr.strip()[-200:]}")

    @property
    def root(self) -> Path:
        """The file system as its user sees it."""
        return Path(f"/proc/{self.first_pid}/root")

    @property
    def home(self) -> Path:
        """The user's home, seen from outside."""
        return self.root / HOME[1:]

    def command(self, *words: str, **env: str) -> list[str]:
        """Give what runs a command as its user."""
        usual = {
            "HOME": HOME,
            "USER": "zcsyncd-test",
            "PATH": "/usr/bin:/bin",
            "XDG_RUNTIME_DIR": RUNTIME,
            "LANG": "C.UTF-8",
        }
        return [
            *("nsenter", f"--target={self.first_pid}", "--mount", "--pid", f"--wd={self.home}"),
            *("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"),
            *("env", "-i", *(f"{name}={value}" for name, value in {**usual, **env}.items())),
            *words,
        ]

    def run(self, *words: str, stdin: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command as its user, to its end."""
        return subprocess.run(
            self.command(*words, **env),
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=WAIT_S,
            check=False,
        )

    def close(self) -> None:
        """End everything in it."""
        if self._process.poll() is None:
            self._process.kill()  # `--kill-child` ends the namespace, and all in it, with it
            self._process.wait(WAIT_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
        # The control groups outlive their processes, and only a mount of theirs can reach them.
        script = (
            "mount -t cgroup2 cgroup2 /mnt && cd /mnt && for n in 1 2 3 4 5 6 7 8 9 10; do "
            'find "./$1" -depth -type d -exec rmdir {} + 2>/dev/null; [ -e "./$1" ] || break; sleep 0.1; done'
        )
        subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", self._group], check=False, timeout=WAIT_S
        )
