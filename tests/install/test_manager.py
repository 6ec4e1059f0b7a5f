"""Which service manager a system has, what hosts there are, what set-up could put into them."""

import pytest

from zcsyncd.errors import Refused
from zcsyncd.install.by_systemd import BySystemd
from zcsyncd.install.hosts import HOSTS
from zcsyncd.install.manager import manager
from zcsyncd.install.steps import HOST_STEPS, step_for
from zcsyncd.install.texts import template
from zcsyncd.install.wanted import RUN_WORDS, Wanted

ENV = {"HOME": "/home/u", "PATH": "/nowhere", "USERPROFILE": "C:\\Users\\u"}


@pytest.mark.parametrize(
    ("platform", "name"), [("linux", "systemd"), ("darwin", "launchd"), ("win32", "Task Scheduler")]
)
def test_each_system_has_its_own(platform, name):
    """Every system that we know has one; where its program is missing, the words say what to do instead."""
    its = manager(ENV, platform)
    assert its.name == name
    with pytest.raises(Refused) as refused:
        its.check()
    assert "`zcsyncd run`" in refused.value.hint


def test_an_unknown_system_has_none():
    """Elsewhere the daemon runs in the foreground, and the words say so."""
    with pytest.raises(Refused, match="freebsd14") as refused:
        manager(ENV, "freebsd14")
    assert "`zcsyncd run`" in refused.value.hint


def test_units_go_even_without_a_manager(tmp_path):
    """Where no manager answers any more, the files are taken away all the same, links and empty directories too."""
    its = BySystemd({"HOME": str(tmp_path), "PATH": "/nowhere"})
    directory = tmp_path / ".config/systemd/user"
    (directory / "default.target.wants").mkdir(parents=True)
    (directory / "zcsyncd.service").write_text(its.text(Wanted(("/p", *RUN_WORDS))))
    (directory / "default.target.wants/zcsyncd.service").symlink_to(directory / "zcsyncd.service")
    assert its.present() == ["/p", *RUN_WORDS]
    assert its.remove() == [f"removed: {directory}/zcsyncd.service"]
    assert list((tmp_path / ".config").iterdir()) == []
    assert its.remove() == []


def test_others_units_stay(tmp_path):
    """Units of others, and drop-ins of the person's own, are left; the latter are told."""
    its = BySystemd({"HOME": str(tmp_path), "PATH": "/nowhere"})
    directory = tmp_path / ".config/systemd/user"
    (directory / "zcsyncd.service.d").mkdir(parents=True)
    (directory / "other.service").write_text("")
    (directory / "zcsyncd.service").write_text("")
    assert its.remove()[-1].startswith(f"left: {directory}/zcsyncd.service.d")
    assert sorted(path.name for path in directory.iterdir()) == ["other.service", "zcsyncd.service.d"]


def test_hosts_lie_where_their_variables_say():
    """A variable moves a host's directory; one that is blank or no absolute path does not."""
    places = {host.name: host.directory({}, "/home/u", "posix") for host in HOSTS}
    assert places == {
        "pi": "/home/u/.pi/agent",
        "omp": "/home/u/.omp/agent",
        "zcode": "/home/u/.zcode",
        "claude-code": "/home/u/.claude",
    }
    pi = HOSTS[0]
    assert pi.directory({"PI_CODING_AGENT_DIR": "/x"}, "/home/u", "posix") == "/x"
    for value in ("", " ", "relative"):
        assert pi.directory({"PI_CODING_AGENT_DIR": value}, "/home/u", "posix") == "/home/u/.pi/agent"


def test_a_step_is_found_by_its_hosts_name(monkeypatch):
    """What is registered for a host is made for it; a host without a step has none."""
    host = HOSTS[0]
    monkeypatch.delitem(HOST_STEPS, host.name, raising=False)
    assert step_for(host, {}) is None
    monkeypatch.setitem(HOST_STEPS, host.name, lambda *words: words)
    assert step_for(host, {"A": "b"}) == (host, {"A": "b"})


def test_a_missing_template_is_told():
    """An installation without its unit files says which one is missing."""
    with pytest.raises(Refused, match=r"service/systemd/odd\.service"):
        template("systemd", "odd.service")
