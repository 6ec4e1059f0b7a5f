"""Our own pen, through the real daemon: write, forget, search, history, undo."""

import os
import shutil
import sqlite3
import threading
import zlib
from pathlib import Path

import pytest
import yaml

from tests.transcripts.machine import entry, fact_text, save, until
from zcsyncd.errors import (
    AlreadyExists,
    Ambiguous,
    InvalidParams,
    NotFound,
    Refused,
    RevisionConflict,
    TooLarge,
    Unreadable,
)

TOLD_S = 20.0
NOTE = {
    "name": "deploy",
    "description": "How we deploy",
    "type": "project",
    "body": "With make.\n",
    "mode": "upsert",
}


def index_of(project):
    return (project.memory / "MEMORY.md").read_bytes().decode()


def write(client, project, **params):
    return client.call("memory.write", dir=project.dir, **{**NOTE, **params})


def lines(project):
    return [line for line in index_of(project).splitlines() if line.startswith("- ")]


# -- write


def test_a_new_fact_and_its_entry(shared, project):
    """The file, the entry at the list's end, one event that names its writer; nothing is wrong afterwards."""
    project.make({"a.md": fact_text("a")})
    listener = shared.listen(project)
    listener.forget()
    client = shared.client(cwd=str(project.cwd), id="writer")
    answer = client.call("memory.write", NOTE)
    assert answer["file"] == "deploy.md"
    assert (answer["action"], answer["index"]) == ("created", "inserted")
    text = (project.memory / "deploy.md").read_text()
    front, body = text.split("---\n")[1:3]
    assert yaml.safe_load(front) == {
        "name": "deploy",
        "description": "How we deploy",
        "metadata": {"node_type": "memory", "type": "project"},
    }
    assert body.lstrip("\n") == "With make.\n"
    assert index_of(project) == "# Memory\n\n" + entry("a.md") + "- [deploy](deploy.md) — How we deploy\n"
    read = client.call("memory.read", name="deploy")
    assert read["revision"] == answer["revision"]
    listener.flush()
    assert listener.kinds("deploy.md") == ["added"]
    events = [event for event in listener.heard if event["topic"] == "memory/changed"]
    assert [event["data"]["by"] for event in events] == [{"host": "pi", "id": "writer"}]
    assert {change["file"] for event in events for change in event["data"]["changes"]} == {
        "deploy.md",
        "MEMORY.md",
    }
    assert client.call("audit.get", severity="info", fresh=True)["findings"] == []


def test_the_first_memory_of_a_project_makes_its_directory(shared, project):
    """The computed one, private, with an index."""
    project.cwd.mkdir(parents=True)
    listener = shared.listen()
    listener.forget()
    answer = shared.call("memory.write", cwd=str(project.cwd), **NOTE)
    assert answer["absolutePath"] == str(project.memory / "deploy.md")
    assert lines(project) == ["- [deploy](deploy.md) — How we deploy"]
    assert os.stat(project.memory).st_mode & 0o077 == 0
    listener.flush()
    mine = [event["topic"] for event in listener.heard if event["dir"] == project.dir]
    assert mine[:3] == ["memory/dir-added", "memory/changed", "memory/index"] or "memory/dir-added" in mine


def test_an_overwrite_keeps_what_others_wrote_around_it(shared, project):
    """Other keys of the front matter, every other byte of the index, its line ends and mark; the hook follows."""
    project.make({"a.md": fact_text("a")})
    path = project.memory / "d.md"
    path.write_text(
        "---\nname: deploy\ndescription: old words\nmetadata:\n  node_type: memory\n  type: project\n"
        "  originSessionId: 4711\nmodified: 2026-01-01\n---\n\nold\n"
    )
    before = b"\xef\xbb\xbf# Mine\r\n\r\n<!-- keep -->\r\n* [Deploying](d.md) \xe2\x80\x94 old words\r\n\r\nprose\r\n* [A](a.md)"
    save(project.memory / "MEMORY.md", before)
    shared.call("daemon.flush")
    answer = write(shared, project, description="new words")
    assert (answer["file"], answer["action"], answer["index"]) == ("d.md", "overwrote", "updated")
    assert (project.memory / "MEMORY.md").read_bytes() == before.replace(b"old words", b"new words")
    front = yaml.safe_load(path.read_text().split("---\n")[1])
    assert front["metadata"] == {"node_type": "memory", "type": "project", "originSessionId": 4711}
    assert "modified" in front
    assert not (project.memory / "deploy.md").exists()


