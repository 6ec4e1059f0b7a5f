"""Which of two versions is the newer one, and what a person does about a daemon of another one. Pure.

Rule 1: `zcsyncd status` imports this module on its fast path: nothing heavy here.
"""

from __future__ import annotations

_STAGES = {"dev": -4, "a": -3, "b": -2, "rc": -1, "": 0, "post": 1}
"""What may follow the numbers, in its order (https://peps.python.org/pep-0440/)."""


def version_key(version: str) -> tuple[tuple[int, ...], int, int] | None:
    """Give what versions are ordered by; None for one that is not of our kind, such as `?`.

    `1.2` and `1.2.0` are the same; what follows a `+` does not count.
    """
    numbers: list[int] = []
    stage, serial = 0, 0
    for part in version.partition("+")[0].split("."):
        digits, rest = _digits(part)
        if digits is not None and stage == 0:
            numbers.append(digits)
        elif digits is not None:
            return None
        if rest:
            word = rest.rstrip("0123456789")
            if word not in _STAGES or stage:
                return None
            stage, serial = _STAGES[word], int(rest[len(word) :] or 0)
        elif digits is None:
            return None
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers), stage, serial


def _digits(part: str) -> tuple[int | None, str]:
    rest = part.lstrip("0123456789") if part.isascii() else part
    head = part[: len(part) - len(rest)]
    return (int(head) if 0 < len(head) < 10 else None), rest


def skew_words(ours: str, daemons: str) -> str | None:
    """Tell what to do about a daemon of another version than this command; None: it is the same."""
    if ours == daemons or not daemons:
        return None
    mine, theirs = version_key(ours), version_key(daemons)
    if mine is not None and mine == theirs:
        return None
    if mine is None or theirs is None:
        return (
            f"the daemon is version {daemons}, this command is {ours}: one of them is of another installation"
        )
    if mine > theirs:
        return (
            f"the daemon is version {daemons}, older than this command ({ours}): `zcsyncd service restart`; if that "
            "does not help, it is of another installation, and `zcsyncd service install` has this one run"
        )
    return (
        f"the daemon is version {daemons}, newer than this command ({ours}): upgrade this installation, or call the "
        "command of the daemon's"
    )
