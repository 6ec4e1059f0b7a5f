"""Where our own things lie."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path

import pytest

from zcsyncd import places
from zcsyncd.errors import ConfigError, Refused

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="owners and modes are POSIX's")
SOMEBODY = 65534


def as_ordinary_user(work):
    """Run `work` as a user who is not root: in a child that gives root up, or right here."""
    if os.geteuid() != 0:
        work()
        return
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(SOMEBODY)
            os.setuid(SOMEBODY)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(
    ("platform", "env", "expected"),
    [
        ("linux", {"HOME": "/home/u"}, "/home/u/.local/state/zcsyncd"),
        ("linux", {"HOME": "/home/u/", "XDG_STATE_HOME": "/x/state/"}, "/x/state/zcsyncd"),
        ("linux", {"HOME": "/home/u", "XDG_STATE_HOME": "rel"}, "/home/u/.local/state/zcsyncd"),
        ("linux", {"HOME": "/home/u", "XDG_STATE_HOME": ""}, "/home/u/.local/state/zcsyncd"),
        ("linux", {"HOME": "/home/u", "ZCSYNCD_STATE_DIR": "/s//x/"}, "/s/x"),
        ("linux", {"HOME": "/home/u", "ZCSYNCD_STATE_DIR": ""}, "/home/u/.local/state/zcsyncd"),
        ("linux", {"HOME": "/home/u", "ZCSYNCD_STATE_DIR": "//x"}, "/x"),
        ("darwin", {"HOME": "/Users/u"}, "/Users/u/Library/Application Support/zcsyncd"),
        (
            "darwin",
            {"HOME": "/Users/u", "XDG_STATE_HOME": "/x"},
            "/Users/u/Library/Application Support/zcsyncd",
        ),
        ("win32", {"LOCALAPPDATA": "C:\\L"}, "C:\\L\\zcsyncd"),
        ("win32", {"USERPROFILE": "C:\\Users\\u"}, "C:\\Users\\u\\AppData\\Local\\zcsyncd"),
        ("win32", {"HOMEDRIVE": "C:", "HOMEPATH": "\\U"}, "C:\\U\\AppData\\Local\\zcsyncd"),
        ("win32", {"LOCALAPPDATA": "C:\\L", "ZCSYNCD_STATE_DIR": "D:/s"}, "D:\\s"),
        ("win32", {"LOCALAPPDATA": "C:\\L", "ZCSYNCD_STATE_DIR": "\\\\host\\share\\s"}, "\\\\host\\share\\s"),
    ],
)
def test_the_state_directory(platform, env, expected):
    """The state directory is the one that every client computes, on every system."""
    assert places.state_dir(env, platform=platform) == expected
    sign = "\\" if platform == "win32" else "/"
    assert places.endpoint_file(env, platform=platform) == f"{expected}{sign}endpoint.json"


def test_a_known_home_is_used():
    """A caller who knows the home is believed."""
    assert places.state_dir({"HOME": "/a"}, "/b", "linux") == "/b/.local/state/zcsyncd"


@pytest.mark.parametrize("variable", [places.STATE_VARIABLE, places.RUNTIME_VARIABLE, places.CONFIG_VARIABLE])
def test_a_relative_variable_is_refused(variable):
    """A place that would be another one for every process is refused by name."""
    ask = {
        places.STATE_VARIABLE: places.state_dir,
        places.RUNTIME_VARIABLE: places.runtime_dir,
        places.CONFIG_VARIABLE: places.config_file,
    }[variable]
    with pytest.raises(ConfigError, match=f"{variable} must be an absolute path, not 'x/y'"):
        ask({"HOME": "/home/u", variable: "x/y"})


def test_home():
    """The environment's home counts if it is absolute; without one there is none on Windows."""
    assert places.home({"HOME": "/home/u"}, "linux") == "/home/u"
    with pytest.raises(ConfigError, match="no home directory"):
        places.home({"USERPROFILE": "u"}, "win32")


@posix_only
def test_home_without_a_variable():
    """Without a usable HOME the system's user database is asked."""
    import pwd

    entry = pwd.getpwuid(os.geteuid()).pw_dir
    assert places.home({"HOME": "relative"}) == entry
    assert places.home({}) == entry


