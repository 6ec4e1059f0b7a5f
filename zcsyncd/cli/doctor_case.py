"""What the doctor looks at: this person's environment, places, settings and daemon, each with why it is not known.
Door: the environment, the bus.

Rule 1: nothing here raises because of what it finds; what could not be found out is None, and why stands beside it.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from zcsyncd import places
from zcsyncd.bus.client import Client
from zcsyncd.bus.endpoint import Endpoint, read_endpoint
from zcsyncd.cli.answer import Answer
from zcsyncd.cli.veil import Veil
from zcsyncd.config import Settings
from zcsyncd.errors import ConfigError, NoDaemon, ZcsyncdError
from zcsyncd.memory.audit import RULES
from zcsyncd.settings import CARRIED_VARIABLES, read_settings

T = TypeVar("T")

STANDARD_VARIABLES = (
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "TMPDIR",
)
PROBE_S = 15.0
HEARD_S = 2.0
"""How long the event may take once the daemon has said that it published it."""


@dataclass(slots=True)
class Case:
    """Everything that several checks look at."""

    env: Mapping[str, str]
    veil: Veil
    state: str | None = None
    runtime: str | None = None
    log: str | None = None
    config: str | None = None
    settings: Settings = field(default_factory=Settings)
    """The defaults, where the configuration cannot be used."""
    config_error: ZcsyncdError | None = None
    endpoint: Endpoint | None = None
    address: str | None = None
    """Where a daemon is looked for."""
    usual_address: str | None = None
    """Where one that is started from here would listen."""
    status: Answer | None = None
    """What the daemon says of itself; None: it does not."""
    silence: ZcsyncdError | None = None
    """Why it does not."""
    listens: bool = False
    """Somebody takes connections at the address."""
    wrong: list[tuple[str, ZcsyncdError | OSError]] = field(default_factory=list)
    """Places that cannot even be named: what, and why."""

    def place(self, path: str) -> str:
        """Give a path as it may be shown."""
        return self.veil.place(path)


def open_case(env: Mapping[str, str], *, paths: bool) -> Case:
    """Find out where everything is, and ask the daemon how it is."""
    home = _home(env)
    names = (*places.VARIABLES, *CARRIED_VARIABLES, *STANDARD_VARIABLES)
    moved = {name: value for name in names if os.path.isabs(value := env.get(name, ""))}
    case = Case(env, Veil(home if len(home) > 1 else "", paths, moved))
    case.state = _found(case, "the state directory", lambda: places.state_dir(env, home or None))
    case.runtime = _found(case, "the runtime directory", lambda: places.runtime_dir(env))
    case.log = _found(case, "the log directory", lambda: places.log_dir(env))
    case.config = _found(case, "the configuration file", lambda: places.config_file(env))
    _read_settings(case)
    case.endpoint = read_endpoint(case.state) if case.state else None
    case.usual_address = _found(
        case, "the address", lambda: places.default_address(env, case.settings.bus_address)
    )
    is_named = bool(env.get(places.SOCKET_VARIABLE)) or case.endpoint is None
    case.address = case.usual_address if is_named or case.endpoint is None else case.endpoint.address
    _ask(case)
    return case


def _home(env: Mapping[str, str]) -> str:
    try:
        return places.home(env)
    except ZcsyncdError:
        return ""


def _found(case: Case, what: str, find: Callable[[], T]) -> T | None:
    try:
        return find()
    except (ZcsyncdError, OSError) as error:
        case.wrong.append((what, error))
        return None


def _read_settings(case: Case) -> None:
    try:
        case.settings = read_settings(case.env, codes=frozenset(RULES))
    except ZcsyncdError as error:
        case.config_error = error
    except (OSError, ValueError) as error:
        case.config_error = ConfigError(f"it cannot be read: {error}")


def _ask(case: Case) -> None:
    if case.address is None:
        return
    client = Client(case.address)
    try:
        client.connect()
        case.listens = True
        case.status = client.call("status")
    except ZcsyncdError as error:
        case.silence = error
    except (OSError, ValueError) as error:
        case.silence = NoDaemon(str(error))
    finally:
        client.close()


@dataclass(frozen=True, slots=True)
class Probed:
    """How a probe went."""

    alive: bool
    wrote: bool
    heard: bool
    """The event of it came to a subscriber."""
    ms: float
    """From the question to the event."""


def probe(address: str) -> Probed:
    """Subscribe, have the daemon send a canary through its watcher, and wait for the event of it.

    Raises: ZcsyncdError, as the daemon tells it.
    """
    token = secrets.token_hex(8)
    with Client(address) as client:
        client.call("events.subscribe", topics=["daemon/probed"])
        begun = time.monotonic()
        answer = client.call("daemon.probe", token=token, timeout_s=PROBE_S)
        heard = answer.get("alive") is True and _hears(client, token)
        ms = (time.monotonic() - begun) * 1000
    return Probed(answer.get("alive") is True, answer.get("wrote") is True, heard, ms)


def _hears(client: Client, token: str) -> bool:
    until = time.monotonic() + HEARD_S
    while (left_s := until - time.monotonic()) > 0:
        event = client.next_event(left_s)
        data = event.get("data") if event else None
        if isinstance(data, dict) and data.get("token") == token:
            return True
    return False
