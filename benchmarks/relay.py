"""The least that could do the job: inotify → Unix socket, nothing read, hashed, compared or kept. Door: asyncio.

Run as `python -m benchmarks.relay ROOT SOCKET`; every `.md` that was closed after writing or moved into place is one
JSON line to everybody who is connected.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from benchmarks.inotify import IN_CLOSE_WRITE, IN_MOVED_TO, Inotify


async def relay(root: str, address: str) -> None:
    """Serve for ever."""
    queue = Inotify()
    queue.watch_tree(root, IN_CLOSE_WRITE | IN_MOVED_TO)
    listeners: set[asyncio.StreamWriter] = set()

    def pump() -> None:
        while seen := queue.read():
            for event in seen:
                if event.path.endswith(".md"):
                    line = json.dumps({"path": event.path}).encode() + b"\n"
                    for listener in listeners:
                        listener.write(line)

    async def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listeners.add(writer)
        writer.write(b'{"ready": true}\n')
        await reader.read()
        listeners.discard(writer)
        writer.close()

    asyncio.get_running_loop().add_reader(queue.descriptor, pump)
    beginning = address + ".new"
    server = await asyncio.start_unix_server(welcome, path=beginning)
    os.rename(beginning, address)  # whoever sees the name can connect
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(relay(sys.argv[1], sys.argv[2]))