def test_a_hook_of_a_persons_own_stays(shared, project):
    """Only one that equalled the former description follows the new one."""
    project.make({"deploy.md": fact_text("deploy", "old")})
    save(project.memory / "MEMORY.md", entry("deploy.md", hook="my own words"))
    shared.call("daemon.flush")
    assert write(shared, project, description="new")["index"] == "unchanged"
    assert lines(project) == ["- [A title](deploy.md) — my own words"]


@pytest.mark.parametrize(
    "name",
    ["", "a/b", "..", "../x", ".hidden", "a\nb", "con", "NUL.md", "a:b", "trailing.", "MEMORY", "MEMORY.md", "memory",
     "x" * 300, "a\\b", "bell\a"],
)  # fmt: skip
def test_a_name_that_is_no_safe_file_name_is_refused(shared, project, name):
    """Nothing is written, and the answer says why."""
    project.make({"a.md": fact_text("a")})
    shared.call("daemon.flush")
    before = sorted(os.listdir(project.memory))
    with pytest.raises((Refused, InvalidParams)):
        write(shared, project, name=name)
    assert sorted(os.listdir(project.memory)) == before


def test_create_does_not_overwrite(shared, project):
    """Neither by file name, nor by the name in the front matter, nor a twin in other case."""
    project.make({"other-file.md": fact_text("deploy", "old")})
    shared.call("daemon.flush")
    for name in ("deploy", "other-file", "Other-File"):
        with pytest.raises((AlreadyExists, NotFound)) as raised:
            write(shared, project, mode="create", name=name)
        assert isinstance(raised.value, AlreadyExists)
    assert os.listdir(project.memory).count("deploy.md") == 0


def test_a_file_that_was_written_a_moment_ago_is_found(shared, project):
    """The disk is the truth: `create` sees what no event has told yet."""
    project.make({"a.md": fact_text("a")})
    shared.call("daemon.flush")
    (project.memory / "late.md").write_text(fact_text("deploy"))
    with pytest.raises(AlreadyExists):
        write(shared, project, mode="create")


def test_two_facts_of_one_name_are_ambiguous(shared, project):
    """Nobody guesses which one is meant."""
    project.make({"x.md": fact_text("deploy"), "y.md": fact_text("deploy")})
    shared.call("daemon.flush")
    with pytest.raises(Ambiguous):
        write(shared, project)


def test_a_revision_is_compared_once(shared, project):
    """The one that the caller read: a file that changed, or vanished, is a conflict with today's revision."""
    project.make({"deploy.md": fact_text("deploy", "old")})
    shared.call("daemon.flush")
    read = shared.call("memory.read", dir=project.dir, name="deploy")["revision"]
    save(project.memory / "deploy.md", fact_text("deploy", "somebody else's"))
    with pytest.raises(RevisionConflict) as raised:
        write(shared, project, ifRevision=read)
    now = os.stat(project.memory / "deploy.md")
    assert raised.value.data["revision"].endswith(f":size:{now.st_size}")
    assert "somebody else's" in (project.memory / "deploy.md").read_text()
    assert write(shared, project, ifRevision=raised.value.data["revision"])["action"] == "overwrote"
    (project.memory / "deploy.md").unlink()
    with pytest.raises(RevisionConflict) as raised:
        write(shared, project, ifRevision=read)
    assert raised.value.data["revision"] is None
    assert not (project.memory / "deploy.md").exists()


def test_a_description_with_line_breaks_becomes_one_line(shared, project):
    """In the fact and in the index: nothing that is written can pass for another entry."""
    project.make({"a.md": fact_text("a")})
    shared.call("daemon.flush")
    write(shared, project, description="one\n- [x](y.md) — two\r\nthree\rfour")
    assert shared.call("memory.read", dir=project.dir, name="deploy")["description"].count("\n") == 0
    assert len(lines(project)) == 2
    entries = shared.call("dirs.list")["dirs"]
    assert next(row for row in entries if row["dir"] == project.dir)["entries"] == 2


@pytest.mark.parametrize(
    "body",
    [
        "",
        "no newline",
        "crlf\r\n",
        "\0nul",
        "---\nfence\n---\n",
        "\ufeffmark",
        "汉字 🎈\n",
        "x" * 524_288,
        "字" * 174_762,
    ],
)
def test_a_body_is_written_byte_for_byte(shared, project, body):
    """Whatever it holds, up to 512 KiB."""
    project.make({"a.md": fact_text("a")})
    shared.call("daemon.flush")
    write(shared, project, body=body)
    raw = (project.memory / "deploy.md").read_bytes()
    assert raw.partition(b"  type: project\n---\n\n")[2] == body.encode()


