"""ZCode's directories: names, roots and trees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcsyncd.errors import InvalidParams
from zcsyncd.layouts.layout import Root
from zcsyncd.layouts.nodepath import basename, is_absolute, js_trim, resolve
from zcsyncd.layouts.registry import LAYOUTS, layout_named
from zcsyncd.layouts.zcode import (
    ZCODE,
    data_base_dir,
    directory,
    directory_name,
    directory_names,
    label,
    roots,
    settings_file,
    split_name,
    tree,
)

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "paths.json").read_text("utf-8"))["cases"]
HASH = "0123456789abcdef"


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["id"])
def test_names_are_those_of_zcode(case):
    """Slug, hash and directory name are what ZCode's own function gives, on both systems."""
    slug, digest, name = directory_name(
        case["cwd"], case["platform"], case.get("workspaceIdentity"), case.get("processCwd")
    )
    assert (slug, digest, name) == (case["slug"], case["hash16"], case["dirName"])


def test_all_vectors_are_there():
    """The table is the whole of the vectors."""
    assert len(VECTORS) == 184


@pytest.mark.parametrize(
    ("cwd", "platform"),
    [
        ("notes", "posix"),
        ("", "posix"),
        ("~/notes", "posix"),
        ("\\orders", "win32"),
        ("C:orders", "win32"),
        ("", "win32"),
    ],
)
def test_a_relative_directory_is_refused(cwd, platform):
    """Without the process's own directory nothing relative is guessed at."""
    assert not is_absolute(cwd, platform)
    with pytest.raises(InvalidParams, match="absolute"):
        directory_name(cwd, platform)


@pytest.mark.parametrize(
    ("path", "process_cwd", "expected"),
    [
        ("D:x", "C:\\base", "D:\\x"),
        ("D:", "C:\\base", "D:\\"),
        ("d:x", "D:\\Base", "d:\\Base\\x"),
        ("\\\\?\\C:", "C:\\base", "\\\\?\\C:"),
        ("\\\\?\\C:\\..", "C:\\base", "\\\\?\\"),
        ("\\\\host\\share\\..", "C:\\base", "\\\\host\\share\\"),
        ("//host", "C:\\base", "C:\\host"),
        ("\\\\\\host\\share", "C:\\base", "C:\\host\\share"),
        ("x", "\\\\host\\share\\dir", "\\\\host\\share\\dir\\x"),
        ("\\x", "\\\\host\\share\\dir", "\\\\host\\share\\x"),
    ],
)
def test_windows_roots_are_nodes(path, process_cwd, expected):
    """Drives, shares and device prefixes resolve as Node 20 and 24 resolve them (run there)."""
    assert resolve(path, "win32", process_cwd) == expected


@given(st.text(alphabet="/.ab ~\\é", max_size=20))
def test_resolving_twice_changes_nothing(path):
    """A resolved path is absolute, stays as it is, and its name has no separator."""
    for platform, cwd in (("posix", "/srv/x"), ("win32", "C:\\x")):
        once = resolve(path, platform, cwd)
        assert is_absolute(once, platform)
        assert resolve(once, platform, cwd) == once
        assert "/" not in basename(once, platform)


def test_trim_is_javascripts():
    """What JavaScript trims goes, what only Python strips stays."""
    assert js_trim("\ufeff\u3000 x\u2029\n") == "x"
    assert js_trim("\x1cx\x85") == "\x1cx\x85"


def test_bytes_that_are_no_text_become_what_node_sees():
    """A directory name that is not UTF-8 is hashed as Node hashes it: one U+FFFD for what cannot be read."""
    raw = b"/srv/caf\xe9".decode("utf-8", "surrogateescape")
    assert directory_name(raw, "posix") == directory_name("/srv/caf\ufffd", "posix")
    assert directory_name("/srv/\ud83d", "posix") == directory_name("/srv/\ufffd", "posix")
    assert directory_name("C:\\\ud83d", "win32") == directory_name("C:\\\ufffd", "win32")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"app-{HASH}", ("app", HASH)),
        (f"-{HASH}", ("", HASH)),
        (f"a-{HASH}-{HASH}", (f"a-{HASH}", HASH)),
        (f"app-{HASH}0", None),
        (f"app-{HASH.upper()}", None),
        (f"app-{HASH}\n", None),
        (f"app{HASH}", None),
        ("app", None),
        ("", None),
    ],
)
def test_a_name_is_matched_as_a_whole(name, expected):
    """Only the whole name counts: a slug, a dash, sixteen lower-case hex digits."""
    assert split_name(name) == expected


def test_cwds_are_known_by_their_directory():
    """Known working directories are found by the name that they give; two of one name stand side by side."""
    names = directory_names(["/srv/app", "/srv/app/", "/srv/ui", "/srv/app"], "posix")
    app = directory_name("/srv/app", "posix")[2]
    assert names[app] == ("/srv/app", "/srv/app/")
    assert len(names) == 2


