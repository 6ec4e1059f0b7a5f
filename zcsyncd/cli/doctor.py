"""`zcsyncd doctor`: everything that a report of a fault needs, and what is wrong, on one page. Door: stdout, threads.

Rule 1: it works whatever is broken. A check that fails is a row that says so, and so is one that does not come back (a
network file system that hangs); the others go on.
Rule 2: it changes nothing. The one file that is written for it is the daemon's own canary.
"""

from __future__ import annotations

import threading
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence

from zcsyncd import __version__
from zcsyncd.cli import doctor_daemon, doctor_machine, doctor_places, doctor_roots
from zcsyncd.cli.calling import PROGRAM, called
from zcsyncd.cli.console import Console
from zcsyncd.cli.doctor_case import Case, open_case
from zcsyncd.cli.doctor_rows import Row, answer_of, doctor_page, error
from zcsyncd.errors import ZcsyncdError

WRONG = 1
"""Exit code: something does not work."""
LONGEST_S = 20.0
"""For one check: a probe may take 15 s, a service manager some."""

CHECKS: tuple[tuple[str, Callable[[Case], Iterable[Row]]], ...] = (
    ("versions", doctor_machine.versions),
    ("configuration", doctor_places.configuration),
    ("places", doctor_places.places),
    ("daemon", doctor_daemon.daemon),
    ("endpoint", doctor_places.endpoint),
    ("probe", doctor_daemon.probing),
    ("environment", doctor_daemon.environment),
    ("roots", doctor_roots.roots),
    ("service", doctor_daemon.service),
    ("database", doctor_places.database),
    ("log", doctor_places.log),
    ("limits", doctor_machine.limits),
    ("disk", doctor_machine.disk),
    ("clock", doctor_machine.clock),
)


def cmd_doctor(words: Namespace, console: Console) -> int:
    """Look at everything; exit with 1 when something does not work."""
    rows = examine(console, paths=words.paths)
    console.show(
        answer_of(rows, version=__version__, paths=words.paths),
        lambda: doctor_page(
            rows, program=called() if words.paths else PROGRAM, cells=console.cells, paint=console.paint
        ),
    )
    return WRONG if any(row.state == "error" for row in rows) else 0


def examine(
    console: Console,
    *,
    paths: bool,
    checks: Sequence[tuple[str, Callable[[Case], Iterable[Row]]]] = CHECKS,
    longest_s: float = LONGEST_S,
) -> list[Row]:
    """Make all checks, each for `longest_s` seconds at most; give their rows in order."""
    found: list[Case] = []
    rows = _within("doctor", lambda: _opened(console, found, paths=paths), longest_s, paths=paths)
    for name, check in checks if found else ():
        rows += _within(name, lambda check=check: check(found[0]), longest_s, paths=paths)  # type: ignore[misc]  # bound now
    return rows


def _opened(console: Console, found: list[Case], *, paths: bool) -> Iterable[Row]:
    found.append(open_case(console.env, paths=paths))
    return ()


def _within(name: str, check: Callable[[], Iterable[Row]], longest_s: float, *, paths: bool) -> list[Row]:
    rows: list[Row] = []

    def make() -> None:
        try:
            rows.extend(_each(check()))
        except Exception as failed:  # noqa: BLE001 - a check that fails is what the doctor has to tell
            rows.append(_failed(name, failed, paths=paths))

    # A call that hangs in the system cannot be ended: it is left behind, and goes with the process.
    thread = threading.Thread(target=make, name=f"doctor {name}", daemon=True)
    thread.start()
    thread.join(longest_s)
    seen = list(rows)
    if thread.is_alive():
        seen.append(
            error(
                name,
                f"this check did not come back within {longest_s:g} s",
                "a file system, or another program, does not answer",
                "look whether a network file system hangs",
            )
        )
    return seen


def _each(rows: Iterable[Row]) -> Iterable[Row]:
    yield from rows


def _failed(name: str, failed: Exception, *, paths: bool) -> Row:
    if isinstance(failed, ZcsyncdError):
        said, mend = failed.message, failed.hint
    elif isinstance(failed, OSError):
        said, mend = failed.strerror or type(failed).__name__, None
    else:
        said, mend = f"{type(failed).__name__}: {failed}", "please report it"
    # What an error says may name things of the person's.
    return error(
        name,
        f"this check could not be made ({type(failed).__name__})",
        said if paths else None,
        (mend if paths else None) or (None if paths else "--paths shows why"),
    )