def test_a_larger_body_is_too_large(shared, project):
    """And nothing is written."""
    project.make({"a.md": fact_text("a")})
    shared.call("daemon.flush")
    with pytest.raises(TooLarge):
        write(shared, project, body="x" * 524_289)
    assert not (project.memory / "deploy.md").exists()


def test_symlinks_are_refused(shared, project):
    """As the last component and as an inner one; what they lead to is untouched, and so is the index."""
    project.make({"a.md": fact_text("a")})
    outside = project.cwd / "outside.md"
    outside.write_text(fact_text("deploy", "mine"))
    (project.memory / "deploy.md").symlink_to(outside)
    (project.memory / "sub").symlink_to(project.cwd)
    shared.call("daemon.flush")
    for name in ("deploy", "deploy.md", "sub/outside.md"):
        with pytest.raises((Refused, NotFound)):
            write(shared, project, name=name)
    for method in ("memory.write", "memory.forget"):
        with pytest.raises(Refused):
            shared.call(method, dir=project.dir, **(NOTE if method == "memory.write" else {"name": "deploy"}))
    assert outside.read_text() == fact_text("deploy", "mine")
    assert "deploy" not in index_of(project)


def test_an_index_that_is_a_symlink_is_not_written(shared, project):
    """The fact is not written either: both or none."""
    project.make({"a.md": fact_text("a")})
    outside = project.cwd / "index.md"
    outside.write_text(entry("a.md"))
    (project.memory / "MEMORY.md").unlink()
    (project.memory / "MEMORY.md").symlink_to(outside)
    shared.call("daemon.flush")
    with pytest.raises(Refused):
        write(shared, project)
    assert not (project.memory / "deploy.md").exists()
    assert outside.read_text() == entry("a.md")


@pytest.mark.parametrize(
    "raw", ["- [\u4e2d](a.md)\n".encode("gbk"), "\ufeff- [A](a.md)\n".encode("utf-16le")]
)
def test_an_index_that_is_not_utf_8_is_read_but_not_written(shared, project, raw):
    """Refused, and nothing is written."""
    project.make({"a.md": fact_text("a")})
    save(project.memory / "MEMORY.md", raw)
    shared.call("daemon.flush")
    assert shared.call("memory.index", dir=project.dir)["text"]
    with pytest.raises(Refused, match="UTF-8"):
        write(shared, project)
    assert (project.memory / "MEMORY.md").read_bytes() == raw
    assert not (project.memory / "deploy.md").exists()


def test_two_hundred_writers_at_once_lose_no_entry(shared, project):
    """All facts, all entries, each once."""
    project.make({"a.md": fact_text("a")})
    shared.call("daemon.flush")
    errors = []

    def some(numbers):
        client = shared.client()
        for number in numbers:
            try:
                write(client, project, name=f"note-{number}")
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=some, args=(range(start, 200, 20),)) for start in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TOLD_S)
    assert errors == []
    wanted = {f"- [note-{n}](note-{n}.md) — How we deploy" for n in range(200)}
    assert sorted(lines(project)[1:]) == sorted(wanted)
    assert {f"note-{n}.md" for n in range(200)} <= set(os.listdir(project.memory))
    assert not [name for name in os.listdir(project.memory) if ".tmp." in name]


def test_another_programs_writes_meanwhile_are_kept(shared, project):
    """Somebody appends to the index all the while: neither loses a line."""
    project.make({"a.md": fact_text("a")})
    shared.call("daemon.flush")
    index = project.memory / "MEMORY.md"
    over = threading.Event()
    appended = []

    def other():
        while not over.is_set() and len(appended) < 300:
            line = f"- [o{len(appended)}](a.md#{len(appended)})\n"
            with open(index, "rb") as file:
                raw = file.read()
            save(index, raw + line.encode())
            appended.append(line)
            over.wait(0.005)

    thread = threading.Thread(target=other)
    thread.start()
    done = []
    try:
        for number in range(40):
            try:
                write(shared, project, name=f"n{number}")
            except RevisionConflict:
                continue
            done.append(number)
    finally:
        over.set()
        thread.join(TOLD_S)
    # What the other writer overwrote from its old snapshot is told; what we acknowledged is never lost in silence.
    text = index_of(project)
    lost = [number for number in done if f"(n{number}.md)" not in text]
    shared.call("daemon.flush")
    told = [
        finding["target"]
        for finding in shared.call("audit.get", dir=project.dir, fresh=True)["findings"]
        if finding["code"] == "entry-lost"
    ]
    assert {f"n{number}.md" for number in lost} <= set(told) | {
        f["file"]
        for f in shared.call("audit.get", dir=project.dir)["findings"]
        if f["code"] == "fact-unindexed"
    }
    assert len(done) > 0


