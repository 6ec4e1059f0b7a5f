"""What a session has missed, as a hook of a host tells it: prints the text for the model, or nothing.

python news.py HOST ID CWD [REASON]
"""

import sys
from contextlib import suppress

from zcsyncd.bus.client import Client
from zcsyncd.errors import ZcsyncdError


def main(host: str, name: str, cwd: str, reason: str = "attach") -> None:
    """Ask, print, confirm."""
    # A hook must not keep its host waiting: what does not come within the deadline does not come.
    with Client(timeout_s=0.25) as client:
        client.hello("news.py", "1", {"host": host, "id": name, "cwd": cwd, "reason": reason})
        news = client.call("session.news", timeout_s=0.25)
        if news["text"]:
            print(news["text"], flush=True)  # noqa: T201 - what a hook says
            # Here the text has gone out. A hook whose output may still be lost confirms with its next call instead.
            client.call("session.confirm", token=news["token"], told=True)


if __name__ == "__main__":
    # Without a daemon the host works on; it can be told once per session.
    with suppress(ZcsyncdError):
        main(*sys.argv[1:])
