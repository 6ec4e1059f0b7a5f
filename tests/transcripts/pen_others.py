"""The pens of others: ZCode from its old copy, pi in place, a person, programs that lose or delete something."""

from __future__ import annotations

import os
import re
import shutil

from tests.transcripts.machine import entry, save
from tests.transcripts.pen_room import BELOW, INDEX, NAMES, Room, front, targets
from tests.transcripts.pen_script import Script


class Others(Script):
    """What happens to a memory directory without us."""

    def zcode_reads(self, room: Room) -> None:
        """A session of ZCode begins: it holds the index as it is now."""
        room.hold()

    def zcode_writes(self, room: Room) -> None:
        """A session of ZCode writes a fact, and the whole index from the copy that it holds, with its own entry."""
        if not room.copies:
            room.hold()  # and at once: nobody else's entry is lost by it
        place = self.random.randrange(len(room.copies))
        name = self.random.choice([*NAMES, *BELOW])
        self.say(room, f"zcode writes {name} from copy {place}")
        room.memory.mkdir(parents=True, exist_ok=True)
        if self.random.random() < 0.8:
            self.save_fact(room, name)
        room.copies[place] += entry(f"{name}.md", name, self.word()).encode()
        save(room.memory / INDEX, room.copies[place])
        room.since.append("zcode")

    def zcode_edits(self, room: Room) -> None:
        """Another program replaces a fact by a new version, or by one of long ago."""
        facts = room.facts()
        if facts:
            file = self.random.choice(facts)
            old = list(room.had.get(file, {}).values())
            new = self.random.choice(old) if old and self.random.random() < 0.3 else self.fact(file[:-3])
            self.say(room, f"another edits {file} {'as of long ago' if new in old else ''}")
            save(room.memory / file, new)
            room.since.append("edit")

    def pi_writes(self, room: Room) -> None:
        """Pi writes in place: it empties the file and fills it; sometimes it is not done yet when others come."""
        room.finish_halves()  # one pen that is half done at a time: two would garble the file between them
        name = self.random.choice([*NAMES, *BELOW])
        (room.memory / "below").mkdir(parents=True, exist_ok=True)
        if self.random.random() < 0.6:
            file, content = (
                INDEX,
                (room.index() or b"# Memory\n\n") + entry(f"{name}.md", name, self.word()).encode(),
            )
            if not (room.memory / f"{name}.md").exists():
                self.save_fact(room, name)
        else:
            file, content = f"{name}.md", self.fact(name)
        half = self.random.random() < 0.4
        self.say(room, f"pi writes {file} for {name} {'half of it' if half else ''}")
        cut = self.random.randrange(1, len(content)) if half else len(content)
        opened = open(room.memory / file, "wb", buffering=0)  # noqa: SIM115 - it stays open between two steps
        opened.write(content[:cut])
        room.halves.append((opened, content[cut:]))
        if not half:
            room.finish_halves()
        room.since.append("pi")

    def pi_ends(self, room: Room) -> None:
        """Pi writes the rest."""
        if room.halves:
            self.say(room, "pi writes the rest")
            room.finish_halves()
            room.since.append("pi")

    def person_takes_out(self, room: Room) -> None:
        """Somebody takes some lines out of the index, moves one, or has one twice."""
        index = room.index()
        if not index or not targets(index) or room.halves:
            return
        lines = index.decode().splitlines(keepends=True)
        places = [place for place, line in enumerate(lines) if line.startswith("- ")]
        what = self.random.choice(["one", "some", "move", "twice"])
        chosen = set(self.random.sample(places, min(len(places), 3 if what == "some" else 1)))
        self.say(room, f"a person edits the index: {what} {sorted(lines[place].strip() for place in chosen)}")
        kept = [line for place, line in enumerate(lines) if place not in chosen]
        if what == "move":
            kept.insert(
                self.random.choice(places[: len(places) - 1] or [0]), *(lines[place] for place in chosen)
            )
        elif what == "twice":
            kept = [*lines, *(lines[place] for place in chosen)]
        save(room.memory / INDEX, "".join(kept))
        room.since.append("lines")

    def deletes(self, room: Room) -> None:
        """Somebody deletes facts: one, several, many."""
        facts = room.facts()
        count = min(len(facts), self.random.choice([1, 1, 3, 6, 8]))
        gone = self.random.sample(facts, count)
        self.say(room, f"another deletes {gone}")
        for file in gone:
            (room.memory / file).unlink()
        room.since.append("delete")

    def deletes_folder(self, room: Room) -> None:
        """Somebody deletes the folder below, with its facts."""
        if (room.memory / "below").is_dir():
            self.say(room, "another deletes the folder below")
            shutil.rmtree(room.memory / "below")
            room.since.append("delete")

    def renames(self, room: Room) -> None:
        """Somebody gives a fact a name that no other pen uses."""
        facts = room.facts()
        if facts:
            file = self.random.choice(facts)
            self.say(room, f"another renames {file}")
            os.rename(room.memory / file, room.memory / f"{self.word()}.md")
            room.since.append("rename")
            room.moved.add(file.removesuffix(".md").rpartition("/")[2])

    def blanks(self, room: Room) -> None:
        """A program writes a fact's front matter anew and loses its description, or cuts the fact short."""
        if room.halves:
            return
        disk = room.disk()
        facts = [file for file in room.facts() if front(disk[file])["description"]]
        if not facts:
            return
        file = self.random.choice(facts)
        if len(disk[file]) >= 1024 and self.random.random() < 0.5:
            self.say(room, f"another cuts {file} short")
            save(room.memory / file, disk[file][: disk[file].index(b"---\n", 4) + 4] + b"\nshort\n")
            room.since.append("fact-shrunk " + file)
        else:
            self.say(room, f"another blanks {file}")
            save(
                room.memory / file, re.sub(rb"(?m)^description: .*$", b'description: ""', disk[file], count=1)
            )
            room.since.append("fact-blanked " + file)

    def deletes_index(self, room: Room) -> None:
        """Somebody deletes the index."""
        if (room.memory / INDEX).exists():
            self.say(room, "another deletes the index")
            (room.memory / INDEX).unlink()
            room.since.append("index")

    def deletes_directory(self, room: Room) -> None:
        """Somebody deletes the whole directory."""
        if room.memory.exists():
            self.say(room, "another deletes the directory")
            shutil.rmtree(room.memory)
            room.entered.clear()
            room.since.append("directory")