# -- forget, restore


def test_what_is_forgotten_is_had_back(shared, project):
    """File and entry go in one event; the version brings both back, with the old time, where the entry was."""
    project.make({"a.md": fact_text("a"), "b.md": fact_text("b"), "c.md": fact_text("c")})
    os.utime(project.memory / "b.md", ns=(1_700_000_000_123_456_789, 1_700_000_000_123_456_789))
    shared.call("daemon.flush", rescan=True)
    index, content = index_of(project), (project.memory / "b.md").read_bytes()
    listener = shared.listen(project)
    listener.forget()
    answer = shared.call("memory.forget", dir=project.dir, name="b")
    assert (answer["file"], answer["index"]) == ("b.md", "removed")
    assert not (project.memory / "b.md").exists()
    assert lines(project) == [entry("a.md").strip(), entry("c.md").strip()]
    listener.flush()
    assert sorted(listener.kinds()) == ["deleted", "updated"]
    assert listener.codes("appeared") == []
    [version] = shared.call("history.list", dir=project.dir, file="b.md")["versions"]
    assert (version["saved"], version["reason"]) == (answer["saved"], "forget")
    assert shared.call("history.show", saved=answer["saved"])["text"] == content.decode()
    back = shared.call("history.restore", saved=answer["saved"])
    assert (back["action"], back["index"]) == ("created", "inserted")
    assert (project.memory / "b.md").read_bytes() == content
    assert os.stat(project.memory / "b.md").st_mtime_ns == 1_700_000_000_123_456_789
    assert index_of(project) == index
    assert shared.call("history.undo", dir=project.dir)["files"]
    assert not (project.memory / "b.md").exists()
    shared.call("history.undo", dir=project.dir)
    assert index_of(project) == index


def test_a_mention_is_no_entry(shared, project):
    """A fact that another entry mentions gets its own line back all the same, where it was."""
    project.make({"a.md": fact_text("a"), "b.md": fact_text("b")})
    text = entry("a.md", hook="my hook") + entry("b.md", hook="more, see [A](a.md)")
    save(project.memory / "MEMORY.md", text)
    shared.call("daemon.flush")
    saved = shared.call("memory.forget", dir=project.dir, name="a")["saved"]
    assert shared.call("history.restore", saved=saved)["index"] == "inserted"
    assert index_of(project) == text


def test_a_hook_that_had_to_be_escaped_follows_all_the_same(shared, project):
    """A description that looks like a link is written so that it is none, and replaced like any other."""
    project.make({"b.md": fact_text("b")})
    shared.call("daemon.flush")
    write(shared, project, description="see [b](b.md) first")
    assert write(shared, project, description="plain now")["index"] == "updated"
    assert lines(project)[-1] == "- [deploy](deploy.md) — plain now"


def test_an_item_is_not_torn_apart(shared, project):
    """A sub-item with a link of its own stays with its entry."""
    project.make({"a.md": fact_text("a"), "b.md": fact_text("b")})
    text = entry("a.md") + "  - see also [B](b.md)\n- a rule\n"
    save(project.memory / "MEMORY.md", text)
    shared.call("daemon.flush")
    write(shared, project)
    text = index_of(project)
    assert entry("a.md") + "  - see also [B](b.md)\n" in text


def test_an_undo_takes_back_the_whole_act(shared, project):
    """A write that made a file and an entry: both go, and nothing else."""
    project.make({"a.md": fact_text("a")})
    shared.call("daemon.flush", rescan=True)
    before = index_of(project)
    write(shared, project)
    shared.call("history.undo", dir=project.dir)
    assert index_of(project) == before
    assert not (project.memory / "deploy.md").exists()
    shared.call("history.undo", dir=project.dir)
    assert (project.memory / "deploy.md").exists()
    assert lines(project)[1:] == ["- [deploy](deploy.md) — How we deploy"]