@pytest.mark.parametrize(
    ("env", "configured", "settings", "expected"),
    [
        ({}, (), None, [("/home/u/.zcode/cli", "default")]),
        ({"ZCODE_STORAGE_DIR": "/data/zc"}, (), None, [("/data/zc/cli", "ZCODE_STORAGE_DIR")]),
        ({"ZCODE_STORAGE_DIR": "/data/cli/"}, (), None, [("/data/cli", "ZCODE_STORAGE_DIR")]),
        ({"ZCODE_STORAGE_DIR": "  "}, (), None, [("/home/u/.zcode/cli", "default")]),
        ({"ZCODE_STORAGE_DIR": "rel/zc"}, (), None, [("/home/u/.zcode/cli", "default")]),
        (
            {"ZCODE_DATA_BASE_DIR": "/mnt/data"},
            (),
            None,
            [("/home/u/.zcode/cli", "default"), ("/mnt/data/.zcode/cli", "ZCODE_DATA_BASE_DIR")],
        ),
        (
            {"ZCODE_DATA_BASE_DIR": "/mnt/env"},
            ("/srv/more/",),
            {"dataBaseDir": " /mnt/set "},
            [
                ("/home/u/.zcode/cli", "default"),
                ("/mnt/set/.zcode/cli", "/home/u/.zcode/v2/setting.json"),
                ("/mnt/env/.zcode/cli", "ZCODE_DATA_BASE_DIR"),
                ("/srv/more", "config"),
            ],
        ),
        (
            {"ZCODE_DATA_BASE_DIR": "/home/u"},
            ("/home/u/.zcode/cli",),
            {"dataBaseDir": "/home/u"},
            [("/home/u/.zcode/cli", "default")],
        ),
        ({}, (), {"dataBaseDir": "rel"}, [("/home/u/.zcode/cli", "default")]),
        ({}, (), {"dataBaseDir": 7}, [("/home/u/.zcode/cli", "default")]),
        ({}, (), ["dataBaseDir"], [("/home/u/.zcode/cli", "default")]),
    ],
)
def test_roots(env, configured, settings, expected):
    """Every place is found once, the CLI's own first, each with where it was named; nothing relative is taken."""
    found = roots(env, "/home/u", configured, settings, platform="posix")
    assert [(root.path, root.source) for root in found] == expected
    assert {root.layout for root in found} == {"zcode"}


def test_roots_on_windows():
    """Windows spelling is kept, and a path that differs in case only is one root."""
    found = roots(
        {"ZCODE_DATA_BASE_DIR": "c:\\users\\LIN"},
        "C:\\Users\\Lin",
        (),
        {"dataBaseDir": "D:/zc"},
        platform="win32",
    )
    assert [root.path for root in found] == ["C:\\Users\\Lin\\.zcode\\cli", "D:\\zc\\.zcode\\cli"]


def test_settings_file_and_its_value():
    """The app's settings file lies in the home, and only a usable path in it counts."""
    assert settings_file("/home/u", "posix") == "/home/u/.zcode/v2/setting.json"
    assert data_base_dir({"dataBaseDir": "/mnt/x/"}, "posix") == "/mnt/x"
    assert data_base_dir({"dataBaseDir": ""}, "posix") is None
    assert data_base_dir(None, "posix") is None


def test_tree_finds_memory_directories():
    """Below a root a memory directory is `memory` in a directory with a hashed name, and all below belongs to it."""
    base = "/r/memories/projects"
    place = tree("/r", "posix")
    mine = f"{base}/app-{HASH}/memory"
    assert place.directory_of(mine) == mine
    assert place.directory_of(f"{mine}/sub/x.md") == mine
    for beside in (
        base,
        f"{base}/app-{HASH}",
        f"{base}/app-{HASH}/topics/x.md",
        f"{base}/app/memory",
        "/r/memories",
    ):
        assert place.directory_of(beside) is None
    assert place.leads_to_directory(f"{base}/app-{HASH}")
    assert not place.leads_to_directory(f"{base}/app-{HASH}/topics")


def test_the_directory_of_a_cwd():
    """The directory that ZCode would make lies below the root, spelled for the system."""
    assert (
        directory("/r", "/home/lin/orders/", "posix")
        == f"/r/memories/projects/{directory_name('/home/lin/orders', 'posix')[2]}/memory"
    )
    assert directory("C:\\r", "C:\\w\\x", "win32").startswith("C:\\r\\memories\\projects\\x-")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"/r/memories/projects/orders-api-{HASH}/memory", "orders-api"),
        (f"/r/memories/projects/project-{HASH}/memory", "project-01234567"),
        ("/home/u/app/.zcode/memory", "app"),
        (f"/r/memories/projects/.config-{HASH}/memory", ".config"),
        ("/home/u/notes", "notes"),
        ("/memory", "/memory"),
    ],
)
def test_labels(path, expected):
    """A label is the slug; where the slug says nothing, a part of the hash tells directories apart."""
    assert label(path, "posix") == expected


def test_the_registry():
    """The layout is known by its name, and its record works with three arguments, as the pipeline calls it."""
    assert layout_named("zcode") is ZCODE
    assert layout_named("zcod") is None
    assert ZCODE in LAYOUTS
    (root,) = ZCODE.roots({}, "/home/u", ())
    assert root == Root("zcode", root.path, "default")
    assert ZCODE.directory(root.path, "/srv/x").startswith(ZCODE.tree(root.path).base)
