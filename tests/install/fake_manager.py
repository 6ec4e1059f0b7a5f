"""`launchctl` and `schtasks` as far as we call them: scripts that keep their state in a directory of the test's."""

import json
import os
import stat
import sys
from pathlib import Path

LAUNCHCTL = """
import json, os, plistlib, sys
state_file = os.environ["FAKE_STATE"]
state = json.load(open(state_file))
verb, *rest = sys.argv[1:]
state["calls"].append([verb, *rest])
code, said = 0, ""
uid = os.geteuid()
domains = [f"gui/{uid}"] if state.get("desktop", True) else [f"user/{uid}"]
domains += [f"user/{uid}"] if state.get("domains", True) else []
name = "local.zcsyncd"
if not state.get("domains", True):
    domains = []
if verb == "print" and rest[0] in domains:
    said = f"{rest[0]} = {{\\n\\ttype = login\\n}}\\n"
elif verb == "print" and state["loaded"] == rest[0]:
    pid = f"\\tpid = {state['pid']}\\n" if state["pid"] else "\\tlast exit code = %s\\n" % state.get("status", 0)
    said = f"{rest[0]} = {{\\n\\tstate = {'running' if state['pid'] else 'not running'}\\n{pid}}}\\n"
elif verb == "print":
    code = 113
elif verb == "bootstrap":
    values = plistlib.load(open(rest[1], "rb"))
    if state["loaded"]:
        code, said = 5, "Bootstrap failed: 5: Input/output error\\n"
    elif state.get("fails"):
        code, said = 5, "Bootstrap failed: 5: it is broken\\n"
    else:
        state["loaded"], state["pid"] = f"{rest[0]}/{values['Label']}", 100 + len(state["calls"])
elif verb == "bootout":
    state["loaded"], state["pid"], code = "", 0, 36
elif verb == "kickstart":
    state["pid"] = 100 + len(state["calls"])
elif verb == "kill":
    state["pid"] = 0
json.dump(state, open(state_file, "w"))
(sys.stderr if code else sys.stdout).write(said)
sys.exit(code)
"""

SCHTASKS = """
import json, os, sys
state_file = os.environ["FAKE_STATE"]
state = json.load(open(state_file))
words = [word.upper() if word.startswith("/") and len(word) < 8 else word for word in sys.argv[1:]]
state["calls"].append(words)
code, said = 0, ""
there = state.get("task")
if words[0] == "/CREATE":
    state["task"] = open(words[words.index("/XML") + 1], "rb").read().decode("utf-16")
elif not there:
    code, said = 1, "ERROR: The system cannot find the file specified.\\n"
elif words[0] == "/QUERY":
    said = there
elif words[0] == "/DELETE":
    state["task"] = None
elif words[0] == "/RUN":
    state["runs"] = True
elif words[0] == "/END":
    state["runs"] = False
json.dump(state, open(state_file, "w"))
(sys.stderr if code else sys.stdout).write(said)
sys.exit(code)
"""


class FakeManager:
    """One program of a service manager on a path of its own."""

    def __init__(self, place: Path, name: str, script: str) -> None:
        self.state_file = place / "state.json"
        self.place = place / "bin"
        self.place.mkdir()
        program = self.place / name
        program.write_text(f"#!{sys.executable} -IS\n{script}")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.set(calls=[], loaded="", pid=0)
        self.env = {
            "PATH": str(self.place),
            "HOME": str(place),
            "FAKE_STATE": str(self.state_file),
            "USER": os.environ.get("USER", "u"),
        }

    @property
    def state(self):
        return json.loads(self.state_file.read_text())

    def set(self, **values):
        state = json.loads(self.state_file.read_text()) if self.state_file.exists() else {}
        self.state_file.write_text(json.dumps({**state, **values}))

    def calls(self, verb):
        return [call for call in self.state["calls"] if call[0] == verb]
