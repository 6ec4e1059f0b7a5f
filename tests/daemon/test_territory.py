"""Whose memory is where, over real directories and settings files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from zcsyncd.config import parse
from zcsyncd.daemon.grounds import Grounds
from zcsyncd.daemon.territory import MOST_TOLD, Territory
from zcsyncd.layouts.zcode import directory


class Land:
    """A home with a root, two projects, and a territory over them."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.home = place / "home"
        self.root = self.home / ".zcode" / "cli"
        self.projects = self.root / "memories" / "projects"
        self.app = self.home / "code" / "app"
        self.other = self.home / "code" / "other"
        for path in (self.app, self.other, self.projects):
            path.mkdir(parents=True)
        self.grounds = Grounds()
        self.territory: Territory

    def memory(self, cwd: Path, *, make: bool = True) -> Path:
        path = Path(directory(str(self.root), str(cwd)))
        if make:
            path.mkdir(parents=True, exist_ok=True)
        return path

    def begin(self, *, dirs: tuple[str, ...] = (), allowed: tuple[str, ...] = (), **env: str) -> Territory:
        environment = {"HOME": str(self.home), **env}
        settings = parse({"dirs": list(dirs)} if dirs else {}, {}, home=str(self.home), env=environment)
        self.territory = Territory(environment, settings, self.grounds, set(allowed), set())
        self.look()
        return self.territory

    def look(self) -> None:
        """Refresh, and survey what there is, as a scan does."""
        self.territory.refresh()
        self.grounds.survey()

    def project_file(self, cwd: Path, content: object) -> None:
        path = cwd / ".pi" / "zcode-memory.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))

    def reach(self, cwd: Path, *dirs: Path | str) -> set[str]:
        return set(self.territory.session_directories(str(cwd), [str(path) for path in dirs]))

    def watched(self) -> set[str]:
        return {tree.base for tree in self.territory.refresh() if not tree.levels}


@pytest.fixture
def land(tmp_path):
    """A home of its own, on no symlinked path."""
    return Land(Path(os.path.realpath(tmp_path)))


# -- who may name what

PLACES = (
    "memory",  # another project's memory directory, which the root's tree finds
    "own memory",  # the project's own
    "above",  # <root>/memories/projects
    "higher",  # <root>/memories
    "project directory",  # <root>/memories/projects/<other>-<hash>
    "nested",  # a directory in another project's memory directory
    "sessions",  # a host's other things, below its root
    "root",
    "in project",
    "alias of memory",  # a link in the project to another project's memory directory
    "alias of above",
    "alias of outside",
    "outside",
    "home",
    "file system",
)


def place_of(land: Land, place: str) -> Path:
    other = land.memory(land.other)
    made = {
        "memory": other,
        "own memory": land.memory(land.app),
        "above": land.projects,
        "higher": land.root / "memories",
        "project directory": other.parent,
        "nested": other / "sub",
        "sessions": land.root / "sessions",
        "root": land.root,
        "in project": land.app / ".zcode" / "memory",
        "outside": land.place / "outside" / "memory",
        "home": land.home,
        "file system": Path("/"),
    }
    aliases = {
        "alias of memory": other,
        "alias of above": land.projects,
        "alias of outside": made["outside"],
    }
    for path in made.values():
        path.mkdir(parents=True, exist_ok=True)
    if place in aliases:
        link = land.app / place.replace(" ", "-")
        link.symlink_to(aliases[place])
        return link
    return made[place]


