"""The plugin in a real omp, whose model is a stub on this machine. Not among the tests that every run has (`make test-pi`)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.plugins.pi.hosts import Desk, Model, Rpc, omp_command
from tests.transcripts.machine import Machine, Project, Running, fact_text, new_machine


@pytest.fixture
def machine() -> Iterator[Machine]:
    made = new_machine()
    yield made
    made.close()


@pytest.fixture
def project(machine: Machine) -> Project:
    return machine.project().make({"short.md": fact_text("short", "A short one")})


@pytest.fixture
def daemon(machine: Machine, project: Project) -> Running:
    return machine.start()


@pytest.fixture
def model() -> Iterator[Model]:
    made = Model()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def desk(machine: Machine, project: Project, model: Model) -> Desk:
    made = Desk(machine, project.cwd)
    provider = {
        "baseUrl": model.url,
        "api": "openai-completions",
        "apiKey": "none",
        "models": [{"id": "stub", "name": "stub", "contextWindow": 100_000, "maxTokens": 4_096}],
    }
    # JSON is YAML, too.
    (made.agent / "models.yml").write_text(json.dumps({"providers": {"stub": provider}}))
    return made


def shown(model: Model) -> str:
    return json.dumps(model.asked[-1]["messages"], ensure_ascii=False)


def test_a_print_run(daemon, desk, project, model):
    """`omp -p`: the index is before the model once, our tools are called, and a write lands on disk and in the index."""
    calls = [
        ["memory_read", {"name": "short"}],
        ["memory_write", {"name": "new-one", "description": "What is new", "type": "user", "body": "It."}],
    ]
    done = desk.run(omp_command("-p", "--model", "stub/stub", "CALL " + json.dumps(calls)))
    assert done.returncode == 0, done.stderr
    assert "done" in done.stdout
    assert shown(model).count("[zcode-memory] The index") == 1
    assert "Body." in shown(model)
    assert "- [new-one](new-one.md) — What is new" in (project.memory / "MEMORY.md").read_text()


def test_without_a_daemon(desk, project, model):
    """Without a daemon omp goes on: the index is there, and a write is refused with the reason."""
    calls = [["memory_write", {"name": "n", "description": "d", "type": "user", "body": "b"}]]
    done = desk.run(omp_command("-p", "--model", "stub/stub", "CALL " + json.dumps(calls)))
    assert done.returncode == 0, done.stderr
    assert "Nothing was written" in shown(model)
    assert not (project.memory / "n.md").exists()


def test_a_session_switch_and_news(daemon, desk, project, model):
    """In RPC mode: news with the next prompt, once; a new session has its own index and is known to the daemon."""
    rpc = Rpc(desk, omp_command("--mode", "rpc", "--model", "stub/stub"), end="agent_end")
    try:
        rpc.prompt("one")
        other = daemon.client(host="zcode", id="z", cwd=str(project.cwd))
        other.call(
            "memory.write", name="told", description="What is told", type="user", body="b", mode="create"
        )
        rpc.prompt("two")
        assert shown(model).count("News of the shared memory") == 1
        rpc.prompt("three")
        assert shown(model).count("News of the shared memory") == 1
        assert shown(model).count("[zcode-memory] The index") == 1
        rpc.call("new_session")
        rpc.prompt("four")
        assert shown(model).count("[zcode-memory] The index") == 1
        sessions = [row for row in daemon.call("session.list")["sessions"] if row["host"] == "omp"]
        assert len(sessions) == 2
        daemon.kill()
        rpc.prompt("five")
    finally:
        rpc.close()
