"""The first process of a machine in the machine: mounts of its own, a user of its own, that user's service manager.

Called by own_manager.py as root, in new mount and process namespaces. Nothing that it does is seen outside.
Arguments: the user's number, the name of a control group, then the directories that the user has to reach.
"""

import os
import socket
import stat
import subprocess
import sys
import threading

HOME = "/run/home"
LOGIN = "zcsyncd-test"


def mount(*words):
    subprocess.run(["mount", *words], check=True)


def reach(directories):
    """Let the user reach directories that lie behind closed ones, by covering what is closed."""
    kept = {}
    for number, directory in enumerate(directories):
        kept[directory] = f"/run/kept/{number}"
        os.makedirs(kept[directory])
        mount("--bind", directory, kept[directory])
    for directory in directories:
        above, closed = directory, None
        while (above := os.path.dirname(above)) != "/":
            if not os.stat(above).st_mode & stat.S_IXOTH:
                closed = above
        if closed is not None:
            mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", closed)
    for directory, place in kept.items():
        if not os.path.isdir(directory) or not os.listdir(directory):
            os.makedirs(directory, exist_ok=True)
            mount("--bind", place, directory)


def add_user(number):
    for name, line in (
        ("passwd", f"{LOGIN}:x:{number}:{number}::{HOME}:/bin/sh"),
        ("group", f"{LOGIN}:x:{number}:"),
    ):
        with open(f"/etc/{name}", encoding="utf-8") as file:
            text = file.read()
        with open(f"/run/{name}", "w", encoding="utf-8") as file:
            file.write(text.rstrip("\n") + f"\n{line}\n")
        os.chmod(f"/run/{name}", 0o644)
        mount("--bind", f"/run/{name}", f"/etc/{name}")


def keep_journal():
    """Write down what services print, where the journal would take it."""
    os.makedirs("/run/systemd/journal")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind("/run/systemd/journal/stdout")
    os.chmod("/run/systemd/journal/stdout", 0o666)
    listening.listen(64)

    def write_down(connection):
        with connection.makefile("rb") as lines:
            for number, line in enumerate(lines):
                if number >= 7:  # before that it says who prints
                    os.write(2, line)

    def accept():
        while True:
            connection, _ = listening.accept()
            threading.Thread(target=write_down, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


def main():
    number, group, systemd, *directories = sys.argv[1:]
    user = int(number)
    mount("--make-rprivate", "/")
    mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/run")
    for place in ("/run/systemd/system", f"/run/user/{user}", HOME):
        os.makedirs(place)
    subprocess.run(["umount", "-R", "-l", "/sys/fs/cgroup"], check=False, stderr=subprocess.DEVNULL)
    mount("-t", "cgroup2", "cgroup2", "/sys/fs/cgroup")
    add_user(user)
    reach(directories)
    own = f"/sys/fs/cgroup/{group}"
    os.mkdir(own)
    for place in (own, f"{own}/cgroup.procs", f"{own}/cgroup.subtree_control", f"{own}/cgroup.threads"):
        os.chown(place, user, user)
    for place in (HOME, f"/run/user/{user}"):
        os.chown(place, user, user)
        os.chmod(place, 0o700)
    with open(f"{own}/cgroup.procs", "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    keep_journal()
    manager = subprocess.Popen(
        [
            *("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"),
            *(
                "env",
                "-i",
                f"HOME={HOME}",
                f"USER={LOGIN}",
                f"LOGNAME={LOGIN}",
                "PATH=/usr/bin:/bin",
                "LANG=C.UTF-8",
            ),
            f"XDG_RUNTIME_DIR=/run/user/{user}",
            *(systemd, "--user", "--log-target=console"),
        ],
        stdout=sys.stderr,
    )
    os.write(1, b"set up\n")
    while True:  # the first process has to bury everybody's dead
        pid, _ = os.wait()
        if pid == manager.pid:
            return


main()
