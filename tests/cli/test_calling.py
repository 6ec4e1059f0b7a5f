"""How the command was called: a hint can be typed as it stands."""

import os
import sys

import pytest

from zcsyncd.cli.calling import as_called, called


@pytest.fixture
def script(tmp_path):
    """Give a script called `zcsyncd` in a directory that is not on the path."""
    place = tmp_path / "some bin"
    place.mkdir()
    made = place / "zcsyncd"
    made.write_text("#!/bin/sh\n")
    made.chmod(0o755)
    return made


def test_on_the_path_the_plain_name_does(script, monkeypatch):
    """The kernel gives a script its full path; when the plain name leads to it, that is what a person types."""
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setenv("PATH", f"/nowhere{os.pathsep}{script.parent}")
    assert called() == "zcsyncd"


def test_off_the_path_the_script_is_named(script, monkeypatch):
    """A script that the path does not lead to is named as it was called, fit for a shell."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(script.parent.parent)
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert called() == f"'{script}'"
    (script.parent.parent / "bin").symlink_to(script.parent)
    monkeypatch.setattr(sys, "argv", ["bin/zcsyncd"])
    assert as_called("start it with `zcsyncd run`") == "start it with `bin/zcsyncd run`"


def test_another_one_on_the_path_is_not_this_one(script, tmp_path, monkeypatch):
    """When the plain name leads to another installation, the script is named."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "zcsyncd").write_text("#!/bin/sh\n")
    (other / "zcsyncd").chmod(0o755)
    monkeypatch.setenv("PATH", str(other))
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert called() == f"'{script}'"


@pytest.mark.parametrize(
    ("script", "program"),
    [
        ("/site/zcsyncd/__main__.py", "/usr/bin/py -m zcsyncd"),
        ("zcsyncd", "zcsyncd"),
        ("", "zcsyncd"),
        ("/x/pytest", "zcsyncd"),
    ],
)
def test_other_ways(script, program, monkeypatch):
    """`python -m zcsyncd` is named with its interpreter; what is no script of ours says the plain name."""
    monkeypatch.setattr(sys, "argv", [script])
    monkeypatch.setattr(sys, "executable", "/usr/bin/py")
    assert called() == program


def test_a_real_hint_can_be_typed(shell):
    """Without a daemon the hint's command is one that runs here."""
    done = shell.run("status")
    assert f"`{sys.executable} -m zcsyncd run`" in done.stderr
