"""What people have set: our own file strictly, hosts' files tolerantly."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from zcsyncd.config import Settings
from zcsyncd.errors import ConfigError
from zcsyncd.layouts.registry import LAYOUTS
from zcsyncd.layouts.zcode import tree
from zcsyncd.settings import existing_directories, known_roots, pi_agent_dir, pi_memory_dir, read_settings

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="FIFOs, devices and owners are POSIX's")


@pytest.fixture
def config(tmp_path):
    """Give the configuration file's place."""
    return tmp_path / "config.yaml"


@pytest.fixture
def env(tmp_path, config):
    """Give an environment that leads nowhere but into the test's own directory."""
    (tmp_path / "home").mkdir()
    return {
        "HOME": str(tmp_path / "home"),
        "USERPROFILE": str(tmp_path / "home"),
        "ZCSYNCD_CONFIG": str(config),
    }


def write(path: Path, content) -> None:
    """Write bytes, text, or anything else as JSON, parents and all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content if isinstance(content, bytes | str) else json.dumps(content)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def test_no_file_is_all_defaults(env):
    """Without a file everything is at its default."""
    assert read_settings(env) == Settings()


def test_an_empty_file_is_all_defaults(env, config):
    """A file of comments is no mistake."""
    write(config, "# nothing yet\n")
    assert read_settings(env) == Settings()


def test_a_file_with_everything(env, config):
    """Values arrive with their line, `~` is the person's home, a BOM is no matter."""
    write(
        config,
        "\ufeff# mine\n"
        "dirs:\n"
        "  - ~/notes/memory\n"
        "audit: {grace_s: 5}\n"
        "layouts:\n"
        "  zcode:\n"
        "    enabled: false\n"
        "mute:\n"
        "  '*': [entry-long]\n",
    )
    settings = read_settings(env, codes=["entry-long"])
    assert settings.dirs[0].dir == os.path.join(env["HOME"], "notes", "memory")
    assert settings.audit_grace_s == 5
    assert settings.sources == {
        "dirs": "config.yaml line 2",
        "audit.grace_s": "config.yaml line 4",
        "layouts.zcode.enabled": "config.yaml line 7",
        "mute": "config.yaml line 8",
    }


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"audit:\n  grace_s: soon\n", ["config.yaml line 2: audit.grace_s must be"]),
        (
            b"audit:\n  grace_s: soon\nlgo: {}\ndirs:\n  - /ok\n  - notes\n",
            [
                "line 2: audit.grace_s",
                "line 3: there is no setting 'lgo'; did you mean 'log'?",
                "line 6: dirs item 2",
            ],
        ),
        (b"audit:\n  grace_s: 1\naudit:\n  grace_s: 2\n", ["config.yaml line 3"]),
        (b"a: [1\nb: 2\n", ["config.yaml line "]),
        (b"ok: 1\nx: \xff\n", ["config.yaml line 2: the text is not UTF-8"]),
        ("a: 1".encode("utf-16"), ["line 1: the text is not UTF-8"]),
        (b"- a\n- b\n", ["must be a mapping of settings, not a list"]),
        (b"just text\n", ["must be a mapping of settings, not 'just text'"]),
        (b"# " + b"x" * 70_000, ["is larger than 64 KiB"]),
        (b"a: *nope\n", ["config.yaml line 1"]),
    ],
)
def test_a_wrong_file(env, config, content, says):
    """What is wrong is told with the file's name and line; the hint names the whole path."""
    write(config, content)
    with pytest.raises(ConfigError) as caught:
        read_settings(env)
    lines = caught.value.message.splitlines()
    assert len(lines) == len(says)
    for line, words in zip(lines, says, strict=True):
        assert words in line
    assert str(config) in caught.value.hint


def test_a_directory_is_no_file(env, config):
    """A directory called config.yaml is told as what it is."""
    config.mkdir()
    with pytest.raises(ConfigError, match="no ordinary file"):
        read_settings(env)


@posix_only
def test_a_fifo_is_never_opened(env, config):
    """A FIFO in the file's place is refused at once, without waiting for a writer."""
    os.mkfifo(config)
    with pytest.raises(ConfigError, match="no ordinary file"):
        read_settings(env)


@posix_only
def test_a_file_that_others_can_write(env, config):
    """A configuration that anybody can write is not followed."""
    write(config, "audit: {grace_s: 5}\n")
    config.chmod(0o666)
    with pytest.raises(ConfigError, match="written by everybody") as caught:
        read_settings(env)
    assert caught.value.hint == f"chmod o-w: {config}"
    config.chmod(0o664)
    assert read_settings(env).audit_grace_s == 5


