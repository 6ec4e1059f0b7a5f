"""docs/protocol.md says what the table says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from zcsyncd import errors
from zcsyncd.bus.codec import Request, parse_line
from zcsyncd.bus.requests import METHODS, TOPICS, check_params, describe

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text("utf-8")
CONVERSATION = re.findall(r"^[AB] [→←] .*$", PAGE, re.MULTILINE)
EXAMPLES = [json.loads(block) for block in re.findall(r"```json\n(.*?)\n```", PAGE, re.DOTALL)]


def test_every_method_has_its_heading() -> None:
    """Each method of the table is a heading of the page, and no other is."""
    assert set(re.findall(r"^### ([a-z][a-zA-Z]*(?:\.[a-z]+)?)$", PAGE, re.MULTILINE)) == set(METHODS)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_parameter_is_named(name: str) -> None:
    """The page names each parameter of each method."""
    section = PAGE.split(f"\n### {name}\n")[1].split("\n### ")[0]
    if name == "hello":
        section = PAGE
    known = METHODS[name].params["properties"]
    assert isinstance(known, dict)
    missing = [each for each in known if f"`{each}`" not in section and f"`{each}?`" not in section]
    assert missing == []


def test_every_topic_is_in_the_page() -> None:
    """Each topic is named in the table of events; one that is not published is marked."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    named = {topic: row for row in rows for topic in re.findall(r"`([a-z-]+/[a-z-]+)`", row.split("|")[1])}
    unmarked = {topic for topic, row in named.items() if not row.split("|")[2].startswith(" *(not yet)*")}
    assert unmarked == set(TOPICS)


def test_every_error_is_in_the_page() -> None:
    """Each word that can come over the wire stands in the table with its code."""
    words = describe()["errors"]
    assert isinstance(words, dict)
    listed = {
        word: int(code) for code, word in re.findall(r"^\| (-32\d+) \| `([a-z-]+)` \|", PAGE, re.MULTILINE)
    }
    assert listed == words
    assert listed["not-found"] == errors.NotFound.wire_code


def test_examples_are_what_is_sent() -> None:
    """The examples of the page are requests that pass, answers and events that fit their schemas, in that order."""
    endpoint, *lines = EXAMPLES
    assert set(endpoint) == {"address", "pid", "host", "startedAt", "protocol", "version"}
    asked: Request | None = None
    for line in lines:
        if line.get("method") == "event":
            jsonschema.validate(line["params"], describe()["event"])
            jsonschema.validate(line["params"]["data"], TOPICS[line["params"]["topic"]].data)
        elif "method" in line:
            request = parse_line(json.dumps(line).encode())
            assert isinstance(request, Request)
            asked = request
        else:
            assert asked is not None
            assert line["id"] == asked.id
            check_answer(asked, line)


def check_answer(asked: Request, line: dict[str, Any]) -> None:
    """The answer is what the request gets: its result fits, or its error is the one that is raised for it."""
    if "error" in line:
        with pytest.raises(errors.InvalidParams) as caught:
            check_params(asked.method, asked.params)
        assert caught.value.to_wire() == line["error"]
    else:
        check_params(asked.method, asked.params)
        jsonschema.validate(line["result"], METHODS[asked.method].result)


@pytest.mark.parametrize("line", CONVERSATION)
def test_the_conversation_is_of_this_protocol(line: str) -> None:
    """Each request of the conversation passes the table (tests/docs/ holds it with a real daemon)."""
    who, arrow, text = line.split(" ", 2)
    message = json.loads(text)
    assert (who, message["jsonrpc"]) in {("A", "2.0"), ("B", "2.0")}
    if arrow == "→":
        check_params(message["method"], message.get("params", {}))