def test_an_undo_leaves_alone_what_was_written_since(shared, project):
    """A fact that another pen touched is told, with the way to have the old version all the same."""
    project.make({"deploy.md": fact_text("deploy", "first")})
    shared.call("daemon.flush", rescan=True)
    write(shared, project, description="second")
    save(project.memory / "deploy.md", fact_text("deploy", "third"))
    with pytest.raises(RevisionConflict, match="written again") as raised:
        shared.call("history.undo", dir=project.dir)
    assert "history restore" in raised.value.hint
    assert "third" in (project.memory / "deploy.md").read_text()


def test_another_pens_change_can_be_taken_back(shared, project):
    """Any version that the daemon saw; the restore is itself undoable."""
    project.make({"a.md": fact_text("a", body="one")})
    shared.call("daemon.flush", rescan=True)
    until(
        lambda: shared.call("memory.search", query="one", dir=project.dir)["hits"], "the first content saved"
    )
    (project.memory / "a.md").write_text(fact_text("a", body="two"))
    shared.call("daemon.flush")
    [version] = shared.call("history.list", dir=project.dir, file="a.md")["versions"]
    assert version["reason"] == "updated"
    shared.call("history.restore", saved=version["saved"])
    assert (project.memory / "a.md").read_text() == fact_text("a", body="one")
    shared.call("history.undo", dir=project.dir)
    assert (project.memory / "a.md").read_text() == fact_text("a", body="two")


def test_a_whole_directory_comes_back(shared, project):
    """Somebody removed it: what was in it can be restored all the same."""
    project.make({"a.md": fact_text("a", body="treasure"), "b.md": fact_text("b")})
    shared.call("daemon.flush", rescan=True)
    until(lambda: shared.call("memory.search", query="treasure", dir=project.dir)["hits"], "the words")
    index = index_of(project)
    shutil.rmtree(project.memory)
    shared.call("daemon.flush")
    versions = shared.call("history.list", dir=project.dir)["versions"]
    assert {version["file"] for version in versions} == {"a.md", "b.md", "MEMORY.md"}
    for version in sorted(versions, key=lambda version: version["file"]):
        shared.call("history.restore", saved=version["saved"])
    assert index_of(project) == index
    assert (project.memory / "a.md").read_text() == fact_text("a", body="treasure")


# -- search


def test_search_is_ranked_and_kept_up_to_date(shared, project):
    """A name before a description before a body; what changed is found as it is now."""
    project.make(
        {
            "body.md": fact_text("x", "y", body="about the zephyr"),
            "told.md": fact_text("v", "the zephyr, told"),
            "zephyr.md": fact_text("zephyr", "w"),
        }
    )
    shared.call("daemon.flush")

    def found(query):
        return [hit["file"] for hit in shared.call("memory.search", query=query, dir=project.dir)["hits"]]

    until(lambda: len(found("zephyr")) == 3, "three hits")
    assert found("zephyr") == ["zephyr.md", "told.md", "body.md"]
    [hit] = shared.call("memory.search", query="about zephyr", dir=project.dir)["hits"][:1]
    assert hit["file"] == "body.md"
    assert "zephyr" in hit["snippet"]
    assert (project.memory / "body.md").read_text().splitlines()[hit["line"] - 1] == "about the zephyr"
    project.fact("body.md", body="沙漠里的季风")
    shared.call("daemon.flush")
    assert found("季风") == ["body.md"]
    assert found("about zephyr") == [] or "body.md" not in found("about zephyr")
    shared.call("memory.forget", dir=project.dir, name="zephyr")
    shared.call("daemon.flush")
    assert "zephyr.md" not in found("zephyr")


def test_a_session_finds_its_own_memories_only(shared, project):
    """Another project's words are not told."""
    project.make({"a.md": fact_text("a", body="xylophone")})
    other = shared.machine.project("elsewhere-search")
    other.make({"b.md": fact_text("b", body="xylophone")})
    shared.call("daemon.flush")
    until(lambda: len(shared.call("memory.search", query="xylophone")["hits"]) == 2, "both")
    client = shared.client(cwd=str(project.cwd), id="searcher")
    assert [hit["dir"] for hit in client.call("memory.search", query="xylophone")["hits"]] == [project.dir]
    with pytest.raises(Refused):
        client.call("memory.search", query="xylophone", dir=other.dir)


# -- forgetting for good


