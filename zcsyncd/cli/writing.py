"""The verbs that write a fact and take one away. Door: the bus, stdin, an editor.

Rule 1: what a person has looked at is what is written over: an editor's text, and a description or type that is
taken over from a fact, go with the revision that they were read at.
"""

from __future__ import annotations

import os
from argparse import Namespace

from zcsyncd.cli import offline
from zcsyncd.cli.act_pages import forget_page, write_page
from zcsyncd.cli.alone import ask_or_do
from zcsyncd.cli.answer import Answer
from zcsyncd.cli.asking import Daemon
from zcsyncd.cli.bodies import body_from, takes_editor
from zcsyncd.cli.calling import called
from zcsyncd.cli.console import Console, agreed
from zcsyncd.cli.where import directory_of, place_of
from zcsyncd.errors import AlreadyExists, NoDaemon, NotFound, Refused, UsageError

SAID_NO = 1
"""Exit code: a person was asked, and did not say yes."""


def cmd_memory_write(words: Namespace, console: Console) -> int:
    """Write a fact and its entry; the body comes from a file, stdin, or an editor."""
    daemon = Daemon(console.env)
    place = place_of(words.dir, daemon, console)
    looks = takes_editor(words.body_file) or None in (words.description, words.type)
    present = _present(words.name, place, daemon) if looks and not words.create else None
    asked = _head(words, present)
    with body_from(words.body_file, _body(present), words.name, console.env) as body:
        if present is not None and _says(present, {**asked, "body": body}):
            same = {name: present.get(name) for name in ("file", "absolutePath", "revision")}
            same |= {"action": "unchanged", "index": "unchanged"}
            console.show(same, lambda: ["nothing was changed, so nothing was written"])
            return 0
        asked |= {**place, "name": words.name, "body": body}
        # What was looked for and is not there is made; should somebody make it meanwhile, it is not written over.
        asked["mode"] = "create" if words.create or (looks and present is None) else "upsert"
        try:
            answer, note = ask_or_do(daemon, "memory.write", asked)
        except AlreadyExists as error:
            # The wire's hint speaks of a mode. What differs in case only is in the way of either.
            if words.create and error.hint is not None and "upsert" in error.hint:
                error.hint = "without `--create` it is replaced; or choose another name"
            elif error.hint is not None and "upsert" in error.hint:
                error.hint = "somebody made it a moment ago: read it, then write again"
            raise
    console.show(answer, lambda: write_page(answer, cells=console.cells, paint=console.paint), note)
    return 0


def _head(words: Namespace, present: Answer | None) -> dict[str, object]:
    """Give description, type and revision: those that were named, else those of the fact that is there.

    Raises:
        UsageError: there is neither.
    """
    asked: dict[str, object] = {}
    missing: list[str] = []
    for member in ("description", "type"):
        value = getattr(words, member)
        if value is None and present is not None:
            value = present.get(member)
        if value is None:
            missing.append(f"--{member}")
        asked[member] = value
    if missing:
        what = "has none" if present is not None else "is new"
        raise UsageError(
            f"the fact {words.name} {what}: {' and '.join(missing)} must be given",
            hint="`zcsyncd memory write --help` tells what fits",
        )
    revision = words.if_revision or (present.get("revision") if present is not None else None)
    if revision is not None:
        asked["ifRevision"] = revision
    return asked


def _says(present: Answer, asked: Answer) -> bool:
    """Tell whether a fact says already what is asked for: its time of change is not moved for nothing."""
    members = ("description", "type", "revision")
    wanted = (asked.get("description"), asked.get("type"), asked.get("ifRevision"))
    return tuple(present.get(member) for member in members) == wanted and _body(present) == _body(asked)


def _body(fact: Answer | None) -> str:
    """Give a fact's body without the blank line that stands between it and the front matter; empty for no fact."""
    return str(fact.get("body") or "").removeprefix("\n") if fact is not None else ""


def _present(name: str, place: Answer, daemon: Daemon) -> Answer | None:
    """Give the fact of that name, the whole of its body; None: there is none."""
    directory = place.get("dir")
    if not isinstance(directory, str):
        return None
    try:
        return daemon.ask("memory.read", {"dir": directory, "name": name, "full": True})
    except NotFound:
        return None
    except NoDaemon:
        if not daemon.is_absent:
            raise
    except Refused as error:
        raise _explained(error) from None
    if not os.path.isdir(directory):
        return None
    try:
        return offline.memory_read(directory, daemon.env, name, full=True)
    except NotFound:
        return None
    except Refused as error:
        raise _explained(error) from None


def _explained(error: Refused) -> Refused:
    if error.hint == "memory.index":  # the wire's name of the verb
        error.hint = "its lines are written with the facts; `zcsyncd repair` mends them"
    return error


def cmd_memory_forget(words: Namespace, console: Console) -> int:
    """Take a fact and its entry away."""
    daemon = Daemon(console.env)
    directory = directory_of(words.dir, daemon, console)
    question = f"Forget {words.name} of {directory}, and everything that is kept of what it said?"
    if words.purge and not words.yes and not agreed(question):
        console.remark("nothing was forgotten")
        return SAID_NO
    asked = {"dir": directory, "name": words.name, "purge": words.purge}
    if words.if_revision is not None:
        asked["ifRevision"] = words.if_revision
    answer, note = ask_or_do(daemon, "memory.forget", asked)
    console.show(
        answer,
        lambda: forget_page(
            answer, purged=words.purge, program=called(), cells=console.cells, paint=console.paint
        ),
        note,
    )
    return 0
