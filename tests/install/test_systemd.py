"""Units of systemd: the template is kept, the values arrive as they are, what cannot be written is refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcsyncd.errors import ConfigError
from zcsyncd.install.systemd import (
    command_of,
    failure_of,
    properties,
    quoted,
    service_unit,
    socket_unit,
    unquoted,
)
from zcsyncd.install.wanted import RUN_WORDS, Wanted

WORDS = st.text(
    st.one_of(
        st.sampled_from(" \"'\\$%{}:;#=-é界"),
        st.characters(min_codepoint=32, blacklist_categories=("Cs", "Cc")),
    ),
    min_size=1,
    max_size=30,
)


@pytest.fixture
def service(shipped):
    """Give the service's template."""
    return shipped("systemd", "zcsyncd.service").decode()


@pytest.fixture
def socket(shipped):
    """Give the socket's template."""
    return shipped("systemd", "zcsyncd.socket").decode()


def as_systemd_reads(line):
    """Read words as systemd.syntax(7) says: quotes, C escapes, then `%%`."""
    words, at = [], 0
    while at < len(line):
        if line[at] == " ":
            at += 1
            continue
        word, quote = "", ""
        while at < len(line) and (quote or line[at] != " "):
            sign = line[at]
            if sign == "\\":
                word += line[at + 1]
                at += 1
            elif quote and sign == quote:
                quote = ""
            elif not quote and sign in "\"'":
                quote = sign
            else:
                word += sign
            at += 1
        assert not re.search(r"(?<!%)(%%)*%(?!%)", word), "a specifier"
        words.append(word.replace("%%", "%"))
    return words


@given(st.lists(WORDS, min_size=1, max_size=5))
def test_words_arrive_as_they_are(words):
    """Whatever signs words have, systemd takes the line apart into the same ones; so do we."""
    line = " ".join(quoted(word) for word in words)
    assert as_systemd_reads(line) == words
    assert unquoted(line) == words


def test_everything_of_the_template_stays(service, wanted):
    """Only the command and the variables are ours; each other setting is the template's."""
    unit = service_unit(service, wanted)

    def settings(text):
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        return [line for line in lines if not line.startswith(("ExecStart=", "Environment="))]

    assert settings(unit) == settings(service)
    assert "ExecStart=/opt/env/bin/python -P -m zcsyncd run --service\n" in unit
    assert 'Environment=CLAUDE_CONFIG_DIR=/x/c\nEnvironment="ZCODE_STORAGE_DIR=/x/with blanks"\n' in unit
    assert unit.count("ExecStart=") == 1
    assert "# @" not in unit


def test_without_variables_none_are_there(service):
    """A service that needs no variables has no line for them."""
    assert "Environment" not in service_unit(service, Wanted(("/p", *RUN_WORDS)))


def test_the_service_is_whole_without_its_socket(service, wanted):
    """The service's unit does not name the socket's."""
    assert ".socket" not in service_unit(service, wanted)


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("/a b/python", 'ExecStart="/a b/python" -P -m zcsyncd run --service'),
        ("/100%/python", 'ExecStart="/100%%/python" -P -m zcsyncd run --service'),
        ("/$HOME/python", 'ExecStart=:"/$HOME/python" -P -m zcsyncd run --service'),
        ("/it's/p", 'ExecStart=:/bin/sh -c "exec \\"$0\\" \\"$@\\"" "/it\'s/p" -P -m zcsyncd run --service'),
    ],
)
def test_odd_programs(service, program, line):
    """A program's path may hold what systemd would expand or split, and by a shell even what it refuses."""
    unit = service_unit(service, Wanted((program, *RUN_WORDS)))
    assert line in unit.splitlines()
    assert command_of(unit) == [program, *RUN_WORDS]


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\0b", "a\x1bb", "a\x7fb", "a\ud800b"])
def test_what_no_unit_can_hold_is_refused(service, bad):
    """A control character or half a character is refused, and what it stands in is named."""
    with pytest.raises(ConfigError, match="the variable ZCODE_STORAGE_DIR holds the character U\\+"):
        service_unit(service, Wanted(("/p",), (("ZCODE_STORAGE_DIR", bad),)))
    with pytest.raises(ConfigError, match="the command"):
        service_unit(service, Wanted(("/" + bad,)))


def test_the_sockets_place(socket):
    """The socket's unit keeps the usual place, or has the one that was named, with `%` written as it is."""
    assert "ListenStream=%t/zcsyncd/bus.sock\n" in socket_unit(socket, Wanted(("/p",)))
    unit = socket_unit(socket, Wanted(("/p",), socket="/run/50%/my bus"))
    assert "ListenStream=/run/50%%/my bus\n" in unit
    assert unit.count("ListenStream=") == 1


@pytest.mark.parametrize("bad", ["relative", "/ends with a blank ", "/" + "a" * 107, "/a\nb", "@abstract"])
def test_a_place_that_systemd_cannot_listen_at_is_refused(socket, bad):
    """Such an address is refused before anything is written."""
    with pytest.raises(ConfigError):
        socket_unit(socket, Wanted(("/p",), socket=bad))


def test_a_unit_without_a_command_has_no_words():
    """What is no unit of ours gives no command, and no error."""
    assert command_of("") == []
    assert command_of("[Service]\nExecStart=\n") == []


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        ("ActiveState=active\nResult=success", None),
        ("ActiveState=inactive\nResult=exit-code", None),
        ("ActiveState=failed\nResult=success", None),
        ("ActiveState=failed\nResult=exit-code\nExecMainStatus=2", "the daemon ended with exit code 2"),
        ("ActiveState=failed\nResult=signal\nExecMainStatus=9", "the daemon was ended by signal 9"),
        ("ActiveState=failed\nResult=watchdog", "the daemon was silent for too long and was ended"),
        ("ActiveState=failed\nResult=news-to-us", "news-to-us"),
        ("", None),
    ],
)
def test_why_it_failed(shown, said):
    """What systemd calls a result is told in words; where nothing failed, nothing is."""
    assert failure_of(properties(shown)) == said
