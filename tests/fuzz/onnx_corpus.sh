#!/usr/bin/env bash
# Seeds for the fuzzer of ONNX models: the suite's models of at most 8 KiB, each under its test's name.
# usage: onnx_corpus.sh FOLDER
set -euo pipefail
data=${ONNX_TEST_DATA:-/usr/share/libonnx-testdata/data}
mkdir -p "$1"
find "$data/node" "$data/simple" -name model.onnx -size -17 | while read -r model; do
  cp "$model" "$1/$(basename "$(dirname "$model")").onnx"
done
