"""The service's verbs as far as no service manager is needed: what they show, what they refuse, what they leave alone."""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress

import pytest

ALONE = {"PATH": "/nowhere"}
linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere another service manager is asked")


@linux
def test_show_prints_the_unit_and_nothing_else(shell):
    """`service show` needs no service manager, and its output is the unit; --json tells where it would lie."""
    done = shell.run("service", "show", **ALONE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("# Written by")
    assert f"ExecStart={sys.executable} -P -m zcsyncd run --service\n" in done.stdout
    assert f"Environment=ZCSYNCD_STATE_DIR={shell.env['ZCSYNCD_STATE_DIR']}\n" in done.stdout
    answer = shell.json("service", "show")
    assert answer["text"] == done.stdout
    assert answer["unit"] == str(shell.home / ".config/systemd/user/zcsyncd.service")


@linux
@pytest.mark.parametrize(
    "words",
    [
        ("service", "install"),
        ("service", "start"),
        ("service", "stop"),
        ("service", "restart"),
        ("service", "status"),
        ("setup", "--yes"),
    ],
)
def test_without_a_service_manager_the_words_say_what_to_do(shell, words):
    """Where there is none (a container, another init), each verb says so in two lines, exits with 7, and writes nothing."""
    before = sorted(shell.home.rglob("*"))
    done = shell.run(*words, **ALONE)
    assert done.returncode == 7
    assert "no systemd" in done.stderr
    assert " run` runs the daemon in the foreground" in done.stderr
    assert len(done.stderr.splitlines()) == 2
    assert sorted(shell.home.rglob("*")) == before


@linux
def test_a_manager_that_does_not_answer_is_told(shell):
    """Where systemctl is there and no manager runs for the user, its own complaint is shown."""
    program = shell.place / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'Failed to connect to bus: No medium found' >&2\nexit 1\n")
    program.chmod(0o755)
    done = shell.run("service", "install", PATH=f"{program.parent}:/usr/bin:/bin")
    assert done.returncode == 7
    assert "Failed to connect to bus" in done.stderr
    assert "enable-linger" in done.stderr


def test_a_broken_configuration_is_told_before_anything(shell):
    """`service install` names the mistake's line, and exits with 2."""
    (shell.place / "config.yaml").write_text("log:\n  level: loud\n")
    os.chmod(shell.place / "config.yaml", 0o600)
    done = shell.run("service", "install", **ALONE)
    assert done.returncode == 2
    assert "line 2" in done.stderr


@linux
@pytest.mark.parametrize("variable", ["ZCSYNCD_STATE_DIR", "ZCSYNCD_CONFIG"])
def test_a_place_that_is_named_wrongly_is_told_before_anything(shell, variable):
    """A relative path means another place to a service than to a shell: nothing is written, and the variable is named."""
    program = shell.place / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    before = sorted(shell.home.rglob("*"))
    done = shell.run("service", "install", PATH=f"{program.parent}:/usr/bin:/bin", **{variable: "rel/ative"})
    assert done.returncode == 2
    assert variable in done.stderr
    assert sorted(shell.home.rglob("*")) == before


def test_nothing_to_uninstall(shell):
    """`service uninstall` and `uninstall` where nothing is installed are no failure; the program itself is said to stay."""
    done = shell.run("service", "uninstall", **ALONE)
    assert (done.returncode, done.stdout) == (0, "nothing to do: it is so already\n")
    done = shell.run("uninstall", **ALONE)
    assert done.returncode == 0
    assert "the program itself stays" in done.stdout


def test_uninstall_names_what_stays_and_purge_takes_it(shell, daemon):
    """What lasts is named with its size; `--purge --yes` stops the daemon that runs by hand and takes it all."""
    answer = shell.json("uninstall")
    assert {row["name"] for row in answer["plan"]["stays"]} == {"state", "runtime"}
    assert all(row["sizeBytes"] >= 0 for row in answer["plan"]["stays"])
    done = shell.run("uninstall", "--purge", "--yes", **ALONE)
    assert done.returncode == 0, done.stderr
    assert "stopped: the daemon that was started by hand" in done.stdout
    assert daemon.wait(30) == 0
    assert not (shell.place / "state").exists()
    assert not (shell.place / "run").exists()


def test_purge_needs_no_sound_configuration(shell):
    """Who takes everything out need not mend it first: no daemon starts by it, and it goes with the rest."""
    (shell.place / "config.yaml").write_text("wach: 3\n")
    os.chmod(shell.place / "config.yaml", 0o600)
    done = shell.run("uninstall", "--purge", "--yes", **ALONE)
    assert done.returncode == 0, done.stderr


def test_purge_asks(shell, daemon):
    """Without --yes and without a terminal nothing is purged, and the plan is shown."""
    done = shell.run("uninstall", "--purge", **ALONE)
    assert done.returncode == 2
    assert "remove for good" in done.stdout
    assert (shell.place / "state" / "state.db").exists()
    planned = shell.json("uninstall", "--purge")["plan"]["would"]
    assert {row["name"] for row in planned} == {"state", "runtime"}
    assert shell.json("status")["daemon"]["ready"] is True


def test_nothing_is_purged_under_a_daemon_that_does_not_answer(shell):
    """Where somebody listens and gives no answer the purge is refused: it may still write there."""
    (shell.place / "state").mkdir(mode=0o700)
    (shell.place / "state" / "state.db").write_bytes(b"x")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(shell.place / "odd.sock"))
        listening.listen()
        done = shell.run(
            "uninstall", "--purge", "--yes", **ALONE, ZCSYNCD_SOCKET=str(shell.place / "odd.sock")
        )
    assert done.returncode == 7
    assert "nothing was purged" in done.stderr
    assert (shell.place / "state" / "state.db").exists()


