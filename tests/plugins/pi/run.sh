#!/usr/bin/env bash
# The plugin in real hosts: pi 1.6.0 and omp 18.2.3, offline, with a model that is a stub.
#
#     tests/plugins/pi/run.sh PYTHON [CACHE]
#
# Needs node and npm (20 or later; pi's own Node 22 and omp's bun come as packages) and, the first time, the package
# index. CACHE keeps the packages (about 1.1 GB); without it they go to a temporary directory. When a package cannot be
# had this fails and says which.
set -euo pipefail
cd "$(dirname "$0")/../../.."
python=${1:?usage: run.sh PYTHON [CACHE]}
cache=${2:-}
if [ -z "$cache" ]; then
  cache=$(mktemp -d)
  trap 'rm -rf "$cache"' EXIT
fi
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)

for tool in node npm; do
  command -v "$tool" >/dev/null || { echo "test-pi: there is no $tool: install Node 20 or later with npm" >&2; exit 1; }
done

install() {  # HOST PACKAGE…
  host=$1
  shift
  stamp="$cache/$host/.installed"
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$*" ] && return
  if ! timeout 900 npm install --prefix "$cache/$host" --no-audit --no-fund --loglevel=error "$@" >"$cache/$host.log" 2>&1; then
    tail -n 20 "$cache/$host.log" >&2
    echo "test-pi: $host was not tested: these packages could not be had: $*" >&2
    exit 1
  fi
  echo "$*" >"$stamp"
}

mkdir -p "$cache/pi" "$cache/omp"
install pi node@22 @earendil-works/pi-coding-agent@1.6.0
install omp bun@1.4.5 @oh-my-pi/pi-coding-agent@18.2.3
# npm may leave out install scripts; bun's and node's fetch their program when they are missing.
[ -x "$cache/pi/node_modules/node/bin/node" ] || (cd "$cache/pi/node_modules/node" && node installArchSpecificPackage.js >/dev/null 2>&1) || true
[ -s "$cache/omp/node_modules/bun/bin/bun.exe" ] && "$cache/omp/node_modules/bun/bin/bun.exe" --version >/dev/null 2>&1 ||
  (cd "$cache/omp/node_modules/bun" && node install.js >/dev/null 2>&1) || true
"$cache/pi/node_modules/node/bin/node" --version >/dev/null || { echo "test-pi: pi was not tested: npm's node@22 has no program" >&2; exit 1; }
"$cache/omp/node_modules/bun/bin/bun.exe" --version >/dev/null || { echo "test-pi: omp was not tested: npm's bun has no program" >&2; exit 1; }
ZT_PI_HOSTS="$cache" "$python" -m pytest tests/plugins/pi/real_pi.py tests/plugins/pi/real_omp.py tests/plugins/real_pi_mcp.py
