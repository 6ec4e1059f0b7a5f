"""One request answered without a running daemon: a short one, without socket and watch, for the control command.

Rule 1: the same lock, history, journal and rules as the running daemon's; what is written here its subscribers hear of
when they come back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from zcsyncd.bus.requests import check_params
from zcsyncd.bus.server import Call
from zcsyncd.daemon.app import Daemon, opened
from zcsyncd.daemon.handlers import Handlers

if TYPE_CHECKING:
    from zcsyncd.bus.server import Link


_WRITING = frozenset(
    {"memory.write", "memory.forget", "memory.repair", "history.restore", "history.undo", "history.purge"}
)


class _Nobody:
    """The connection of somebody who has no connection: reaches everything, has no session."""

    number = 0
    session = None


def answer_alone(env: Mapping[str, str], method: str, params: Mapping[str, object]) -> dict[str, object]:
    """Answer a request about memory or history as the daemon of this environment would.

    Raises:
        AlreadyRunning: a daemon runs; it is to be asked.
        ZcsyncdError: what the daemon would say is wrong with the request.
    """
    checked = check_params(method, params)

    async def answer(daemon: Daemon) -> dict[str, object]:
        daemon.sweep()
        await daemon.look_once(checked)
        if method == "memory.search":
            await daemon.keeping.finish()
        try:
            answer = await Handlers(daemon).answer(Call(method, checked, cast("Link", _Nobody())))
            if method in _WRITING:
                # What comes after us may destroy what nobody watches: it is saved now.
                await daemon.keeping.finish()
            return answer
        finally:
            await daemon.pipeline.stop()
            daemon.database.close()

    with opened(env, logs=False) as make:

        async def main() -> dict[str, object]:
            return await answer(make())

        return asyncio.run(main())
