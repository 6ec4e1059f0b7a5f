"""Memory directories and roots that come, go, move, hide behind links, and are made again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.transcripts.machine import Listener, Machine, Project, Running, entry, fact_text, save


def _deaf_to_nothing(listener: Listener, project: Project) -> None:
    """A fact saved now is told: the directory is watched."""
    before = len(listener.heard)
    project.fact("sign-of-life.md", body=f"{before}")
    listener.until(
        lambda event: event["dir"] == project.dir and event["topic"] == "memory/changed", "a sign of life"
    )
    listener.flush()
    assert [
        change["file"] for event in listener.heard[before:] for change in event["data"].get("changes", ())
    ] == ["sign-of-life.md"]


def test_a_directory_that_appears_is_told_before_its_files(shared: Running, project: Project) -> None:
    """`dir-added` comes first, then every file as `added`, then the index; an empty directory is told too."""
    listener = shared.listen(project)
    listener.forget()
    aside = project.cwd / "aside"
    aside.mkdir(parents=True)
    save(aside / "one.md", fact_text("one"))
    save(aside / "MEMORY.md", entry("one.md"))
    project.memory.parent.mkdir(parents=True)
    os.rename(aside, project.memory)
    listener.flush()
    assert listener.topics[:3] == ["memory/dir-added", "memory/changed", "memory/index"]
    data = listener.of("memory/dir-added")[0]
    assert (data["layout"], data["label"]) == ("zcode", project.cwd.name)
    assert [(one["kind"], one["file"]) for one in listener.changes()] == [
        ("added", "MEMORY.md"),
        ("added", "one.md"),
    ]


def test_an_empty_memory_directory_is_told_and_listed(shared: Running, project: Project) -> None:
    """A project without `memory/` is not kept, an empty `memory/` is."""
    listener = shared.listen(project)
    listener.forget()
    project.memory.parent.mkdir(parents=True)
    listener.flush()
    assert project.dir not in [one["dir"] for one in shared.call("dirs.list")["dirs"]]
    project.memory.mkdir()
    listener.flush()
    assert [topic for topic in listener.topics if topic != "memory/audit"] == ["memory/dir-added"]
    (listed,) = [one for one in shared.call("dirs.list")["dirs"] if one["dir"] == project.dir]
    assert (listed["facts"], listed["entries"], listed["revision"]) == (0, 0, None)


def test_a_directory_that_goes_is_told_after_its_files(shared: Running, project: Project) -> None:
    """Every file is `deleted`, then `dir-removed`; requests about it are `not-found` from then on."""
    project.make({"one.md": fact_text("one"), "sub/two.md": fact_text("two")})
    listener = shared.listen(project)
    listener.forget()
    shutil.rmtree(project.memory)
    listener.flush()
    assert listener.topics[-1] == "memory/dir-removed"
    assert sorted((one["kind"], one["file"]) for one in listener.changes()) == [
        ("deleted", "MEMORY.md"),
        ("deleted", "one.md"),
        ("deleted", "sub/two.md"),
    ]
    assert project.dir not in [one["dir"] for one in shared.call("dirs.list")["dirs"]]


def test_a_directory_removed_and_made_again_at_once(shared: Running, project: Project) -> None:
    """What lies in a directory made again is told, the old is not there any more, and it is watched."""
    project.make({"one.md": fact_text("one"), "old.md": fact_text("old")})
    listener = shared.listen(project)
    listener.forget()
    for number in range(3):
        shutil.rmtree(project.memory.parent)
        project.make({"one.md": fact_text("one", body=f"{number}"), "new.md": fact_text("new")})
    listener.flush()
    state = _state_of(listener, {"one.md", "old.md", "MEMORY.md"})
    assert state == {"one.md", "new.md", "MEMORY.md"}
    _deaf_to_nothing(listener, project)


def test_a_directory_that_is_written_to_while_it_appears(shared: Running, project: Project) -> None:
    """A directory made and filled without a pause is told whole, its subdirectories too, each file once."""
    listener = shared.listen(project)
    listener.forget()
    names = [f"{place}f{number}.md" for place in ("", "deep/", "deep/er/") for number in range(30)]
    for name in names:
        path = project.memory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(fact_text("x", body=name))
    listener.flush()
    assert sorted(one["file"] for one in listener.changes()) == sorted(names)
    assert {one["kind"] for one in listener.changes()} == {"added"}
    assert listener.topics[0] == "memory/dir-added"


def test_moved_away_and_back(shared: Running, project: Project) -> None:
    """A directory that is moved out of the root is gone; moved back it is there again, and watched."""
    project.make({"one.md": fact_text("one")})
    listener = shared.listen(project)
    listener.forget()
    aside = project.cwd / "aside"
    os.rename(project.memory.parent, aside)
    listener.flush()
    assert listener.topics[-1] == "memory/dir-removed"
    (aside / "memory" / "one.md").write_text(fact_text("one", body="Changed while it was away."))
    listener.flush()
    assert listener.topics[-1] == "memory/dir-removed"
    os.rename(aside, project.memory.parent)
    listener.flush()
    assert listener.topics.count("memory/dir-added") == 1
    assert _state_of(listener, {"one.md", "MEMORY.md"}) == {"one.md", "MEMORY.md"}
    _deaf_to_nothing(listener, project)


def test_moved_to_another_project(shared: Running, project: Project) -> None:
    """A directory that gets another project's name is gone here and new there."""
    project.make({"one.md": fact_text("one")})
    other = Project(shared.machine.home, project.cwd.with_name(project.cwd.name + "-bar"))
    listener = shared.listen(project, other)
    listener.forget()
    os.rename(project.memory.parent, other.memory.parent)
    listener.flush()
    assert [change["kind"] for change in listener.changes(directory=project.dir)] == ["deleted", "deleted"]
    assert [change["kind"] for change in listener.changes(directory=other.dir)] == ["added", "added"]
    _deaf_to_nothing(listener, other)


