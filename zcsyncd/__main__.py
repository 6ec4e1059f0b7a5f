"""`zcsyncd` and `python -m zcsyncd`: the control command's first step. Door: sys.

The commonest question, `zcsyncd status`, is answered before anything heavy is imported; a hook of a host
(`zcsyncd hook HOST`, in no help text) is, too, and ends the process itself.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and give its exit code; `argv` without the program's name, None takes the process's own."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if arguments[:1] == ["hook"]:
            from zcsyncd.plugins.hook import main as hook

            hook(arguments[1:])
        if arguments[:1] == ["status"]:
            code = _status(arguments)
            if code is not None:
                return code
        from zcsyncd.cli.main import main as full

        return full(arguments)
    except KeyboardInterrupt:  # while something is still being imported
        return 130


def _status(arguments: Sequence[str]) -> int | None:
    """Take the fast path; None when the full command has to do it."""
    from zcsyncd.cli.outcome import ended, widen_stdout
    from zcsyncd.cli.quick import quick_status

    widen_stdout()
    given: list[int | None] = []

    def act() -> int:
        given.append(quick_status(arguments, os.environ))
        return given[0] or 0

    code = ended(act)
    return None if given == [None] else code


if __name__ == "__main__":
    sys.exit(main())
