"""The MCP server, driven by the official client library: a client starts it, lists its tools, calls each, daemon or not."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.transcripts.machine import until

pytest.importorskip("mcp", reason="the package `mcp` is not installed: pip install 'zcsyncd[mcp]'")

import anyio
from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

READING = {"memory_list", "memory_read", "memory_search", "memory_audit", "memory_news"}


def drive(machine, cwd, act, *words):
    """Start the server as a client does and let `act` talk to it; give what `act` gave."""
    given = []

    async def run():
        start = StdioServerParameters(
            command=sys.executable,
            args=["-P", "-m", "zcsyncd", "mcp", *words],
            env=machine.env,
            cwd=str(cwd),
        )
        async with stdio_client(start) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            given.append(await act(session))

    anyio.run(run)
    return given[0]


async def call(session, tool, /, **arguments):
    """Call a tool; give its text and its data, which are short together."""
    result = await session.call_tool(tool, arguments)
    text = "".join(one.text for one in result.content)
    assert len(text.encode()) + len(json.dumps(result.structured_content).encode()) < 40_000
    return result.is_error, text, result.structured_content


def test_the_tools_that_are_listed(running, project):
    """Those that read say so; the one that writes, and the news, only as asked for."""

    async def listed(session):
        return (await session.list_tools()).tools

    found = drive(running.machine, project.cwd, listed)
    assert {tool.name for tool in found} == READING
    assert all(tool.annotations.read_only_hint and tool.description for tool in found)
    found = drive(running.machine, project.cwd, listed, "--no-news", "--write")
    assert {tool.name for tool in found} == READING - {"memory_news"} | {"memory_write"}
    [writing] = [tool for tool in found if tool.name == "memory_write"]
    assert not writing.annotations.read_only_hint
    assert writing.input_schema["required"] == ["name", "description", "type", "body"]


def test_each_tool(running, project):
    """Text for the model, and the same as data; what another session did is news once."""
    other = running.client(cwd=str(project.cwd), id="other")

    async def act(session):
        failed, text, data = await call(
            session, "memory_write", name="tide", description="When it turns", type="project", body="At noon."
        )
        assert (failed, data["action"], data["index"]) == (False, "created", "inserted"), text
        assert str(project.memory / "tide.md") in text
        failed, text, data = await call(session, "memory_list")
        assert not failed
        assert {row["file"] for row in data["facts"]} == {"a.md", "b.md", "tide.md"}
        assert "When it turns" in text
        failed, text, data = await call(session, "memory_read", name="tide")
        assert not failed
        assert data["body"].strip() == "At noon."
        assert "At noon." in text
        failed, text, data = await call(session, "memory_search", query="noon")
        assert [row["file"] for row in data["hits"]] == ["tide.md"]
        failed, text, data = await call(session, "memory_audit", severity="info")
        assert not failed
        assert data["total"] == len(data["findings"])
        assert "changed" in (await call(session, "memory_news"))[1]
        other.call("memory.write", name="ebb", description="Later", type="project", body="x", mode="create")
        assert "ebb" in (await call(session, "memory_news"))[1]
        failed, text, data = await call(session, "memory_news")
        assert "ebb" not in text
        assert data["changes"] == []

    drive(running.machine, project.cwd, act, "--write")
    assert "At noon." in (project.memory / "tide.md").read_text()
    assert "tide.md" in (project.memory / "MEMORY.md").read_text()


WRONG = (
    ("memory_read", {"name": "gone"}, "gone"),
    ("memory_read", {}, "name"),
    ("memory_read", {"name": 5}, "name"),
    ("memory_read", {"name": "a", "dir": "/etc"}, "no argument dir"),
    ("memory_read", {"name": "MEMORY.md"}, "MEMORY.md"),
    ("memory_search", {"query": ""}, "query"),
    (
        "memory_write",
        {"name": "x", "description": "x", "type": "project", "body": "x"},
        "no tool memory_write",
    ),
    ("memory_nothing", {}, "no tool"),
)


def test_what_is_wrong_is_an_error_for_the_model(running, project):
    """A result that says what was wrong; the connection goes on."""

    async def act(session):
        for tool, arguments, says in WRONG:
            failed, text, _ = await call(session, tool, **arguments)
            assert failed
            assert says in text
        assert not (await call(session, "memory_list"))[0]

    drive(running.machine, project.cwd, act)


def test_its_scope_is_its_own_project(running, project):
    """Facts of another project are neither listed nor found."""
    elsewhere = running.machine.project("another-one").make({"secret.md": "a word of its own: xylophone\n"})
    running.call("daemon.flush", rescan=True)

    async def act(session):
        assert (await call(session, "memory_read", name="secret"))[0]
        assert (await call(session, "memory_search", query="xylophone"))[2]["hits"] == []

    drive(running.machine, project.cwd, act)
    assert elsewhere.memory.exists()


def test_long_results_are_cut(running, project):
    """Under the bound, text and data together, and the model is told."""
    for number in range(300):
        project.fact(
            f"fact-{number}.md", description="A description of some length, in which 数据库 stands " * 2
        )
    project.fact("long.md", body="数据库\n" * 60_000)
    running.call("daemon.flush")

    async def act(session):
        for name, arguments in (
            ("memory_list", {}),
            ("memory_read", {"name": "long", "full": True}),
            ("memory_audit", {"severity": "info"}),
        ):
            result = await session.call_tool(name, arguments)
            text = result.content[0].text
            both = json.dumps([text, result.structured_content], ensure_ascii=False)
            assert len(both.encode()) <= 20_000
            assert len(both.encode()) > 8_000, name
            assert "offset" in text or "cut here" in text

    drive(running.machine, project.cwd, act)


def test_without_a_daemon_each_call_is_an_error_and_the_next_one_finds_it(machine):
    """Absent, there, hung, gone: told within the deadline, never waited for longer."""
    project = machine.project().make({"a.md": "x"})

    async def act(session):
        failed, text, _ = await call(session, "memory_list")
        assert failed
        assert "zcsyncd run" in text
        daemon = await anyio.to_thread.run_sync(machine.start)
        assert not (await call(session, "memory_list"))[0]
        os.kill(daemon.pid, signal.SIGSTOP)
        begin = time.monotonic()
        failed, text, _ = await call(session, "memory_list")
        assert failed
        assert time.monotonic() - begin < 9
        os.kill(daemon.pid, signal.SIGCONT)
        assert not (await call(session, "memory_list"))[0]
        daemon.kill()
        assert (await call(session, "memory_news"))[0]

    drive(machine, project.cwd, act)


def test_the_session_ends_with_the_client(running, project):
    """Nobody could ask for it again."""

    def own():
        rows = running.call("session.list")["sessions"]
        return [row for row in rows if row["host"] == "mcp" and row["cwd"] == str(project.cwd)]

    async def act(session):
        await call(session, "memory_news")
        assert len(own()) == 1

    drive(running.machine, project.cwd, act)
    until(lambda: not own(), "the end of the session")


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_versions_are_negotiated(running, project, version):
    """Line by line, as a client of that time talks; nothing but JSON comes on stdout, and it ends with its stdin."""
    said = [
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": version,
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
        {"id": 3, "method": "tools/call", "params": {"name": "memory_read", "arguments": {"name": "a"}}},
        {"id": 4, "method": "no/such"},
    ]
    server = subprocess.Popen(
        running.machine.command("mcp"),
        env=running.machine.env,
        cwd=project.cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    answers = {}
    with server:
        for one in said:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **one}).encode() + b"\n")
            server.stdin.flush()
            while "id" in one and one["id"] not in answers:
                message = json.loads(server.stdout.readline())
                answers[message.get("id")] = message
        server.stdin.close()
        assert server.stdout.read() == b""
        assert server.wait(20) == 0
    assert answers[1]["result"]["protocolVersion"] == version
    assert answers[1]["result"]["serverInfo"]["name"] == "zcsyncd"
    assert {tool["name"] for tool in answers[2]["result"]["tools"]} == READING
    assert answers[3]["result"]["structuredContent"]["file"] == "a.md"
    assert "error" in answers[4]


def test_without_the_package_it_says_what_to_install(machine, tmp_path):
    """One line and a hint on stderr, nothing on stdout."""
    script = (
        "import sys; sys.modules['mcp'] = None\nfrom zcsyncd.__main__ import main\nsys.exit(main(['mcp']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=machine.env,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert (done.returncode, done.stdout) == (7, "")
    assert "zcsyncd[mcp]" in done.stderr
