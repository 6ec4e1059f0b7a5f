"""`zcsyncd run` under cProfile. Run as `python -m benchmarks.profiled run`; writes `$ZCSYNCD_STATE_DIR/profile`."""

from __future__ import annotations

import cProfile
import os
import sys

from zcsyncd.__main__ import main

if __name__ == "__main__":
    profiler = cProfile.Profile()
    try:
        code = profiler.runcall(main, sys.argv[1:])
    finally:
        profiler.dump_stats(os.path.join(os.environ["ZCSYNCD_STATE_DIR"], "profile"))
    sys.exit(code)