@pytest.mark.skipif(sys.platform != "linux", reason="XDG's places")
def test_the_environment_is_an_argument(tmp_path, monkeypatch):
    """What counts is the environment that is given, not the process's, which comes out unchanged."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "process"))
    monkeypatch.setenv("HOME", str(tmp_path / "process-home"))
    before = dict(os.environ)
    assert places.config_file({"HOME": "/home/u"}) == "/home/u/.config/zcsyncd/config.yaml"
    assert places.config_file({"HOME": "/home/u", "XDG_CONFIG_HOME": "/c"}) == "/c/zcsyncd/config.yaml"
    assert places.config_file({"HOME": "/home/u", "ZCSYNCD_CONFIG": "/c/my.yaml"}) == "/c/my.yaml"
    assert places.log_dir({"HOME": "/home/u"}) == "/home/u/.local/state/zcsyncd/log"
    assert places.log_dir({"HOME": "/home/u", "ZCSYNCD_STATE_DIR": "/s"}) == "/s/log"
    assert places.config_file(os.environ) == str(tmp_path / "process" / "zcsyncd" / "config.yaml")
    assert dict(os.environ) == before
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.platform != "linux", reason="XDG's places")
def test_the_runtime_directory(tmp_path):
    """The socket lies below the session's runtime directory, or where our variable says; nothing is made."""
    session = tmp_path / "run"
    session.mkdir(mode=0o700)
    assert places.runtime_dir({"HOME": "/home/u", "XDG_RUNTIME_DIR": str(session)}) == f"{session}/zcsyncd"
    assert places.runtime_dir({"HOME": "/home/u", "ZCSYNCD_RUNTIME_DIR": "/r/x"}) == "/r/x"
    assert places.default_address({"ZCSYNCD_RUNTIME_DIR": "/r"}) == "/r/bus.sock"
    assert os.listdir(session) == []


@posix_only
def test_the_address():
    """The variable wins over the configuration, the configuration over the place; a relative one is refused."""
    assert places.default_address({"ZCSYNCD_SOCKET": "/a.sock"}, "/b.sock") == "/a.sock"
    assert places.default_address({"ZCSYNCD_RUNTIME_DIR": "/r"}, "/b.sock") == "/b.sock"
    with pytest.raises(ConfigError, match="ZCSYNCD_SOCKET must be the absolute path"):
        places.default_address({"ZCSYNCD_SOCKET": "a.sock"})


@posix_only
def test_a_long_address_gets_a_short_name():
    """A path that no socket can have is replaced by a short one, always the same one for it."""
    fits = "/" + "x" * 90
    assert places.fitting_socket(fits) == fits
    long = "/" + "x" * 200
    short = places.fitting_socket(long)
    assert len(short) < 60
    assert short == places.fitting_socket(long) != places.fitting_socket(long + "y")
    assert short.startswith(f"/tmp/zcsyncd-{os.geteuid()}-")
    assert places.default_address({"ZCSYNCD_RUNTIME_DIR": long}) == places.fitting_socket(f"{long}/bus.sock")
    assert places.default_address({"ZCSYNCD_SOCKET": long}) == short


@posix_only
def test_the_directory_of_the_socket():
    """Our own place and the short one have to be private; a place that the person named is theirs."""
    assert places.socket_directory({"ZCSYNCD_RUNTIME_DIR": "/r"}) == "/r"
    assert places.socket_directory({"ZCSYNCD_SOCKET": "/tmp/mine.sock"}) is None
    assert places.socket_directory({"ZCSYNCD_RUNTIME_DIR": "/r"}, "/tmp/mine.sock") is None
    long = "/" + "x" * 200
    assert places.socket_directory({"ZCSYNCD_SOCKET": long}) == os.path.dirname(places.fitting_socket(long))


@posix_only
def test_a_private_directory_is_made(tmp_path):
    """Missing directories are made for the user alone, whatever the umask, and making them again is nothing."""
    before = os.umask(0)
    try:
        places.private_directory(str(tmp_path / "a" / "b"))
    finally:
        os.umask(before)
    for made in (tmp_path / "a", tmp_path / "a" / "b"):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
    places.private_directory(str(tmp_path / "a" / "b" / ""))


def made_open(path: Path) -> None:
    """Make a directory that the group may enter."""
    path.mkdir()
    path.chmod(0o750)


def made_link(path: Path) -> None:
    """Make a link to a private directory."""
    target = path.parent / "target"
    target.mkdir(mode=0o700)
    path.symlink_to(target)


def made_dangling(path: Path) -> None:
    """Make a link to nothing."""
    path.symlink_to(path.parent / "nowhere")


def made_file(path: Path) -> None:
    """Make a file."""
    path.write_text("")