@posix_only
def test_a_file_of_another_owner(env, config):
    """A configuration of somebody else's is not followed."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    write(config, "audit: {grace_s: 5}\n")
    os.chown(config, 65534, 65534)
    with pytest.raises(ConfigError, match="another owner"):
        read_settings(env)


@posix_only
def test_an_unreadable_file(env, config):
    """A file that may not be read is an error, never the same as none."""
    write(config, "audit: {grace_s: 5}\n")
    config.chmod(0)
    if os.geteuid() == 0:
        # Root reads everything; a loop of links stops it too.
        config.unlink()
        config.symlink_to(config)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_settings(env)


def test_a_link_to_a_file_is_followed(env, config, tmp_path):
    """People link their configuration from elsewhere."""
    write(tmp_path / "dotfiles" / "z.yaml", "log: {level: debug}\n")
    config.symlink_to(tmp_path / "dotfiles" / "z.yaml")
    assert read_settings(env).log_level == "debug"


# --- roots -------------------------------------------------------------------------------------------------------


def setting_file(env) -> Path:
    """Give the settings file of ZCode's app."""
    return Path(env["HOME"]) / ".zcode" / "v2" / "setting.json"


def test_the_roots_of_all_layouts(env, tmp_path):
    """Roots come from the default, the app's settings, the environment and the configuration, in this order."""
    write(setting_file(env), {"dataBaseDir": str(tmp_path / "moved"), "theme": "dark"})
    env["ZCODE_DATA_BASE_DIR"] = str(tmp_path / "base")
    known = known_roots(env, Settings(roots={"zcode": (str(tmp_path / "more"),)}))
    assert [root.path for root in known.roots] == [
        os.path.join(env["HOME"], ".zcode", "cli"),
        str(tmp_path / "moved" / ".zcode" / "cli"),
        str(tmp_path / "base" / ".zcode" / "cli"),
        str(tmp_path / "more"),
    ]
    assert known.roots[1].source == str(setting_file(env))
    assert known.complaints == ()


def test_a_layout_can_be_switched_off(env):
    """Without the layout there are no roots of it."""
    assert known_roots(env, Settings(zcode_enabled=False)).roots == ()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "line 1: no JSON"),
        (b"", "line 1: no JSON"),
        (b"[1]", "no JSON object"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[" * 200_000, "JSON that cannot be read"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "JSON that cannot be read"),
        (b" " * (1024 * 1024 + 1), "larger than 1024 KiB"),
        (b'{"dataBaseDir": "moved"}', "dataBaseDir is passed over: it is no absolute path"),
        (b'{"dataBaseDir": 7}', "dataBaseDir is passed over"),
    ],
)
def test_a_broken_settings_file_is_passed_over(env, content, says):
    """A host's file that cannot be used leaves the default root and one complaint that names it."""
    write(setting_file(env), content)
    known = known_roots(env, Settings())
    assert [root.source for root in known.roots] == ["default"]
    (complaint,) = known.complaints
    assert str(setting_file(env)) in complaint
    assert says in complaint


@pytest.mark.parametrize("content", [{}, {"dataBaseDir": None}, {"dataBaseDir": "  "}])
def test_a_settings_file_that_moves_nothing(env, content):
    """A data directory that is not moved is nothing to complain of."""
    write(setting_file(env), content)
    known = known_roots(env, Settings())
    assert (len(known.roots), known.complaints) == (1, ())


def test_a_relative_variable_is_told(env):
    """A variable of ZCode's that is not absolute is passed over, and that is told."""
    env["ZCODE_STORAGE_DIR"] = "zc"
    known = known_roots(env, Settings())
    assert [root.source for root in known.roots] == ["default"]
    assert known.complaints == ("ZCODE_STORAGE_DIR is passed over: it is no absolute path",)


@posix_only
def test_a_settings_fifo_is_passed_over(env):
    """A FIFO in a host's place is never opened."""
    setting_file(env).parent.mkdir(parents=True)
    os.mkfifo(setting_file(env))
    (complaint,) = known_roots(env, Settings()).complaints
    assert "no ordinary file" in complaint


def test_every_layout_has_roots_without_settings(env):
    """Each layout answers when nothing at all is set."""
    for layout in LAYOUTS:
        assert layout.roots(env, env["HOME"], ())


def test_existing_directories(tmp_path):
    """The directories that exist are listed in order, a linked one too, and nothing that only looks like one."""
    projects = tmp_path / "memories" / "projects"
    first, second, linked = (f"{name}-0123456789abcdef" for name in ("a", "b", "c"))
    (projects / first / "memory").mkdir(parents=True)
    (projects / second / "memory").mkdir(parents=True)
    (projects / linked).symlink_to(projects / second)
    (projects / "d-0123456789abcdef").mkdir()
    (projects / "plain" / "memory").mkdir(parents=True)
    write(projects / "e-0123456789abcdef" / "memory", "a file")
    write(projects / "f-0123456789abcdef", "a file")
    trees = [tree(str(tmp_path)), tree(str(tmp_path / "nowhere")), tree(str(tmp_path))]
    assert existing_directories(trees) == tuple(
        str(projects / name / "memory") for name in (first, second, linked)
    )


