"""Acts of our own pen, through the daemon or without it: each is checked at once, and noted for later."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from typing import Any

from tests.transcripts.machine import PATIENCE_S, entry, save, until
from tests.transcripts.pen_room import (
    BELOW,
    INDEX,
    NAMES,
    UNKNOWN,
    Room,
    digest,
    front,
    ms,
    revision_of,
    says,
    targets,
)
from tests.transcripts.pen_script import Script
from zcsyncd.bus.client import Client
from zcsyncd.errors import AlreadyExists, NotFound, Refused, RevisionConflict, Unreadable, ZcsyncdError

MOST_LISTED = 500


class Ours(Script):
    """What a person, or an agent for them, asks of the daemon."""

    def ours(
        self,
        room: Room,
        may_change: set[str],
        method: str,
        fails: tuple[type[ZcsyncdError], ...] = (),
        **params: Any,
    ) -> dict[str, Any] | ZcsyncdError:
        """Do an act of ours; give its answer, or the error, and note what became of the files."""
        before = room.disk()
        allowed = fails
        if room.halves:
            allowed += (RevisionConflict, Unreadable, Refused, NotFound)
        if not room.before or "directory" in room.since:
            allowed += (NotFound,)  # it was made a moment ago, and nobody was told
        error: ZcsyncdError | None = None
        answer: dict[str, Any] = {}
        try:
            answer = self.call(method, **params)
        except ZcsyncdError as raised:
            if not isinstance(raised, allowed):
                raise
            error = raised
        after = room.disk()
        changed = {file for file in before.keys() | after.keys() if before.get(file) != after.get(file)}
        if error is None:
            assert changed <= may_change, (changed, may_change, answer)
        else:
            written = error.data.get("written", [])
            assert changed <= set(written), f"{error!r} {error.hint} changed {changed}"
        if changed:
            room.last = {file: (before.get(file), after.get(file)) for file in changed}
            room.since.append("ours")
            for file in changed:
                room.must_have(file, before.get(file))
                room.must_have(file, after.get(file))
                if after.get(file) is None or error is not None:
                    room.entered.discard(file)
        return error or answer

    def write(self, room: Room) -> None:
        """Create or upsert, with or without a revision that is right or stale."""
        name = self.name(room)
        file = f"{name}.md"
        there = room.disk().get(file)
        mode = self.random.choice(["create", "upsert", "upsert"])
        params = self.note(name, mode)
        revision = self.random.choice([None, None, "right", "stale"])
        fails: tuple[type[ZcsyncdError], ...] = ()
        if revision == "right" and there is not None:
            params["ifRevision"] = revision_of(room.memory / file)
        elif revision == "stale":
            params["ifRevision"] = "mtime:1700000000000:size:7"
            fails = (RevisionConflict,)
        if mode == "create" and there is not None:
            fails = (AlreadyExists,)
        gone_below = there is None and name in BELOW
        if gone_below:
            fails = (*fails, Refused)
        where = {"dir": room.dir} if room.memory.is_dir() else {"cwd": str(room.project.cwd)}
        self.say(room, f"write {mode} {name} revision={revision} there={there is not None}")
        answer = self.ours(room, {file, INDEX}, "memory.write", fails, **where, **params)
        if isinstance(answer, ZcsyncdError):
            return
        # A fact that went a moment ago is made again where it was; one that nobody knows is not made below.
        assert not fails or (gone_below and revision != "stale"), f"{fails} was to come, and not {answer}"
        assert answer["action"] == ("created" if there is None else "overwrote")
        assert answer["revision"] == revision_of(room.memory / file)
        self.check_written(room, file, params)

    def name(self, room: Room) -> str:
        """Choose a fact's name that no fact with another file name bears."""
        return self.random.choice([name for name in [*NAMES, *BELOW] if name not in room.moved])

    def note(self, name: str, mode: str = "upsert") -> dict[str, Any]:
        """Give the parameters of a write."""
        return {
            "name": name,
            "description": f"tells {self.word()}",
            "type": self.random.choice(["user", "feedback", "project", "reference"]),
            "body": " ".join(self.word() for _ in range(self.random.choice([0, 2, 200]))) + "\n",
            "mode": mode,
        }

    def check_written(self, room: Room, file: str, params: dict[str, Any]) -> None:
        """See to it that what was acknowledged is there, whole."""
        disk = room.disk()
        said = front(disk[file])
        assert says(disk[file], params["body"])
        assert (said["description"], said["metadata"]["type"]) == (params["description"], params["type"])
        assert targets(disk.get(INDEX)).count(file) >= 1, f"{file} was acknowledged without an entry"
        room.must_have(file, disk[file])
        room.entered.add(file)

    def forget(self, room: Room) -> None:
        """Forget a fact, of which there may be none."""
        name = self.random.choice([*NAMES, *BELOW])
        file = f"{name}.md"
        before = room.disk()
        there = before.get(file)
        self.say(room, f"forget {name} there={there is not None}")
        fails = () if there is not None else (NotFound,)
        answer = self.ours(room, {file, INDEX}, "memory.forget", fails, dir=room.dir, name=file)
        if isinstance(answer, ZcsyncdError):
            return
        assert there is not None, answer
        assert file not in room.disk()
        assert file not in targets(room.index())
        assert answer["index"] == ("removed" if file in targets(before.get(INDEX)) else "unchanged")
        assert self.call("history.show", saved=answer["saved"])["text"].encode() == there

    def restore(self, room: Room) -> None:
        """Give a file one of the contents that it had; the index seldom."""
        versions = self.versions(room)
        file = INDEX if self.random.random() < 0.1 else f"{self.random.choice([*NAMES, *BELOW])}.md"
        choice = [version for version in versions if version["file"] == file and self.is_text(version)]
        if choice:
            self.restore_version(room, self.random.choice(choice))

    def restore_version(self, room: Room, version: dict[str, Any]) -> None:
        file = version["file"]
        before = room.disk()
        wanted = self.content(version)
        self.say(
            room, f"restore {file} {'away' if wanted is None else version['saved']} there={file in before}"
        )
        fails = (NotFound,) if wanted is None and file not in before else ()
        answer = self.ours(room, {file, INDEX}, "history.restore", fails, saved=version["saved"])
        if isinstance(answer, ZcsyncdError):
            return
        assert not fails, answer
        after = room.disk()
        assert after.get(file) == wanted
        if wanted is not None and before.get(file) != wanted:
            assert ms(os.stat(room.memory / file).st_mtime_ns) == version["mtimeMs"]
        if file != INDEX and wanted is not None and file not in before:
            assert file in targets(after.get(INDEX)), f"{file} came back without its entry"
            room.entered.add(file)

    def content(self, version: dict[str, Any]) -> bytes | None:
        """Give a version's bytes; None: there was no such file."""
        if version["contentHash"] is None:
            return None
        content = self.call("history.show", saved=version["saved"])["text"].encode()
        assert digest(content) == version["contentHash"]
        return content

    def is_text(self, version: dict[str, Any]) -> bool:
        """Tell whether a version is no file cut inside a character: that is had back as well, but is no UTF-8."""
        return version["contentHash"] is None or "encoding" not in self.call(
            "history.show", saved=version["saved"]
        )

    def versions(self, room: Room) -> list[dict[str, Any]]:
        with contextlib.suppress(NotFound):
            found = self.call("history.list", dir=room.dir, limit=MOST_LISTED)["versions"]
            assert len(found) < MOST_LISTED
            return found
        return []

    def undo(self, room: Room) -> None:
        """Take back our last act, unless somebody wrote to its facts since."""
        before, last = room.disk(), room.last
        self.say(room, f"undo {'of nobody knows what' if last is UNKNOWN else sorted(last or ())}")
        if last is UNKNOWN:
            self.ours(
                room, {*before, *(f"{name}.md" for name in [*NAMES, *BELOW]), INDEX}, "history.undo", (NotFound, RevisionConflict),
                dir=room.dir,
            )  # fmt: skip
            return
        if last is None:
            assert isinstance(self.ours(room, set(), "history.undo", (NotFound,), dir=room.dir), NotFound)
            return
        facts = last.keys() - {INDEX}
        touched = [file for file in facts or last if before.get(file) not in last[file]]
        fails = (RevisionConflict,) if touched else ()
        answer = self.ours(room, {*last, INDEX}, "history.undo", fails, dir=room.dir)
        if isinstance(answer, ZcsyncdError):
            return
        assert not touched, f"{touched} were written since, and yet: {answer}"
        after = room.disk()
        for file in facts:
            assert after.get(file) == last[file][0], f"the undo did not bring back {file}"
        if INDEX in last and before.get(INDEX) == last[INDEX][1]:
            assert after.get(INDEX) == last[INDEX][0], "the undo did not bring the index back"

    def repair(self, room: Room, *, patiently: bool = False) -> dict[str, Any] | None:
        """Mend what can be mended; None: it is too early, and nobody waits."""
        before = room.disk()
        if not room.memory.is_dir():
            return None

        def tried() -> Any:
            answer = self.ours(room, {INDEX}, "memory.repair", (Refused,), dir=room.dir, apply=True)
            if isinstance(answer, Refused) and not room.halves:
                assert 0 < answer.data["retryAfterMs"] <= 2_000
            return None if isinstance(answer, ZcsyncdError) else answer

        answer = until(tried, "a repair") if patiently else tried()
        self.say(
            room, f"repair {'too early' if answer is None else [fix['code'] for fix in answer['fixes']]}"
        )
        if answer is not None and answer["applied"]:
            assert room.index() != before.get(INDEX)
            if INDEX in before:
                shown = self.call("history.show", saved=answer["saved"])
                assert shown["text"].encode() == before[INDEX]
        return answer

    def many_writers(self, room: Room) -> None:
        """Have four connections write at once, two facts each."""
        if self.daemon is None or room.halves:
            return
        names = self.random.sample([name for name in NAMES if name not in room.moved], 8)
        notes = [self.note(name) for name in names]
        before = room.disk()
        where = {"dir": room.dir} if room.memory.is_dir() else {"cwd": str(room.project.cwd)}
        errors: list[BaseException] = []

        def some(chosen: list[dict[str, Any]]) -> None:
            try:
                with Client(self.machine.address, PATIENCE_S) as client:
                    for note in chosen:
                        client.call("memory.write", {**where, **note})
            except BaseException as error:
                errors.append(error)

        self.say(room, f"eight at once {names}")
        threads = [threading.Thread(target=some, args=(notes[start::4],)) for start in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        for note in notes:
            room.must_have(f"{note['name']}.md", before.get(f"{note['name']}.md"))
            self.check_written(room, f"{note['name']}.md", note)
        room.since.append("ours")
        room.last = UNKNOWN

    def races(self, room: Room) -> None:
        """Have another pen write the index at the very moment of our act; what comes of it hangs on no seed."""
        if self.daemon is None:
            return
        room.finish_halves()
        mine, other = self.random.sample([name for name in NAMES if name not in room.moved], 2)
        forgets = self.random.random() < 0.3 and f"{mine}.md" in room.disk()
        note, before = self.note(mine), room.disk()
        where = {"dir": room.dir} if room.memory.is_dir() else {"cwd": str(room.project.cwd)}
        came: list[Any] = []

        def ours() -> None:
            try:
                with Client(self.machine.address, PATIENCE_S) as client:
                    if forgets:
                        came.append(client.call("memory.forget", {**where, "name": f"{mine}.md"}))
                    else:
                        came.append(client.call("memory.write", {**where, **note}))
            except BaseException as error:
                came.append(error)

        self.say(
            room, f"a race of {'a forget' if forgets else 'a write'} of {mine} with an entry for {other}"
        )
        in_place, delay_s = self.random.random() < 0.5, self.random.random() * 0.012
        room.memory.mkdir(parents=True, exist_ok=True)
        (room.memory / f"{other}.md").write_bytes(self.fact(other))
        thread = threading.Thread(target=ours)
        if self.random.random() < 0.5:
            room.hold()
        theirs = entry(f"{other}.md", other, self.word()).encode()
        thread.start()
        _pass(delay_s)
        content = (self.random.choice(room.copies) if room.copies else room.index() or b"") + theirs
        if in_place:
            (room.memory / INDEX).write_bytes(content)
        else:
            save(room.memory / INDEX, content)
        thread.join()
        assert isinstance(came[0], (dict, RevisionConflict)), f"{came[0]!r}"
        now = room.disk()
        assert theirs.strip() in now[INDEX], "our act destroyed what another pen wrote meanwhile"
        written = came[0].data.get("written", []) if isinstance(came[0], ZcsyncdError) else [f"{mine}.md"]
        if f"{mine}.md" not in written:
            assert now.get(f"{mine}.md") == before.get(f"{mine}.md")
        elif forgets:
            assert f"{mine}.md" not in now
        else:
            assert says(now[f"{mine}.md"], note["body"])
        for file in (f"{mine}.md", INDEX):
            room.must_have(file, before.get(file))
            room.must_have(file, now.get(file))
        room.entered.discard(f"{mine}.md")
        if isinstance(came[0], dict) and not forgets:
            room.entered.add(f"{mine}.md")
        room.since += ["ours", "race"]
        room.last = UNKNOWN

    def killed_amid(self, room: Room) -> None:
        """Ask for a write and kill the daemon at once: it was done, or it was not."""
        if self.daemon is None:
            return
        for each in self.rooms:
            each.finish_halves()
        name = self.random.choice([name for name in NAMES if name not in room.moved])
        file, note = f"{name}.md", self.note(name)
        before = room.disk()
        where = {"dir": room.dir} if room.memory.is_dir() else {"cwd": str(room.project.cwd)}
        request = {"jsonrpc": "2.0", "id": 1, "method": "memory.write", "params": {**where, **note}}
        self.say(room, f"killed amid a write {name}")
        with self.daemon.plain_socket() as asking:
            asking.sendall(json.dumps(request).encode() + b"\n")
            _pass(self.random.random() * 0.006)
            self.end(kill=True)
        for kind in ("ours", "killed"):
            room.since.append(kind)
        room.last = UNKNOWN
        now = room.disk()
        if now.get(file) != before.get(file):
            assert says(now[file], note["body"])
            room.must_have(file, before.get(file))
            room.entered.discard(file)
        if now.get(INDEX) != before.get(INDEX):
            assert set(targets(now[INDEX])) == {*targets(before.get(INDEX)), file}
            room.must_have(INDEX, before.get(INDEX))
        self.down()


def _pass(time_s: float) -> None:
    """Let a moment pass that nobody waits for: a kill is to come at any step."""
    over = time.monotonic() + time_s
    while time.monotonic() < over:
        pass
