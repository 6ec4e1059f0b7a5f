#!/usr/bin/env bash
# Runs tests on Windows CPython under Wine: those of this folder, and those that shared.txt names. See docs/windows.md.
# usage: run.sh PYTHON [pytest's arguments in place of ours]    (PYTHON: one with pip)
#
# Nothing is installed on this machine. All lies in a temporary directory: the Windows Python, Wine's prefix, the
# tests' files. ZCSYNCD_WINDOWS_PYTHON names a directory that keeps the Python for the next time.
set -euo pipefail
python=$(realpath -s "$1")
shift
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."

missing=()
command -v wine >/dev/null || missing+=(wine wine64)
command -v x86_64-w64-mingw32-gcc >/dev/null || missing+=(gcc-mingw-w64-x86-64-win32)
if ((${#missing[@]})); then
  echo "the Windows tests need programs that are not there; on Debian: apt-get install ${missing[*]}" >&2
  exit 1
fi

room=$(mktemp -d -t zcsyncd-windows-XXXXXX)
export WINEPREFIX=$room/prefix WINEARCH=win64 WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml="
leave() {
  timeout 30 wineserver -k >/dev/null 2>&1 || true # of this prefix only
  timeout 30 wineserver -w >/dev/null 2>&1 || true
  rm -rf "$room"
}
trap leave EXIT

windows=${ZCSYNCD_WINDOWS_PYTHON:-$room/python}
if [[ ! -e $windows/complete ]]; then
  timeout 600 "$here/get_python.sh" "$windows" "$python"
  touch "$windows/complete"
fi

# Standard output and error are pipes everywhere: CPython refuses Wine's regular files.
timeout 180 wineboot -i </dev/null 2>&1 | cat >"$room/wine.log" || {
  cat "$room/wine.log" >&2
  echo "Wine could not make its prefix" >&2
  exit 1
}
timeout 60 wine winecfg -v win10 </dev/null 2>&1 | cat >>"$room/wine.log" # node.exe wants it
timeout 60 wine "$windows/python.exe" -c 'import sys; print("Python", sys.version, "on", sys.platform)' </dev/null 2>&1 |
  tee "$room/python.log"
grep -q 'on win32' "$room/python.log" || {
  echo "the Windows Python does not run under this Wine" >&2
  exit 1
}

if (($# == 0)); then
  mapfile -t shared < <(sed -n 's/^- /--deselect=/p; /^[^-#]/p' "$here/shared.txt")
  set -- tests/windows "${shared[@]}"
fi
# UTF-8 for what the tests write; the programs that they start do without it, as people's do.
PYTHONUTF8=1 PYTHONDONTWRITEBYTECODE=1 timeout --kill-after=10 900 wine "$windows/python.exe" -m pytest \
  -p no:cacheprovider --timeout=100 -rfE "$@" </dev/null 2>&1 | cat
