"""Where the daemon's log goes. Door: logging.

Under systemd it goes to standard error, which is the journal, with the level in front as sd-daemon(3) has it and no
time, for the journal keeps one. Elsewhere it goes to standard error and to a rotating file of our own.

One line per state change, `key=value`; never per event, never a memory's content.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass

from zcsyncd.config import Settings
from zcsyncd.places import log_dir, private_directory

NAME = "zcsyncd.log"
SELDOM_S = 60.0
MOST_KINDS = 100
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

_PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6), (0, 7))
"""Levels, and what syslog(3) calls them."""


class _Format(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def format(self, record: logging.LogRecord) -> str:
        # Names of files are a stranger's text: no control character reaches a terminal, no line break forges a line.
        head = _harmless(record.getMessage())
        record = logging.makeLogRecord({**record.__dict__, "msg": head, "args": None})
        first, *trace = super().format(record).split("\n")
        return "\n    ".join((first, *map(_harmless, trace)))


class _JournalFormat(_Format):
    """Each line, those of a traceback too, with its priority: the journal takes lines one by one."""

    def format(self, record: logging.LogRecord) -> str:
        priority = next(number for least, number in _PRIORITIES if record.levelno >= least)
        return "\n".join(f"<{priority}>{line}" for line in super().format(record).split("\n"))


def _harmless(text: str) -> str:
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


class _PrivateFile(logging.handlers.RotatingFileHandler):
    def _open(self):  # type: ignore[no-untyped-def]  # noqa: ANN202  as logging declares it
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(self.baseFilename, flags, 0o600)
        return open(descriptor, self.mode, encoding=self.encoding, errors="backslashreplace")


class _Seldom(logging.Filter):
    """Lets one line of a kind through in a minute, without its traceback: a system that is short of something says
    so thousands of times a second.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = str(record.msg).partition("\n")[0][:80]
        now = time.monotonic()
        if now - self._last.get(kind, -SELDOM_S) < SELDOM_S:
            return False
        if len(self._last) > MOST_KINDS:
            self._last.clear()
        self._last[kind] = now
        record.exc_info = record.exc_text = None
        return True


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Where a log goes."""

    path: str | None
    """The file; None: standard error is the journal, which keeps it."""


def place_of_log(env: Mapping[str, str], environ: Mapping[str, str]) -> LogPlace:
    """Tell where this process's log goes; the file's directory is made.

    Raises: Refused, when the directory is not private.
    """
    if _is_journal(environ.get("JOURNAL_STREAM", "")):
        return LogPlace(None)
    private_directory(log_dir(env))
    return LogPlace(os.path.join(log_dir(env), NAME))


def _is_journal(stream: str) -> bool:
    """Tell whether standard error is what `JOURNAL_STREAM` names (device and inode): a child may have another."""
    try:
        found = os.fstat(2)
    except OSError:
        return False
    return stream == f"{found.st_dev}:{found.st_ino}"


def log_by(settings: Settings, place: LogPlace) -> None:
    """Log as the settings say; a second call takes the place of the first.

    The file is 0600, and rotates.
    """
    line = _Format("%(asctime)s level=%(levelname)s %(name)s %(message)s")
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    if place.path is None:
        line = _JournalFormat("%(name)s %(message)s")
    else:
        try:
            handlers.append(
                _PrivateFile(
                    place.path,
                    maxBytes=settings.log_max_bytes,
                    backupCount=settings.log_keep,
                    encoding="utf-8",
                )
            )
        except OSError as error:
            sys.stderr.write(f"zcsyncd: no log file: {place.path}: {error.strerror}\n")
    logger = logging.getLogger("zcsyncd")
    for old in tuple(logger.handlers):
        logger.removeHandler(old)
        old.close()
    for handler in handlers:
        handler.setFormatter(line)
        logger.addHandler(handler)
    logger.setLevel(_LEVELS[settings.log_level])
    logger.propagate = False
    # What the libraries have to say goes to our log too, as far as it is a failure.
    for name, least in (
        ("apscheduler", logging.ERROR),
        ("asyncio", logging.ERROR),
        ("watchdog", logging.ERROR),
    ):
        foreign = logging.getLogger(name)
        foreign.handlers[:] = handlers
        foreign.filters[:] = [_Seldom()]
        foreign.setLevel(least)
        foreign.propagate = False
