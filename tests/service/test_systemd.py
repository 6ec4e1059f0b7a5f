"""The service under a real service manager: from set-up to removal."""

import json
import os
import re
import subprocess
import sys
import threading
import time

import pytest

from tests.service.own_manager import HOME, ROOT, WAIT_S

UNIT = ".config/systemd/user/zcsyncd.service"
QUICK = "[Service]\nWatchdogSec=1\nTimeoutAbortSec=1\nRestartSec=100ms\n"


def new_pid(machine, old):
    """Wait for a process that came after `old` and is ready; give its number."""

    def is_there():
        return machine.show("ActiveState") == "active" and machine.pid() not in {0, old} and machine.pid()

    return machine.wait(is_there, "no new process comes up")


def test_install_start_and_ready(machine):
    """After `service install` the daemon is ready, enabled, and answers at once; it tells how it is."""
    said = machine.done("service", "install")
    assert f"written: {HOME}/{UNIT}" in said
    assert "enabled: it starts at log-in" in said
    assert "\nstarted\n" in said
    status = machine.json("status")["daemon"]
    assert status["ready"] is True
    assert status["pid"] == machine.pid()
    assert machine.show("UnitFileState") == "enabled"
    assert machine.show("StatusText")
    shown = machine.json("service", "status")
    assert (shown["installed"], shown["running"], shown["enabled"]) == (True, True, True)
    assert shown["pid"] == machine.pid()
    assert shown["cautions"] == []
    assert shown["says"] == machine.show("StatusText")


def test_install_twice_changes_nothing(machine):
    """A second `service install` says that nothing changed, and leaves the daemon running."""
    machine.done("service", "install")
    pid = machine.pid()
    assert f"unchanged: {HOME}/{UNIT}" in machine.done("service", "install")
    assert machine.pid() == pid
    assert "nothing to do" in machine.done("service", "start")
    assert machine.pid() == pid


def test_install_brings_up_to_date(machine):
    """With another environment the unit is updated, and the daemon is a new process that has it."""
    machine.done("service", "install")
    pid = machine.pid()
    assert (
        "not as it would be written now"
        in machine.zcsyncd("service", "status", ZCODE_STORAGE_DIR="/x").stdout
    )
    said = machine.done("service", "install", ZCODE_STORAGE_DIR=f"{HOME}/moved")
    assert f"updated: {HOME}/{UNIT}" in said
    assert "restarted" in said
    assert machine.pid() != pid
    assert any(tree["base"].startswith(f"{HOME}/moved") for tree in machine.json("status")["daemon"]["trees"])


def test_a_start_that_waits_to_be_tried_again_is_tried_now(machine):
    """While systemd waits for the next try, `service start` tries at once, and says whether it came up."""
    machine.done("service", "install", "--no-start")
    machine.drop_in("[Service]\nRestartSec=60\nExecStart=\nExecStart=/bin/false\n")
    assert machine.zcsyncd("service", "start").returncode == 3
    assert machine.show("SubState") == "auto-restart"
    (machine.home / f"{UNIT}.d/test.conf").unlink()
    machine.run("systemctl", "--user", "daemon-reload")
    assert machine.done("service", "start") == "started\n"
    assert machine.json("status")["daemon"]["ready"] is True


