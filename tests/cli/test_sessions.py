"""`status --sessions` and `events --session`: which session is meant, and what is about it."""

import json
import signal

import pytest

from tests.bus.bus_thread import BusThread
from tests.cli.fake_daemon import scripted
from zcsyncd.bus.codec import data_text

PI = {
    "host": "pi",
    "id": "0198f1c2",
    "cwd": "/home/u/app",
    "firstAt": "2026-01-01T00:00:00.000Z",
    "lastContactAt": "2026-01-02T00:00:00.000Z",
    "index": "current",
    "reads": 1,
    "news": 0,
}
OTHER = {**PI, "id": "0198aaaa", "cwd": "/home/u/other"}
LIST = {"total": 2, "sessions": [PI, OTHER]}


def test_sessions_are_listed(shell):
    """`status --sessions` asks for sessions page by page; with --json it gives all of them."""
    pages = [{"total": 2, "sessions": [PI]}, {"total": 2, "sessions": [OTHER]}]
    with scripted(shell, session_list=pages) as daemon:
        assert shell.json("status", "--sessions") == LIST
        assert [params["offset"] for _, params in daemon.asked] == [0, 1]
    with scripted(shell, session_list=LIST):
        shown = shell.run("status", "--sessions").stdout
        assert [line.split()[:2] for line in shown.splitlines()[1:]] == [
            ["pi", PI["id"]],
            ["pi", OTHER["id"]],
        ]


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("pi", 2, "'pi' is no HOST:ID, as `pi:0198f`"),
        ("pi:", 2, "'pi:' is no HOST:ID, as `pi:0198f`"),
        ("omp:0198f1c2", 5, "no session omp:0198f1c2 is known"),
        ("pi:0198", 6, "2 sessions begin with pi:0198"),
    ],
)
def test_a_session_has_to_be_meant(shell, name, code, said):
    """What names no session, or several, is told, and where they are listed."""
    with scripted(shell, session_list=LIST):
        done = shell.run("events", "--session", name)
    assert (done.returncode, done.stdout) == (code, "")
    first, second = done.stderr.splitlines()
    assert first == f"zcsyncd: {said}"
    assert "status --sessions` lists them" in second


def test_a_session_is_watched_by_its_directories(shell):
    """Nobody says hello in a session's name: its working directory and its others are subscribed to."""
    answers = {
        "session_list": LIST,
        "dirs_resolve": {"others": ["/m/other", 5]},
        "events_subscribe": {"error": {"code": -32003, "message": "no", "data": {"code": "refused"}}},
    }
    with scripted(shell, **answers) as daemon:
        assert shell.run("events", "--session", "pi:0198f", "--topic", "memory/*").returncode == 7
    assert [method for method, _ in daemon.asked] == ["session.list", "dirs.resolve", "events.subscribe"]
    assert daemon.asked[-1][1] == {"topics": ["memory/*"], "cwd": PI["cwd"], "dirs": ["/m/other"]}


class WithSessions(BusThread):
    """A bus that knows sessions."""

    async def do_session_list(self, call):
        return {"total": 2, "sessions": [{**PI, "dirs": ["/m"]}, OTHER]}

    def read(self, host, session, n):
        data = {"session": {"host": host, "id": session}, "absolutePath": f"/m/{n}.md", "kind": "full"}

        async def go():
            event = self.journal.add("read-state/read", "/m", data_text(data), (host, session))
            self.hub.announce([event])

        self.run(go())


def test_only_its_own_reads_are_shown(shell):
    """Of reads only the session's own are shown, of everything else what happens in its directories."""
    bus = WithSessions(shell.place)
    bus.start()
    shell.env["ZCSYNCD_SOCKET"] = bus.address
    try:
        process = shell.start("events", "--session", "pi:0198f", "--json")
        bus.until(lambda: bus.server.counters.subscriptions == 1)
        bus.read("pi", OTHER["id"], 1)
        bus.publish({"changes": []}, directory="/elsewhere")
        bus.publish({"changes": []})
        bus.read("pi", PI["id"], 2)
        events = [json.loads(process.stdout.readline()) for _ in range(2)]
        assert [event["topic"] for event in events] == ["memory/changed", "read-state/read"]
        assert events[1]["data"]["absolutePath"] == "/m/2.md"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20)[0] == ""
        assert process.returncode == 130
    finally:
        bus.stop()