# --- pi's directory ----------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path):
    """Give a project's directory."""
    (tmp_path / "app").mkdir()
    return tmp_path / "app"


def user_file(env) -> Path:
    """Give pi's file for all projects."""
    return Path(env["HOME"]) / ".pi" / "agent" / "extensions" / "zcode-memory.json"


@pytest.mark.parametrize(
    ("files", "expected", "named_by"),
    [
        ((None, None), None, None),
        (({"dir": "/srv/m"}, None), "/srv/m", "user"),
        ((None, {"dir": "/srv/p"}), "/srv/p", "project"),
        (({"dir": "/srv/m"}, {"dir": "/srv/p"}), "/srv/p", "project"),
        (({"dir": "/srv/m"}, {"injectIndex": False}), "/srv/m", "user"),
        (({"dir": "/srv/m"}, {"dir": None}), None, None),
        (({"dir": "/srv/m"}, {"dir": ""}), None, None),
        (({"dir": " "}, None), None, None),
        (({"enabled": False, "dir": "/srv/m/../n"}, None), "/srv/n", "user"),
        (({}, {}), None, None),
    ],
)
@posix_only
def test_pi_names_a_directory(env, project, files, expected, named_by):
    """The project's file is laid over the person's, key by key, and who named the directory is told."""
    user, own = files
    if user is not None:
        write(user_file(env), user)
    if own is not None:
        write(project / ".pi" / "zcode-memory.json", own)
    assert pi_memory_dir(env, str(project)) == (expected, named_by, ())


def test_a_relative_directory_counts_from_the_project(env, project):
    """A relative path means the project's own directory, whoever names it."""
    write(user_file(env), {"dir": "notes/../memory"})
    assert pi_memory_dir(env, str(project)).dir == str(project / "memory")
    write(user_file(env), {"dir": "~/memory"})
    named = pi_memory_dir(env, str(project))
    assert named.dir == str(project / "~" / "memory")
    assert "begins with ~" in named.complaints[0]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{'dir'", "line 1: no JSON"),
        (b'["dir"]', "no JSON object"),
        (b'{"dir": 7}', "dir must be a path"),
        (b'{"dir": "/a\\u0000b"}', "dir must be a path"),
        (b" " * 65_537, "larger than 64 KiB"),
    ],
)
@posix_only
def test_a_broken_pi_file_leaves_the_other(env, project, content, says):
    """A file that cannot be used is passed over with a complaint; the other one still counts."""
    write(user_file(env), {"dir": "/srv/m"})
    own = project / ".pi" / "zcode-memory.json"
    write(own, content)
    named = pi_memory_dir(env, str(project))
    assert (named.dir, named.named_by) == ("/srv/m", "user")
    (complaint,) = named.complaints
    assert str(own) in complaint
    assert says in complaint


@posix_only
def test_a_pi_device_is_never_read(env, project):
    """A link to a device is passed over: it has no end."""
    own = project / ".pi" / "zcode-memory.json"
    own.parent.mkdir()
    own.symlink_to("/dev/zero")
    (complaint,) = pi_memory_dir(env, str(project)).complaints
    assert "no ordinary file" in complaint


def test_a_complaint_holds_nothing_of_the_file(env, project):
    """Whatever a project's file leads to, its content is not repeated."""
    write(project / "secret.txt", "password = hunter2\n")
    (project / ".pi").mkdir()
    (project / ".pi" / "zcode-memory.json").symlink_to(project / "secret.txt")
    (complaint,) = pi_memory_dir(env, str(project)).complaints
    assert "hunter2" not in complaint
    assert "password" not in complaint


@posix_only
def test_pis_own_directory(env):
    """`PI_CODING_AGENT_DIR` moves it, `~` in it is the home, and a relative value counts as none."""
    home = env["HOME"]
    assert pi_agent_dir(env) == f"{home}/.pi/agent"
    assert pi_agent_dir({**env, "PI_CODING_AGENT_DIR": "/srv/pi"}) == "/srv/pi"
    assert pi_agent_dir({**env, "PI_CODING_AGENT_DIR": "~/pi"}) == f"{home}/pi"
    assert pi_agent_dir({**env, "PI_CODING_AGENT_DIR": "pi"}) == f"{home}/.pi/agent"
    write(Path(home) / "pi" / "extensions" / "zcode-memory.json", {"dir": "/srv/m"})
    assert pi_memory_dir({**env, "PI_CODING_AGENT_DIR": "~/pi"}, "/srv/app").dir == "/srv/m"


def test_a_project_that_is_a_file(env, tmp_path):
    """A working directory that is gone or no directory names nothing and is no complaint."""
    write(tmp_path / "app", "a file")
    assert pi_memory_dir(env, str(tmp_path / "app")) == (None, None, ())
    assert pi_memory_dir(env, str(tmp_path / "gone")) == (None, None, ())