@posix_only
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (made_open, "is open to others (mode 0750)"),
        (made_link, "is a symlink"),
        (made_dangling, "is a symlink"),
        (made_file, "is no directory"),
    ],
)
def test_what_is_not_private_is_refused(tmp_path, make, says):
    """What exists and is not ours alone is refused, named, left as it is, with what to do."""
    path = tmp_path / "run"
    make(path)
    before = path.lstat()
    with pytest.raises(Refused) as caught:
        places.private_directory(str(path))
    assert str(path) in caught.value.message
    assert says in caught.value.message
    assert caught.value.hint
    assert path.lstat() == before


@posix_only
@pytest.mark.parametrize(("mode", "refused"), [(0o777, True), (0o1777, False), (0o755, False), (0o702, True)])
def test_a_parent_that_others_can_write(tmp_path, mode, refused):
    """A directory that others could replace is refused; the sticky bit of a shared one makes it safe."""
    parent = tmp_path / "shared"
    parent.mkdir()
    parent.chmod(mode)
    path = str(parent / "run")
    if refused:
        with pytest.raises(Refused, match="can be written by others"):
            places.private_directory(path)
    else:
        places.private_directory(path)


@posix_only
def test_a_parent_that_the_group_can_write(tmp_path):
    """A group's right to write counts, unless the group is the user's own, as many systems make one."""
    parent = tmp_path / "shared"
    parent.mkdir()
    parent.chmod(0o775)
    if parent.stat().st_gid == os.getegid() == os.geteuid():
        places.private_directory(str(parent / "run"))
    if os.geteuid() == 0:
        os.chown(parent, 0, SOMEBODY)
        with pytest.raises(Refused, match="can be written by others"):
            places.private_directory(str(parent / "run2"))


@posix_only
def test_another_owners_directory_is_refused(tmp_path):
    """A directory of another owner is refused, even where it could be entered."""
    if os.geteuid() != 0:
        with pytest.raises(Refused, match="another owner"):
            places.private_directory("/proc/1")
        return
    path = tmp_path / "run"
    path.mkdir(mode=0o700)
    os.chown(path, SOMEBODY, SOMEBODY)
    with pytest.raises(Refused, match=f"another owner \\(uid {SOMEBODY}, not 0\\)"):
        places.private_directory(str(path))
    # And below it, where that owner could put something else in our place.
    with pytest.raises(Refused, match="another owner"):
        places.private_directory(str(path / "below"))


@posix_only
def test_a_parent_linked_by_another_owner_is_refused(tmp_path):
    """A parent that is somebody else's link could lead elsewhere tomorrow."""
    if os.geteuid() != 0:
        pytest.skip("only root can make somebody else's link")
    target = tmp_path / "target"
    target.mkdir()
    link = tmp_path / "link"
    link.symlink_to(target)
    places.private_directory(str(link / "fine"))
    os.lchown(link, SOMEBODY, SOMEBODY)
    with pytest.raises(Refused, match="another owner"):
        places.private_directory(str(link / "run"))


@posix_only
def test_a_parent_without_permission():
    """Where nothing can be made the error says where and what to do, without a traceback."""
    # Not tmp_path: the child that is not root has to get there.
    with tempfile.TemporaryDirectory() as closed:
        os.chmod(closed, 0o555)

        def work():
            with pytest.raises(Refused) as caught:
                places.private_directory(f"{closed}/run")
            assert f"{closed}/run cannot be used" in caught.value.message
            assert caught.value.hint

        as_ordinary_user(work)


@posix_only
def test_two_at_once(tmp_path):
    """Two who make the same directory at the same time both have it."""
    path = str(tmp_path / "a" / "b" / "c")
    problems: list[BaseException] = []
    start = threading.Barrier(4)

    def make():
        start.wait(10)
        try:
            places.private_directory(path)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert problems == []
    assert os.path.isdir(path)


def test_the_way_of_status_is_light():
    """Finding the endpoint file and the address that is configured imports nothing that takes time."""
    heavy = [
        "argparse",
        "logging",
        "dataclasses",
        "platformdirs",
        "pathlib",
        "re",
        "typing",
        "asyncio",
        "hashlib",
    ]
    code = (
        "import sys\n"
        "from zcsyncd import places\n"
        "env = {'HOME': '/home/u', 'USERPROFILE': 'C:\\\\u', 'ZCSYNCD_SOCKET': '/a.sock'}\n"
        "places.endpoint_file(env); places.state_dir({'ZCSYNCD_STATE_DIR': sys.argv[1]})\n"
        "places.default_address(env)\n"
        "print(*[name for name in sys.argv[2:] if name in sys.modules])\n"
    )
    somewhere = "C:\\s" if sys.platform == "win32" else "/s"
    # Without site: what an installation's own start-up files import is not ours.
    root = str(Path(places.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, somewhere, *heavy],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert done.stdout.strip() == ""
