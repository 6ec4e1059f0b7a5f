"""The Task Scheduler through its program; a fake one: what we hand over, and what we make of what it says."""

import pytest

from tests.install.fake_manager import SCHTASKS, FakeManager
from zcsyncd.errors import NoDaemon, Refused
from zcsyncd.install.by_tasks import ByTasks
from zcsyncd.install.wanted import RUN_WORDS, Wanted

SERVICE = Wanted(("C:\\p\\pythonw.exe", *RUN_WORDS), (("ZCODE_STORAGE_DIR", "D:\\z é"),), user="DESK\\u")


@pytest.fixture
def fake(tmp_path):
    """Give a fake scheduler."""
    return FakeManager(tmp_path, "schtasks", SCHTASKS)


@pytest.fixture
def its(fake):
    """Give what drives it."""
    return ByTasks(fake.env)


def test_from_install_to_removal(fake, its):
    """Handed over as UTF-16, started, ended, deleted; each step twice is harmless."""
    its.check()
    assert its.present() is None
    assert its.state().installed is False
    assert its.write(SERVICE, socket=None) == ["written: \\zcsyncd"]
    assert fake.state["task"].startswith('<?xml version="1.0" encoding="UTF-16"?>\r\n<Task ')
    assert its.present() == [
        "C:\\p\\pythonw.exe",
        '-P -m zcsyncd run --service --env "ZCODE_STORAGE_DIR=D:\\z é"',
    ]
    assert its.is_current(SERVICE)
    assert its.state().installed is True
    assert its.write(SERVICE, socket=None) == ["unchanged: \\zcsyncd"]
    assert len(fake.calls("/CREATE")) == 1
    assert its.start() == ["started"]
    assert its.restart() == ["restarted"]
    assert its.stop() == ["stopped"]
    assert fake.state["runs"] is False
    assert its.remove() == ["removed: \\zcsyncd"]
    assert its.remove() == []


def test_a_change_is_handed_over_anew(its):
    """A task with another command is replaced."""
    its.write(SERVICE, socket=None)
    changed = Wanted(("C:\\q\\pythonw.exe", *RUN_WORDS), user="DESK\\u")
    assert not its.is_current(changed)
    assert its.write(changed, socket=None) == ["updated: \\zcsyncd"]


def test_no_file_is_left_over(its, tmp_path, monkeypatch):
    """The file that is handed over is gone afterwards."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    its.write(SERVICE, socket=None)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_what_cannot_be_is_told(fake, its):
    """Without schtasks, with --socket, and where nothing is installed the words say so."""
    with pytest.raises(Refused):
        its.write(SERVICE, socket=True)
    with pytest.raises(Refused) as refused:
        ByTasks({**fake.env, "PATH": "/nowhere"}).check()
    assert "zcsyncd run" in refused.value.hint
    with pytest.raises(NoDaemon, match="cannot find"):
        its.start()
