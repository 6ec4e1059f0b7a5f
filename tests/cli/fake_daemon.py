"""A daemon that answers as it was told to: for the words of the verbs, not for what a real one does."""

import json
import os
import socket
import threading
from contextlib import contextmanager, suppress


class ScriptedDaemon:
    """Listens on a real socket; `script` gives each method its answers: results, or errors as `{"error": …}`.

    The last answer of a list is given again and again. Silence is `None`. `asked` holds what came: (method, params).
    """

    def __init__(self, path: str, script: dict) -> None:
        self.path = path
        self.script = {
            method: answer if isinstance(answer, list) else [answer] for method, answer in script.items()
        }
        self.asked: list[tuple[str, dict]] = []
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listening.bind(path)
        self.listening.listen(8)
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as lines, suppress(OSError):
                for line in lines:
                    answer = self._answer(json.loads(line))
                    if answer is not None:
                        connection.sendall(json.dumps(answer).encode() + b"\n")

    def _answer(self, request: dict) -> dict | None:
        method = request["method"]
        answers = self.script.get(method, [{"cursor": "a:1"} if method == "ping" else {}])
        if method != "ping":
            self.asked.append((method, request["params"]))
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer is None:
            return None
        body = answer if set(answer) == {"error"} else {"result": answer}
        return {"jsonrpc": "2.0", "id": request["id"], **body}

    def close(self) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self.thread.join()
        os.unlink(self.path)


def error(word: str, code: int, message: str = "no", **data: object) -> dict:
    """Make an error of the wire."""
    return {"error": {"code": code, "message": message, "data": {"code": word, **data}}}


@contextmanager
def scripted(shell, **script):
    """Run one for a while, for a console's verbs; methods are named with `_` for the dot."""
    path = str(shell.place / "scripted.sock")
    daemon = ScriptedDaemon(path, {name.replace("_", ".", 1): answer for name, answer in script.items()})
    shell.env["ZCSYNCD_SOCKET"] = path
    try:
        yield daemon
    finally:
        daemon.close()
        del shell.env["ZCSYNCD_SOCKET"]