def test_names_that_begin_alike_are_not_confused(shared: Running, project: Project) -> None:
    """`foo-<hash>` and `foo-bar-<hash>` are two projects, to events, requests and the resolver alike."""
    longer = Project(shared.machine.home, project.cwd.with_name(project.cwd.name + "-bar"))
    longer.make({"long.md": fact_text("long")})
    answer = shared.call("dirs.resolve", cwd=str(project.cwd))
    assert (answer["dir"], answer["source"], answer["computedDir"]) == (None, "none", project.dir)
    project.make({"short.md": fact_text("short")})
    listener = shared.listen(project)
    listener.forget()
    longer.fact("long.md", body="Changed.")
    listener.flush()
    assert listener.changes() == []
    assert shared.call("dirs.resolve", cwd=str(project.cwd))["dir"] == project.dir
    assert [one["file"] for one in shared.call("memory.list", dir=longer.dir)["facts"]] == ["long.md"]


def test_the_only_directory_of_a_slug_answers_with_a_warning(shared: Running, project: Project) -> None:
    """A cwd whose computed directory is missing gets the only one of its slug, and is told so."""
    project.make({"one.md": fact_text("one")})
    shared.call("daemon.flush")
    elsewhere = shared.machine.home / "elsewhere" / project.cwd.name
    answer = shared.call("dirs.resolve", cwd=str(elsewhere))
    assert (answer["dir"], answer["source"]) == (project.dir, "only-match")
    assert answer["warnings"]