def test_reload_without_a_daemon(shell):
    """`service reload` where no daemon runs exits with 3."""
    done = shell.run("service", "reload")
    assert done.returncode == 3


def test_reload_shows_what_changed(shell, daemon):
    """`service reload` lists each setting that is another now; what takes a restart says so."""
    config = shell.place / "config.yaml"
    config.write_text("audit:\n  grace_s: 7\nwatch:\n  poll_s: 9\n")
    config.chmod(0o600)
    done = shell.run("service", "reload")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines == ["audit.grace_s: 60 → 7", "watch.poll_s: 2 → 9, from the next start on"]
    assert shell.run("service", "reload").stdout == "nothing has changed\n"
    config.write_text("audit:\n  grace_s: 8\nlog:\n  level: loud\n")
    done = shell.run("service", "reload")
    assert done.returncode == 2
    assert "line 4" in done.stderr


def test_run_takes_variables(shell):
    """`run --env` is as if the variable were set; what is no variable is refused."""
    process = shell.start("run", "--env", f"ZCODE_STORAGE_DIR={shell.place}/z=z", stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 30
        while shell.run("status").returncode != 0:
            assert time.monotonic() < until
        trees = shell.json("status")["daemon"]["trees"]
        assert any(tree["base"].startswith(f"{shell.place}/z=z") for tree in trees)
    finally:
        process.terminate()
        process.communicate()
    for odd in ("A", "=b", ""):
        assert shell.run("run", "--env", odd).returncode == 2


# -- the log ---------------------------------------------------------------------------------------------------------


def log_file(shell):
    """Make the directory of the log; give the log's path."""
    path = shell.place / "state" / "log" / "zcsyncd.log"
    path.parent.mkdir(parents=True)
    return path


def test_logs_of_the_file(shell):
    """Without a journal the last lines of the log file are shown, harmless; a log that is not there is exit code 5."""
    assert shell.run("service", "logs", **ALONE).returncode == 5
    path = log_file(shell)
    path.write_bytes(b"".join(b"line %d \x1b[2J\xff\n" % number for number in range(100)))
    done = shell.run("service", "logs", "--lines", "2", **ALONE)
    assert done.stdout == "line 98 \\x1b[2J\\xff\nline 99 \\x1b[2J\\xff\n"
    answer = json.loads(shell.run("service", "logs", "--lines", "1", "--json", **ALONE).stdout)
    assert answer == {"lines": ["line 99 \x1b[2J\\xff"]}
    assert len(shell.run("service", "logs", **ALONE).stdout.splitlines()) == 50


def test_logs_are_followed_over_a_rotation(shell):
    """`--follow` shows each line when it is whole, and goes on in the file that takes the place of the one before."""
    path = log_file(shell)
    path.write_bytes(b"old\nhal")
    process = subprocess.Popen(
        shell.command("service", "logs", "--follow"),
        cwd=shell.home,
        env={**shell.env, **ALONE},
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        assert process.stdout.readline() == "old\n"
        with path.open("ab") as file:
            file.write(b"f\nnext\n")
        assert process.stdout.readline() == "half\n"
        assert process.stdout.readline() == "next\n"
        with path.open("ab") as file:
            file.write(b"last of it\n")
        path.rename(path.with_suffix(".log.1"))
        path.write_bytes(b"first of the new one\n")
        assert process.stdout.readline() == "last of it\n"
        assert process.stdout.readline() == "first of the new one\n"
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        process.stdout.close()
