#!/usr/bin/env bash
# Installs into a fresh prefix, builds a program of its own against it by find_package(lathe), and runs that.
# usage: install_test.sh BUILD_FOLDER DEVICE (the device that the installed library must run on by default)
set -euo pipefail
build=$1 device=$2
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LATHE_CACHE_DIR=$work/cache

cmake --install "$build" --prefix "$work/prefix" >/dev/null
# The build folder out of the way would be best; at least nothing of it may be named in the package.
if grep -rn "$build" "$work/prefix"/lib*/cmake "$work/prefix"/lib*/*/cmake 2>/dev/null; then
  echo "the package names the build folder"
  exit 1
fi
# A program's own versions of other libraries must not meet those inside of lathe's.
for library in "$work/prefix"/lib*/liblathe*.so "$work/prefix"/lib*/*/liblathe*.so; do
  [ -e "$library" ] || continue
  if nm -D --defined-only "$library" | awk '{print $3}' | grep -Ev '5lathe|10lathe_onnx|^lathe_make_'; then
    echo "$library exports these names, which are not lathe's"
    exit 1
  fi
done
cmake -S "$source_dir/consumer" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$work/build" >/dev/null
output=$("$work/build/consumer")
echo "$output"
[ "$(head -n 1 <<<"$output")" = "$device 5" ]
