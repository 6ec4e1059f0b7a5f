"""Whose a directory is."""

from __future__ import annotations

import pytest

from zcsyncd.layouts.own import Surroundings, judge, never

ROOT = "/home/u/.zcode/cli"
AROUND = Surroundings(
    roots=(ROOT, "/mnt/zc/cli"),
    homes=("/home/u",),
    agent_dirs=("/home/u/.pi/agent", "/home/u/.claude", "/home/u/.zcode"),
    uid=1000,
)
PROJECT = "/home/u/app"
IN_ROOT = f"{ROOT}/memories/projects/app-0123456789abcdef/memory"


@pytest.mark.parametrize(
    ("directory", "real", "named_by", "kind"),
    [
        # A layout finds it: own, also where it is a link to elsewhere.
        (IN_ROOT, IN_ROOT, "root", "own"),
        (IN_ROOT, "/srv/checkout/memory", "root", "own"),
        # The person names it.
        ("/srv/memory", "/srv/memory", "config", "own"),
        ("/srv/memory", "/srv/memory", "user-setting", "own"),
        # A project's file names it: inside the project or under a root, symlinks resolved.
        (f"{PROJECT}/.zcode/memory", f"{PROJECT}/.zcode/memory", "project-file", "own"),
        (IN_ROOT, IN_ROOT, "project-file", "own"),
        (f"{PROJECT}/memory", "/home/u/secret", "project-file", "asked"),
        ("/home/u/secret", "/home/u/secret", "project-file", "asked"),
        ("/home/u/application/memory", "/home/u/application/memory", "project-file", "asked"),
        (PROJECT, PROJECT, "project-file", "asked"),
        ("/srv/link", IN_ROOT, "project-file", "own"),
        # A client names it: only what lies under a root is own.
        (IN_ROOT, IN_ROOT, "client", "own"),
        (f"{PROJECT}/memory", f"{PROJECT}/memory", "client", "asked"),
        ("/srv/memory", "/srv/memory", "client", "asked"),
        ("/home/u/.zcode/client/x", "/home/u/.zcode/client/x", "client", "asked"),
        # Never, whoever names it.
        ("/", "/", "config", "never"),
        ("//", "/", "config", "never"),
        ("/home/u", "/home/u", "config", "never"),
        ("/home/u/", "/home/u/", "config", "never"),
        ("/home", "/home", "user-setting", "never"),
        ("/srv/link", "/home/u", "config", "never"),
        ("/home/u", "/srv/elsewhere", "config", "never"),
        ("/home/u/.pi/agent", "/home/u/.pi/agent", "config", "never"),
        ("/home/u/.pi", "/home/u/.pi", "config", "never"),
        ("/home/u/.zcode", "/home/u/.zcode", "config", "never"),
        (ROOT, ROOT, "project-file", "never"),
        ("/mnt/zc", "/mnt/zc", "client", "never"),
        (IN_ROOT, "/home/u", "root", "never"),
        # Inside an agent's directory memory may lie.
        ("/home/u/.pi/agent/memory", "/home/u/.pi/agent/memory", "config", "own"),
    ],
)
def test_who_may_name_what(directory, real, named_by, kind):
    """Own, asked or never: by who names it, where it really lies, and what it holds."""
    result = judge(
        directory,
        real,
        named_by=named_by,
        around=AROUND,
        project=PROJECT,
        owner=1000,
        in_place=IN_ROOT in (directory, real),
        platform="posix",
    )
    assert result.kind == kind
    assert result.reason


@pytest.mark.parametrize("project", ["/home/u", "/home", "/", None])
def test_a_home_is_no_project(project):
    """A file in the home, or above it, does not make everything below it own."""
    result = judge(
        "/home/u/secret",
        "/home/u/secret",
        named_by="project-file",
        around=AROUND,
        project=project,
        platform="posix",
    )
    assert result.kind == "asked"


@pytest.mark.parametrize(
    ("owner", "uid", "kind"),
    [
        (1000, 1000, "own"),
        (0, 1000, "never"),
        (1001, 1000, "never"),
        (None, 1000, "own"),
        (1001, None, "own"),
    ],
)
def test_another_owner(owner, uid, kind):
    """A place of another owner is never touched; a directory that is not there yet has none."""
    around = Surroundings((), ("/home/u",), (), uid)
    result = judge("/srv/m", "/srv/m", named_by="config", around=around, owner=owner, platform="posix")
    assert result.kind == kind
    if kind == "never":
        assert f"uid {owner}" in result.reason


@pytest.mark.parametrize(
    ("directory", "says"),
    [
        ("C:\\", "file system"),
        ("D:", "file system"),
        ("\\\\host\\share\\", "file system"),
        ("c:\\users\\lin", "home"),
        ("C:\\Users", "home"),
        ("C:\\Users\\Lin\\.zcode\\cli", "memory root"),
        ("\\\\host\\share\\notes", None),
        ("C:\\Users\\Linus", None),
    ],
)
def test_windows(directory, says):
    """Drives and shares are roots of file systems, and case makes no difference."""
    around = Surroundings(("C:\\Users\\Lin\\.zcode\\cli",), ("C:\\Users\\Lin",), ())
    reason = never(directory, directory, around=around, platform="win32")
    assert (reason is None) == (says is None)
    if says is not None:
        assert says in reason


def test_the_reason_names_what_it_holds():
    """A refusal says which home, agent's directory or root is in the way."""
    assert (
        never("/home", "/home", around=AROUND, platform="posix") == "/home holds the home directory /home/u"
    )
    assert never("/home/u", "/home/u", around=AROUND, platform="posix") == "/home/u is the home directory"
