"""launchd through its program; a fake one, since no Mac is at hand: what we call, in which order, and what we make of it."""

import os
import plistlib
from pathlib import Path

import pytest

from tests.install.fake_manager import LAUNCHCTL, FakeManager
from zcsyncd.errors import NoDaemon, Refused
from zcsyncd.install.by_launchd import ByLaunchd
from zcsyncd.install.wanted import RUN_WORDS, Wanted

UID = os.geteuid()


@pytest.fixture
def fake(tmp_path):
    """Give a fake launchd."""
    return FakeManager(tmp_path, "launchctl", LAUNCHCTL)


@pytest.fixture
def its(fake):
    """Give what drives it."""
    return ByLaunchd(fake.env)


@pytest.fixture
def service(tmp_path):
    """Give a service whose log lies in the test's home."""
    return Wanted(("/p/python", *RUN_WORDS), error_log=str(tmp_path / "Library/Logs/zcsyncd/service.err"))


def test_from_install_to_removal(fake, its, service):
    """Written, loaded, ended, started, taken away; each step twice is harmless, and nothing is left."""
    its.check()
    assert its.present() is None
    assert its.state().installed is False
    assert its.write(service, socket=None) == [f"written: {its.place()}"]
    assert os.stat(its.place()).st_mode & 0o777 == 0o644
    assert plistlib.loads(Path(its.place()).read_bytes())["ProgramArguments"] == list(service.words)
    assert its.present() == list(service.words)
    assert its.is_current(service)
    assert its.start() == ["started"]
    assert its.start() == []
    state = its.state()
    assert (state.installed, state.running, state.pid) == (True, True, fake.state["pid"])
    assert its.write(service, socket=None) == [f"unchanged: {its.place()}"]
    assert fake.calls("bootout") == []
    assert its.restart() == ["restarted"]
    assert fake.calls("kickstart") == [["kickstart", "-k", f"gui/{UID}/local.zcsyncd"]]
    assert its.stop() == ["stopped"]
    assert its.stop() == []
    assert fake.calls("kill") == [["kill", "SIGTERM", f"gui/{UID}/local.zcsyncd"]]
    assert its.start() == ["started"]
    assert its.remove() == ["stopped", f"removed: {its.place()}"]
    assert its.remove() == []
    assert not os.path.exists(its.place())


def test_a_change_is_read_anew(fake, its, service):
    """An agent that is loaded is let go of and loaded again when its list has changed."""
    its.write(service, socket=None)
    its.start()
    changed = Wanted(("/other/python", *RUN_WORDS), error_log=service.error_log)
    assert not its.is_current(changed)
    assert its.write(changed, socket=None) == [f"updated: {its.place()}", "started"]
    assert [call[0] for call in fake.state["calls"] if call[0].startswith("boot")] == [
        "bootstrap",
        "bootout",
        "bootstrap",
    ]


def test_without_a_desktop_the_users_domain_is_taken(fake, its, service):
    """Over a remote login there is no desktop's domain."""
    fake.set(desktop=False)
    its.check()
    its.write(service, socket=None)
    its.start()
    assert fake.state["loaded"] == f"user/{UID}/local.zcsyncd"


def test_what_cannot_be_is_refused(fake, its, service):
    """Without launchctl, without a domain, and with --socket the words say what to do instead."""
    with pytest.raises(Refused) as refused:
        its.write(service, socket=True)
    assert "--socket" in refused.value.hint
    fake.set(domains=False)
    with pytest.raises(Refused) as refused:
        its.check()
    assert "zcsyncd run" in refused.value.hint
    with pytest.raises(Refused) as refused:
        ByLaunchd({**fake.env, "PATH": "/nowhere"}).check()
    assert "zcsyncd run" in refused.value.hint


def test_a_start_that_fails_is_told(fake, its, service):
    """What launchctl complains of is in the error; a daemon that failed is in the state."""
    its.write(service, socket=None)
    fake.set(fails=True)
    with pytest.raises(NoDaemon, match="it is broken"):
        its.start()
    fake.set(fails=False)
    its.start()
    fake.set(pid=0, status=2)
    assert its.state().failure == "the daemon ended with exit code 2"
    assert its.state().running is False
