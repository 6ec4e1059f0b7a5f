"""What all tests share: nothing of the real home is ever touched."""

import codecs
import itertools
import os
import shutil
import sys
import tempfile
import traceback

import pytest

NOBODY = 65534
_homes = itertools.count()


def pytest_configure(config):
    """Work below a directory of this run's own: pytest's usual one is closed again by each other run that begins."""
    if config.option.basetemp is None:
        config.option.basetemp = tempfile.mkdtemp(prefix="zcsyncd-tests-")
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp, ignore_errors=True))


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory, monkeypatch):
    """Every test has a home of its own, and none of the variables that would lead out of it."""
    # Not by `mktemp`, which lists all homes there are, at each of thousands of tests.
    home = tmp_path_factory.getbasetemp() / f"homes-{next(_homes) // 256}" / str(next(_homes))
    home.mkdir(parents=True, mode=0o700)
    for name in tuple(os.environ):
        if name.startswith(("ZCSYNCD_", "ZCODE_", "XDG_", "PI_", "CLAUDE_", "DSH_", "LISTEN_", "NOTIFY_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    if sys.platform == "win32":
        monkeypatch.setenv("USERPROFILE", str(home))
        monkeypatch.setenv("LOCALAPPDATA", str(home / "AppData" / "Local"))
        monkeypatch.setenv("APPDATA", str(home / "AppData" / "Roaming"))


@pytest.fixture
def as_ordinary_user():
    """Run a check in a child process that is not root; its failures are this test's.

    Used where root would be allowed what the test is about. `owned` paths (with all below) are given to that user.
    """

    def run(check, *owned):
        # The interpreter's own files may be out of that user's reach: what is loaded late is loaded now.
        for encoding in ("utf-16-le", "utf-16", "gb18030", "gbk", "latin-1", "idna"):
            codecs.lookup(encoding)
        reader, writer = os.pipe()
        root = os.geteuid() == 0
        if root:
            for path in owned:
                _hand_over(path)
        child = os.fork()
        if child == 0:
            os.close(reader)
            code = 1
            try:
                if root:
                    os.setgroups([])
                    os.setgid(NOBODY)
                    os.setuid(NOBODY)
                check()
                code = 0
            except BaseException:
                os.write(writer, traceback.format_exc().encode()[-60_000:])
            finally:
                sys.stdout.flush()
                os._exit(code)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0, said

    return run


def _hand_over(path):
    """Give a path and all below to the ordinary user, and let that user reach it."""
    for place, names, files in os.walk(path):
        for name in (place, *(os.path.join(place, each) for each in (*names, *files))):
            os.chown(name, NOBODY, NOBODY, follow_symlinks=False)
    place = os.path.abspath(path)
    while (place := os.path.dirname(place)) != "/":
        status = os.stat(place)
        if status.st_uid == 0 and not status.st_mode & 0o001:
            os.chmod(place, status.st_mode | 0o011)