#                      client     project    person     config
KINDS = {
    "memory":            "own        own        own        own",
    "own memory":        "own        own        own        own",
    "above":             "never      never      never      never",
    "higher":            "never      never      never      never",
    "project directory": "never      never      never      never",
    "nested":            "asked      asked      own        own",
    "sessions":          "asked      asked      own        own",
    "root":              "never      never      never      never",
    "in project":        "asked      own        own        own",
    "alias of memory":   "own        own        own        own",
    "alias of above":    "never      never      never      never",
    "alias of outside":  "asked      asked      own        own",
    "outside":           "asked      asked      own        own",
    "home":              "never      never      never      never",
    "file system":       "never      never      never      never",
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_who_may_name_which_place(land, place):
    """A place that holds several memories is nobody's; a client and a project name no more than what is in place."""
    path = str(place_of(land, place))
    territory = land.begin()
    kinds = [
        territory.judge(path, by, str(land.app) if by == "project-file" else None).kind
        for by in ("client", "project-file", "user-setting", "config")
    ]
    assert kinds == KINDS[place].split()


@pytest.mark.parametrize(
    "place", ["above", "higher", "project directory", "root", "home", "file system", "sessions"]
)
def test_a_client_that_names_a_place_above_memory_gets_nothing(land, place):
    """Whatever a session names in `hello`, it reaches its own directory and no other project's."""
    path = place_of(land, place)
    land.begin()
    own = str(land.memory(land.app))
    land.look()
    assert land.reach(land.app, path) == {own}
    assert land.watched() == set()
    assert not land.territory.new_trees()


@pytest.mark.parametrize("spelled", ["{}/", "{}/.", "{}/../memory", "/{}"])
def test_a_path_may_be_spelled_in_another_way(land, spelled):
    """A session that names a directory with a slash or dots too many reaches that directory."""
    other = str(land.memory(land.other))
    land.begin()
    assert other in {
        path if path[:2] != "//" else path[1:] for path in land.reach(land.app, spelled.format(other))
    }


def test_a_nested_directory_is_not_kept_twice(land):
    """A directory inside another memory directory is part of that, also when a person names it."""
    nested = land.memory(land.other) / "sub"
    nested.mkdir()
    land.begin(dirs=(str(nested),))
    assert [path for path in land.grounds.directories() if path.endswith("sub")] in ([], [str(nested)])
    assert str(land.memory(land.other)) in land.grounds.directories()


def test_an_alias_is_kept_by_the_path_without_a_link(land):
    """A link that the configuration names is an alias of the directory that it leads to."""
    memory = land.memory(land.other)
    link = land.place / "link"
    link.symlink_to(memory)
    land.begin(dirs=(str(link),))
    assert land.grounds.directories() == [str(memory)]
    assert land.grounds.aliases(str(memory)) == (str(link),)


# -- allowed, configured, asked


@pytest.mark.parametrize(
    ("configured", "allowed", "watched"),
    [(False, False, False), (True, False, True), (False, True, True), (True, True, True)],
)
def test_what_is_watched_by_name(land, configured, allowed, watched):
    """A named directory outside of all roots is watched when our configuration or a person's word says so."""
    path = str(place_of(land, "outside"))
    land.begin(dirs=(path,) if configured else (), allowed=(path,) if allowed else ())
    land.reach(land.app, path)
    assert land.watched() == ({path} if watched else set())
    assert (path in land.territory.asked) is not watched
    assert (path in land.reach(land.app, path)) is watched


def test_allowing_and_taking_back(land):
    """An asked directory is watched from when it is allowed until that is taken back; then it is asked again."""
    path = str(place_of(land, "outside"))
    territory = land.begin()
    land.reach(land.app, path)
    assert list(territory.asked) == [path]
    territory.allowed.add(path)
    assert land.watched() == {path}
    assert territory.asked == {}
    assert path in land.reach(land.app, path)
    territory.allowed.discard(path)
    assert land.watched() == set()
    assert path not in land.reach(land.app, path)
    assert list(territory.asked) == [path]


def test_taking_back_what_the_configuration_names(land):
    """A directory of our configuration stays, whatever was allowed and taken back."""
    path = str(place_of(land, "outside"))
    territory = land.begin(dirs=(path,), allowed=(path,))
    assert land.watched() == {path}
    territory.allowed.discard(path)
    assert land.watched() == {path}
    assert land.watched() == {path}


def test_what_is_never_kept_cannot_be_allowed(land):
    """An allowance of a place that became a home or a root is not followed, and said."""
    land.begin(allowed=(str(land.projects), str(land.home), "/"))
    assert land.watched() == set()
    assert len(land.territory.all_complaints()) == 3


# -- what a session reaches over time


def test_a_session_reaches_its_directory_before_during_and_after(land):
    """Its directory is its own before it exists, while it exists, and when it is gone: it hears of coming and going."""
    land.begin()
    computed = str(land.memory(land.app, make=False))
    assert land.reach(land.app) == {computed}
    land.memory(land.app)
    land.grounds.note(computed)
    assert land.reach(land.app) == {computed}
    os.rmdir(computed)
    land.grounds.note(computed)
    assert land.reach(land.app) == {computed}


def test_the_reach_follows_what_is_found(land):
    """A session that had the only directory of its slug gets its own one as soon as that is made; the generation says
    that scopes are to be worked out anew."""
    twin_cwd = land.home / "elsewhere" / "app"
    twin = str(land.memory(twin_cwd))
    land.begin()
    assert land.reach(land.app) == {twin}
    generation = land.grounds.generation
    own = str(land.memory(land.app))
    land.grounds.note(own)
    assert land.grounds.generation != generation
    assert land.reach(land.app) == {own}


def test_another_projects_directory_is_not_reached(land):
    """Neither by being there, nor by a name that begins alike."""
    land.memory(land.other)
    land.memory(land.home / "code" / "app-two")
    own = str(land.memory(land.app))
    land.begin()
    assert land.reach(land.app) == {own}


# -- a project's file

HOSTILE = {
    "the file system": {"dir": "/"},
    "a home": {"dir": "{home}"},
    "a tilde": {"dir": "~"},
    "a tilde and more": {"dir": "~/.zcode/cli/memories"},
    "all projects": {"dir": "{root}/memories"},
    "one above": {"dir": "{root}/memories/projects"},
    "a root": {"dir": "{root}"},
    "a lone surrogate": '{"dir": "/\\ud800"}',
    "a NUL": '{"dir": "/a\\u0000b"}',
    "a number": {"dir": 7},
    "a list": ["/"],
    "no JSON": "{",
    "deep JSON": "[" * 100_000,
    "a long number": '{"dir": ' + "9" * 5000 + "}",
    "nothing": "",
    "bytes": "\udce9",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_project_file_gets_nothing(land, name):
    """Whatever a repository carries, its sessions reach no other project's memory and nobody's daemon stumbles."""
    land.memory(land.other)
    own = str(land.memory(land.app))
    content = HOSTILE[name]
    if isinstance(content, dict) and isinstance(content["dir"], str):
        content = {"dir": content["dir"].format(home=land.home, root=land.root)}
    path = land.app / ".pi" / "zcode-memory.json"
    path.parent.mkdir()
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    land.begin()
    for _ in range(3):
        reached = land.reach(land.app)
        resolved = land.territory.resolve(str(land.app))
        land.look()
    assert reached <= {own, str(land.app / "~"), str(land.app / "~/.zcode/cli/memories")}
    assert str(land.memory(land.other)) not in reached
    assert land.watched() <= {str(land.app / "~"), str(land.app / "~/.zcode/cli/memories")}
    assert resolved.computed_dir == own
    said = land.territory.all_complaints()
    assert len(said) == len(set(said)) <= 2
    json.dumps(said).encode()


def test_a_fifo_in_its_place_is_not_opened(land):
    """A project file that would wait for a writer is passed over, and said once."""
    (land.app / ".pi").mkdir()
    os.mkfifo(land.app / ".pi" / "zcode-memory.json")
    own = str(land.memory(land.app))
    land.begin()
    assert land.reach(land.app) == {own}
    land.reach(land.app)
    (said,) = land.territory.all_complaints()
    assert "ordinary file" in said


def test_a_project_file_may_name_memory_that_is_in_place(land):
    """A project that shares another's memory directory reaches it, as its owner's layout puts it there."""
    other = str(land.memory(land.other))
    land.project_file(land.app, {"dir": other})
    land.begin()
    assert land.reach(land.app) == {other}


def test_a_project_file_may_name_its_own_directory(land):
    """A directory inside the project is watched from when a session led to it, over refreshes too."""
    own = land.app / ".zcode" / "memory"
    own.mkdir(parents=True)
    land.project_file(land.app, {"dir": ".zcode/memory"})
    land.begin()
    land.territory.learn(str(land.app))  # as a session's hello does
    assert land.reach(land.app) == {str(own)}
    assert land.watched() == {str(own)}
    land.look()
    assert land.watched() == {str(own)}
    assert land.reach(land.app) == {str(own)}


def test_a_directory_that_leads_elsewhere_by_now_is_no_longer_own(land):
    """A project's own directory that becomes a link to the person's notes is asked for, and looked at no more."""
    own = land.app / "mem"
    own.mkdir(parents=True)
    private = land.app.parent / "private"
    private.mkdir()
    land.project_file(land.app, {"dir": "mem"})
    land.begin()
    land.territory.learn(str(land.app))
    assert land.reach(land.app) == {str(own)}
    assert land.territory.still_ours(str(own))
    own.rmdir()
    own.symlink_to(private)
    assert not land.territory.still_ours(str(own))
    assert land.reach(land.app) == frozenset()
    assert str(own) in land.territory.asked
    land.look()
    assert land.watched() == frozenset()


def test_what_a_project_no_longer_names_is_let_go(land):
    """The file names another directory: the old one is nobody's, and a session reaches the new one."""
    for name in ("m1", "m2"):
        (land.app / name).mkdir(parents=True)
    land.project_file(land.app, {"dir": "m1"})
    land.begin()
    land.territory.learn(str(land.app))
    assert land.reach(land.app) == {str(land.app / "m1")}
    before = land.territory.generation
    land.project_file(land.app, {"dir": "m2"})
    assert land.reach(land.app) == {str(land.app / "m2")}
    assert land.territory.generation > before
    assert land.territory.new_trees()
    land.look()
    assert land.watched() == {str(land.app / "m2")}


def test_a_link_inside_the_project_leads_nowhere(land):
    """A link in the project to a place outside is asked for, not taken."""
    link = place_of(land, "alias of outside")
    land.project_file(land.app, {"dir": str(link)})
    territory = land.begin()
    assert str(link) not in land.reach(land.app)
    assert list(territory.asked) == [str(link)]
    assert land.watched() == set()
    warnings = territory.resolve(str(land.app)).warnings
    assert any("dirs --allow" in warning for warning in warnings)


def test_a_project_in_a_home_is_no_project(land):
    """A file in the home itself, or above, does not make all of the home a project."""
    outside = land.home / "notes"
    outside.mkdir()
    land.project_file(land.home, {"dir": str(outside)})
    territory = land.begin()
    land.reach(land.home)
    assert list(territory.asked) == [str(outside)]


# -- complaints and what is asked for are bounded


def test_complaints_are_told_once(land):
    """A thousand requests of a session with a bad name make one complaint."""
    land.project_file(land.app, {"dir": "/"})
    land.begin()
    for _ in range(1000):
        land.reach(land.app, "/", land.home)
    assert len(land.territory.all_complaints()) == len(land.territory.complaints) == 2


def test_what_any_client_can_make_more_of_is_bounded(land):
    """Thousands of names and of projects with broken files leave `status` small."""
    territory = land.begin()
    for number in range(MOST_TOLD * 2):
        land.reach(land.app, f"/srv/{number}", f"{land.projects}/{number}")
        cwd = land.home / "code" / f"p{number}"
        cwd.mkdir()
        land.project_file(cwd, "{")
        land.reach(cwd)
    assert len(territory.asked) <= MOST_TOLD
    assert len(territory.all_complaints()) <= MOST_TOLD
    assert len(territory.complaints) <= MOST_TOLD
    assert len(territory._about_pi) <= MOST_TOLD


def test_a_directory_of_a_person_is_allowed_when_the_list_is_full(land):
    """Whoever floods the list of what is asked for keeps nobody from allowing a directory."""
    path = str(place_of(land, "outside"))
    territory = land.begin()
    for number in range(MOST_TOLD * 2):
        land.reach(land.app, f"/srv/{number}")
    assert path not in land.reach(land.app, path)
    territory.allowed.add(path)
    assert land.watched() == {path}
    assert path in land.reach(land.app, path)


def test_names_that_nobody_allowed_are_not_reached_when_the_list_is_full(land):
    """A name that was too many to be listed is no more reached than a listed one."""
    land.begin()
    own = str(land.memory(land.app))
    land.look()
    for number in range(MOST_TOLD + 5):
        assert land.reach(land.app, f"/srv/{number}") == {own}
    outside = str(place_of(land, "outside"))
    land.project_file(land.app, {"dir": outside})
    assert outside not in land.reach(land.app)


def test_a_mended_file_clears_its_complaint(land):
    """What was wrong with a settings file is over with the next look at it; another project's stays."""
    land.project_file(land.app, "{")
    land.project_file(land.other, {"dir": 7})
    land.begin()
    land.reach(land.app)
    land.reach(land.other)
    assert len(land.territory.all_complaints()) == 2
    land.project_file(land.app, {})
    land.reach(land.app)
    (said,) = land.territory.all_complaints()
    assert str(land.other) in said
    os.unlink(land.other / ".pi" / "zcode-memory.json")
    land.reach(land.other)
    assert land.territory.all_complaints() == []


def test_a_mended_name_clears_its_complaint(land):
    """A project file that named what is never watched, and was mended, is not complained of any more."""
    land.project_file(land.app, {"dir": "/"})
    land.begin()
    land.reach(land.app)
    assert len(land.territory.all_complaints()) == 1
    land.project_file(land.app, {})
    land.reach(land.app)
    land.look()
    assert land.territory.all_complaints() == []


# -- working directories


def test_a_working_directory_is_learned_once(land):
    """It names its directory, under every alias, also before that exists."""
    territory = land.begin()
    assert territory.learn(str(land.app))
    assert not territory.learn(str(land.app))
    assert territory.cwds_of(str(land.memory(land.app, make=False))) == [str(land.app)]
    assert territory.cwds_of(str(land.memory(land.other, make=False))) == []
    land.look()
    assert territory.cwds_of(str(land.memory(land.app))) == [str(land.app)]


def test_a_moved_root_moves_everything(land):
    """With another root in the environment directories are looked for there."""
    moved = land.place / "moved" / "cli"
    (moved / "memories" / "projects").mkdir(parents=True)
    land.begin(ZCODE_STORAGE_DIR=str(moved))
    assert land.territory.roots[0].path == str(moved)
    assert land.reach(land.app) == {directory(str(moved), str(land.app))}


# -- grounds


def test_what_cannot_be_listed_is_not_gone(land, as_ordinary_user):
    """A closed directory above the memory directories takes none of them away."""
    memory = str(land.memory(land.app))

    def check() -> None:
        land.begin()
        assert land.grounds.directories() == [memory]
        os.chmod(land.projects, 0o300)
        try:
            land.grounds.survey()
            assert land.grounds.directories() == [memory]
            assert land.grounds.unlisted == {str(land.projects)}
        finally:
            os.chmod(land.projects, 0o755)
        land.grounds.survey()
        assert land.grounds.unlisted == set()

    as_ordinary_user(check, land.place)


def test_the_generation_changes_only_with_what_there_is(land):
    """Who remembers a scope has to work it out anew exactly when directories came, went, or changed their names."""
    own = land.memory(land.app)
    land.begin()
    generation = land.grounds.generation
    land.grounds.survey()
    land.grounds.note(str(own))
    assert land.grounds.generation == generation
    own.rename(own.with_name("elsewhere"))
    land.grounds.survey()
    assert land.grounds.generation == generation + 1
    assert land.grounds.directories() == []
