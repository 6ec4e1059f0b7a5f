"""`zcsyncd` and `python -m zcsyncd`: the control command's first step. Door: sys.

The commonest question, `zcsyncd status`, is answered before anything heavy is imported.
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
    if arguments[:1] == ["status"]:
        from zcsyncd.cli.outcome import ended, widen_stdout
        from zcsyncd.cli.quick import quick_status

        widen_stdout()
        code = ended(lambda: _found(quick_status(arguments, os.environ)))
        if code != _NOT_QUICK:
            return code
    from zcsyncd.cli.main import main as full

    return full(arguments)


_NOT_QUICK = -1


def _found(code: int | None) -> int:
    return _NOT_QUICK if code is None else code


if __name__ == "__main__":
    sys.exit(main())
