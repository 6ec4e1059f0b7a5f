"""The subscriber's side: connects, notes what it is told and when. A process of its own; the same for all contestants.

Run as `python -m benchmarks.listener KIND SOCKET ROOT`. Prints `ready` once subscribed. On the line `dump SECONDS` it
waits until nothing has come for so long and prints all it was told as JSON: `[what, content hash or null, ns]`.
A line counts as told when its JSON has been decoded.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections.abc import Iterator

Told = tuple[str, str | None]


def from_relay(message: dict) -> Iterator[Told]:
    if "path" in message:
        yield message["path"], None


def from_watchman(message: dict) -> Iterator[Told]:
    for name in message.get("files", ()) if not message.get("is_fresh_instance") else ():
        yield f"{message['root']}/{name}", None


def from_zcsyncd(message: dict) -> Iterator[Told]:
    if message.get("method") != "event":
        return
    event = message["params"]
    data = event["data"]
    if event["topic"] == "memory/changed":
        for change in data["changes"]:
            yield f"{event['dir']}/{change['file']}", change.get("contentHash")
    else:
        yield event["topic"], data.get("reason")


TALKS = {"relay": from_relay, "watchman": from_watchman, "zcsyncd": from_zcsyncd}


def greet(bus: socket.socket, kind: str, root: str) -> None:
    if kind == "zcsyncd":
        params = {"topics": ["memory/changed", "daemon/*"]}
        bus.sendall(_line({"jsonrpc": "2.0", "id": 1, "method": "events.subscribe", "params": params}))
    if kind == "watchman":
        query = {"expression": ["suffix", "md"], "fields": ["name"]}
        bus.sendall(_line(["watch", root]))
        bus.recv(1 << 16)  # it takes no second question before the first is answered
        bus.sendall(_line(["subscribe", root, "benchmark", query]))


def is_ready(kind: str, message: dict) -> bool:
    if kind == "watchman":
        return bool(message.get("is_fresh_instance"))  # the first telling lists what is there
    return message.get("id") == 1 or bool(message.get("ready"))


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def main() -> None:
    kind, address, root = sys.argv[1:]
    talk = TALKS[kind]
    bus = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    bus.connect(address)
    greet(bus, kind, root)
    unread, told = bytearray(), []
    last, quiet_s = time.monotonic(), None
    while True:
        wait_s = None if quiet_s is None else max(0.0, last + quiet_s - time.monotonic())
        ready, _, _ = select.select([bus] if quiet_s is not None else [bus, sys.stdin], [], [], wait_s)
        if bus in ready:
            data = bus.recv(1 << 18)
            if not data:
                raise SystemExit(f"{kind} hung up")
            last = time.monotonic()
            unread += data
            *lines, rest = unread.split(b"\n")
            for line in lines:
                message = json.loads(line)
                now = time.monotonic_ns()
                if "error" in message:
                    raise SystemExit(f"{kind}: {message['error']}")
                told += [(what, content, now) for what, content in talk(message)]
                if is_ready(kind, message):
                    print("ready", flush=True)
            unread = rest
        elif quiet_s is not None:
            print(json.dumps(told), flush=True)
            told, quiet_s = [], None
        elif sys.stdin in ready:
            command = sys.stdin.readline().split()
            if not command:
                return
            quiet_s, last = float(command[1]), time.monotonic()


if __name__ == "__main__":
    main()
