"""A hook of ZCode or Claude Code: one JSON event on stdin, the daemon asked, one JSON answer or nothing on stdout.
Door: stdin, stdout, the bus, small files in the state directory.

Rule 1: it never fails: whatever is odd ends with exit code 0 and without a word. The host works on.
Rule 2: one deadline over everything: absent, hung, scanning, gone in the middle of an answer.
Rule 3: it is a process of its own each time, so it imports next to nothing; tests/plugins/test_hook_cost.py counts.
Rule 4: what was said is noted after it went out: what did not go out is said again.

In `<state>/hooks/<host>/` lie `last.<Event>`, whose time says when a hook was last called, and a file for each
session with what its next hook has to know.
"""

from __future__ import annotations

import os
import sys
from time import monotonic, sleep, time

from zcsyncd import __version__
from zcsyncd.plugins.moves import (
    Event,
    Glance,
    Kept,
    asks_daemon,
    event_of,
    expected_text,
    glance,
    names_of_hosts,
    outcome,
    questions,
)
from zcsyncd.plugins.quick_json import read_json, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

    from zcsyncd.plugins.moves import Question

DEADLINE_S = 0.25
"""How long a host waits for us at most, from the moment that our code runs."""
TIDY_S = 0.02
MOST_INPUT_BYTES = 32 * 1_048_576
MOST_ANSWER_BYTES = 1_048_576 * 2
MOST_KEPT_BYTES = 65_536
MOST_COMPARED_BYTES = 1_048_576
LAPSE_S = 14 * 86_400
"""As long as the daemon keeps a session (docs/protocol.md, "Hello and sessions")."""

CLAIM_S = 2.0
"""A hook that was killed has not taken its claim away: after so long it counts no more."""

DIRECTORY = "hooks"
CLAIM = ".speaks"
STAMP = "last."
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


class _Watch:
    """Ends the process when the deadline has passed, wherever it waits; not while it speaks."""

    def __init__(self, seconds: float) -> None:
        from _thread import start_new_thread

        self.until = monotonic() + seconds
        self.speaks = False
        start_new_thread(self._wait, (seconds,))

    def _wait(self, seconds: float) -> None:
        sleep(seconds)
        if not self.speaks:
            os._exit(0)

    @property
    def left_s(self) -> float:
        """What is left for a wait that can be ended in order: a little less than for all."""
        return max(self.until - TIDY_S - monotonic(), 0.001)


def main(arguments: Sequence[str]) -> NoReturn:
    """Answer one call of a hook, and end the process with exit code 0. `arguments`: the host's name."""
    try:
        _answer(arguments, os.environ)
    except BaseException:  # noqa: BLE001 - a hook that fails is a hook that says nothing
        os._exit(0)
    # What an interpreter does at its end takes a few milliseconds, and nothing of it is for us.
    os._exit(0)


def _answer(arguments: Sequence[str], env: Mapping[str, str]) -> None:
    watch = _Watch(DEADLINE_S)
    host = arguments[0] if arguments else ""
    if host not in names_of_hosts():
        return
    event = event_of(host, _said(), env)
    if event is None:
        return
    place = _place(env, host)
    _stamp(place, event.name)
    kept = _kept(place, event.session)
    if not asks_daemon(event, kept):
        return
    claim = _file(place, event.session) + CLAIM
    speaks = _claimed(claim)
    try:
        kept = _kept(place, event.session)  # whoever spoke last may have just written it
        asked = questions(event, kept, _seen(event), __version__, os.getpid(), speaks=speaks)
        answers = _ask(asked, env, watch)
        if speaks and "hello" in answers:
            found = outcome(event, kept, answers)
            if found.output is not None:
                watch.speaks = True
                _say(write_json(found.output) + "\n")
            if found.kept != kept:
                _keep(place, event.session, found.kept)
    finally:
        if speaks:
            os.unlink(claim)
    if event.name == "SessionStart":
        _sweep(place)


# -- stdin, stdout ---------------------------------------------------------------------------------------------------


def _said() -> object:
    """Read what the host says: one line of JSON, or all that comes when it is spread over several."""
    data = b""
    while len(data) <= MOST_INPUT_BYTES:
        chunk = os.read(0, 262_144)
        data += chunk
        if not chunk or b"\n" in chunk:
            try:
                return read_json(data.decode("utf-8", "replace").removeprefix("\ufeff"))
            except ValueError:
                if not chunk:
                    raise
    raise ValueError("more than any event")


def _say(text: str) -> None:
    data = text.encode("ascii")
    while data:
        data = data[os.write(1, data) :]


# -- what a tool had -------------------------------------------------------------------------------------------------


