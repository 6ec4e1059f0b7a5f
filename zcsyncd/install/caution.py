"""What a person should know of an installation before it becomes a service. Pure."""

from __future__ import annotations

from dataclasses import dataclass

LASTING = "`pipx install zcsyncd` or `uv tool install zcsyncd` makes an installation that lasts"


@dataclass(frozen=True, slots=True)
class Facts:
    """What was seen of the installation that runs this command."""

    interpreter: str
    checkout: str | None = None
    """The version-controlled directory in which the interpreter or the package lies."""
    passing: str | None = None
    """The directory of passing things (temporary files, a cache) in which the interpreter lies."""
    others: tuple[str, ...] = ()
    """Other commands `zcsyncd` on the path, which are not of this installation."""
    carried: tuple[str, ...] = ()
    """Variables that are written into the unit."""


def cautions(facts: Facts) -> list[str]:
    """Give what is to be told, one sentence each."""
    said = []
    if facts.carried:
        said.append(
            f"the unit carries {', '.join(facts.carried)} as set here; after a change install it again"
        )
    if facts.passing is not None:
        said.append(
            f"the interpreter {facts.interpreter} lies in {facts.passing}, which is emptied now and then, "
            f"and the service goes with it; {LASTING}"
        )
    elif facts.checkout is not None:
        said.append(
            f"this installation lies in the clone {facts.checkout}: the service ends when that is moved or cleaned; "
            f"{LASTING}"
        )
    said += [
        f"another installation lies at {other}: after upgrading that one, the service still runs {facts.interpreter}"
        for other in facts.others
    ]
    return said


def about_present(
    command: list[str] | None, *, interpreter: str, is_there: bool, is_current: bool
) -> list[str]:
    """Give what is to be told of a unit that is installed already; nothing when it is right."""
    again = "`zcsyncd service install` writes it anew"
    if command is None or is_current:
        return []
    if not command:
        return [f"the unit has no command that could be read; {again}"]
    if not is_there:
        return [f"the unit runs {command[0]}, which is no longer there; {again}"]
    if command[0] != interpreter:
        return [f"the unit runs {command[0]}, this is {interpreter}; {again}, for this one"]
    return [f"the unit is not as it would be written now; {again}"]
