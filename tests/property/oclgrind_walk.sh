#!/usr/bin/env bash
# Random walks on OpenCL under oclgrind: no access out of bounds, no data race, no divergent barrier. oclgrind exits 0 whatever it
# finds, so its log is read. Usage: oclgrind_walk.sh WALK_TEST PLANS
set -euo pipefail
if ! command -v oclgrind >/dev/null; then
  echo "skipped: there is no oclgrind here"
  exit 77
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
LATHE_WALK_DEVICE=opencl LATHE_WALKS=$2 oclgrind --data-races --uniform-writes --log "$log" "$1"
if [ -s "$log" ]; then
  echo "oclgrind found:"
  head -60 "$log"
  exit 1
fi
echo "oclgrind found nothing in $2 plans"