def test_forgetting_is_real(machine):
    """After a purge no byte of it is left anywhere in the state directory, compressed or plain."""
    secret, hook, name = "hunter2 correct horse battery", "unmistakable description", "unmistakable-name"
    project = machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start()
    client = daemon.client(cwd=str(project.cwd), id="keeper")
    daemon.listen(project)
    write(client, project, name=name, description=hook, body=secret + "\n")
    write(client, project, name=name, description=hook + " two", body=secret + " again\n")
    client.call("memory.read", name=name)
    assert client.call("memory.search", query="hunter2")["hits"]
    client.call("daemon.flush")
    assert remains(machine.state, [secret, hook]) != []
    answer = client.call("memory.forget", name=name, purge=True)
    assert answer["saved"] is None
    assert remains(machine.state, [secret, hook, "hunter2"]) == []
    assert client.call("memory.search", query="hunter2")["hits"] == []
    assert client.call("history.list", file=f"{name}.md")["versions"] == []
    daemon.stop()
    assert remains(machine.state, [secret, hook, "hunter2"]) == []


def test_a_purge_follows_renames(machine):
    """Under a former name lies the same text: it goes, too."""
    project = machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start()
    write(daemon, project, name="zq", body="hunter2\n")
    os.rename(project.memory / "zq.md", project.memory / "zq2.md")
    daemon.call("daemon.flush")
    daemon.call("memory.forget", dir=project.dir, name="zq2.md", purge=True)
    assert remains(machine.state, ["hunter2"]) == []
    daemon.stop()


def test_a_purge_of_the_history_removes_former_versions(machine):
    """Of one file, or of the directory; what the file has now is still found."""
    project = machine.project().make(
        {"a.md": fact_text("a", body="oldsecret one"), "b.md": fact_text("b", body="oldsecret two")}
    )
    daemon = machine.start()
    until(lambda: len(daemon.call("memory.search", query="oldsecret")["hits"]) == 2, "the words")
    for file in ("a.md", "b.md"):
        project.fact(file, body="harmless")
    daemon.call("daemon.flush")
    assert daemon.call("history.purge", dir=project.dir, file="a.md") == {"removed": 1}
    assert remains(machine.state, ["oldsecret one"]) == []
    assert remains(machine.state, ["oldsecret two"]) != []
    assert daemon.call("history.purge", dir=project.dir) == {"removed": 1}
    assert remains(machine.state, ["oldsecret"]) == []
    assert len(daemon.call("memory.search", query="harmless")["hits"]) == 2
    daemon.stop()


def test_a_purge_reaches_what_the_model_does_not_see(machine):
    """Entries in comments and code fences of saved indexes say what the fact said: they go, too."""
    project = machine.project().make({"a.md": fact_text("a"), "zq.md": fact_text("zq", "unmistakable hook")})
    hidden = (
        f"<!--\n{entry('zq.md', hook='unmistakable hook one')}{entry('zq.md', hook='unmistakable two')}-->\n"
        f"\n```\n{entry('zq.md', hook='unmistakable three')}```\n"
    )
    daemon = machine.start()
    daemon.call("daemon.flush")
    for more in (hidden, hidden + "\nprose\n", ""):
        text = "# Memory\n\n" + entry("a.md") + entry("zq.md", hook="unmistakable hook") + "\n" + more
        save(project.memory / "MEMORY.md", text)
        daemon.call("daemon.flush")
    assert remains(machine.state, ["unmistakable two"]) != []
    daemon.call("memory.forget", dir=project.dir, name="zq.md", purge=True)
    assert remains(machine.state, ["unmistakable"]) == []
    texts = [
        daemon.call("history.show", saved=version["saved"])["text"]
        for version in daemon.call("history.list", dir=project.dir, file="MEMORY.md")["versions"]
    ]
    assert texts
    assert all(entry("a.md") in text for text in texts)
    daemon.stop()


def test_half_an_act_is_not_taken_back(machine):
    """What an act replaced was purged: neither its other half nor an earlier act is taken back, and that is said."""
    project = machine.project().make({"a.md": fact_text("a"), "b.md": fact_text("b")})
    daemon = machine.start()
    write(daemon, project, name="earlier")
    write(daemon, project, name="a.md", description="Other words")
    before = read_all(project)
    daemon.call("history.purge", dir=project.dir, file="a.md")
    for _ in range(2):
        with pytest.raises(Refused, match="purged"):
            daemon.call("history.undo", dir=project.dir)
        assert read_all(project) == before
        daemon.stop()
        daemon = machine.start()
    assert {version["file"] for version in daemon.call("history.list", dir=project.dir)["versions"]} <= {
        "MEMORY.md",
        "earlier.md",
    }
    write(daemon, project, name="later")
    daemon.call("history.undo", dir=project.dir)
    assert read_all(project) == before
    daemon.call("memory.forget", dir=project.dir, name="b.md", purge=True)
    with pytest.raises(Refused, match="purged"):
        daemon.call("history.undo", dir=project.dir)
    assert daemon.call("history.purge", dir=project.dir)["removed"] > 0
    with pytest.raises(NotFound, match="nothing was written"):
        daemon.call("history.undo", dir=project.dir)
    daemon.stop()


