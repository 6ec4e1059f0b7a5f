"""The answer to `status` as text. Pure.

Rule 1: `zcsyncd status` imports this module on its fast path: nothing heavy here.
"""

from __future__ import annotations

from zcsyncd import __version__
from zcsyncd.cli.answer import Answer, names_of, number_of, object_of, rows_of, text_of
from zcsyncd.cli.render import Paint, amount, counted, duration, fitted, pad, with_program
from zcsyncd.cli.versions import skew_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

NAME_CELLS = 8
"""Width of the names at the left; what they name goes on under itself."""
GAP = "  "


def status_page(
    answer: Answer, *, home: str, program: str, cells: int | None, paint: Paint, version: str = __version__
) -> list[str]:
    """Show how the daemon is: one line a subject, one for each tree that is watched, one for each caution.

    `home` is what `~` stands for, empty for nothing; `program` what a person types to call this command; `cells` the
    width to keep to, None for none; `version` this command's own.
    """
    daemon = object_of(answer, "daemon")
    rows = [
        ("daemon", _daemon(daemon, paint)),
        ("watching", text_of(daemon, "watcher")),
        *(("tree", _tree(tree, home, paint)) for tree in rows_of(daemon, "trees")),
        ("memory", _memory(answer, paint)),
        ("bus", _bus(object_of(answer, "bus"), home)),
        ("last", _last(daemon)),
        *(("job", _job(job, paint)) for job in rows_of(answer, "jobs")),
    ]
    lines = [f"{paint(pad(name, NAME_CELLS), 'dim')}{GAP}{text}" for name, text in rows if text]
    lines += [
        paint(f"{pad('caution', NAME_CELLS)}{GAP}{with_program(text, program)}", "yellow")
        for text in _cautions(answer, daemon, home, version)
    ]
    return fitted(lines, cells, hang=NAME_CELLS + len(GAP))


def _daemon(daemon: Answer, paint: Paint) -> str:
    state = (
        paint("ready", "green") if daemon.get("ready") is True else paint("first scan under way", "yellow")
    )
    up = duration(number_of(daemon, "uptimeS")) if daemon.get("uptimeS") is not None else ""
    words = [
        state,
        f"version {text_of(daemon, 'version', '?')}",
        f"pid {text_of(daemon, 'pid', '?')}",
        f"up {up}" if up else "",
        amount(number_of(daemon, "rssBytes")) if daemon.get("rssBytes") is not None else "",
    ]
    return ", ".join(word for word in words if word)


def _tree(tree: Answer, home: str, paint: Paint) -> str:
    """Show one place in which memory directories are looked for."""
    kind = text_of(tree, "kind")
    if tree.get("exists") is False:
        how = paint("not there yet", "dim")
    elif kind == "polling":
        how = "polled"
    else:
        how = f"{kind}, {counted(number_of(tree, 'watches'), 'watch', 'watches')}"
    words = [how, *_past_of(tree)]
    return f"{text_of(tree, 'layout')}{GAP}{_short(text_of(tree, 'base'), home)}{GAP}{', '.join(words)}"


def _past_of(tree: Answer) -> Iterator[str]:
    """Tell what became known of a tree since the start; an older daemon does not say all of it."""
    if tree.get("lastEventAt") is not None:
        yield f"event {text_of(tree, 'lastEventAt')}"
    elif "lastEventAt" in tree and tree.get("exists") is not False:
        yield "no event yet"
    if tree.get("lastScanAt") is not None and tree.get("exists") is not False:
        yield f"scan {text_of(tree, 'lastScanAt')}"
    if tree.get("drift"):
        yield f"{counted(number_of(tree, 'drift'), 'change')} found by a scan only"


def _short(path: str, home: str) -> str:
    """Write a path below the home with `~`."""
    home = home.rstrip("/\\")
    return "~" + path[len(home) :] if home and path[: len(home) + 1] in (f"{home}/", f"{home}\\") else path


def _memory(answer: Answer, paint: Paint) -> str:
    counts = object_of(answer, "counts")
    findings = object_of(counts, "findings")
    words = [
        counted(number_of(counts, "directories"), "directory", "directories"),
        counted(number_of(counts, "facts"), "fact"),
    ]
    for severity, style in (("error", "red bold"), ("warning", "yellow")):
        number = number_of(findings, severity)
        if number:
            words.append(paint(counted(number, severity), style))
    if len(words) == 2:
        words.append(paint("no findings", "green"))
    return ", ".join(words)


def _bus(bus: Answer, home: str) -> str:
    if not bus:
        return ""
    return (
        f"{_short(text_of(bus, 'address'), home)}, {counted(number_of(bus, 'connections'), 'connection')}, "
        f"{counted(number_of(bus, 'subscriptions'), 'subscription')}, "
        f"{counted(number_of(bus, 'published'), 'event')} told, {number_of(bus, 'dropped'):,} dropped"
    )


def _last(daemon: Answer) -> str:
    words = [
        f"{name} {text_of(daemon, member)}"
        for name, member in (("event", "lastEventAt"), ("scan", "lastScanAt"))
        if daemon.get(member) is not None
    ]
    if daemon.get("driftFound"):
        words.append(f"{counted(number_of(daemon, 'driftFound'), 'change')} found by a scan only")
    return ", ".join(words)


def _job(job: Answer, paint: Paint) -> str:
    words = [text_of(job, "name")]
    if job.get("nextRunAt") is not None:
        words.append(f"next {text_of(job, 'nextRunAt')}")
    if job.get("lastRunAt") is not None:
        words.append(f"last {text_of(job, 'lastRunAt')}")
    if job.get("lastError") is not None:
        words.append(paint(f"failed: {text_of(job, 'lastError')}", "red"))
    return ", ".join(words)


# -- what a person should know ---------------------------------------------------------------------------------------


def _cautions(answer: Answer, daemon: Answer, home: str, version: str) -> Iterator[str]:
    bases = {tree.get("base") for tree in rows_of(daemon, "trees")}
    for place in rows_of(daemon, "degraded"):
        # What is no tree is the daemon's own: a journal that takes nothing, because the disk is full.
        is_own = bool(bases) and place.get("base") not in bases
        what = "does not work" if is_own else "polled, so changes are found later"
        yield f"{what}: {_short(text_of(place, 'base'), home)}: {text_of(place, 'reason')}"
    if daemon.get("packageSkew"):
        yield (
            f"the daemon runs other code than is installed now ({text_of(daemon, 'packageSkew')}): "
            "`zcsyncd stop`, and start it again"
        )
    elif (skew := skew_words(version, text_of(daemon, "version"))) is not None:
        yield skew
    for asked in rows_of(answer, "asked"):
        # Whole and as it is: it is there to be copied.
        yield (
            f"asked for, not kept until `zcsyncd dirs --allow DIR`: {text_of(asked, 'dir')}"
            + (f" ({text_of(asked, 'reason')})" if asked.get("reason") is not None else "")
        )
    for difference in rows_of(answer, "environment"):
        yield _environment(difference)
    yield from names_of(daemon, "complaints")


def _environment(difference: Answer) -> str:
    name = text_of(difference, "name")
    host = text_of(difference, "host", "a host")
    theirs = f"{name}={text_of(difference, 'session')}" if difference.get("session") else f"no {name}"
    ours = text_of(difference, "daemon") if difference.get("daemon") else "none"
    return f"sessions of {host} have {theirs}, the daemon has {ours}: it looks for memory elsewhere than they"
