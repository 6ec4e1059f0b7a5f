"""The hosts that can be given entries of ours: pi, omp, ZCode, Claude Code; found by their directories. Pure.

Each keeps its own things in one directory below the home, or where its variable says (docs/service.md, "Set-up").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zcsyncd.layouts.nodepath import HERE, Platform, is_absolute, join, js_trim


@dataclass(frozen=True, slots=True)
class Host:
    """One program that runs agents."""

    name: str
    title: str
    parts: tuple[str, ...]
    """Its directory, below the home."""
    variable: str | None = None
    """What moves that directory."""

    def directory(self, env: Mapping[str, str], home: str, platform: Platform = HERE) -> str:
        """Give the directory in which it keeps its own things, there or not."""
        moved = js_trim(env.get(self.variable, "")) if self.variable else ""
        return moved if moved and is_absolute(moved, platform) else join(platform, home, *self.parts)


HOSTS = (
    Host("pi", "pi", (".pi", "agent"), "PI_CODING_AGENT_DIR"),
    Host("omp", "omp", (".omp", "agent")),
    Host("zcode", "ZCode", (".zcode",)),
    Host("claude-code", "Claude Code", (".claude",), "CLAUDE_CONFIG_DIR"),
)
"""omp reads pi's variable, too, but then both would be said to lie in one place; its own directory tells it apart."""