def test_an_undo_keeps_the_entry_of_a_fact_whose_history_was_purged(machine):
    """Saved indexes have lost its entry; what is taken back is another fact's, and the entry stays."""
    project = machine.project().make({"a.md": fact_text("a"), "b.md": fact_text("b")})
    daemon = machine.start()
    write(daemon, project, name="new")
    daemon.call("history.purge", dir=project.dir, file="a.md")
    [answer] = daemon.call("history.undo", dir=project.dir)["files"]
    assert (answer["file"], answer["action"], answer["index"]) == ("new.md", "removed", "removed")
    assert index_of(project) == "# Memory\n\n" + entry("a.md") + entry("b.md")
    daemon.stop()


def test_an_undo_says_what_became_of_each_entry(shared, project):
    """One that the act did not touch is unchanged, also where the index as a whole goes back."""
    project.make({"a.md": fact_text("a"), "b.md": fact_text("b")})
    shared.call("daemon.flush", rescan=True)
    write(shared, project, name="a.md", description="What it says", body="only the body")
    [answer] = shared.call("history.undo", dir=project.dir)["files"]
    assert (answer["file"], answer["action"], answer["index"]) == ("a.md", "overwrote", "unchanged")
    write(shared, project, name="a.md", description="Other words")
    words = {one["file"]: one["index"] for one in shared.call("history.undo", dir=project.dir)["files"]}
    assert words == {"a.md": "updated", "MEMORY.md": "unchanged"}
    save(project.memory / "MEMORY.md", "# Memory\n\n- [Mine](a.md) - my own words\n")
    shared.call("daemon.flush")
    write(shared, project, name="b.md", body="again")
    words = {one["file"]: one["index"] for one in shared.call("history.undo", dir=project.dir)["files"]}
    assert words["b.md"] == "removed"


@pytest.mark.parametrize("words", ["revision", "no such file", "touched"])
def test_a_refused_act_leaves_no_directory_behind(machine, words):
    """Restore, undo and write into a directory that is gone: refused, it is not made, and nothing is told."""
    project = machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start()
    write(daemon, project, name="new")
    write(daemon, project, name="new", body="again")
    versions = daemon.call("history.list", dir=project.dir)["versions"]
    shutil.rmtree(project.memory.parent)
    listener = daemon.listen(project)
    listener.forget()
    if words == "touched":
        with pytest.raises(RevisionConflict):
            daemon.call("history.undo", dir=project.dir)
    elif words == "revision":
        [version] = [one for one in versions if one["file"] == "new.md" and one["contentHash"]][:1]
        with pytest.raises(RevisionConflict):
            daemon.call("history.restore", saved=version["saved"], ifRevision="mtime:1:size:1")
        with pytest.raises(RevisionConflict):
            write(daemon, project, ifRevision="mtime:1:size:1")
    else:
        absent = [one for one in versions if one["contentHash"] is None and one["file"] == "new.md"]
        for version in absent:
            with pytest.raises(NotFound):
                daemon.call("history.restore", saved=version["saved"])
    assert not project.memory.parent.exists()
    listener.flush()
    assert listener.heard == []
    daemon.stop()


def test_an_act_that_fails_takes_the_directory_away_that_it_made(machine):
    """What cannot be written at all leaves nothing: neither the directory nor what is above it."""
    machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start()
    other = machine.project("other")
    with pytest.raises(Refused):
        daemon.call("memory.write", cwd=str(other.cwd), **{**NOTE, "name": "../x"})
    assert not other.memory.parent.exists()
    assert daemon.call("dirs.list")["total"] == 1
    daemon.stop()


def test_acts_without_a_history_are_named_when_they_cannot_be_taken_back(machine):
    """Once the history is on again: which files the last act wrote, and when; no earlier act goes in its place."""
    project = machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start()
    write(daemon, project, name="mine")
    daemon.stop()
    machine.configure("history:\n  enabled: false\n")
    daemon = machine.start()
    write(daemon, project, name="other")
    daemon.stop()
    machine.configure("")
    daemon = machine.start()
    before = read_all(project)
    with pytest.raises(
        Refused, match=r"a write of `MEMORY\.md`, `other\.md` .* while the history was switched off"
    ):
        daemon.call("history.undo", dir=project.dir)
    assert read_all(project) == before
    assert all(version["file"] for version in daemon.call("history.list", dir=project.dir)["versions"])
    daemon.call("history.purge", dir=project.dir, file="other.md")
    with pytest.raises(Refused, match="switched off") as raised:
        daemon.call("history.undo", dir=project.dir)
    assert "other.md" not in str(raised.value)
    write(daemon, project, name="third")
    daemon.call("history.undo", dir=project.dir)
    assert read_all(project) == before
    daemon.stop()


