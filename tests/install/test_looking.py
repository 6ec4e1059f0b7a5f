"""What is seen of an installation before it becomes a service, and what a person is told of it."""

import os
import shutil
import subprocess
import sys

import pytest

from zcsyncd.errors import Refused
from zcsyncd.install import looking
from zcsyncd.install.caution import Facts, about_present, cautions
from zcsyncd.install.wanted import RUN_WORDS, Wanted
from zcsyncd.settings import CARRIED_VARIABLES, MOVING_VARIABLES


@pytest.fixture
def env(tmp_path):
    """Give a person's environment without anything odd."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return {"HOME": str(home), "PATH": "/usr/bin:/bin"}


def service_at(path):
    return Wanted((str(path), *RUN_WORDS))


def program(path, text="#!/bin/sh\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_interpreter_is_named_as_it_was_called(env):
    """In a virtual environment that is its own symlink: what it leads to does not have the package."""
    assert looking.wanted(env).words == (os.path.abspath(sys.executable), *RUN_WORDS)


def test_an_interpreter_that_is_gone_is_refused(env, monkeypatch, tmp_path):
    """A removed virtual environment is told as one."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone/bin/python"))
    with pytest.raises(Refused, match="no longer there") as refused:
        looking.wanted(env)
    assert "pipx install" in refused.value.hint


def test_the_moving_variables_are_carried(env):
    """What moves roots or places of ours is carried where it is set; what is usual, blank or others' is not."""
    assert set(MOVING_VARIABLES) <= set(CARRIED_VARIABLES)
    set_here = {
        **dict.fromkeys(CARRIED_VARIABLES, "/x"),
        "ZCSYNCD_CONFIG": "/c.yaml",
        "ZCSYNCD_SOCKET": " ",
        "XDG_CONFIG_HOME": f"{env['HOME']}/.config",
        "XDG_STATE_HOME": "/elsewhere",
        "EDITOR": "vi",
    }
    carried = looking.carried({**env, **set_here}, "linux")
    assert [name for name, _ in carried] == sorted([*CARRIED_VARIABLES, "ZCSYNCD_CONFIG", "XDG_STATE_HOME"])
    assert looking.carried(env, "linux") == ()


def test_the_usual_socket_is_left_to_the_unit(env):
    """Only an address that the unit would not compute by itself is written into it."""
    usual = {**env, "XDG_RUNTIME_DIR": f"/run/user/{os.geteuid()}"}
    if os.path.isdir(usual["XDG_RUNTIME_DIR"]):
        assert looking.wanted(usual, "linux").socket is None
    moved = {**env, "ZCSYNCD_SOCKET": "/x/bus.sock"}
    assert looking.wanted(moved, "linux").socket == "/x/bus.sock"
    assert looking.wanted({**env, "ZCSYNCD_RUNTIME_DIR": "/x"}, "linux").socket == "/x/bus.sock"


def test_other_systems_get_what_they_need(env):
    """MacOS gets a file for what is said before the log is there, Windows the name of the user."""
    assert looking.wanted(env, "darwin").error_log.endswith("/service.err")
    assert looking.wanted({**env, "USERNAME": "u", "USERDOMAIN": "DESK"}, "win32").user == "DESK\\u"


def test_an_interpreter_without_the_package_is_refused(env, tmp_path):
    """What finds the package only by the caller's variables or directory cannot serve: that is tried, not guessed."""
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    with pytest.raises(Refused, match="does not find zcsyncd by itself") as refused:
        looking.probe(service_at(bare / "bin/python"), {**env, "PYTHONPATH": os.getcwd()})
    assert "pipx" in refused.value.hint
    looking.probe(service_at(sys.executable), env)


def test_a_clone_is_told(env, tmp_path):
    """An interpreter inside a project's clone is told; a home under version control, or a manager of interpreters, is none."""
    (tmp_path / "home/clone/.git").mkdir(parents=True)
    (tmp_path / "home/clone/pyproject.toml").touch()
    (tmp_path / "home/.pyenv/.git").mkdir(parents=True)
    (tmp_path / "home/pyproject.toml").touch()
    assert looking._checkout(env["HOME"] + "/.pyenv/versions/3.12/bin/python", env["HOME"]) is None
    python = tmp_path / "home/clone/.venv/bin/python"
    assert looking._checkout(str(python), env["HOME"]) == str(tmp_path / "home/clone")
    (tmp_path / "home/.git").mkdir()
    assert looking._checkout(env["HOME"] + "/.local/bin/python", env["HOME"]) is None


