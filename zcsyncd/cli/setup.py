"""Set-up and removal of everything: the service, and what hosts are given. Door: the service manager, files.

Rule 1: nothing is changed before the plan was shown and agreed to; `--yes` agrees beforehand.
Rule 2: with `--json` and without `--yes` the plan is all: there is nobody to ask.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Mapping

from zcsyncd.cli import service
from zcsyncd.cli.answer import Answer, names_of, rows_of
from zcsyncd.cli.asking import Daemon
from zcsyncd.cli.calling import called
from zcsyncd.cli.console import Console, agreed
from zcsyncd.cli.service_pages import done_page, plan_page
from zcsyncd.errors import ConfigError, NoDaemon, Refused
from zcsyncd.install import hosts_plugins as _registered  # noqa: F401 - it registers the steps of all hosts
from zcsyncd.install import looking, remains
from zcsyncd.install.caution import cautions
from zcsyncd.install.hosts import HOSTS
from zcsyncd.install.manager import manager
from zcsyncd.install.steps import HostStep, step_for
from zcsyncd.places import home
from zcsyncd.settings import known_roots, read_settings

SAID_NO = 1
"""Exit code: a person who was asked did not say yes."""


def cmd_setup(words: Namespace, console: Console) -> int:
    """Show what is there and what would be done, ask, and do it."""
    env = console.env
    looking.no_root(env)
    plan, steps = _setup_plan(env)
    if not _go_on(words, console, plan, "Do this?"):
        return 0 if console.as_json else SAID_NO
    done = service.install(env)
    did = [*names_of(done, "did"), *(line for step in steps for line in step.put())]
    _show_done({**done, "did": did}, console)
    return 0


def _setup_plan(env: Mapping[str, str]) -> tuple[dict[str, object], list[HostStep]]:
    hosts = [(host, host.directory(env, home(env))) for host in HOSTS]
    hosts = [(host, place) for host, place in hosts if os.path.isdir(place)]
    found = [
        *_systems(env),
    ]
    found += [{"name": f"host {host.title}", "path": place} for host, place in hosts]
    would, notes = _service_plan(env)
    steps = []
    for host, place in hosts:
        step = step_for(host, env)
        if step is None:
            continue
        steps.append(step)
        if step.plan():
            would.append({"name": host.title, "path": place, "says": step.plan()})
    if not would:
        would.append({"name": "nothing", "says": "all of it is set up already"})
    without = [host.title for host, _ in hosts if step_for(host, env) is None]
    if without:
        notes.append(f"this version has no plugin for {', '.join(without)}: nothing is put there")
    return {"found": found, "would": would, "notes": notes}, steps


def _service_plan(env: Mapping[str, str]) -> tuple[list[dict[str, object]], list[str]]:
    """Tell what is to be done for the service, and what a person should know of it."""
    its = manager(env)
    its.check()
    wanted = looking.wanted(env)
    looking.probe(wanted, env)
    notes = cautions(looking.facts(wanted, env))
    present = its.present() is not None
    if present and its.is_current(wanted) and its.state().running is not False:
        return [], notes
    act = "bring it up to date and start it" if present else "install and start it"
    return [{"name": "service", "path": its.place(), "says": f"{act}, under {its.name}"}], notes


def _systems(env: Mapping[str, str]) -> list[dict[str, object]]:
    """List the memory stores that are there; those of the layouts that this version knows."""
    roots = [root for root in known_roots(env, read_settings(env)).roots if os.path.isdir(root.path)]
    if not roots:
        return [{"name": "memory", "says": "none yet: it is watched as soon as an agent writes some"}]
    return [
        {
            "name": f"memory of {root.layout}",
            "path": root.path,
            "says": "" if root.source == "default" else f"from {root.source}",
        }
        for root in roots
    ]


# -- removal ---------------------------------------------------------------------------------------------------------


def cmd_uninstall(words: Namespace, console: Console) -> int:
    """Show what would be taken out and what stays, ask, and do it."""
    env = console.env
    plan, steps = _removal_plan(env, purge=words.purge)
    if not rows_of(plan, "would"):
        console.show({"did": [], "plan": plan}, lambda: _page(plan, console))
        return 0
    if not _go_on(
        words, console, plan, "Do this? What is purged cannot be had back." if words.purge else "Do this?"
    ):
        return 0 if console.as_json else SAID_NO
    did = [line for step in steps for line in step.take()]
    if any(row.get("name") == "service" for row in rows_of(plan, "would")):
        did += service.uninstall(env)
    if words.purge:
        did += _stop_by_hand(env)
        did += remains.purge(env)
    _show_done({"did": did, "notes": [], "stays": plan["stays"]}, console)
    return 0


def _removal_plan(env: Mapping[str, str], *, purge: bool) -> tuple[dict[str, object], list[HostStep]]:
    would: list[dict[str, object]] = []
    notes: list[str] = []
    try:
        its = manager(env)
        if its.present() is not None:
            would.append({"name": "service", "path": its.place(), "says": "end it and take it out"})
    except Refused as error:
        notes.append(error.message)
    steps = [step for host in HOSTS if (step := step_for(host, env)) is not None and step.present()]
    would += [{"name": "host", "says": step.present()} for step in steps]
    kept = [
        {"name": place.what, "path": place.path, "sizeBytes": place.size_bytes}
        for place in remains.places(env)
    ]
    if purge:
        would += [{**place, "says": "remove for good"} for place in kept]
        kept = []
    elif kept:
        notes.append("`zcsyncd uninstall --purge` takes that, too")
    notes.append(_program_stays())
    return {"found": [], "would": would, "stays": kept, "notes": notes}, steps


def _program_stays() -> str:
    ways = {"pipx": "pipx uninstall zcsyncd", "uv": "uv tool uninstall zcsyncd"}
    path = sys.prefix.replace(os.sep, "/")
    way = next((command for name, command in ways.items() if f"/{name}/" in path), "")
    return f"the program itself stays{f': `{way}` removes it' if way else f', in {sys.prefix}'}"


def _stop_by_hand(env: Mapping[str, str]) -> list[str]:
    """Stop a daemon that was started by hand: it would go on with files that are gone."""
    daemon = Daemon(env)
    try:
        daemon.stop()
    except ConfigError:
        return []  # no endpoint file names a daemon, and none starts by a configuration with mistakes
    except NoDaemon as error:
        if daemon.is_absent:
            return []
        raise Refused(
            f"a daemon runs and does not answer, so nothing was purged: {error.message}",
            hint="end its process, then `zcsyncd uninstall --purge` again",
        ) from error
    return ["stopped: the daemon that was started by hand"]


# -- what both share -------------------------------------------------------------------------------------------------


def _go_on(words: Namespace, console: Console, plan: Answer, question: str) -> bool:
    """Show the plan and have it agreed to."""
    if console.as_json:
        if not words.yes:
            console.say_json({"plan": plan})
        return bool(words.yes)
    console.say(_page(plan, console))
    if words.yes or agreed(question):
        return True
    console.remark("nothing was changed")
    return False


def _page(plan: Answer, console: Console) -> list[str]:
    return plan_page(plan, program=called(), cells=console.cells, paint=console.paint)


def _show_done(answer: Answer, console: Console) -> None:
    console.show(
        answer, lambda: done_page(answer, program=called(), cells=console.cells, paint=console.paint)
    )