def read_all(project):
    """Give all files of a project's memory."""
    return {path.name: path.read_bytes() for path in project.memory.iterdir()}


def remains(place, texts):
    """Name the files below a place that hold one of the texts, plain, as JSON, or in a saved version."""
    found = []
    for path in Path(place).rglob("*"):
        if path.is_file() and any(text.encode() in path.read_bytes() for text in texts):
            found.append(path.name)
    with sqlite3.connect(f"file:{place / 'state.db'}?mode=ro", uri=True) as connection:
        for (data,) in connection.execute("select data from contents"):
            if any(text.encode() in zlib.decompress(data) for text in texts):
                found.append("a saved version")
    connection.close()
    return found


# -- what cannot be written to


def test_an_unreadable_fact_is_not_overwritten(shared, project):
    """Neither by write nor by forget."""
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    project.make({"deploy.md": fact_text("deploy")})
    (project.memory / "deploy.md").chmod(0)
    shared.call("daemon.flush")
    with pytest.raises(Unreadable):
        write(shared, project, name="deploy.md")


@pytest.mark.parametrize("when_s", [10_413_792_000, 1_796_000_000_000, -(1 << 40)])
def test_a_time_beyond_what_a_database_holds(machine, when_s):
    """A file of the year 2300, or of one that never comes: told, saved, found, written, had back."""
    project = machine.project().make({"a.md": fact_text("a"), "b.md": fact_text("b", body="needle")})
    os.utime(project.memory / "b.md", (when_s, when_s))
    if os.stat(project.memory / "b.md").st_mtime != when_s:
        pytest.skip("this file system holds no such time")
    daemon = machine.start()
    until(lambda: daemon.call("memory.search", query="needle", dir=project.dir)["hits"], "the words")
    os.utime(project.memory / "a.md", (when_s, when_s))
    with open(project.memory / "a.md", "a") as file:
        file.write("more\n")
    os.utime(project.memory / "a.md", (when_s, when_s))
    daemon.call("daemon.flush", rescan=True)
    write(daemon, project, name="b")
    assert daemon.call("history.list", dir=project.dir)["versions"][0]["file"] in (
        "b.md",
        "MEMORY.md",
    )
    daemon.call("history.undo", dir=project.dir)
    assert "needle" in (project.memory / "b.md").read_text()
    daemon.stop()


def test_a_version_is_not_put_into_another_directory(machine):
    """Where a directory was, a link to another project's may lie by now."""
    here, there = machine.project("here"), machine.project("there")
    for project in (here, there):
        project.make({"a.md": fact_text(project.cwd.name)})
    daemon = machine.start()
    write(daemon, here, name="a.md", description="changed")
    [version, *_] = daemon.call("history.list", dir=here.dir, file="a.md")["versions"]
    shutil.rmtree(here.memory)
    here.memory.symlink_to(there.memory)
    daemon.call("daemon.flush", rescan=True)
    with pytest.raises(Refused, match="leads to"):
        daemon.call("history.restore", saved=version["saved"])
    assert "name: there" in (there.memory / "a.md").read_text()
    daemon.stop()


def test_nothing_is_taken_back_without_a_history(machine):
    """An act that nobody remembers must not make an older one be taken back."""
    project = machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start()
    write(daemon, project, name="mine")
    daemon.stop()
    machine.configure("history:\n  enabled: false\n")
    daemon = machine.start()
    write(daemon, project, name="other")
    with pytest.raises(Refused, match="switched off"):
        daemon.call("history.undo", dir=project.dir)
    assert (project.memory / "mine.md").exists()
    assert remains(machine.state, ["name: other"]) == []
    daemon.stop()


def test_a_directory_that_nobody_allowed_is_not_written(shared, project):
    """It is refused, and not made."""
    strange = project.cwd / "elsewhere" / "memory"
    with pytest.raises((Refused, NotFound)):
        shared.call("memory.write", dir=str(strange), **NOTE)
    assert not strange.exists()
