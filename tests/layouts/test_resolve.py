"""Which memory directory belongs to a working directory."""

from __future__ import annotations

import pytest

from zcsyncd.errors import InvalidParams
from zcsyncd.layouts.layout import Root
from zcsyncd.layouts.resolve import resolve
from zcsyncd.layouts.zcode import directory, directory_name

OWN = Root("zcode", "/home/u/.zcode/cli", "default")
MOVED = Root("zcode", "/mnt/data/.zcode/cli", "ZCODE_DATA_BASE_DIR")
H1, H2, H3 = "0" * 16, "1" * 16, "2" * 16
CWD = "/home/u/foo"


def at(root: Root, name: str) -> str:
    """Give the memory directory of a name below a root."""
    return f"{root.path}/memories/projects/{name}/memory"


OWN_DIR = directory(OWN.path, CWD, "posix")
MOVED_DIR = directory(MOVED.path, CWD, "posix")


def found(cwd=CWD, existing=(), roots=(OWN,), configured=None, others=()):
    """Resolve on POSIX, with one root unless told otherwise."""
    return resolve(
        cwd, configured=configured, roots=roots, existing=set(existing), platform="posix", others=others
    )


@pytest.mark.parametrize(
    ("existing", "expected", "source"),
    [
        pytest.param([], None, "none", id="nothing there"),
        pytest.param([OWN_DIR], OWN_DIR, "computed", id="the computed one"),
        pytest.param([OWN_DIR, at(OWN, f"foo-{H1}")], OWN_DIR, "computed", id="computed before a namesake"),
        pytest.param([at(OWN, f"foo-{H1}")], at(OWN, f"foo-{H1}"), "only-match", id="the only namesake"),
        pytest.param([at(OWN, f"foo-{H1}"), at(OWN, f"foo-{H2}")], None, "none", id="two namesakes"),
        pytest.param([at(OWN, f"foo-bar-{H1}")], None, "none", id="a longer name is no namesake"),
        pytest.param(
            [at(OWN, f"foo-bar-{H1}"), at(OWN, f"foo-{H1}")],
            at(OWN, f"foo-{H1}"),
            "only-match",
            id="beside a longer name",
        ),
        pytest.param([at(OWN, f"fo-{H1}")], None, "none", id="a shorter name"),
        pytest.param([at(OWN, f"FOO-{H1}")], None, "none", id="another case"),
        pytest.param([at(OWN, "foo-backup")], None, "none", id="no hash"),
        pytest.param([f"/home/u/foo-{H1}/memory"], None, "none", id="below no root"),
        pytest.param([f"{OWN.path}/memories/projects/x/foo-{H1}/memory"], None, "none", id="too deep"),
        pytest.param([f"{OWN.path}/memories/projects/memory"], None, "none", id="no project"),
    ],
)
def test_the_three_steps(existing, expected, source):
    """The computed directory if it exists, else the only one with the whole slug, else none."""
    result = found(existing=existing)
    assert (result.dir, result.source) == (expected, source)
    assert result.computed_dir == OWN_DIR
    assert (result.dir is None) == (result.source == "none")


def test_a_configured_directory_wins():
    """Step 1 wins over everything that exists, whether it exists itself or not, and warns of nothing."""
    result = found(existing=[OWN_DIR], configured="/srv/memory")
    assert (result.dir, result.source, result.warnings) == ("/srv/memory", "config", ())
    assert result.computed_dir == OWN_DIR


def test_the_only_match_warns():
    """Whoever is given another project's directory is told so."""
    (warning,) = found(existing=[at(OWN, f"foo-{H1}")]).warnings
    assert f"foo-{H1}" in warning
    assert "another working directory" in warning


def test_two_namesakes_are_named():
    """When none is taken because there are several, they are named, but not without end."""
    (warning,) = found(existing=[at(OWN, f"foo-{n:016x}") for n in range(9)]).warnings
    assert "foo-0000000000000000" in warning
    assert "and 4 more" in warning


def test_a_project_without_a_name_takes_no_other():
    """The slug `project` fits every nameless project, so step 3 is only told, never taken."""
    cwd = "/home/u/订单"
    namesake = at(OWN, f"project-{H1}")
    result = found(cwd, [namesake])
    assert (result.dir, result.source) == (None, "none")
    told, pi = result.warnings
    assert f"project-{H1}" in told
    assert namesake in pi
    own = directory(OWN.path, cwd, "posix")
    assert found(cwd, [namesake, own]).dir == own


