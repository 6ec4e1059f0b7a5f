"""What a service manager is to run, and how such a service is: the records of this package. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from zcsyncd.errors import ConfigError

MODULE_WORDS = ("-P", "-m", "zcsyncd")
"""What follows the interpreter. `-P`: a directory `zcsyncd` in the working directory is not taken for the package."""
RUN_WORDS = (*MODULE_WORDS, "run", "--service")
"""`--service`: that another daemon runs already is no failure, which the service manager would try to mend."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One service, as it is to be written down."""

    words: tuple[str, ...]
    """The command: the interpreter's absolute path first."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables that a service started without the person's shell would miss, sorted by name."""
    socket: str | None = None
    """The address, where it is not the usual one below the runtime directory."""
    error_log: str | None = None
    """Where standard error goes on systems whose service manager keeps no journal."""
    user: str = ""
    """Whose it is, where the system wants to be told."""


@dataclass(frozen=True, slots=True)
class State:
    """How the service is; None stands for what the service manager does not tell."""

    installed: bool
    enabled: bool | None = None
    """Whether it starts by itself at log-in."""
    running: bool | None = None
    state: str = ""
    """In the service manager's own words."""
    pid: int | None = None
    since: str | None = None
    """Since when it is in that state, in the service manager's own words."""
    says: str | None = None
    """The daemon's own line about itself."""
    restarts: int | None = None
    """How often the service manager has restarted it by itself since it was started."""
    failure: str | None = None
    """Why it does not run, where it failed."""
    socket: bool | None = None
    """Whether the service manager holds its socket."""


def checked(what: str, text: str) -> str:
    """Give a text that can be written into a unit.

    Raises: ConfigError, for one that no unit can hold: line breaks and other control characters, broken characters.
    """
    bad = next((one for one in text if ord(one) < 32 or ord(one) == 127 or 0xD800 <= ord(one) < 0xE000), None)
    if bad is not None:
        raise ConfigError(
            f"{what} holds the character U+{ord(bad):04X}, which a service's unit cannot hold: {text!r}",
            hint="give it another value, or run `zcsyncd run` yourself",
        )
    return text
