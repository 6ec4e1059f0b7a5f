"""The task of the Task Scheduler: the values arrive, and the table rejects whatever is wrong with a task."""

import re
import subprocess
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcsyncd.errors import ConfigError
from zcsyncd.install.task import (
    ATTRIBUTES,
    ELEMENTS,
    SPACE,
    command_line,
    command_of,
    encoded,
    problems,
    task,
)
from zcsyncd.install.wanted import RUN_WORDS, Wanted

WORDS = st.text(st.sampled_from('ab \t"\\%=é'), max_size=12)


@pytest.fixture
def text(shipped, wanted):
    """Give a right task."""
    return task(shipped("windows", "zcsyncd.xml"), wanted)


def found_at(root, path):
    return root.find("/".join(f"{{{SPACE}}}{name}" for name in path.split("/")[1:])) if "/" in path else root


def test_the_task_is_right_and_holds_what_was_wanted(text, wanted):
    """Command, variables and user are those that were wanted; the table finds nothing wrong."""
    assert problems(text) == []
    command, arguments = command_of(text)
    assert command == wanted.words[0]
    assert arguments == (
        '-P -m zcsyncd run --service --env CLAUDE_CONFIG_DIR=/x/c --env "ZCODE_STORAGE_DIR=/x/with blanks"'
    )
    root = ET.fromstring(text)
    assert {one.text for one in root.iter(f"{{{SPACE}}}UserId")} == {"DESK\\u"}


def test_the_shipped_file_is_right_as_it_is(shipped):
    """The file in `service/windows` fits the table by itself."""
    assert problems(shipped("windows", "zcsyncd.xml")) == []


def test_the_file_is_utf_16_with_its_mark(text):
    """What is handed over is UTF-16 with a byte-order mark, says so, and has the lines of its system."""
    content = encoded(text)
    assert content.startswith(b"\xff\xfe<\0?\0")
    whole = content.decode("utf-16")
    assert whole.startswith('<?xml version="1.0" encoding="UTF-16"?>\r\n<Task ')
    assert not re.search("(?<!\r)\n", whole)
    assert problems(content) == []
    assert command_of(content) == command_of(text)


@pytest.mark.parametrize("path", list(ELEMENTS)[1:])
def test_a_missing_element_is_found(text, path):
    """Each element that is not there is missed."""
    root = ET.fromstring(text)
    found_at(root, path.rpartition("/")[0]).remove(found_at(root, path))
    assert f"{path} is missing" in problems(ET.tostring(root))


@pytest.mark.parametrize("path", list(ELEMENTS)[1:])
def test_an_element_that_is_there_twice_is_found(text, path):
    """Each element is there once."""
    root = ET.fromstring(text)
    found_at(root, path.rpartition("/")[0]).append(found_at(root, path))
    assert f"{path} is there twice" in problems(ET.tostring(root))


@pytest.mark.parametrize("path", [path for path, pattern in ELEMENTS.items() if pattern not in {None, ".+"}])
@pytest.mark.parametrize("value", ["", "maybe", "TRUE", "0", "PT1H", " true "])
def test_a_wrong_text_is_found(text, path, value):
    """Each value that would mean something else, or nothing, is rejected, and its element is named."""
    root = ET.fromstring(text)
    found_at(root, path).text = value
    assert problems(ET.tostring(root)) == [f"{path} cannot be {value!r}"]


@pytest.mark.parametrize("path", [path for path, pattern in ELEMENTS.items() if pattern in {"true", "false"}])
def test_the_other_truth_is_found(text, path):
    """Each switch that is set the other way is rejected."""
    root = ET.fromstring(text)
    found_at(root, path).text = "false" if ELEMENTS[path] == "true" else "true"
    assert len(problems(ET.tostring(root))) == 1


@pytest.mark.parametrize(
    "path", [path for path, pattern in ELEMENTS.items() if pattern is None and path != "Task/Actions/Exec"]
)
def test_another_order_is_found(text, path):
    """The elements stand in the table's order."""
    root = ET.fromstring(text)
    outer = found_at(root, path)
    inner = list(outer)
    if len(inner) > 1:
        outer.remove(inner[0])
        outer.append(inner[0])
        assert any("is not in its place" in said for said in problems(ET.tostring(root)))


