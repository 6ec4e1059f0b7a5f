"""Directories that a project's file names: over restarts, changes of the file, and links that lead elsewhere."""

import json

import pytest

from zcsyncd.errors import NotFound, Refused

FACT = "---\nname: {0}\ndescription: about {0}\nmetadata:\n  node_type: memory\n  type: user\n---\n\n{0} says so\n"


def project_with(machine, **named):
    """Make a project whose file names memory directories inside it; give its path."""
    app = machine.home / "code" / "app"
    (app / ".pi").mkdir(parents=True)
    for name in ("m1", "m2"):
        (app / name).mkdir()
        (app / name / f"{name}.md").write_text(FACT.format(name))
    name_directory(app, **named)
    return app


def name_directory(app, **named):
    (app / ".pi" / "zcode-memory.json").write_text(json.dumps(named))


def session(daemon, app):
    return daemon.client(host="pi", id="s1", cwd=str(app), reason="start")


def files(client):
    return [fact["file"] for fact in client.call("memory.list")["facts"]]


def test_it_is_kept_over_a_restart(machine):
    """What changed while the daemon was down is told as that, not as a new directory."""
    app = project_with(machine, dir="m1")
    daemon = machine.start()
    client = session(daemon, app)
    assert files(client) == ["m1.md"]
    cursor = daemon.call("daemon.flush")["cursor"]
    daemon.stop()
    (app / "m1" / "m1.md").write_text(FACT.format("other"))
    daemon = machine.start()
    listener = daemon.listen(since=cursor)
    listener.flush()
    assert listener.kinds("m1.md") == ["updated"]
    assert not [event for event in listener.heard if event["topic"].startswith("memory/dir-")]


def test_another_directory_in_the_file_is_followed(machine):
    """At its next call the session has the new one; the old one is let go of."""
    app = project_with(machine, dir="m1")
    daemon = machine.start()
    client = session(daemon, app)
    assert files(client) == ["m1.md"]
    name_directory(app, dir="m2")
    assert files(client) == ["m2.md"]
    assert [row["dir"] for row in daemon.call("dirs.list")["dirs"]] == [str(app / "m2")]


def test_a_link_that_leads_out_of_the_project_is_not_followed(machine):
    """A directory that was the project's own and becomes a link to private notes is asked for, read by nobody."""
    app = project_with(machine, dir="m1")
    private = machine.home / "private"
    private.mkdir()
    (private / "secret.md").write_text(FACT.format("secret"))
    daemon = machine.start()
    client = session(daemon, app)
    assert files(client) == ["m1.md"]
    (app / "m1" / "m1.md").unlink()
    (app / "m1").rmdir()
    (app / "m1").symlink_to(private)
    daemon.call("daemon.flush", rescan=True)
    for name in ("secret", "secret.md", "m1"):
        with pytest.raises((Refused, NotFound)):
            client.call("memory.read", name=name)
    assert daemon.call("dirs.list")["total"] == 0
    assert [row["dir"] for row in daemon.call("status")["asked"]] == [str(app / "m1")]
