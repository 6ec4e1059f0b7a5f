"""Random scripts of many pens on the real daemon: nothing that was acknowledged is ever lost without a word."""

import os
import shutil

import pytest

from tests.transcripts.machine import fact_text, new_machine, save
from tests.transcripts.pen_model import RACES, World, told_seed
from zcsyncd.errors import RevisionConflict

SOAK = int(os.environ.get("ZCSYNCD_SOAK", "0"))
"""Scripts that a long run takes on; 0: the few that every run does."""
ONLY = os.environ.get("ZCSYNCD_SEED")
"""The one script that is replayed."""
SEEDS = [int(ONLY)] if ONLY else [1, 2, 3, *range(1000, 1000 + SOAK)]
STEPS = 40
LONG_STEPS = 150


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.timeout(240)
def test_no_acknowledged_write_is_lost_in_silence(seed):
    """Whatever pens do in whatever order, over stops and kills: what was acknowledged is there, or its loss is told
    and its bytes are a version to restore; restored and repaired, the directory audits clean."""
    machine = new_machine()
    try:
        world = World(machine, seed)
        with told_seed(world):
            for _ in range(LONG_STEPS if seed >= 1000 else STEPS):
                world.step()
            world.finish()
    finally:
        machine.close()


@pytest.mark.parametrize("seed", [int(ONLY)] if ONLY else [1, *range(2000, 2000 + SOAK)])
@pytest.mark.timeout(240)
def test_acts_in_the_midst_of_others_writes(seed):
    """Another pen's write at the very moment of ours: neither destroys what the other wrote without a word."""
    machine = new_machine()
    try:
        world = World(machine, seed)
        with told_seed(world):
            for _ in range(LONG_STEPS if seed >= 2000 else STEPS // 2):
                world.step(RACES)
            world.finish()
    finally:
        machine.close()


# -- what scripts have found, each as short as it can be told

NOTE = {"name": "b", "description": "Other words", "type": "project", "body": "New.\n", "mode": "upsert"}


def _index(project):
    return (project.memory / "MEMORY.md").read_bytes()


@pytest.fixture
def kept(shared, project):
    """A project of three facts that the daemon knows, with their bytes saved."""
    project.make({f"{name}.md": fact_text(name) for name in "abc"})
    shared.call("daemon.flush", rescan=True)
    return project


def test_a_conflict_says_what_was_written_before_it(shared, kept):
    """Whoever holds the index open stops its entry, not its fact: the error names the fact."""
    with (
        open(kept.memory / "MEMORY.md", "ab"),
        pytest.raises(RevisionConflict, match="open for writing") as raised,
    ):
        shared.call("memory.write", dir=kept.dir, **{**NOTE, "name": "new"})
    assert raised.value.data["written"] == ["new.md"]
    assert (kept.memory / "new.md").exists()


def test_a_directory_that_was_removed_a_moment_ago_is_made_again(shared, kept):
    """That it went is told first; then the fact is written, with an index of its own."""
    listener = shared.listen(kept)
    shutil.rmtree(kept.memory)
    assert shared.call("memory.write", dir=kept.dir, **NOTE)["action"] == "created"
    listener.flush()
    assert listener.kinds("b.md")[0] == "deleted"
    assert listener.kinds("b.md")[-1] == "added"
    assert "memory/dir-removed" in listener.topics
    assert _index(kept) == b"- [b](b.md) \xe2\x80\x94 Other words\n"


def test_a_directory_that_goes_twice_has_each_version_once(shared, kept):
    """A content that was there before it went the first time, and the second time, is one version."""
    for _ in range(2):
        shutil.rmtree(kept.memory)
        shared.call("daemon.flush")
        kept.make({"a.md": fact_text("a")})
        shared.call("daemon.flush")
    shutil.rmtree(kept.memory)
    shared.call("daemon.flush")
    versions = shared.call("history.list", dir=kept.dir, file="a.md")["versions"]
    assert len(versions) == 1
    assert shared.call("history.restore", saved=versions[0]["saved"])["action"] == "created"


def test_an_undo_does_not_take_an_earlier_act_for_the_last(shared, kept):
    """Another pen brings back the bytes before our act and goes on from there: our act is still the last one."""
    shared.call("memory.write", dir=kept.dir, **{**NOTE, "name": "kept"})
    before = (kept.memory / "b.md").read_bytes()
    shared.call("memory.write", dir=kept.dir, **{**NOTE, "description": "What it says"})
    for content in (before, fact_text("b", body="Somebody else's.")):
        save(kept.memory / "b.md", content)
        shared.call("daemon.flush")
    with pytest.raises(RevisionConflict, match="written again"):
        shared.call("history.undo", dir=kept.dir)
    assert (kept.memory / "kept.md").exists()


def test_an_undo_finds_the_last_act_behind_many_versions(shared, kept):
    """However often others write the file after our act: no earlier act is taken for the last one."""
    shared.call("memory.write", dir=kept.dir, **{**NOTE, "name": "kept"})
    shared.call("memory.write", dir=kept.dir, **{**NOTE, "description": "What it says"})
    for number in range(25):
        save(kept.memory / "b.md", fact_text("b", body=f"Version {number}."))
        shared.call("daemon.flush")
    with pytest.raises(RevisionConflict, match="written again"):
        shared.call("history.undo", dir=kept.dir)
    assert (kept.memory / "kept.md").exists()


def test_undone_redone_undone_the_index_has_its_very_bytes(shared, kept):
    """Also where an entry has its own words and its own place, and another one names the same fact."""
    index = b"# Mine\n\n- [B](b.md)\n- [A](a.md)\n\nprose [c](c.md)\n- [B too](b.md) - twice\n"
    save(kept.memory / "MEMORY.md", index)
    shared.call("daemon.flush")
    shared.call("memory.forget", dir=kept.dir, name="b")
    without = _index(kept)
    for wanted in (index, without, index, without):
        shared.call("history.undo", dir=kept.dir)
        assert _index(kept) == wanted
        assert (kept.memory / "b.md").exists() == (wanted is index)


def test_an_undo_that_somebody_did_already_is_done(shared, kept):
    """The fact is as it was before our act: there is nothing to refuse, and the index follows."""
    before, index = (kept.memory / "b.md").read_bytes(), _index(kept)
    shared.call("memory.write", dir=kept.dir, **NOTE)
    save(kept.memory / "b.md", before)
    shared.call("history.undo", dir=kept.dir)
    assert (kept.memory / "b.md").read_bytes() == before
    assert _index(kept) == index


def test_a_restore_brings_back_an_entry_that_is_missing(shared, kept):
    """The fact is there already, as after a kill in the midst of the restore: its entry is what it lacks."""
    index, content = _index(kept), (kept.memory / "b.md").read_bytes()
    saved = shared.call("memory.forget", dir=kept.dir, name="b")["saved"]
    save(kept.memory / "b.md", content)
    answer = shared.call("history.restore", saved=saved)
    assert (answer["action"], answer["index"]) == ("overwrote", "inserted")
    assert _index(kept) == index