def test_aliases_are_one_directory(shared: Running, project: Project) -> None:
    """Of two paths to one directory the one without a symlink is kept; the other is listed and answered with it."""
    project.make({"one.md": fact_text("one")})
    alias = Project(shared.machine.home, project.cwd.with_name("alias" + project.cwd.name))
    alias.memory.parent.mkdir(parents=True)
    listener = shared.listen(project)
    listener.forget()
    os.symlink(project.memory, alias.memory)
    shared.call("daemon.flush", rescan=True)
    (listed,) = [
        one for one in shared.call("dirs.list")["dirs"] if project.dir in (one["dir"], *one["aliases"])
    ]
    assert (listed["dir"], listed["aliases"]) == (project.dir, [alias.dir])
    assert shared.call("memory.list", dir=alias.dir)["dir"] == project.dir
    through = shared.listen(alias)
    save(alias.memory / "one.md", fact_text("one", body="Saved through the alias."))
    for each in (listener, through):
        each.flush()
        assert [(change["kind"], change["file"]) for change in each.changes()] == [("updated", "one.md")]
    assert {event["dir"] for event in through.heard} == {project.dir}
    assert shared.call("dirs.resolve", cwd=str(alias.cwd))["dir"] == project.dir


def test_a_linked_directory_outside_of_the_root_is_watched(shared: Running, project: Project) -> None:
    """A `memory` that is a link to a place elsewhere (a checkout, another agent's store) is told like any other."""
    real = shared.machine.home / "checkouts" / project.cwd.name
    real.mkdir(parents=True)
    save(real / "one.md", fact_text("one"))
    project.memory.parent.mkdir(parents=True)
    listener = shared.listen(project)
    listener.forget()
    os.symlink(real, project.memory)
    listener.flush()
    assert [(change["kind"], change["file"]) for change in listener.changes()] == [("added", "one.md")]
    save(real / "one.md", fact_text("one", body="Changed where it really lies."))
    listener.flush()
    assert listener.kinds("one.md") == ["added", "updated"]


def test_a_root_that_is_missing_at_the_start_and_appears(machine: Machine) -> None:
    """A root that appears later is news: each directory is told, then all its files; made again at once, too."""
    first, second = machine.project("first"), machine.project("second")
    daemon = machine.start()
    listener = daemon.listen(first, second)
    first.make({"one.md": fact_text("one")})
    second.make({"two.md": fact_text("two")})
    listener.flush()
    for project, file in ((first, "one.md"), (second, "two.md")):
        topics = [event["topic"] for event in listener.heard if event["dir"] == project.dir]
        assert topics[0] == "memory/dir-added"
        assert "added" in listener.kinds(file)
    _deaf_to_nothing(listener, first)

    aside = machine.home / "aside"
    os.rename(machine.root, aside)
    listener.flush()
    assert listener.topics.count("memory/dir-removed") == 2
    os.rename(aside, machine.root)
    listener.flush()
    assert listener.topics.count("memory/dir-added") == 4
    _deaf_to_nothing(listener, first)

    listener.heard.clear()
    shutil.rmtree(machine.root)
    first.make({"one.md": fact_text("one", body="Made again.")})
    listener.flush()
    assert daemon.call("dirs.list")["total"] == 1
    assert _state_of(listener, {"one.md", "sign-of-life.md", "MEMORY.md"}, first) == {"one.md", "MEMORY.md"}
    assert _state_of(listener, {"two.md", "MEMORY.md"}, second) == set()
    _deaf_to_nothing(listener, first)
    daemon.stop()


def _state_of(listener: Listener, known: set[str], project: Project | None = None) -> set[str]:
    """Give the files that a subscriber believes in who knew `known` and was told all that followed."""
    files = set(known)
    for change in listener.changes(directory=project.dir if project else None):
        if change["kind"] in ("deleted", "renamed"):
            files.discard(change.get("from", change["file"]))
        if change["kind"] != "deleted":
            files.add(change["file"])
    return files


def test_facts_behind_a_linked_subdirectory_are_not_ours(
    shared: Running, project: Project, tmp_path: Path
) -> None:
    """A symlinked directory below the memory directory is not entered; a symlinked file is a fact."""
    (tmp_path / "outside.md").write_text(fact_text("outside"))
    project.make({"one.md": fact_text("one")})
    listener = shared.listen(project)
    listener.forget()
    os.symlink(tmp_path, project.memory / "linked")
    os.symlink(tmp_path / "outside.md", project.memory / "link.md")
    listener.flush()
    assert [change["file"] for change in listener.changes()] == ["link.md"]
    assert listener.kinds() == ["added"]