def test_a_memory_event_through_the_running_unit(machine):
    """A fact that is written reaches a subscriber through the hardened service; it is written by it, too."""
    directory = machine.memory()
    machine.done("service", "install")
    following = subprocess.Popen(
        machine.command(
            sys.executable, "-P", "-m", "zcsyncd", "events", "--json", "--topic", "memory/changed"
        ),
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    ending = threading.Timer(WAIT_S, following.kill)
    ending.start()
    try:
        machine.wait(lambda: machine.json("status")["bus"]["subscriptions"], "it does not subscribe")
        (directory / "a.md").write_text("---\nname: a\ndescription: d\ntype: user\n---\n\nText.\n")
        event = json.loads(following.stdout.readline())
    finally:
        ending.cancel()
        following.kill()
        following.wait()
        following.stdout.close()
    assert event["topic"] == "memory/changed"
    place = f"{HOME}/{directory.relative_to(machine.home)}"
    written = machine.zcsyncd(
        *(
            "memory",
            "write",
            "b",
            "--description",
            "d",
            "--type",
            "user",
            "--dir",
            place,
            "--body-file",
            "/etc/hostname",
        )
    )
    assert written.returncode == 0, written.stderr
    assert "b.md" in (directory / "MEMORY.md").read_text()
    assert {"a.md", "b.md"} <= {path.name for path in directory.iterdir()}


def test_kill_9_is_restarted(machine):
    """After kill -9 a new process comes up by itself, and `service status` counts it."""
    machine.done("service", "install")
    old = machine.pid()
    machine.kill("KILL", old)
    assert new_pid(machine, old)
    assert machine.json("status")["daemon"]["ready"] is True
    assert machine.json("service", "status")["restarts"] == 1


def test_a_frozen_daemon_is_restarted_by_the_watchdog(machine):
    """A process that stands still is ended and started again."""
    machine.drop_in(QUICK)
    machine.done("service", "install")
    old = machine.pid()
    assert machine.show("WatchdogUSec") == "1s"
    machine.kill("STOP", old)
    new = new_pid(machine, old)
    assert machine.json("status")["daemon"]["pid"] == new
    assert int(machine.show("NRestarts")) >= 1


def test_a_living_daemon_is_left_alone_by_the_watchdog(machine):
    """A daemon that lives outlasts its watchdog's time several times over."""
    machine.drop_in(QUICK)
    machine.done("service", "install")
    pid, begun = machine.pid(), time.monotonic()
    machine.wait(lambda: time.monotonic() > begun + 4, "time stands still")
    assert (machine.pid(), machine.show("NRestarts")) == (pid, "0")


def test_socket_activation(machine):
    """With --socket the manager holds the socket: who connects starts the daemon, and the file outlives it."""
    machine.done("service", "install", "--socket")
    assert machine.json("service", "status")["socket"] is True
    address = machine.show("Listen", "zcsyncd.socket").split(" ")[0]
    assert machine.done("status", "--address").strip() == address
    at = machine.manager.root / address[1:]
    inode = os.stat(at).st_ino
    assert os.stat(at).st_mode & 0o777 == 0o600
    machine.run("systemctl", "--user", "stop", "zcsyncd.service")
    assert machine.show("ActiveState") == "inactive"
    machine.run(
        *(sys.executable, "-c"),
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
        's.sendall(b\'{"jsonrpc":"2.0","id":1,"method":"ping"}\\n\'); assert s.recv(100)',
        address,
    )
    machine.wait(lambda: machine.show("ActiveState") == "active", "nobody was started")
    assert machine.json("status")["daemon"]["pid"] == machine.pid()
    machine.done("service", "restart")
    assert os.stat(at).st_ino == inode
    machine.done("service", "stop")
    assert machine.show("ActiveState", "zcsyncd.socket") == "inactive"
    machine.done("service", "start")
    assert "removed" in machine.done("service", "install", "--no-socket")
    assert machine.json("service", "status")["socket"] is False
    assert machine.json("status")["daemon"]["ready"] is True


def test_reload(machine):
    """`service reload` and `systemctl reload` have the same process read its configuration again."""
    machine.done("service", "install")
    pid = machine.pid()
    config = machine.home / ".config/zcsyncd/config.yaml"
    config.parent.mkdir(mode=0o700)
    config.write_text("audit:\n  grace_s: 7\n")
    config.chmod(0o600)
    machine.own()
    done = machine.zcsyncd("service", "reload")
    if "unknown" in done.stderr.lower() and "daemon.reload" in done.stderr:
        pytest.skip("the daemon does not reload yet")
    assert done.returncode == 0, done.stderr
    assert machine.pid() == pid
    config.write_text("log:\n  level: debug\n")
    assert machine.run("systemctl", "--user", "reload", "zcsyncd").returncode == 0
    assert machine.json("status")["daemon"]["pid"] == pid
    config.write_text("log:\n  level: loud\n")
    done = machine.zcsyncd("service", "reload")
    assert done.returncode == 2
    assert "line 2" in done.stderr
    assert machine.pid() == pid


def test_stop_is_clean(machine):
    """`service stop` lets the daemon leave in order, quickly; it stays down, and `service status` exits with 3."""
    machine.done("service", "install")
    begun = time.monotonic()
    assert machine.done("service", "stop") == "stopped\n"
    assert time.monotonic() - begun < 5
    assert (machine.show("ActiveState"), machine.show("Result"), machine.show("ExecMainStatus")) == (
        "inactive",
        "success",
        "0",
    )
    assert machine.zcsyncd("service", "status").returncode == 3
    assert "nothing to do" in machine.done("service", "stop")
    assert not (machine.home / ".local/state/zcsyncd/endpoint.json").exists()


def test_uninstall_leaves_nothing(machine):
    """`service uninstall` leaves no file but the daemon's own state; `uninstall --purge` takes that, too."""
    before = machine.files()
    machine.done("service", "install", "--socket")
    said = machine.done("service", "uninstall")
    assert f"removed: {HOME}/{UNIT}" in said
    left = machine.files() - before
    assert {name for name in left if not name.startswith(".local/state")} - {".local", ".config"} == set()
    assert machine.show("LoadState") == "not-found"
    assert machine.zcsyncd("status").returncode == 3
    assert "nothing to do" in machine.done("service", "uninstall")
    stays = machine.json("uninstall")["plan"]["stays"]
    assert {row["path"] for row in stays} == {f"{HOME}/.local/state/zcsyncd"}
    machine.done("uninstall", "--purge", "--yes")
    assert machine.files() - before <= {".local", ".config", ".local/state"}


def test_setup_and_uninstall(machine):
    """`setup --yes` shows the plan and installs the service; `uninstall --yes` ends it and names what stays."""
    machine.memory()
    (machine.home / ".pi/agent").mkdir(parents=True)
    machine.own()
    plan = machine.json("setup")["plan"]
    assert {row["name"] for row in plan["found"]} >= {"memory of zcode", "host pi", "host ZCode"}
    assert [row["name"] for row in plan["would"]] == ["service", "pi", "ZCode"]
    assert machine.show("LoadState") == "not-found", "--json without --yes changes nothing"
    said = machine.done("setup", "--yes")
    assert (machine.home / ".pi/agent/extensions/zcsyncd.js").exists(), said
    assert machine.json("status")["daemon"]["ready"] is True
    assert machine.json("setup")["plan"]["would"][0]["name"] == "nothing"
    assert ".local/state/zcsyncd" in machine.done("uninstall", "--yes")
    assert machine.zcsyncd("status").returncode == 3
    assert (machine.home / ".local/state/zcsyncd/state.db").exists()


def test_nobody_to_ask_changes_nothing(machine):
    """Without --yes and without a terminal `setup` shows the plan, says that nobody can be asked, and does nothing."""
    done = machine.zcsyncd("setup")
    assert done.returncode == 2
    assert "service" in done.stdout
    assert "--yes" in done.stderr
    assert machine.show("LoadState") == "not-found"


def test_a_daemon_that_was_started_by_hand_makes_way(machine):
    """`service install` stops a daemon from a terminal, says so, and the service's own takes its place."""
    by_hand = subprocess.Popen(
        machine.command(sys.executable, "-P", "-m", "zcsyncd", "run"), stderr=subprocess.DEVNULL
    )
    try:
        machine.wait(lambda: machine.zcsyncd("status").returncode == 0, "it does not come up")
        pid = machine.json("status")["daemon"]["pid"]
        machine.done("service", "install", "--no-start")
        assert f"by hand runs (pid {pid})" in machine.zcsyncd("service", "status").stdout
        assert f"started by hand (pid {pid})" in machine.done("service", "start")
        assert by_hand.wait(WAIT_S) == 0
    finally:
        by_hand.kill()
        by_hand.wait()
    assert machine.json("status")["daemon"]["pid"] == machine.pid() != pid


def test_a_broken_configuration_is_told_and_not_tried_again(machine):
    """Install refuses and names the line; a service that meets it later fails once, and its status says why."""
    config = machine.home / ".config/zcsyncd/config.yaml"
    config.parent.mkdir(parents=True, mode=0o700)
    config.write_text("log:\n  level: loud\n")
    config.chmod(0o600)
    machine.own()
    refused = machine.zcsyncd("service", "install")
    assert refused.returncode == 2
    assert "line 2" in refused.stderr
    assert machine.show("LoadState") == "not-found"
    config.write_text("")
    machine.done("service", "install")
    config.write_text("log:\n  level: loud\n")
    failed = machine.zcsyncd("service", "restart")
    assert failed.returncode == 3
    assert "exit code 2" in failed.stderr
    assert machine.show("ActiveState") == "failed"
    assert machine.show("NRestarts") == "0"
    config.unlink()


def test_starts_are_limited(machine):
    """What fails at every start is given up after five, and the status says so."""
    machine.done("service", "install", "--no-start")
    machine.drop_in("[Service]\nExecStart=\nExecStart=/bin/false\nRestartSec=10ms\n")
    assert machine.zcsyncd("service", "start").returncode == 3
    machine.wait(lambda: machine.show("ActiveState") == "failed", "it is tried for ever")
    assert machine.show("Result") in {"start-limit-hit", "exit-code", "protocol"}
    assert int(machine.show("NRestarts")) == 5
    done = machine.zcsyncd("service", "status", "--json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["cautions"]


def test_a_person_can_still_start_what_was_given_up(machine):
    """A start by hand is not counted against the limit."""
    machine.done("service", "install", "--no-start")
    machine.drop_in("[Service]\nExecStart=\nExecStart=/bin/false\nRestartSec=10ms\n")
    machine.zcsyncd("service", "start")
    machine.wait(lambda: machine.show("ActiveState") == "failed", "it is tried for ever")
    (machine.home / f"{UNIT}.d/test.conf").unlink()
    machine.run("systemctl", "--user", "daemon-reload")
    machine.done("service", "start")
    assert machine.json("status")["daemon"]["ready"] is True


ODD = "we ird $HOME ${USER} %h %% \"q\" \\ \\x41 'x' é"


def test_odd_paths_and_values_arrive_as_they_are(machine):
    """An interpreter and a variable with every sign that systemd knows reach the daemon unchanged."""
    machine.installation(f"{ODD}/venv")
    place = f"{HOME}/{ODD}/venv"
    python, store = f"{place}/bin/python", f"{HOME}/{ODD}/store"
    made = machine.run(python, "-P", "-m", "zcsyncd", "service", "install", ZCODE_STORAGE_DIR=store)
    assert made.returncode == 0, made.stderr + machine.log()
    assert "the unit carries ZCODE_STORAGE_DIR as set here" in made.stdout
    status = machine.json("status")
    assert any(tree["base"].startswith(store) for tree in status["daemon"]["trees"])
    command = (machine.manager.root / f"proc/{machine.pid()}/cmdline").read_bytes().split(b"\0")
    assert command[0].decode() == python
    # Gone with its virtual environment, the unit is told to be what it is.
    (machine.home / ODD / "venv/bin/python").rename(machine.home / ODD / "venv/bin/python.gone")
    assert "no longer there" in machine.zcsyncd("service", "status").stdout
    machine.done("service", "install")
    assert machine.json("service", "status")["cautions"] == []


def test_what_cannot_be_written_into_a_unit_is_refused(machine):
    """A value with a line break is refused, and nothing is written."""
    done = machine.zcsyncd("service", "install", ZCODE_STORAGE_DIR="/a\nExecStart=/bin/false")
    assert done.returncode == 2
    assert "ZCODE_STORAGE_DIR" in done.stderr
    assert machine.show("LoadState") == "not-found"


@pytest.mark.parametrize("with_socket", [False, True])
def test_the_units_verify(machine, with_socket):
    """`systemd-analyze --user verify` has not a word to say about what `show` prints, nor about both units."""
    text = machine.done("service", "show")
    place = machine.home / "units"
    place.mkdir()
    (place / "zcsyncd.service").write_text(text)
    if with_socket:
        machine.done("service", "install", "--socket", "--no-start")
        (place / "zcsyncd.socket").write_text((machine.home / UNIT).with_suffix(".socket").read_text())
    machine.own()
    for path in sorted(place.iterdir()):
        done = machine.run("systemd-analyze", "--user", "verify", f"{HOME}/units/{path.name}")
        assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


def test_the_shipped_units_verify_as_they_are(machine):
    """The files in `service/systemd` are units by themselves, for an installation by pipx or uv."""
    place = machine.home / ".local/bin"
    place.mkdir(parents=True)
    (place / "zcsyncd").write_text("#!/bin/sh\n")
    (place / "zcsyncd").chmod(0o755)
    machine.own()
    for name in ("zcsyncd.service", "zcsyncd.socket"):
        done = machine.run("systemd-analyze", "--user", "verify", str(ROOT / "service/systemd" / name))
        assert (done.returncode, done.stderr) == (0, "")


def test_logs(machine):
    """The daemon's lines go to the journal, with their priority; where a person may not read that, the words say who may."""
    machine.done("service", "install")
    assert re.search(r"^<6>zcsyncd\.\S+ daemon ready ", machine.log(), re.MULTILINE)
    done = machine.zcsyncd("service", "logs", "--lines", "1")
    assert done.returncode == 5
    assert "journalctl --user-unit=zcsyncd.service" in done.stderr


def test_a_second_daemon_leaves_in_peace(machine):
    """A start at log-in that finds a daemon of one's own running is no failure, and is not tried again and again."""
    machine.done("service", "install", "--no-start")
    by_hand = subprocess.Popen(
        machine.command(sys.executable, "-P", "-m", "zcsyncd", "run"), stderr=subprocess.DEVNULL
    )
    try:
        machine.wait(lambda: machine.zcsyncd("status").returncode == 0, "it does not come up")
        assert machine.run("systemctl", "--user", "start", "zcsyncd.service").returncode == 0
        machine.wait(lambda: machine.show("ActiveState") == "inactive", "it does not leave")
        assert (machine.show("Result"), machine.show("NRestarts")) == ("success", "0")
    finally:
        by_hand.terminate()
        by_hand.wait(WAIT_S)


def test_stop_over_the_bus_lasts(machine):
    """After `zcsyncd stop` the service is down and in order; it is not started again."""
    machine.done("service", "install")
    machine.done("stop")
    machine.wait(lambda: machine.show("ActiveState") == "inactive", "it does not end")
    assert (machine.show("Result"), machine.show("NRestarts")) == ("success", "0")
    assert machine.zcsyncd("status").returncode == 3
    assert "started" in machine.done("service", "start")


def test_a_replaced_package_is_a_restart_and_no_failure(machine):
    """Another version that is installed in place of the one that runs is running soon, and that is no failure."""
    machine.drop_in(QUICK)
    packages = machine.installation(".local/share/pipx/venvs/zcsyncd")
    python = f"{HOME}/.local/share/pipx/venvs/zcsyncd/bin/python"
    made = machine.run(python, "-P", "-m", "zcsyncd", "service", "install", "--json")
    assert made.returncode == 0, made.stderr
    assert not [note for note in json.loads(made.stdout)["notes"] if "clone" in note or "lies in" in note]
    pid, old = machine.pid(), machine.json("status")["daemon"]["version"]
    module = packages / "zcsyncd/__init__.py"
    module.write_text(module.read_text().replace(f'"{old}"', '"9.9.9"'))
    assert new_pid(machine, pid)
    assert machine.json("status")["daemon"]["version"] == "9.9.9"
    assert (machine.show("Result"), machine.show("NRestarts")) == ("success", "1")
