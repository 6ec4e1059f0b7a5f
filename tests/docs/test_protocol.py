"""docs/protocol.md, "Two sessions, one memory": the conversation, held with a real daemon, line for line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.transcripts.machine import CHECKOUT, Contract, Machine, Running, fact_text, save

PAGE = (CHECKOUT / "docs" / "protocol.md").read_text("utf-8")
LINES = re.findall(r"^([AB]) ([→←]) (.*)$", PAGE, re.MULTILINE)
CWD = "/home/u/app"
DIRECTORY = "/home/u/.zcode/cli/memories/projects/app-0123456789abcdef/memory"
OURS = {"token", "cursor", "revision", "contentHash", "textHash", "time", "since"}
"""Members that are others each time: what the daemon gives for one stands for the page's in later lines."""


class Stage:
    """The page's words to those of this machine, and two connections."""

    def __init__(self, words: dict[str, str]) -> None:
        self.words = words
        self.files: dict[str, Any] = {}
        self.asked: dict[str, str] = {}

    def here(self, text: str) -> str:
        for theirs, ours in self.words.items():
            text = text.replace(json.dumps(theirs)[1:-1], json.dumps(ours)[1:-1])
        return text

    def compare(self, shown: Any, real: Any, place: str) -> None:
        """What the page shows is what came; members that it leaves out may be there."""
        if isinstance(shown, dict):
            assert isinstance(real, dict), place
            for name, value in shown.items():
                assert name in real, f"{place}.{name} is missing in {real}"
                if name in OURS and value is not None:
                    self.words[str(value)] = str(real[name])
                else:
                    self.compare(value, real[name], f"{place}.{name}")
        elif isinstance(shown, list):
            assert isinstance(real, list), place
            assert len(shown) == len(real), f"{place}: {real}"
            for number, (one, other) in enumerate(zip(shown, real, strict=True)):
                self.compare(one, other, f"{place}[{number}]")
        else:
            assert real == shown, place


@pytest.fixture
def stage(machine: Machine, daemon: Running) -> Iterator[Stage]:
    """One project with one fact, as the conversation finds it."""
    project = machine.project().make({"deploy.md": fact_text("deploy", "How the service is deployed")})
    save(project.memory / "MEMORY.md", "# Memory\n\n- [deploy](deploy.md) — How the service is deployed\n")
    daemon.call("daemon.flush")
    made = Stage({DIRECTORY: project.dir, CWD: str(project.cwd)})
    for who in "AB":
        made.files[who] = daemon.plain_socket().makefile("rwb")
    yield made
    for file in made.files.values():
        file.close()


def test_the_conversation(stage: Stage, daemon: Running) -> None:
    """Every request of the page gets the answer of the page."""
    contract = Contract(daemon.call("describe"))
    for who, arrow, text in LINES:
        if arrow == "→":
            line = stage.here(text)
            stage.asked[who] = json.loads(line)["method"]
            stage.files[who].write(line.encode() + b"\n")
            stage.files[who].flush()
            continue
        real = json.loads(stage.files[who].readline())
        stage.compare(json.loads(stage.here(text)), real, stage.asked[who])
        if "result" in real:
            contract.check_result(stage.asked[who], real["result"])
    assert len(LINES) > 20
