"""Killed again and again while others write: each start works, and nothing is lost."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.transcripts.machine import Machine, Project, Running, fact_text, new_machine, save, sequence, until
from zcsyncd.errors import NoDaemon

KILLS = int(os.environ.get("ZCSYNCD_SOAK", "0")) or 25


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine without a daemon."""
    made = new_machine()
    yield made
    made.close()


class Writer(threading.Thread):
    """Another program that saves one file after the other, by renames or in place, until it is told to stop."""

    def __init__(self, project: Project, number: int) -> None:
        super().__init__(name=f"writer-{number}")
        self.project = project
        self.by_rename = number % 2 == 0
        self.files = [f"w{number}-{one}.md" for one in range(4)]
        self.saves = 0
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            file = self.files[self.saves % len(self.files)]
            text = fact_text(file, description=f"Save {self.saves}")
            if self.by_rename:
                save(self.project.memory / file, text)
            else:
                (self.project.memory / file).write_text(text)
            self.saves += 1
            self.stopping.wait(0.003)  # its own pace: 300 saves a second are a busy day


def first_answer(daemon: Running) -> int:
    """Wait for the first answer of a start; give the pid that answered."""

    def answered() -> int:
        assert daemon.process.poll() is None, f"the daemon ended: {daemon.said()}"
        try:
            return int(daemon.call("status")["daemon"]["pid"])
        except NoDaemon:
            return 0

    return int(until(answered, "the first answer"))


def hashes(project: Project) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in Path(project.memory).glob("*.md")
    }


@pytest.mark.timeout(60 + 4 * KILLS)
def test_killed_again_and_again_while_others_write(machine: Machine) -> None:
    """Every start answers, whenever the one before was killed. In the end a subscriber that has followed from the
    first cursor holds exactly what the disk holds: no change was lost, none came twice, and no file of a writer was
    touched."""
    project = machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start()
    begun = daemon.listen().begun
    writers = [Writer(project, number) for number in range(3)]
    for writer in writers:
        writer.start()
    chance = Random(7)
    try:
        for _ in range(KILLS):
            enough = sum(writer.saves for writer in writers) + chance.randrange(60)
            until(lambda enough=enough: sum(writer.saves for writer in writers) >= enough, "some saves")
            daemon.kill()
            daemon = machine.launch()
            first_answer(daemon)
    finally:
        for writer in writers:
            writer.stopping.set()
        for writer in writers:
            writer.join()
    assert all(writer.saves > KILLS for writer in writers)
    daemon.call("daemon.flush")
    listener = daemon.listen(since=begun)
    view = {"a.md": hashes(project)["a.md"]}
    for event in listener.flush():
        assert event["topic"] != "bus/gap", event
        for change in event["data"]["changes"] if event["topic"] == "memory/changed" else ():
            assert change["kind"] in ("added", "updated"), change
            if change["kind"] == "updated":
                assert change["formerHash"] == view[change["file"]], f"a gap before {change}"
            else:
                assert change["file"] not in view, f"twice: {change}"
            view[change["file"]] = change["contentHash"]
    view.setdefault("MEMORY.md", hashes(project)["MEMORY.md"])
    assert view == hashes(project)
    assert {file for writer in writers for file in writer.files} <= view.keys()
    places = [sequence(event["cursor"]) for event in listener.heard]
    assert places == sorted(set(places))
    daemon.stop()
