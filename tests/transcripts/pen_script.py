"""What every part of a script needs: a machine with its daemon, chance that hangs on a seed, and words."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.transcripts.machine import PATIENCE_S, Machine, Running, save, until
from tests.transcripts.pen_room import BELOW, NAMES, Room, digest
from zcsyncd.bus.client import Client
from zcsyncd.daemon.alone import answer_alone

ROOMS = 4
MOST_VERSIONS = 20
"""Former versions that are kept of a file; what falls out by age or for want of room is tested elsewhere."""
SETTINGS = f"history:\n  max_versions: {MOST_VERSIONS}\n"


class Script:
    """A machine with some rooms, and one script of what is done in them."""

    def __init__(self, machine: Machine, seed: int, rooms: int = ROOMS) -> None:
        self.machine = machine
        self.random = random.Random(seed)
        self.seed = seed
        self.number = 0
        self.steps: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.daemon: Running | None = None
        self.rooms = [Room(machine.project(f"room{number}")) for number in range(rooms)]
        machine.configure(SETTINGS)
        for room in self.rooms:
            facts = [*self.random.sample(NAMES, 8), *BELOW]
            room.project.make()
            for name in facts:
                self.save_fact(room, name)
            room.project.write_index(*(f"{name}.md" for name in facts))
            room.before = room.disk()
            room.told = {file: digest(content) for file, content in room.before.items()}
            for file, content in room.before.items():
                room.must_have(file, content)
        self.start()

    # -- words

    def word(self) -> str:
        self.number += 1
        return f"w{self.number}x{self.random.randrange(1000)}"

    def fact(self, name: str, words: int | None = None) -> bytes:
        """Compose a fact as another program does; each is different."""
        words = words or self.random.choice([1, 3, 300])
        text = " ".join(self.word() if count < 4 else "and more" for count in range(words))
        description = f"says {self.word()}"
        return (
            f"---\nname: {name.rpartition('/')[2]}\ndescription: {description}\n"
            f"metadata:\n  node_type: memory\n  type: project\n---\n\n{text}\n"
        ).encode()

    def save_fact(self, room: Room, name: str) -> None:
        path = room.memory / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        save(path, self.fact(name))

    def say(self, room: Room | None, what: str) -> None:
        where = "" if room is None else f"{room.memory.parent.name[:5]} "
        self.steps.append(where + what)

    # -- the daemon

    def start(self) -> None:
        for room in self.rooms:
            room.finish_halves()
        self.daemon = self.machine.start()
        # Plain: that answers fit `describe` is held elsewhere, and would take more time here than all else.
        self.client = Client(self.machine.address, PATIENCE_S)
        self.client.connect()
        if self.events or self.steps:
            self.listener = self.daemon.listen(since=self.cursor)
            assert self.listener.begun == self.cursor, "the journal does not go on where it was"
        else:
            self.listener = self.daemon.listen()
            self.cursor = self.begun = self.listener.begun
        until(lambda: self.call("memory.search", query="x").get("complete", True), "everything saved")

    def close(self) -> None:
        """Let go of what a script that failed still holds."""
        for room in self.rooms:
            for file, _ in room.halves:
                file.close()

    def end(self, *, kill: bool) -> None:
        assert self.daemon is not None
        self.hear()
        (self.daemon.kill if kill else self.daemon.stop)()
        for client in (self.client, self.listener):
            client.close()
        self.daemon = None

    def hear(self) -> None:
        """Follow what was told so far."""
        heard, self.listener.heard = self.listener.gather(), []
        for event in heard:
            assert event["topic"] != "bus/gap", event
            self.cursor = event["cursor"]
            self.events.append(event)
            room = next((room for room in self.rooms if room.dir == event["dir"]), None)
            if room is not None:
                follow(room.told, event)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask the daemon, or do without one while there is none."""
        if self.daemon is not None:
            return self.client.call(method, params, timeout_s=PATIENCE_S)
        # What goes over no wire is still what would have gone over it.
        return json.loads(json.dumps(answer_alone(self.machine.env, method, params)))

    def down(self) -> None:
        """Let some time pass without a daemon, then start it."""
        raise NotImplementedError


def follow(told: dict[str, str], event: dict[str, Any]) -> None:
    """Take in what an event says of files; each has to follow from what was known."""
    for change in event["data"].get("changes", ()):
        kind, file = change["kind"], change["file"]
        if kind == "deleted":
            assert told.pop(file, None) is not None, f"deleted, and was not there: {change}"
            continue
        if kind == "renamed":
            told.pop(change["from"])
        elif kind == "added":
            assert file not in told, f"added twice: {change}"
        else:
            assert told.get(file) not in (None, change["contentHash"]), (
                f"told twice, or never added: {change}"
            )
        told[file] = change["contentHash"]
