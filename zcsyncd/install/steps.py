"""What set-up puts into hosts: one step a host, registered here by the host's name. Pure.

Rule 1: a step tells what it would do before it does it, and takes out again what it put in, nothing else.
Rule 2: set-up knows no host by name: what is not registered here has no plugin, and set-up says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from zcsyncd.install.hosts import Host


class HostStep(Protocol):
    """What is put into one host; what changes something gives lines that tell what was done."""

    def plan(self) -> str:
        """Tell in one line what `put` would do; empty when all of it is there."""

    def put(self) -> list[str]:
        """Put it in. Twice is harmless."""

    def present(self) -> str:
        """Tell in one line what of ours is there; empty for nothing."""

    def take(self) -> list[str]:
        """Take out what of ours is there."""


MakeStep = Callable[[Host, Mapping[str, str]], HostStep]

HOST_STEPS: dict[str, MakeStep] = {}
"""A host's name → what makes its step. Empty: this version has no plugins yet."""


def step_for(host: Host, env: Mapping[str, str]) -> HostStep | None:
    """Give what is put into a host; None for a host that has no plugin."""
    make = HOST_STEPS.get(host.name)
    return make(host, env) if make is not None else None
