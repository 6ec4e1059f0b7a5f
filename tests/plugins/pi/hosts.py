"""The hosts as real programs: pi and omp, driven as a person or a script drives them. Door: processes, a pty."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.transcripts.machine import CHECKOUT, PATIENCE_S, Machine, until

HERE = Path(__file__).resolve().parent
PLUGIN = CHECKOUT / "zcsyncd" / "plugins" / "pi" / "zcsyncd.js"
PACKAGES = {
    "pi": ("node@22", "@earendil-works/pi-coding-agent@1.6.0"),
    "omp": ("bun@1.4.5", "@oh-my-pi/pi-coding-agent@18.2.3"),
}


def modules(host: str) -> Path:
    """Give where a host's packages lie. It is a failure, not a reason to skip, when they do not."""
    place = os.environ.get("ZT_PI_HOSTS")
    assert place, "say where the hosts' packages lie: run tests/plugins/pi/run.sh, which puts them there"
    found = Path(place) / host / "node_modules"
    assert found.is_dir(), (
        f"there is no {found}: the packages of {host} ({' '.join(PACKAGES[host])}) were not installed"
    )
    return found


def pi_command(*words: str) -> list[str]:
    found = modules("pi")
    program = found / "@earendil-works" / "pi-coding-agent" / "dist" / "bundle" / "cli.js"
    return [
        str(found / "node" / "bin" / "node"),
        str(program),
        *("-e", str(PLUGIN), "-e", str(HERE / "faux.mjs"), "--model", "faux/faux-1"),
        *words,
    ]


def omp_command(*words: str) -> list[str]:
    found = modules("omp")
    program = found / "@oh-my-pi" / "pi-coding-agent" / "dist" / "cli.js"
    return [str(found / "bun" / "bin" / "bun.exe"), str(program), "-e", str(PLUGIN), *words]


class Desk:
    """What a host runs on: a home, a log of what its model was given, the machine's daemon if one runs."""

    def __init__(self, machine: Machine, cwd: Path) -> None:
        self.cwd = cwd
        self.log = machine.place / "heard"
        self.agent = machine.home / ".pi" / "agent"
        self.agent.mkdir(parents=True, exist_ok=True)
        self.env = {
            **machine.env,
            "PI_CODING_AGENT_DIR": str(self.agent),
            "PI_OFFLINE": "1",
            "ZT_LOG": str(self.log),
            "TERM": "xterm-256color",
        }

    def heard(self, what: str | None = None) -> list[Any]:
        """Give what the listening extension has noted: whole notes, or the values of one kind."""
        if not self.log.exists():
            return []
        notes = [json.loads(line) for line in self.log.read_text().splitlines()]
        return notes if what is None else [note[what] for note in notes if what in note]

    def shown(self) -> str:
        """Give all that the model was given with the last request."""
        return json.dumps(self.heard("model")[-1], ensure_ascii=False)

    def run(self, command: list[str], **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env={**self.env, **env},
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE_S * 2,
            check=False,
        )