@pytest.mark.parametrize("path", ELEMENTS)
def test_an_unknown_element_or_attribute_is_found(text, path):
    """What is misspelt, or never written by us, is rejected wherever it stands."""
    root = ET.fromstring(text)
    ET.SubElement(found_at(root, path), f"{{{SPACE}}}Odd")
    assert f"{path}/Odd is not known" in problems(ET.tostring(root))
    root = ET.fromstring(text)
    found_at(root, path).set("odd", "1")
    assert problems(ET.tostring(root)) == [f"{path} cannot have odd='1'"]


@pytest.mark.parametrize(
    ("path", "name"), [(path, name) for path, names in ATTRIBUTES.items() for name in names]
)
def test_a_wrong_attribute_is_found(text, path, name):
    """An attribute that has to be there is missed, and one with a wrong value is rejected."""
    for value in (None, "", "9.9 x"):
        root = ET.fromstring(text)
        element = found_at(root, path)
        element.attrib.pop(name)
        if value is not None:
            element.set(name, value)
        assert f"{path} cannot have {name}={value!r}" in problems(ET.tostring(root))


def test_a_context_of_another_principal_is_found(text):
    """The actions run as the principal that is there."""
    root = ET.fromstring(text)
    found_at(root, "Task/Actions").set("Context", "Author")
    assert problems(ET.tostring(root)) == ["Actions has another Context than the Principal's id"]


def test_another_namespace_is_found(text):
    """Without the namespace of tasks it is no task."""
    assert "Task is in another namespace" in problems(text.replace(SPACE, "urn:odd"))


@pytest.mark.parametrize("bad", ["", "no xml", "<Task>", b"\xff\xfe<"])
def test_what_is_no_xml_is_found(bad):
    """What cannot be read is one problem, and no error; it has no command."""
    assert len(problems(bad)) == 1
    assert command_of(bad) == []


@pytest.mark.parametrize("bad", ["C:\\%TEMP%\\x", "$(Arg0)", "a\nb"])
def test_what_the_scheduler_would_change_is_refused(shipped, bad):
    """A value that would be expanded, or cannot be written, is refused."""
    with pytest.raises(ConfigError):
        task(shipped("windows", "zcsyncd.xml"), Wanted(("C:\\p.exe", *RUN_WORDS), (("A", bad),), user="D\\u"))


def test_an_odd_user_is_refused(shipped):
    """A user that is neither a name with its domain nor an identifier is refused."""
    for user in ("", "u", "a\\b\\c"):
        with pytest.raises(ConfigError, match="UserId"):
            task(shipped("windows", "zcsyncd.xml"), Wanted(("C:\\p.exe", *RUN_WORDS), user=user))


def taken_apart(line):
    """Take a command line apart as a Windows program does (after its first word)."""
    words, word, quoted, at, begun = [], "", False, 0, False
    while at < len(line):
        slashes = len(line[at:]) - len(line[at:].lstrip("\\"))
        after = line[at + slashes : at + slashes + 1]
        if after == '"':
            word += "\\" * (slashes // 2)
            if slashes % 2:
                word += '"'
            else:
                quoted = not quoted
            begun, at = True, at + slashes + 1
        elif slashes:
            word, begun, at = word + "\\" * slashes, True, at + slashes
        elif line[at] in " \t" and not quoted:
            if begun:
                words.append(word)
            word, begun, at = "", False, at + 1
        else:
            word, begun, at = word + line[at], True, at + 1
    return [*words, word] if begun else words


@given(st.lists(WORDS, max_size=5))
def test_a_command_line_is_taken_apart_into_the_same_words(words):
    """Whatever signs words have, a Windows program gets the same ones; the standard library writes no other line."""
    line = command_line(words)
    assert taken_apart(line) == words
    assert taken_apart(subprocess.list2cmdline(words)) == words