@pytest.mark.parametrize(
    "below",
    [
        ".cache/uv/archive-v0/x/bin/python",
        ".local/share/pipx/.cache/x/bin/python",
        ".local/pipx/.cache/x/bin/python",
    ],
)
def test_a_passing_interpreter_is_told(below):
    """What a cache holds goes with the cache; what pipx and uv install to stay is no such thing."""
    assert looking._passing(f"/home/u/{below}", "/home/u") is not None
    assert looking._passing("/tmp/x/bin/python", "/home/u") == "/tmp"
    for lasting in (".local/share/pipx/venvs/zcsyncd", ".local/share/uv/tools/zcsyncd", "code/.venv"):
        assert looking._passing(f"/home/u/{lasting}/bin/python", "/home/u") is None


def test_a_second_installation_is_told(env, tmp_path):
    """A command of the same name that runs another interpreter is another installation; our own, linked or not, is none."""
    own = program(tmp_path / "own/bin/python")
    program(tmp_path / "own/bin/zcsyncd", f"#!{own}\n")
    (tmp_path / "links").mkdir()
    (tmp_path / "links/zcsyncd").symlink_to(tmp_path / "own/bin/zcsyncd")
    program(tmp_path / "wrapped/zcsyncd", f"#!/bin/sh\nexec {own} -m zcsyncd\n")
    program(tmp_path / "shims/zcsyncd", "#!/bin/sh\nexec chooser zcsyncd\n")
    other = program(tmp_path / "other/zcsyncd", "#!/elsewhere/python\n")
    (tmp_path / "again").mkdir()
    (tmp_path / "again/zcsyncd").symlink_to(other)
    places = [
        str(tmp_path / name) for name in ("own/bin", "links", "wrapped", "shims", "other", "again", "missing")
    ]
    found = looking.facts(service_at(own), {**env, "PATH": ":".join([*places, "relative", ""])})
    assert found.others == (str(other),)


def test_sudo_is_refused(env, monkeypatch):
    """Root in a person's name is told to do it without; root by itself is a person like any other."""
    monkeypatch.setattr(looking, "own_uid", lambda: 0)
    with pytest.raises(Refused, match="root"):
        looking.no_root({**env, "SUDO_USER": "ann"})
    looking.no_root(env)
    looking.no_root({**env, "SUDO_USER": "root"})


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (Facts("/p"), []),
        (Facts("/p", carried=("A", "B")), ["carries A, B"]),
        (Facts("/p", checkout="/c"), ["the clone /c"]),
        (Facts("/p", passing="/tmp", checkout="/c"), ["lies in /tmp"]),
        (Facts("/p", others=("/o", "/q")), ["at /o", "at /q"]),
    ],
)
def test_cautions(facts, words):
    """Each thing that is odd is one sentence; a passing place is worse than a clone, so that is told alone."""
    said = cautions(facts)
    assert len(said) == len(words)
    for sentence, word in zip(said, words, strict=True):
        assert word in sentence


@pytest.mark.parametrize(
    ("command", "is_there", "is_current", "word"),
    [
        (None, False, False, None),
        (["/p", "x"], True, True, None),
        ([], False, False, "no command"),
        (["/p"], False, False, "no longer there"),
        (["/q"], True, False, "this is /p"),
        (["/p"], True, False, "not as it would be written"),
    ],
)
def test_what_is_odd_about_a_unit(command, is_there, is_current, word):
    """A unit of a removed environment, of another installation, or of former variables is told as that."""
    said = about_present(command, interpreter="/p", is_there=is_there, is_current=is_current)
    assert len(said) == (word is not None)
    if word is not None:
        assert word in said[0]
        assert "service install" in said[0]


def test_no_git_is_needed(env):
    """Nothing of this calls version control: it may not be there."""
    assert shutil.which("git", path="/nowhere") is None
    looking.facts(service_at(sys.executable), {**env, "PATH": "/nowhere"})
