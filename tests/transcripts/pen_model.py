"""Random scripts of many pens on some memory directories, on the real daemon over stops and kills.

    seed ─► World (one machine, its daemon, some rooms) ─► steps: our acts, others' acts, restarts ─► flush, check

Rule 1: a script hangs on its seed alone: the seed that a failure names replays it.
Rule 2: what is checked is read from the disk and from what the acts were answered, never by the daemon's own code.
Rule 3: every content that our pen acknowledged, and every one that lay there at a flush, must be had until twenty later
ones of its file are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from tests.transcripts.pen_checks import Checks
from tests.transcripts.pen_others import Others
from tests.transcripts.pen_room import Room

MOST_TOLD = 60
"""Steps that a failure tells."""


class World(Others, Checks):
    """A machine with some rooms, and one script of what is done in them."""

    def step(self, acts: dict[Act, int] | None = None) -> None:
        """Do something somewhere."""
        acts = acts or STEPS
        room = self.random.choice(self.rooms)
        act = self.random.choices(list(acts), list(acts.values()))[0]
        act(self, room)
        for each in self.rooms:
            each.mend()

    def restart(self, _room: Room) -> None:
        """End the daemon, in peace or not; others go on meanwhile, and so do we, without it."""
        kill = self.random.random() < 0.6
        self.say(None, "kill -9" if kill else "stop")
        self.end(kill=kill)
        self.down()

    def down(self) -> None:
        """Let some time pass without a daemon, then start it."""
        for _ in range(self.random.choice([0, 0, 1, 3])):
            room = self.random.choice(self.rooms)
            act = self.random.choices(list(WITHOUT), list(WITHOUT.values()))[0]
            act(self, room)
            for each in self.rooms:
                each.mend()
        self.say(None, "start")
        self.start()
        self.flush()


Act = Callable[[World, Room], None]

STEPS: dict[Act, int] = {
    World.write: 20,
    World.forget: 6,
    World.restore: 8,
    World.undo: 8,
    World.repair: 5,
    World.many_writers: 2,
    World.killed_amid: 2,
    World.zcode_reads: 5,
    World.zcode_writes: 14,
    World.zcode_edits: 6,
    World.pi_writes: 8,
    World.pi_ends: 4,
    World.person_takes_out: 6,
    World.deletes: 4,
    World.renames: 1,
    World.blanks: 4,
    World.deletes_folder: 2,
    World.deletes_index: 2,
    World.deletes_directory: 1,
    World.restart: 2,
    World.flush: 24,
}
"""What may happen, and how often."""

RACES: dict[Act, int] = {
    World.races: 12,
    World.write: 2,
    World.zcode_reads: 2,
    World.flush: 6,
    World.restart: 1,
}
"""What may happen where moments count."""

WITHOUT = {
    act: weight
    for act, weight in STEPS.items()
    if act not in (World.many_writers, World.killed_amid, World.restart, World.flush)
}
"""What may happen while no daemon runs."""


@contextlib.contextmanager
def told_seed(world: World) -> Iterator[None]:
    """Say with a failure which seed and which steps led to it."""
    try:
        yield
    except BaseException as error:
        steps = "\n  ".join(step for step in world.steps[-MOST_TOLD:])
        error.add_note(f"seed {world.seed} (ZCSYNCD_SEED={world.seed} replays it); steps:\n  {steps}")
        if world.daemon is not None and (code := world.daemon.process.poll()) is not None:
            error.add_note(
                f"the daemon ended with {code}: {world.daemon.said()} {world.daemon.log()[-2000:]}"
            )
        raise
    finally:
        world.close()
