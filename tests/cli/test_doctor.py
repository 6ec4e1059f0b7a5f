"""The doctor's pure parts: what is veiled, on what a path lies, which version is newer, checks that fail or hang."""

import threading

import pytest

from zcsyncd.cli.console import Console
from zcsyncd.cli.doctor import examine
from zcsyncd.cli.doctor_rows import note, ok
from zcsyncd.cli.mounts import is_layered, is_silent, kind_of
from zcsyncd.cli.render import Paint
from zcsyncd.cli.veil import Veil
from zcsyncd.cli.versions import skew_words, version_key

MOVED = {"ZCSYNCD_STATE_DIR": "/data/secret/state", "XDG_RUNTIME_DIR": "/run/user/7"}
MOUNTS = [
    "1 0 8:1 / / rw - ext4 /dev/a rw\n",
    "2 1 8:1 / /home rw shared:1 - btrfs /dev/b rw\n",
    "3 2 0:5 / /home/u/my\\040share rw - nfs4 host:/x rw\n",
    "4 2 0:6 / /mnt/c rw - 9p C: rw\n",
    "5 4 0:7 / /mnt/c rw - tmpfs none rw\n",
    "nonsense\n",
]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/home/u/.local/state/zcsyncd", "~/.local/state/zcsyncd"),
        ("/home/u", "~"),
        ("/home/other/x", "/home/…"),
        ("/home/u/secret/deep/state.db", "~/…/state.db"),
        ("/data/secret/state/state.db", "$ZCSYNCD_STATE_DIR/state.db"),
        ("/run/user/7/zcsyncd/bus.sock", "$XDG_RUNTIME_DIR/zcsyncd/bus.sock"),
        (
            "/home/u/.zcode/cli/memories/projects/app-0123456789abcdef/memory",
            "~/.zcode/cli/memories/projects/…",
        ),
        ("C:\\Users\\me\\AppData\\Local\\zcsyncd", "C:\\Users\\…\\AppData\\Local\\zcsyncd"),
        ("", ""),
    ],
)
def test_a_path_shows_what_everybody_has(path, shown):
    """The home is `~`, a moved place its variable's name, and whatever a person may have named is `…`."""
    assert Veil("/home/u", shown=False, moved=MOVED).place(path) == shown


def test_paths_that_are_asked_for():
    """With --paths they are whole, and messages too; without, messages are left out."""
    assert Veil("/home/u", shown=True, moved=MOVED).place("/home/u/secret") == "~/secret"
    assert Veil("/home/u", shown=True).said("x") == "x"
    assert Veil("/home/u", shown=False).said("x") is None
    assert (
        Veil("/home/u", shown=False).text("/home/u/a is not /home/u", "/home/u", "/home/u/a")
        == "~/… is not ~"
    )


@pytest.mark.parametrize(
    ("path", "kind", "silent"),
    [
        ("/etc", "ext4", False),
        ("/home/u/x", "btrfs", False),
        ("/home/u/my share/x", "nfs4", True),
        ("/homes", "ext4", False),
        ("/mnt/c/x", "tmpfs", False),
    ],
)
def test_on_what_a_path_lies(path, kind, silent):
    """The mount that is nearest above it; of two at one place the later."""
    assert kind_of(path, MOUNTS) == kind
    assert is_silent(kind) is silent


def test_kinds_of_file_systems():
    """Network file systems and most of FUSE are silent, layered ones partly."""
    assert all(is_silent(kind) for kind in ("9p", "nfs", "cifs", "fuse.sshfs", "virtiofs"))
    assert not any(is_silent(kind) for kind in ("xfs", "overlay", "fuseblk", "apfs"))
    assert is_layered("overlay")
    assert kind_of("/x", []) is None


def test_versions_in_order():
    """Each is older than the next."""
    order = ["0.1.dev1", "0.1a1", "0.1rc2", "0.1", "0.1.1", "0.2.0.dev3", "0.2", "0.10", "1.0.post1"]
    keys = [version_key(version) for version in order]
    assert keys == sorted(keys)
    assert len({*keys}) == len(order)
    assert version_key("1.0") == version_key("1")
    assert version_key("?") is version_key("") is version_key("1.x") is None


def test_versions_that_are_the_same_are_not_told():
    """Nor are two spellings of one, nor a daemon that does not say its version."""
    assert skew_words("1.0", "1.0.0") is skew_words("1.0", "") is skew_words("odd", "odd") is None


def test_a_check_that_fails_or_hangs_is_a_row():
    """The others go on, and what an error said is shown with --paths only."""
    console = Console({"HOME": "/nowhere"}, as_json=True, paint=Paint(on=False), cells=None)
    stuck = threading.Event()

    def fails(_case):
        yield ok("fails", "so far")
        raise ValueError("secret")

    def hangs(_case):
        stuck.wait(30)
        return ()

    checks = (("fails", fails), ("hangs", hangs), ("last", lambda _case: [note("last", "made")]))
    for paths in (False, True):
        rows = examine(console, paths=paths, checks=checks, longest_s=1.0)
        assert [(row.check, row.state) for row in rows] == [
            ("fails", "ok"),
            ("fails", "error"),
            ("hangs", "error"),
            ("last", "note"),
        ]
        assert ("secret" in str(rows)) is paths
    stuck.set()
