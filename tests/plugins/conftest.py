"""Machines, daemons and hosts for the tests of plugins."""

import pytest

from tests.transcripts.machine import new_machine

pytest.register_assert_rewrite("tests.plugins.hooks")


@pytest.fixture
def machine():
    """A machine without a daemon."""
    made = new_machine()
    yield made
    made.close()


@pytest.fixture(scope="module")
def running():
    """A daemon for a whole module, each of whose tests has a project of its own."""
    made = new_machine()
    made.configure("audit:\n  grace_s: 1.0\n")
    daemon = made.start()
    yield daemon
    daemon.stop()
    made.close()


_numbers = iter(range(1, 10_000))


@pytest.fixture
def project(running):
    """A project of one's own with two facts and an index."""
    from tests.transcripts.machine import fact_text

    made = running.machine.project(f"hooked{next(_numbers)}x")
    made.make({"a.md": fact_text("a"), "b.md": fact_text("b")})
    running.call("daemon.flush", rescan=True)
    return made
