"""What hosts are given: `zcsyncd plugin install`, `remove`, `status`, `path`. Door: files.

Rule 1: each verb may be given twice; what is so already is left alone, and said so.
"""

from __future__ import annotations

import os
from argparse import Namespace

from zcsyncd.cli.calling import called
from zcsyncd.cli.console import Console, clock
from zcsyncd.cli.plugin_pages import plugins_page
from zcsyncd.cli.service_pages import done_page
from zcsyncd.install.hosts_plugins import NAMES, Report, Wish, plugin

NOT_RIGHT = 1
"""Exit code of `status`: something is not as it should be."""


def cmd_plugin_install(words: Namespace, console: Console) -> int:
    """Put a plugin into a host, or bring it up to date."""
    its = plugin(words.host, console.env)
    did = its.install(Wish(words.ask, words.write))
    report = its.report()
    notes = [*report.says] if report.state != "current" else []
    if did:
        notes.append("a session that runs has to be started anew; `zcsyncd plugin status` shows how it is")
    _show_done(console, {"host": its.name, "did": did, "notes": notes, "status": report.to_json()})
    return 0


def cmd_plugin_remove(words: Namespace, console: Console) -> int:
    """Take a plugin out of a host."""
    its = plugin(words.host, console.env)
    _show_done(console, {"host": its.name, "did": its.remove(), "notes": []})
    return 0


def cmd_plugin_status(words: Namespace, console: Console) -> int:
    """Show how plugins are; exit with 1 when one is not as it should be."""
    names = [words.host] if words.host else list(NAMES)
    reports = [plugin(name, console.env).report() for name in names]
    answer = {"plugins": [report.to_json() for report in reports]}
    console.show(
        answer,
        lambda: plugins_page(answer, program=called(), cells=console.cells, paint=console.paint, when=clock),
    )
    return NOT_RIGHT if any(_is_wrong(report, named=bool(words.host)) for report in reports) else 0


def cmd_plugin_path(words: Namespace, console: Console) -> int:
    """Print the file or folder that a host can be given by hand."""
    path = plugin(words.host, console.env).path(Wish(ask=words.ask))
    if console.as_json:
        console.say_json({"host": words.host, "path": path, "exists": os.path.exists(path)})
    else:
        console.say([path])
    return 0


def _is_wrong(report: Report, *, named: bool) -> bool:
    return report.state not in ("current", "absent") or (named and report.state == "absent")


def _show_done(console: Console, answer: dict[str, object]) -> None:
    console.show(
        answer, lambda: done_page(answer, program=called(), cells=console.cells, paint=console.paint)
    )