@pytest.mark.parametrize(
    ("existing", "expected", "source", "words"),
    [
        pytest.param([MOVED_DIR], MOVED_DIR, "computed", ["own root"], id="only in the moved root"),
        pytest.param([OWN_DIR, MOVED_DIR], OWN_DIR, "computed", ["two roots"], id="in both"),
        pytest.param(
            [at(OWN, f"foo-{H1}"), MOVED_DIR],
            MOVED_DIR,
            "computed",
            ["own root", "pi-zcode-memory"],
            id="existing before namesake",
        ),
        pytest.param(
            [at(MOVED, f"foo-{H1}")],
            at(MOVED, f"foo-{H1}"),
            "only-match",
            ["another working"],
            id="namesake elsewhere",
        ),
        pytest.param(
            [at(MOVED, f"foo-{H1}"), at(OWN, f"foo-{H1}")],
            at(OWN, f"foo-{H1}"),
            "only-match",
            ["another working"],
            id="one name twice",
        ),
        pytest.param(
            [at(MOVED, f"foo-{H1}"), at(OWN, f"foo-{H2}")],
            None,
            "none",
            ["several", "pi-zcode-memory"],
            id="two names",
        ),
    ],
)
def test_several_roots(existing, expected, source, words):
    """An existing directory wins over a missing one, the CLI's own root over the others, and that is told."""
    result = found(existing=existing, roots=(OWN, MOVED))
    assert (result.dir, result.source) == (expected, source)
    assert result.computed_dir == OWN_DIR
    assert len(result.warnings) == len(words)
    for warning, word in zip(result.warnings, words, strict=True):
        assert word in warning


@pytest.mark.parametrize(
    ("existing", "named"),
    [
        pytest.param(
            [at(OWN, f"foo-bar-{H1}")], [at(OWN, f"foo-bar-{H1}"), OWN_DIR], id="it takes a longer name"
        ),
        pytest.param(
            [at(OWN, "foo-backup")], [at(OWN, "foo-backup"), OWN_DIR], id="it takes a name without hash"
        ),
        pytest.param(
            [at(OWN, f"foo-bar-{H1}"), at(OWN, f"foo-{H1}")],
            [OWN_DIR, at(OWN, f"foo-{H1}")],
            id="it sees two, we one",
        ),
        pytest.param([at(OWN, f"foo-{H1}")], None, id="both take the namesake"),
        pytest.param([OWN_DIR, at(OWN, f"foo-bar-{H1}")], None, id="both take the computed one"),
        pytest.param([at(OWN, f"foo-bar-{H1}"), at(OWN, f"foo-baz-{H2}")], None, id="neither takes one"),
        pytest.param([at(MOVED, f"foo-bar-{H1}")], None, id="not in its root"),
        pytest.param([], None, id="nothing there"),
    ],
)
def test_another_choice_is_told(existing, named):
    """Where pi-zcode-memory's comparison by prefix leads elsewhere, both directories are named."""
    warnings = [w for w in found(existing=existing, roots=(OWN, MOVED)).warnings if "pi-zcode-memory" in w]
    if named is None:
        assert warnings == []
    else:
        (warning,) = warnings
        for directory_ in named:
            assert directory_ in warning


def test_the_wire_shape():
    """`to_wire` has the names of the protocol."""
    assert found(existing=[OWN_DIR], others=["/home/u/.claude/x/memory"]).to_wire() == {
        "dir": OWN_DIR,
        "computedDir": OWN_DIR,
        "source": "computed",
        "others": ["/home/u/.claude/x/memory"],
        "warnings": [],
    }
    assert found().to_wire()["dir"] is None


def test_windows_spelling():
    """On Windows a directory is found in Windows spelling, whatever the case of the working directory."""
    root = Root("zcode", "C:\\Users\\Lin\\.zcode\\cli", "default")
    name = directory_name("C:\\W\\Foo", "win32")[2]
    place = f"{root.path}\\memories\\projects\\{name}\\memory"
    result = resolve("c:/w/FOO", roots=[root], existing=[place], platform="win32")
    assert (result.dir, result.source) == (place, "computed")


def test_a_relative_cwd_is_refused():
    """A working directory has to be absolute."""
    with pytest.raises(InvalidParams, match="absolute"):
        found("foo")
