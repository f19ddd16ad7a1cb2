#!/usr/bin/env bash
# The C++ tests under a sanitizer, or the fuzzers for ten seconds each:
# sanitized.sh address|thread|fuzz. Sanitizers leave the compiler out: MLIR is
# not instrumented, and building it again costs more than it finds.
set -euo pipefail
cd "$(dirname "$0")/.."
# Compiling what a sanitizer instruments takes three times as long with optimizations,
# which is more than they save when the tests run.
runtime=(-DANABRANCH_RUNTIME_ONLY=ON -DCMAKE_BUILD_TYPE=Debug)
# The rooms whose tests have threads.
with_threads=(process-test machine-test trace-test cache-test runtime-test)
targets=()
case "${1:-}" in
  address) options=("${runtime[@]}" -DANABRANCH_SANITIZE=address,undefined) ;;
  thread)
    options=("${runtime[@]}" -DANABRANCH_SANITIZE=thread)
    targets=("${with_threads[@]}")
    ;;
  fuzz)
    options=(-DANABRANCH_FUZZ=ON)
    # The usual build has parsed MLIR's headers.
    parsed=$PWD/build/precompiled.pch
    [ ! -e "$parsed" ] || options+=("-DANABRANCH_PARSED_HEADERS=$parsed")
    ;;
  *) echo "usage: sanitized.sh address|thread|fuzz" >&2; exit 2 ;;
esac
folder=build-$1
[ -e "$folder/build.ninja" ] ||
  cmake -G Ninja -B "$folder" -DCMAKE_C_COMPILER=clang-19 \
    -DCMAKE_CXX_COMPILER=clang++-19 -DANABRANCH_PYTHON=OFF "${options[@]}" \
    >/dev/null
if [ "$1" = fuzz ]; then
  exec ninja -C "$folder" -j2 fuzz
fi
ninja -C "$folder" -j2 --quiet "${targets[@]}"
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
# The sanitizer takes threads that a forked child lacks for leaked ones.
export TSAN_OPTIONS=report_thread_leaks=0
exec "${PYTHON:-python3}" scripts/gtests.py "$folder"
