"""A bare fan-out: every line that comes on standard input goes to all who are connected. Door: asyncio.

`python -m benchmarks.bare_fan_out ADDRESS SUBSCRIBERS`; it says `ready` when it listens, and `full` when all are there.
"""

from __future__ import annotations

import asyncio
import sys


async def main(address: str, subscribers: int) -> None:
    """Serve until standard input ends."""
    writers: list[asyncio.StreamWriter] = []

    def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        if len(writers) == subscribers:
            print("full", flush=True)

    server = await asyncio.start_unix_server(connected, address, backlog=subscribers)
    commands = asyncio.StreamReader(limit=1_048_576)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(commands), sys.stdin
    )
    print("ready", flush=True)
    while line := await commands.readline():
        for writer in writers:
            writer.write(line)
    server.close()
    for writer in writers:
        writer.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