def _seen(event: Event) -> Glance | None:
    """Look at the file that a tool read or wrote; None when there is nothing to be reported."""
    if event.name != "PostToolUse":
        return None
    try:
        descriptor = os.open(
            event.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        )
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        raw = None
        if expected_text(event) is not None and found.st_size <= MOST_COMPARED_BYTES:
            raw = os.read(descriptor, MOST_COMPARED_BYTES)
        return glance(event, found.st_mtime_ns // 1_000_000, found.st_size, raw)
    finally:
        os.close(descriptor)


# -- the daemon ------------------------------------------------------------------------------------------------------


def _ask(asked: Sequence[Question], env: Mapping[str, str], watch: _Watch) -> dict[str, Mapping[str, object]]:
    """Ask all at once and give the results by method, those that came before the deadline."""
    address = _address(env)
    if not address:
        return {}
    lines = "".join(
        write_json({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n"
        for number, (method, params) in enumerate(asked, 1)
    )
    answers: dict[str, Mapping[str, object]] = {}
    data = b""
    if sys.platform == "win32":
        from zcsyncd.bus.pipe import Pipe

        connected = Pipe.connect(address, watch.left_s)
    else:
        from _socket import AF_UNIX, SOCK_STREAM, socket

        connected = socket(AF_UNIX, SOCK_STREAM)
        connected.settimeout(watch.left_s)
        connected.connect(address)
    connected.sendall(lines.encode("ascii"))
    taken = 0
    while taken < len(asked) and len(data) <= MOST_ANSWER_BYTES:
        connected.settimeout(watch.left_s)
        chunk = connected.recv(65_536)
        if not chunk:
            break
        data += chunk
        while (end := data.find(b"\n")) >= 0:
            line, data = data[:end], data[end + 1 :]
            taken += _take(line, asked, answers)
    return answers


def _take(line: bytes, asked: Sequence[Question], answers: dict[str, Mapping[str, object]]) -> int:
    """Take one line of the daemon's; tell whether it answers one of our questions."""
    message = read_json(line.decode("utf-8"))
    number = message.get("id") if isinstance(message, dict) else None
    if not isinstance(message, dict) or not isinstance(number, int) or not 0 < number <= len(asked):
        return 0
    result = message.get("result")
    if isinstance(result, dict):
        answers[asked[number - 1][0]] = result
    return 1


def _address(env: Mapping[str, str]) -> str:
    """Tell where the daemon listens; empty when there is none.

    Without a note of a running daemon a service manager may hold the socket, on Linux at its usual place.
    """
    from zcsyncd.places import SOCKET_VARIABLE, default_address, endpoint_file, fitting_socket

    if env.get(SOCKET_VARIABLE):
        return default_address(env)
    try:
        note = read_json(_read(endpoint_file(env)).decode("utf-8"))
    except (OSError, ValueError):
        note = None
    address = note.get("address") if isinstance(note, dict) else None
    if isinstance(address, str):
        return address
    if sys.platform != "linux":
        return ""
    from zcsyncd.places import RUNTIME_VARIABLE, SOCKET_NAME

    named = env.get(RUNTIME_VARIABLE)
    base = named or os.path.join(env.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}", "zcsyncd")
    return fitting_socket(os.path.join(base, SOCKET_NAME))


# -- small files -----------------------------------------------------------------------------------------------------


def _place(env: Mapping[str, str], host: str) -> str:
    from zcsyncd.places import state_dir

    return os.path.join(state_dir(env), DIRECTORY, host)


def _stamp(place: str, event: str) -> None:
    """Note that a hook was called now: what `zcsyncd plugin status` shows."""
    path = os.path.join(place, STAMP + event)
    try:
        os.utime(path)
    except FileNotFoundError:
        _make(place)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError:
        return


def _make(place: str) -> None:
    """Make the directory and what is missing above it, for this user only."""
    missing = []
    while place and not os.path.isdir(place):
        missing.append(place)
        place = os.path.dirname(place)
    for path in reversed(missing):
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            continue


def _claimed(path: str) -> bool:
    """Claim to be the one hook of this session that speaks: hosts call several at once, and news are said once.

    The others only report what their tools did.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        if time() - os.stat(path, follow_symlinks=False).st_mtime < CLAIM_S:
            return False
        os.utime(path)
    return True


def _file(place: str, session: str) -> str:
    """Give a session's file; an id that is no plain word is spelled in hexadecimal digits."""
    name = (
        session
        if len(session) <= 100 and _SAFE.issuperset(session)
        else "x." + session.encode("utf-8", "replace").hex()[:200]
    )
    return os.path.join(place, name + ".json")


def _kept(place: str, session: str) -> Kept:
    try:
        value = read_json(_read(_file(place, session)).decode("utf-8"))
    except (OSError, ValueError):
        return Kept()
    if not isinstance(value, dict):
        return Kept()
    token, directory = value.get("token"), value.get("dir")
    return Kept(token if isinstance(token, str) else "", directory if isinstance(directory, str) else "")


def _keep(place: str, session: str, kept: Kept) -> None:
    path = _file(place, session)
    temporary = f"{path}.{os.getpid()}"
    text = write_json({"token": kept.token, "dir": kept.directory}) + "\n"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(temporary, flags, 0o600)
    except FileNotFoundError:
        _make(place)
        descriptor = os.open(temporary, flags, 0o600)
    try:
        os.write(descriptor, text.encode("ascii"))
    finally:
        os.close(descriptor)
    os.replace(temporary, path)


def _sweep(place: str) -> None:
    """Take away the files of sessions that are over."""
    with os.scandir(place) as entries:
        old = [
            one.path
            for one in entries
            if not one.name.startswith(STAMP) and time() - one.stat(follow_symlinks=False).st_mtime > LAPSE_S
        ]
    for path in old:
        os.unlink(path)


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        return os.read(descriptor, MOST_KEPT_BYTES)
    finally:
        os.close(descriptor)
