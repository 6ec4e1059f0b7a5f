"""A machine with a real daemon for the pages' examples."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.transcripts.machine import Machine, Running, new_machine


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A home of its own; what is started on it is ended with the test."""
    made = new_machine()
    yield made
    made.close()


@pytest.fixture
def daemon(machine: Machine) -> Iterator[Running]:
    """A daemon that has to leave in peace."""
    running = machine.start()
    yield running
    running.stop()
