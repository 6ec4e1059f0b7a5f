"""Each restriction of the unit is enforced by a user's own manager: the same act goes with it and without it."""

import json
import re
import sys

import pytest

from tests.service.own_manager import HOME, ROOT

TEMPLATE = (ROOT / "service/systemd/zcsyncd.service").read_text()
PROBE = ROOT / "tests/service/probe.py"

# directive: what the probe says without it, and with it
RESTRICTIONS = {
    "UMask": ("0022", "0077"),
    "LimitCORE": ("some", "none"),
    "NoNewPrivileges": ("0", "1"),
    "LockPersonality": ("done", "EPERM"),
    "MemoryDenyWriteExecute": ("done", "EPERM"),
    "RestrictRealtime": ("EINVAL", "EPERM"),
    "RestrictSUIDSGID": ("done", "EPERM"),
    "RestrictNamespaces": ("EINVAL", "EPERM"),
    "RestrictAddressFamilies": ("done", "EAFNOSUPPORT"),
    "SystemCallArchitectures": ("done", "SIGSYS"),
    "SystemCallFilter": ("done", "SIGSYS"),
    "SystemCallErrorNumber": ("SIGSYS", "EPERM"),
}


def restrictions(text):
    """Give the restricting lines of a unit, by name."""
    part = text.split("# What it never needs.")[1].split("[Install]")[0]
    return dict(re.findall(r"^(\w+)=(.*)$", part, re.MULTILINE))


def test_every_restriction_is_probed():
    """The table here has the unit's restrictions, all of them and no others."""
    assert list(restrictions(TEMPLATE)) == list(RESTRICTIONS)


def probed(machine, directives, names):
    """Run the probe under some directives; give what it says of `names`."""
    lines = "".join(f"{name}={value}\n" for name, value in directives.items())
    answer = f"{HOME}/answer.json"
    unit = machine.home / ".config/systemd/user/zcsyncd-probe.service"
    unit.parent.mkdir(parents=True, exist_ok=True)
    unit.write_text(
        f"[Service]\nType=oneshot\nExecStart={sys.executable} -P {PROBE} {answer} {' '.join(names)}\n{lines}"
    )
    machine.own()
    machine.run("systemctl", "--user", "daemon-reload")
    done = machine.run("systemctl", "--user", "start", unit.name)
    assert done.returncode == 0, machine.log()
    path = machine.home / "answer.json"
    said = json.loads(path.read_text())
    path.unlink()
    return said


@pytest.mark.parametrize("name", RESTRICTIONS)
def test_a_restriction_is_enforced(machine, name):
    """An act that goes without the directive does not go with it."""
    values = restrictions(TEMPLATE)
    before = {"SystemCallFilter": values["SystemCallFilter"]} if name == "SystemCallErrorNumber" else {}
    without, with_it = RESTRICTIONS[name]
    said = probed(machine, before, [name])[name]
    if name == "SystemCallArchitectures" and said != "done":
        pytest.skip(f"this kernel runs no foreign calls anyway: {said}")
    assert said == without
    assert probed(machine, {**before, name: values[name]}, [name])[name] == with_it


def test_all_together_are_enforced(machine):
    """Under all directives of the unit at once each act is refused; the running service has just these."""
    values = restrictions(TEMPLATE)
    # Under all of them no code can be made that would call as a 32-bit program does.
    names = [name for name in RESTRICTIONS if name != "SystemCallArchitectures"]
    said = probed(machine, values, names)
    expected = {name: with_it for name, (_, with_it) in RESTRICTIONS.items() if name in names}
    assert said == {**expected, "SystemCallFilter": "EPERM"}
    machine.done("service", "install")
    status = (machine.manager.root / f"proc/{machine.pid()}/status").read_text()
    assert re.search(r"^NoNewPrivs:\t1$", status, re.MULTILINE)
    assert re.search(r"^Seccomp:\t2$", status, re.MULTILINE)
    assert re.search(r"^Umask:\t0077$", status, re.MULTILINE)
