"""The log: one line is one thing said, whatever a stranger's file is called; private, and bounded."""

from __future__ import annotations

import logging
import os
import re
import stat

import pytest

from zcsyncd.config import Settings
from zcsyncd.daemon.logs import LogPlace, log_by, place_of_log

NAMES = ("zcsyncd", "apscheduler", "asyncio", "watchdog")
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=[A-Z]+ [a-z.]+ \S")


@pytest.fixture
def set_up(tmp_path):
    """Set the logs up; what was there before is put back."""
    before = {
        name: (logger.handlers[:], logger.level, logger.propagate)
        for name in NAMES
        if (logger := logging.getLogger(name))
    }

    def begin(level: str = "info", max_bytes: int = 100_000, keep: int = 2) -> str:
        path = str(tmp_path / "zcsyncd.log")
        log_by(Settings(log_level=level, log_max_bytes=max_bytes, log_keep=keep), LogPlace(path))
        return path

    yield begin
    for name, (handlers, level, propagate) in before.items():
        logger = logging.getLogger(name)
        for handler in logger.handlers:
            if handler not in handlers:
                handler.close()
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


def read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


EVIL = (
    "a\n2026-01-01T00:00:00.000Z level=ERROR zcsyncd forged",
    "a\r\nforged",
    "a\x1b[31mred\x1b]0;title\x07",
    "a\x85forged\u2028forged\u2029forged",
    "a\u202egnp.md",
    "a\x00b\x7f",
    "caf\udce9",
    "\ud83d",
)


@pytest.mark.parametrize("name", EVIL)
def test_a_name_forges_no_line(set_up, name, capsys):
    """A file's name in a message stays on its line, and no control character reaches a terminal or the file."""
    path = set_up()
    logging.getLogger("zcsyncd.test").warning("look put off dir=%s", name)
    for text in (read(path), capsys.readouterr().err):
        assert text.count("\n") == 1
        assert LINE.match(text)
        assert text[:-1].isprintable()


@pytest.mark.parametrize("name", EVIL)
def test_a_traceback_forges_no_line(set_up, name):
    """What an exception says, its cause and its notes too, is indented below its line, each line harmless."""
    path = set_up()
    try:
        try:
            raise ValueError(name)
        except ValueError as cause:
            cause.add_note(name)
            raise KeyError(name) from cause
    except KeyError:
        logging.getLogger("zcsyncd.test").exception("look failed dir=%r", name)
    first, *below = read(path).removesuffix("\n").split("\n")
    assert LINE.match(first)
    assert below
    assert all(line.startswith("    ") and line.isprintable() for line in below)


def test_lines_are_in_utc_with_milliseconds(set_up):
    """One form for all lines, whatever the machine's time zone."""
    path = set_up()
    logging.getLogger("zcsyncd.daemon.app").info("daemon ready directories=%d", 3)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=INFO zcsyncd\.daemon\.app daemon ready directories=3\n",
        read(path),
    )


def test_the_level_is_the_configured_one(set_up):
    """What is below the level is not written."""
    path = set_up(level="warning")
    logging.getLogger("zcsyncd.test").info("silent")
    logging.getLogger("zcsyncd.test").warning("loud")
    assert "silent" not in read(path)
    assert "loud" in read(path)


def test_it_rotates_and_stays_private(set_up, tmp_path):
    """Over its size a new file begins; the newest and as many older ones as configured stay, all 0600."""
    former = os.umask(0)
    try:
        path = set_up(max_bytes=2000, keep=2)
        for number in range(200):
            logging.getLogger("zcsyncd.test").warning("line number=%d", number)
    finally:
        os.umask(former)
    files = sorted(os.listdir(tmp_path))
    assert files == ["zcsyncd.log", "zcsyncd.log.1", "zcsyncd.log.2"]
    for name in files:
        status = os.stat(tmp_path / name)
        assert stat.S_IMODE(status.st_mode) == 0o600
        assert status.st_size <= 2000
    assert "number=199" in read(path)


def test_a_second_setting_up_replaces_the_first(set_up):
    """Nothing is said twice after the logs were set up again."""
    set_up()
    path = set_up()
    logging.getLogger("zcsyncd.test").warning("once")
    assert read(path).count("once") == 1


def test_without_a_file_it_goes_on(tmp_path, set_up, capsys):
    """A log file that cannot be opened is told on standard error, where the lines go then."""
    (tmp_path / "zcsyncd.log").mkdir()
    set_up()
    logging.getLogger("zcsyncd.test").warning("still said")
    said = capsys.readouterr().err
    assert "no log file" in said
    assert "still said" in said


def test_a_symlink_in_its_place_is_not_followed(tmp_path, set_up):
    """Nobody makes us write into another file."""
    (tmp_path / "victim").write_text("untouched")
    (tmp_path / "zcsyncd.log").symlink_to(tmp_path / "victim")
    set_up()
    logging.getLogger("zcsyncd.test").warning("elsewhere")
    assert (tmp_path / "victim").read_text() == "untouched"


@pytest.mark.parametrize("name", ["apscheduler.scheduler", "asyncio", "watchdog.observers"])
def test_failures_of_libraries_are_in_our_log(set_up, name):
    """What a library has to say about a failure is found where a person looks for it; its chatter is not."""
    path = set_up()
    logging.getLogger(name).error("it failed\nreally")
    logging.getLogger(name).info("chatter")
    assert "it failed" in read(path)
    assert read(path).count("\n") == 1
    assert "chatter" not in read(path)


def test_under_systemd_it_goes_to_the_journal(set_up, tmp_path, monkeypatch, capfd):
    """Standard error alone, each line with its priority and without a time; a file is not written."""
    set_up()
    found = os.fstat(2)
    environ = {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}
    env = {"HOME": str(tmp_path), "ZCSYNCD_STATE_DIR": str(tmp_path / "state")}
    place = place_of_log(env, environ)
    assert place == LogPlace(None)
    with open(2, "w", closefd=False) as stderr:
        monkeypatch.setattr("sys.stderr", stderr)
        log_by(Settings(log_level="debug"), place)
        log = logging.getLogger("zcsyncd.test")
        log.debug("said quietly")
        log.info("ready key=%r", "a\nb")
        log.warning("warned")
        try:
            raise LookupError("why")
        except LookupError:
            log.exception("failed")
        log.critical("ended")
    lines = capfd.readouterr().err.splitlines()
    assert lines[:3] == [
        "<7>zcsyncd.test said quietly",
        r"<6>zcsyncd.test ready key='a\nb'",
        "<4>zcsyncd.test warned",
    ]
    assert lines[3] == "<3>zcsyncd.test failed"
    assert all(line.startswith("<3>") for line in lines[4:-1])
    assert lines[-1] == "<2>zcsyncd.test ended"
    assert not (tmp_path / "state").exists()


def test_a_journal_that_is_not_ours_is_none(tmp_path):
    """The variable is inherited by every child: only a standard error that is that very stream counts."""
    env = {"HOME": str(tmp_path), "ZCSYNCD_STATE_DIR": str(tmp_path / "state")}
    for stream in ("", "1:2", "nonsense"):
        place = place_of_log(env, {"JOURNAL_STREAM": stream})
        assert place.path is not None
        assert os.path.isdir(os.path.dirname(place.path))
