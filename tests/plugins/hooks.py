"""What the tests of hooks share: recorded events, and a host that calls the very command line that is installed."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

from jsonschema import Draft202012Validator

from zcsyncd.install.hosts_command import hook_line
from zcsyncd.install.hosts_places import this_program
from zcsyncd.plugins.hook import DEADLINE_S

RECORDED = Path(__file__).parent / "recorded"
SPELLINGS = ("snake", "camel", "both")
TRIES = 20
OUTPUT = Draft202012Validator(json.loads((RECORDED / "output.schema.json").read_text("utf-8")))


def recorded(
    spelling, cwd="/home/u/app", memory="/home/u/.zcode/cli/memories/projects/app-0123456789abcdef/memory"
):
    """Give what hosts say, in one spelling."""
    text = (RECORDED / f"{spelling}.jsonl").read_text("utf-8")
    text = text.replace("@cwd@", str(cwd)).replace("@memory@", str(memory))
    return [json.loads(line) for line in text.splitlines()]


def name_of(event):
    """Give an event's name, however it is spelled."""
    return event.get("hook_event_name") or event["hookEventName"]


class HookHost:
    """A session of ZCode or Claude Code, as far as hooks see one."""

    def __init__(self, machine, cwd, session="s-1", host="zcode"):
        self.machine, self.cwd, self.session, self.host = machine, cwd, session, host
        self.line = hook_line(this_program({"HOME": str(machine.home)}), host)
        self.took_s = 0.0

    def raw(self, data, **options):
        """Call the hook with bytes; give how it ended."""
        begin = time.monotonic()
        done = subprocess.run(
            ["/bin/sh", "-c", self.line],
            **({"input": data} if "stdin" not in options else {}),
            env=self.machine.env,
            cwd=self.machine.home,
            timeout=20,
            check=False,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
        )
        self.took_s = time.monotonic() - begin
        return done

    def send(self, said):
        """Call the hook with an event as it is; give its output, which has to be empty or as hosts want it."""
        for _ in range(TRIES):
            done = self.raw(json.dumps(said).encode() + b"\n")
            assert (done.returncode, done.stderr) == (0, b"")
            # Silence after so long may be the deadline's, on a busy machine: what was not said is said then.
            if done.stdout or self.took_s < DEADLINE_S:
                break
        if not done.stdout:
            return None
        output = json.loads(done.stdout)
        wrong = next(OUTPUT.iter_errors(output), None)
        assert wrong is None, wrong
        assert output["hookSpecificOutput"]["hookEventName"] == name_of(said)
        return output["hookSpecificOutput"]

    def call(self, event, **more):
        said = {"hook_event_name": event, "session_id": self.session, "cwd": str(self.cwd), **more}
        return self.send(said)

    def start(self, source="startup"):
        assert self.call("SessionStart", source=source) is None

    def prompt(self):
        """Give the news that the model is shown; None for none."""
        output = self.call("UserPromptSubmit", prompt="Go on.")
        return output and output["additionalContext"]

    def stop(self):
        assert self.call("Stop", stop_hook_active=False) is None

    def after(self, tool, path, response=None, **told):
        """Give the news that the model is shown after a tool; None for none."""
        output = self.call(
            "PostToolUse",
            tool_name=tool,
            tool_input={"file_path": str(path), **told},
            tool_response=response or {},
        )
        return output and output["additionalContext"]

    def before(self, tool, path, **told):
        return self.call("PreToolUse", tool_name=tool, tool_input={"file_path": str(path), **told})
