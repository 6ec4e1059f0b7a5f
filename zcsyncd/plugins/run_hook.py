"""What a host's hook command starts: `python -IS run_hook.py HOST`. Door: sys.

Rule 1: without `site` the interpreter starts in half the time, and does not find us: this file says where we lie.
Rule 2: a host is never shown a failure.
Rule 3: as little as possible is done here: what is started by its path is compiled anew each time.
"""

import sys

# At the end: nothing beside us is to be taken for a module of the standard library.
sys.path.append(__file__.replace("\\", "/").rsplit("/", 3)[0])

try:
    from zcsyncd.plugins.hook import main

    main(sys.argv[1:])
except Exception:  # noqa: BLE001 - a package that is half upgraded, an interpreter of another version
    sys.exit(0)
