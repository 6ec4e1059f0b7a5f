"""A machine of its own for a transcript, or a project of its own on one that all share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.transcripts.machine import Machine, Project, Running, new_machine

# Their assertions tell what was compared; this has to be said before anybody imports them.
for _module in ("room", "script", "ours", "others", "checks", "model"):
    pytest.register_assert_rewrite(f"tests.transcripts.pen_{_module}")

GRACE_S = 1.0
"""The audit's grace in the shared daemon: long enough to see something pending, short enough to see it end."""


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine without a daemon; what is started on it is ended with the test."""
    made = new_machine()
    yield made
    made.close()


@pytest.fixture
def daemon(machine: Machine) -> Iterator[Running]:
    """A daemon of one's own, that has to leave in peace."""
    running = machine.start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def shared() -> Iterator[Running]:
    """One daemon for all tests that need nothing but a project of their own."""
    made = new_machine()
    made.configure(f"audit:\n  grace_s: {GRACE_S}\n")
    running = made.start()
    yield running
    running.stop()
    made.close()


_numbers = itertools.count(1)


@pytest.fixture
def project(shared: Running) -> Project:
    """A project of one's own in the shared daemon's home; it does not exist yet."""
    return shared.machine.project(f"project{next(_numbers)}x")
