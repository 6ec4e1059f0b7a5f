"""A service manager of its own for these tests; one for all of them, a clean home for each."""

import json
import os
import shutil
import sys
import time

import pytest

from tests.service.own_manager import HOME, ROOT, CannotRun, OwnManager

WAIT_S = 30.0


class Machine:
    """The machine in the machine, in words of a person who installs zcsyncd there."""

    def __init__(self, manager: OwnManager) -> None:
        self.manager = manager
        self.home = manager.home
        self.run = manager.run
        self.command = manager.command

    def zcsyncd(self, *words, **env):
        """Run one verb."""
        return self.run(sys.executable, "-P", "-m", "zcsyncd", *words, **env)

    def done(self, *words, **env):
        """Run one verb that has to succeed; give what it says."""
        done = self.zcsyncd(*words, **env)
        assert done.returncode == 0, done.stdout + done.stderr + self.log()
        return done.stdout

    def json(self, *words, **env):
        """Run one verb with --json; give its answer."""
        return json.loads(self.done(*words, "--json", **env))

    def show(self, name, unit="zcsyncd.service"):
        """Ask the service manager for one property of a unit."""
        return self.run("systemctl", "--user", "show", unit, "-p", name, "--value").stdout.strip()

    def pid(self):
        """Give the main process, by its number inside."""
        return int(self.show("MainPID"))

    def kill(self, sign, pid):
        """Send a signal inside."""
        self.run("/bin/kill", f"-{sign}", str(pid))

    def wait(self, fact, what):
        """Wait until something is so; give it."""
        until = time.monotonic() + WAIT_S
        while not (found := fact()):
            assert time.monotonic() < until, f"{what}\n{self.log()}"
            time.sleep(0.05)
        return found

    def log(self):
        return self.manager.log.read_text(errors="replace")[-4000:]

    def drop_in(self, text):
        """Lay something over the unit, as a person may."""
        place = self.home / ".config/systemd/user/zcsyncd.service.d"
        place.mkdir(parents=True, exist_ok=True)
        (place / "test.conf").write_text(text)
        self.own()
        self.run("systemctl", "--user", "daemon-reload")

    def own(self):
        """Give everything in the home to its user: it was written from outside."""
        user = os.stat(self.home)
        for place, names, files in os.walk(self.home):
            for name in (*names, *files):
                os.chown(os.path.join(place, name), user.st_uid, user.st_gid, follow_symlinks=False)

    def files(self):
        """List everything below the home, and in the run-time directory what is ours."""
        found = {str(path.relative_to(self.home)) for path in self.home.rglob("*")}
        runtime = self.manager.root / "run/user" / str(os.stat(self.home).st_uid)
        return found | {f"runtime/{path.name}" for path in runtime.glob("zcsyncd*")}

    def installation(self, place):
        """Make an installation as pipx would, in an environment of its own at a place below the home; give its packages."""
        done = self.run(sys.executable, "-m", "venv", "--without-pip", f"{HOME}/{place}")
        assert done.returncode == 0, done.stderr
        packages = next((self.home / place / "lib").glob("python3*")) / "site-packages"
        libraries = next(path for path in sys.path if path.endswith("site-packages"))
        (packages / "libraries.pth").write_text(f"{libraries}\n")
        shutil.copytree(ROOT / "zcsyncd", packages / "zcsyncd", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "service", packages / "zcsyncd/service", dirs_exist_ok=True)
        self.own()
        return packages

    def memory(self, name="app"):
        """Make the memory directory of a project."""
        from zcsyncd.layouts.zcode import ZCODE

        place = ZCODE.directory(f"{HOME}/.zcode/cli", f"{HOME}/code/{name}")
        directory = self.home / os.path.relpath(place, HOME)
        directory.mkdir(parents=True)
        (directory / "MEMORY.md").write_text("# Memory\n")
        self.own()
        return directory


@pytest.fixture(scope="session")
def manager(tmp_path_factory):
    """Start a service manager, or skip with the reason; `TESTS_NEED_SYSTEMD=1` makes it a failure."""
    try:
        made = OwnManager(tmp_path_factory.mktemp("manager"))
    except CannotRun as why:
        if os.environ.get("TESTS_NEED_SYSTEMD") == "1":
            raise
        pytest.skip(f"no service manager of our own: {why}")
    yield made
    made.close()


@pytest.fixture
def machine(manager):
    """Give the machine with an empty home, and take everything out again."""
    machine = Machine(manager)
    _clean(machine)
    yield machine
    _clean(machine)


def _clean(machine):
    names = ("zcsyncd.socket", "zcsyncd.service")
    machine.run("systemctl", "--user", "stop", *names)
    for path in machine.home.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    machine.run("systemctl", "--user", "daemon-reload")
    machine.run("systemctl", "--user", "reset-failed")
    runtime = machine.manager.root / "run/user" / str(os.stat(machine.home).st_uid) / "zcsyncd"
    shutil.rmtree(runtime, ignore_errors=True)
