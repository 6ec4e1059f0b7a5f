"""What we make of systemd's helpers, by stand-ins: linger, the journal. The service itself: tests/service."""

import os

import pytest

from zcsyncd.install import by_systemd
from zcsyncd.install.by_systemd import BySystemd


@pytest.fixture
def programs(tmp_path):
    """Give a maker of programs on a path of their own, and the environment with it."""
    place = tmp_path / "bin"
    place.mkdir()
    env = {"PATH": f"{place}:/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}

    def make(name, script):
        (place / name).write_text(f"#!/bin/sh\n{script}\n")
        (place / name).chmod(0o755)
        return env

    make("systemctl", "exit 1")
    return make


@pytest.mark.parametrize(
    ("script", "word"),
    [
        ("echo yes", "linger is on for you"),
        ("echo no", "linger is off for you"),
        ("exit 1", "is not known"),
    ],
)
def test_linger_is_told(programs, monkeypatch, script, word):
    """On, off, or not known; where it is off the words say what turns it on."""
    monkeypatch.setattr(by_systemd, "LINGERS", "/nowhere")
    (said,) = [line for line in BySystemd(programs("loginctl", script)).remarks() if "logged" in line]
    assert word in said
    assert ("`loginctl enable-linger`" in said) == ("off" in said)


def test_linger_of_who_is_logged_out(programs, monkeypatch, tmp_path):
    """Loginctl knows only who is logged in; then the file that stands for linger tells."""
    monkeypatch.setattr(by_systemd, "LINGERS", str(tmp_path / "linger"))
    monkeypatch.setattr(by_systemd, "_login", lambda _env: "ann")
    env = programs("loginctl", "exit 1")
    (tmp_path / "linger").mkdir()
    assert "off" in BySystemd(env).remarks()[0]
    (tmp_path / "linger/ann").touch()
    assert "on for you" in BySystemd(env).remarks()[0]


def test_the_journal_is_taken_where_it_has_something(programs):
    """A journal that has lines of the service is shown; an empty one, or none, is not."""
    env = programs("journalctl", "echo a line")
    command = BySystemd(env).log_command(7, follow=True)
    assert command is not None
    assert {"--user", "--unit=zcsyncd.service", "--lines=7", "--follow"} <= set(command)
    assert BySystemd(env).log_command(7, follow=False)[-1] == "--lines=7"
    assert BySystemd(programs("journalctl", "exit 0")).log_command(7, follow=False) is None
    os.unlink(os.path.join(env["HOME"], "bin/journalctl"))
    assert BySystemd({**env, "PATH": os.path.join(env["HOME"], "bin")}).log_command(7, follow=False) is None


def test_the_directory_of_units(programs, tmp_path):
    """A moved configuration directory is taken only if the manager looks there; its shell may not be the person's."""
    moved = tmp_path / "moved"
    env = {
        **programs("systemctl", f"echo /etc/systemd/user {moved}/systemd/user"),
        "XDG_CONFIG_HOME": str(moved),
    }
    assert BySystemd(env).place() == f"{moved}/systemd/user/zcsyncd.service"
    env = {**programs("systemctl", "echo /etc/systemd/user"), "XDG_CONFIG_HOME": str(moved)}
    assert BySystemd(env).place() == f"{tmp_path}/.config/systemd/user/zcsyncd.service"
    env = {**env, "XDG_CONFIG_HOME": "relative"}
    assert BySystemd(env).place() == f"{tmp_path}/.config/systemd/user/zcsyncd.service"