class Rpc:
    """A host in RPC mode."""

    def __init__(self, desk: Desk, command: list[str], end: str = "agent_settled", **env: str) -> None:
        """Start it. `end` is the line that ends a run in this host."""
        self.desk = desk
        self.end = end
        self.heard: list[dict[str, Any]] = []
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._number = 0
        self._errors = open(desk.log.with_name("host-stderr"), "ab")  # noqa: SIM115 - closed with the host
        self.process = subprocess.Popen(
            command,
            env={**desk.env, **env},
            cwd=desk.cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put(None)

    def until(
        self, fits: Callable[[dict[str, Any]], Any], what: str, patience_s: float = PATIENCE_S
    ) -> dict[str, Any]:
        """Give the next line that fits."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(
                    f"{what} did not come; heard {json.dumps(self.heard[-20:])[-4000:]}"
                ) from None
            assert line is not None, f"the host ended with {self.process.wait(5)}: {self.stderr()}"
            self.heard.append(line)
            if fits(line):
                return line

    def stderr(self) -> str:
        return self.desk.log.with_name("host-stderr").read_text(errors="replace")[-3000:]

    def call(self, kind: str, **members: Any) -> dict[str, Any]:
        self._number += 1
        number = str(self._number)
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"id": number, "type": kind, **members}).encode() + b"\n")
        self.process.stdin.flush()
        answer = self.until(lambda line: line.get("type") == "response" and line.get("id") == number, kind)
        assert answer["success"], answer
        return answer.get("data") or {}

    def prompt(self, text: str, patience_s: float = PATIENCE_S) -> float:
        """Say something and wait for the end of the run; give how long that took, in seconds."""
        began = time.monotonic()
        self.call("prompt", message=text)
        if not text.startswith("/"):
            self.until(lambda line: line.get("type") == self.end, f"the end of {text}", patience_s)
        return time.monotonic() - began

    def tools(self, *calls: tuple[str, Mapping[str, Any]]) -> None:
        self.prompt("CALL " + json.dumps(calls))

    def notified(self) -> list[str]:
        return [
            line["message"]
            for line in self.heard
            if line.get("type") == "extension_ui_request" and line.get("method") == "notify"
        ]

    def until_status(self, text: str) -> None:
        """Wait until this is what the status line says."""
        said = [line.get("statusText") for line in self.heard if line.get("method") == "setStatus"]
        if not said or said[-1] != text:
            self.until(
                lambda line: line.get("method") == "setStatus" and line.get("statusText") == text, text
            )

    def close(self) -> None:
        if self.process.poll() is None:
            assert self.process.stdin
            self.process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(PATIENCE_S)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        assert self.process.stdin
        assert self.process.stdout
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.stdout.close()
        self._errors.close()


class Terminal:
    """A host in a terminal."""

    def __init__(self, desk: Desk, command: list[str]) -> None:
        self.screen = b""
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            command,
            env=desk.env,
            cwd=desk.cwd,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._master, 65_536):
                self.screen += data

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def until(self, text: str) -> None:
        until(
            lambda: text.encode() in self.screen,
            f"{text!r} on the screen, which ends in {self.screen[-1500:]!r}",
        )

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        os.close(self._master)
        self._reader.join(PATIENCE_S)


class Model(ThreadingHTTPServer):
    """A model behind an OpenAI-style address on this machine: it calls the tools that a prompt names."""

    daemon_threads = True

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        super().__init__(("127.0.0.1", 0), _Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def next(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """Tell what the model says to these messages."""
        texts = [_text(message) if message["role"] == "user" else "" for message in messages]
        prompts = [at for at, text in enumerate(texts) if "CALL [" in text]
        if prompts:
            # omp puts words of its own before the prompt.
            calls, _ = json.JSONDecoder().raw_decode(texts[prompts[-1]].partition("CALL ")[2])
            done = sum(message["role"] == "tool" for message in messages[prompts[-1] :])
            if done < len(calls):
                name, arguments = calls[done]
                function = {"name": name, "arguments": json.dumps(arguments)}
                call = {"index": 0, "id": f"c{len(messages)}", "type": "function", "function": function}
                return {"role": "assistant", "tool_calls": [call]}
        return {"role": "assistant", "content": "done"}


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


class _Answer(BaseHTTPRequestHandler):
    server: Model

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body)
        delta = self.server.next(body["messages"])
        reason = "tool_calls" if "tool_calls" in delta else "stop"
        head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "stub"}
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for choice in ({"delta": delta, "finish_reason": None}, {"delta": {}, "finish_reason": reason}):
            self.wfile.write(
                f"data: {json.dumps({**head, 'choices': [{'index': 0, **choice}]})}\n\n".encode()
            )
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        self.wfile.write(
            f"data: {json.dumps({**head, 'choices': [], 'usage': usage})}\n\ndata: [DONE]\n\n".encode()
        )

    def log_message(self, *_words: object) -> None:
        """Say nothing."""
