"""The answer to `status` as text. Pure.

`zcsyncd status` imports this module on its fast path: nothing heavy here.
"""

from __future__ import annotations

from zcsyncd.cli.answer import Answer, names_of, number_of, object_of, rows_of, text_of
from zcsyncd.cli.render import Paint, amount, counted, duration, harmless, pad


def status_page(answer: Answer, *, paint: Paint) -> list[str]:
    """Show how the daemon is: one line a subject, and a line for each thing that a person should know."""
    daemon = object_of(answer, "daemon")
    rows = [
        ("daemon", _daemon(daemon, paint)),
        ("watching", _watching(daemon)),
        ("memory", _memory(answer, paint)),
        ("bus", _bus(object_of(answer, "bus"))),
        ("last", _last(daemon)),
    ]
    lines = [f"{paint(pad(name, 8), 'dim')}  {text}" for name, text in rows if text]
    lines += [f"{paint(pad('job', 8), 'dim')}  {_job(job, paint)}" for job in rows_of(answer, "jobs")]
    return [*lines, *(paint(line, "yellow") for line in _cautions(answer, daemon))]


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


def _watching(daemon: Answer) -> str:
    return text_of(daemon, "watcher")


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


def _bus(bus: Answer) -> str:
    if not bus:
        return ""
    return (
        f"{text_of(bus, 'address')}, {counted(number_of(bus, 'connections'), 'connection')}, "
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
        words.append(f"{number_of(daemon, 'driftFound'):,} changes found by a scan only")
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


def _cautions(answer: Answer, daemon: Answer) -> list[str]:
    lines = [f"polled, so changes are found later: {base}" for base in _items(daemon, "degraded")]
    if daemon.get("packageSkew"):
        lines.append(
            f"the daemon runs other code than is installed ({text_of(daemon, 'packageSkew')}): start it again"
        )
    lines += [
        f"asked for, not kept (`zcsyncd dirs --allow DIR`): {asked}" for asked in _items(answer, "asked")
    ]
    lines += [f"environment: {difference}" for difference in _items(answer, "environment")]
    return [*lines, *names_of(daemon, "complaints")]


def _items(answer: Answer, name: str) -> list[str]:
    """Give a list's items as text, an object's members joined."""
    value = answer.get(name)
    if not isinstance(value, list):
        return []
    return [
        ": ".join(text_of(item, member) for member in item) if isinstance(item, dict) else harmless(str(item))
        for item in value
    ]
