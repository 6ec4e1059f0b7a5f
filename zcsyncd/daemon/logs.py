"""Where the daemon's log goes: standard error, and a rotating file of its own. Door: logging.

One line per state change, `key=value`; never per event, never a memory's content.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import sys
import time

SELDOM_S = 60.0
MOST_KINDS = 100
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


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


def set_up_logs(path: str, *, level: str, max_bytes: int, keep: int) -> None:
    """Send the log to standard error and to `path` (0600), which rotates at `max_bytes` with `keep` older files."""
    line = _Format("%(asctime)s level=%(levelname)s %(name)s %(message)s")
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    try:
        handlers.append(_PrivateFile(path, maxBytes=max_bytes, backupCount=keep, encoding="utf-8"))
    except OSError as error:
        sys.stderr.write(f"zcsyncd: no log file: {path}: {error.strerror}\n")
    logger = logging.getLogger("zcsyncd")
    for old in tuple(logger.handlers):
        logger.removeHandler(old)
        old.close()
    for handler in handlers:
        handler.setFormatter(line)
        logger.addHandler(handler)
    logger.setLevel(_LEVELS[level])
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
