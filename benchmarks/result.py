"""Figures and how they are shown: medians, 99th percentiles, one Markdown table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: ours beside another tool's, measured in the same run."""

    what: str
    ours: str
    other: str = "–"
    ratio: float | None = None
    """Ours divided by the other's; None: there is nothing to divide by."""
    must: str = "–"
    holds: bool | None = None
    """None: nothing was promised, or the other tool is not there."""


def percentile(values: Sequence[float], share: float) -> float:
    """Give the value below which `share` (0 to 1) of the values lie; nan without values."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values: Sequence[float]) -> float:
    """Give the middle value; nan without values."""
    return percentile(values, 0.5)


def ms(value: float) -> str:
    """Show milliseconds."""
    return f"{value:.2f} ms" if value < 100 else f"{value:,.0f} ms"


def table(rows: Iterable[Row]) -> str:
    """Give the rows as a Markdown table, ratios first."""
    lines = ["| what | ratio | zcsyncd | beside it | must | holds |", "|---|---|---|---|---|---|"]
    for row in rows:
        ratio = "–" if row.ratio is None else f"{row.ratio:.2f}×"
        holds = {True: "yes", False: "**no**", None: "–"}[row.holds]
        lines.append(f"| {row.what} | {ratio} | {row.ours} | {row.other} | {row.must} | {holds} |")
    return "\n".join(lines)
