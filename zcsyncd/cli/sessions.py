"""Which session a person means, and what is about it. Door: the bus.

Rule 1: a session is only looked at: who watches it must not count as the session itself, which would never lapse
then. So nothing here says hello in its name: the daemon filters by directories, and what others read is left out here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zcsyncd.cli.answer import Answer, object_of, rows_of
from zcsyncd.cli.render import counted
from zcsyncd.errors import Ambiguous, NotFound, UsageError

if TYPE_CHECKING:
    from zcsyncd.cli.asking import Daemon

_LIST = "`zcsyncd status --sessions` lists them"


def session_named(text: str, daemon: Daemon) -> Answer:
    """Give the session `HOST:ID`, whose id may be cut short as long as just one session begins so.

    Raises:
        UsageError: it is no such name.
        NotFound: no session has it.
        Ambiguous: several begin so.
    """
    host, colon, start = text.partition(":")
    if not (host and colon and start):
        raise UsageError(f"{text!r} is no HOST:ID, as `pi:0198f`", hint=_LIST)
    rows = rows_of(daemon.ask_all("session.list", {}, "sessions"), "sessions")
    found = [row for row in rows if _name(row) == text] or [
        row for row in rows if _name(row).startswith(text)
    ]
    if not found:
        raise NotFound(f"no session {text} is known", hint=_LIST)
    if len(found) > 1:
        raise Ambiguous(f"{counted(len(found), 'session')} begin with {text}", hint=_LIST)
    return found[0]


def places_of(session: Answer, daemon: Daemon) -> dict[str, object]:
    """Give what to subscribe to for a session's directories, those that its working directory may yet get included."""
    cwd = str(session.get("cwd"))
    named = session.get("dirs")
    if not isinstance(named, list):
        named = daemon.ask("dirs.resolve", {"cwd": cwd}).get("others")
    dirs = [path for path in named if isinstance(path, str)] if isinstance(named, list) else []
    return {"cwd": cwd, **({"dirs": dirs} if dirs else {})}


def is_about(event: Answer, session: Answer) -> bool:
    """Tell whether an event of a session's directories is about it: one of another session's reads is not."""
    if not str(event.get("topic")).startswith("read-state/"):
        return True
    return _name(object_of(object_of(event, "data"), "session")) == _name(session)


def _name(session: Answer) -> str:
    return f"{session.get('host')}:{session.get('id')}"
