#!/usr/bin/env bash
# The command line of lathe-bench: bad arguments end with status 2 and one clear line, good ones give the fields promised.
# usage: bench_cli.sh path/to/lathe-bench
set -euo pipefail
bench=$1
export LATHE_CACHE_DIR
LATHE_CACHE_DIR=$(mktemp -d)
trap 'rm -rf "$LATHE_CACHE_DIR"' EXIT
failures=0

complain() {
  echo "FAIL: $*"
  failures=$((failures + 1))
}

# refused 'words the message must hold' arguments...
refused() {
  local words=$1 status=0
  shift
  "$bench" "$@" >"$LATHE_CACHE_DIR/out" 2>"$LATHE_CACHE_DIR/err" || status=$?
  [ "$status" -eq 2 ] || complain "lathe-bench $*: status $status, expected 2"
  [ ! -s "$LATHE_CACHE_DIR/out" ] || complain "lathe-bench $*: prints to standard output"
  [ "$(wc -l <"$LATHE_CACHE_DIR/err")" -eq 1 ] || complain "lathe-bench $*: not one line: $(cat "$LATHE_CACHE_DIR/err")"
  grep -qF -- "$words" "$LATHE_CACHE_DIR/err" || complain "lathe-bench $*: no '$words' in: $(cat "$LATHE_CACHE_DIR/err")"
}

# accepted 'words the output must hold' arguments...
accepted() {
  local words=$1
  shift
  "$bench" "$@" >"$LATHE_CACHE_DIR/out" 2>"$LATHE_CACHE_DIR/err" || complain "lathe-bench $*: status $?: $(cat "$LATHE_CACHE_DIR/err")"
  grep -qF -- "$words" "$LATHE_CACHE_DIR/out" || complain "lathe-bench $*: no '$words' in: $(head -c 2000 "$LATHE_CACHE_DIR/out")"
}

refused 'subcommand'
refused "'frobnicate' is no command, expected one of list, run" frobnicate
refused 'workload' run
refused "workload 'matmull' is unknown, expected one of elementwise" run matmull
refused '--bogus' run matmul --bogus
refused '--shape 5x5 does not fit matmul, expected MxNxK' run matmul --shape 5x5
refused '--shape 5x5x5x5' run matmul --shape 5x5x5x5
refused '--shape 5x0x5' run matmul --shape 5x0x5
refused '--shape 5x-1x5' run matmul --shape 5x-1x5
refused '--shape axbxc' run matmul --shape axbxc
refused '--shape 99999999999999999999x1x1' run matmul --shape 99999999999999999999x1x1
refused '--shape' run all --shape 4x4
refused 'f33' run matmul --dtype f33
refused 'softmax has no meaning for --dtype i32' run softmax --dtype i32
refused 'matmul has no meaning for --dtype q8_0' run matmul --dtype q8_0
refused 'q9_9' run linear --dtype q9_9
refused 'K of 100 as q4_k, expected a multiple of 256' run linear --shape 1x32x100 --dtype q4_k
accepted '"dtype": "q4_k"' run linear --shape 1x32x512 --dtype q4_k --json
refused '--device tpu is unknown' run matmul --device tpu
refused 'threads' run matmul --threads 0
refused 'threads' run matmul --threads many
refused '--budget soon is no duration' tune matmul --budget soon
refused '--budget -3s' tune matmul --budget=-3s
refused 'beam' tune matmul --beam 0
refused '/nonexistent/log' tune matmul --shape 16x16x16 --replay /nonexistent/log
refused '--target fortran is unknown' emit matmul --target fortran
refused 'no schedule is stored' emit matmul --shape 17x17x17 --tuned
refused "--peers: 'mkl' is unknown" compare matmul --peers mkl
refused '/nonexistent/venv: has no bin/python' compare matmul --python /nonexistent/venv
refused '--budget never is no duration' joint --budget never
refused '12 heads' run encoder-block --shape 8x16x12x16
refused '/nonexistent/digits' demo --data /nonexistent/digits

refused 'moves-nowhere: can'"'"'t be read' explain matmul --shape 16x16x16 --moves moves-nowhere
refused 'plans' rank matmul --plans 1
refused 'action' db
refused 'frobnicate' db frobnicate
refused 'which program is not said' db show
refused "nothing is stored for 'abc'" db show abc
refused 'no file is given' db import
refused '/nonexistent/log' db import --file /nonexistent/log
refused 'is no age' db prune --older -1

echo '{' >"$LATHE_CACHE_DIR/machine.json"
accepted 'verified' run matmul --shape 16x16x16
grep -qF 'machine.json: damaged' "$LATHE_CACHE_DIR/err" || complain 'run: a damaged machine.json is not reported'
rm "$LATHE_CACHE_DIR/machine.json"

accepted 'lathe-bench list' --help
for command in list run tune emit machine overhead matrices compare joint demo explain bounds rank tracing db; do accepted '--json' $command --help; done
accepted 'MxNxK' list
accepted '"default": "512x512x512"' list --json
for target in c opencl llvm asm ast graph dot moves; do
  accepted '' emit softmax --shape 4x8 --target $target
done

fields() {
  local field
  for field in workload shape dtype device threads tuned verified max_error kernels ms gflops gbs limit limit_share peers; do
    grep -qF "\"$field\":" "$LATHE_CACHE_DIR/out" || complain "lathe-bench $*: no field $field"
  done
}
accepted '"tuned": false' run matmul --shape 33x17x9 --json
fields run
accepted '"ratio":' compare matmul --shape 33x17x9 --peers eigen --json
fields compare
for field in group ops fused_ops arena_bytes groups ratio_to_best worst; do
  grep -qF "\"$field\":" "$LATHE_CACHE_DIR/out" || complain "compare: no field $field"
done
accepted 'products: ' compare matmul --shape 33x17x9
accepted ' of c' compare matmul --shape 33x17x9 --peers c
grep -qF 'c: C through' "$LATHE_CACHE_DIR/out" || complain 'compare --peers c: the compiler is not named'
accepted 'on 2 threads' compare matmul --shape 33x17x9 --threads 2

# A Python that answers as peer.py does: right, wrong, and not at all.
venv=$LATHE_CACHE_DIR/venv
mkdir -p "$venv/bin"
cat >"$venv/bin/python" <<'FAKE'
#!/usr/bin/env python3
import json, struct, sys
name = sys.argv[2]
if name == "jax":
    print(json.dumps({"absent": "not here"}), flush=True)
    sys.exit()
print(json.dumps({"version": "fake " + name}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "prepare":
        if name == "torch":
            sys.exit()
        n = request["shape"][0]
        read = lambda t: struct.unpack(f"{n}f", open(request["tensors"][t]["file"], "rb").read())
        a, b, c, d = map(read, "abcd")
        answer = {"ready": name != "onnxruntime"}
    elif request["do"] == "run":
        answer = {"seconds": 1e-3}
    else:
        y = [max((p + q) * r, 0) + s for p, q, r, s in zip(a, b, c, d)]
        if "wrong" in sys.argv[0]:
            y[1] += 1
        open(request["file"], "wb").write(struct.pack(f"{n}f", *y))
        answer = {"done": True}
    print(json.dumps(answer), flush=True)
FAKE
chmod +x "$venv/bin/python"
accepted 'tinygrad: fake tinygrad' compare elementwise --shape 64 --python "$venv"
grep -qF '1.00 ms' "$LATHE_CACHE_DIR/out" || complain 'compare --python: its time is missing'
grep -qF 'jax: absent, not here' "$LATHE_CACHE_DIR/out" || complain 'compare --python: the absent one is not named'
grep -qF 'torch: its process has ended: left out' "$LATHE_CACHE_DIR/err" || complain 'compare --python: a death is not told'
mkdir -p "$LATHE_CACHE_DIR/wrong/bin"
cp "$venv/bin/python" "$LATHE_CACHE_DIR/wrong/bin/python"
accepted 'no peer' compare elementwise --shape 64 --python "$LATHE_CACHE_DIR/wrong" --peers tinygrad
grep -qF 'tinygrad on elementwise 64 is off by' "$LATHE_CACHE_DIR/err" || complain 'compare --python: a wrong result passed'
accepted '"fork_join_us":' overhead --json
accepted '"eigen_error":' matrices --sizes 5 --json
refused 'sizes' matrices --sizes 1
accepted '"traced_per_second":' tracing softmax --shape 8x8 --beam 1 --budget 500ms --json
log=$LATHE_CACHE_DIR/log.jsonl
accepted '"speedup":' tune matmul --shape 33x17x9 --budget 1s --log "$log" --json
fields tune
accepted '"tuned": true' run matmul --shape 33x17x9 --json
accepted '"tuned": false' run matmul --shape 33x17x9 --untuned --json
accepted '"verified": true' tune matmul --shape 33x17x9 --replay "$log" --json
accepted '"verified": true' tune mlp --shape 3x9x8x7x5 --budget 3s --log "$log" --json # its weights are constants
accepted '"verified": true' tune mlp --shape 3x9x8x7x5 --replay "$log" --json
accepted 'a[33, 9] b[9, 17] -> ' db list
accepted '"moves":' db show '33' --json
exported=$LATHE_CACHE_DIR/exported.jsonl
"$bench" db export --file "$exported" || complain "db export: status $?"
accepted '"verified": true' tune matmul --shape 33x17x9 --replay "$exported" --json
rm "$LATHE_CACHE_DIR"/tuning.db*
refused 'nothing is stored' db show '33'
accepted '2 schedules taken' db import --file "$exported"
accepted '"label": "a[33, 9] b[9, 17] -> ' db list --json
accepted '0 schedules and 0 candidates removed' db prune
accepted '"largest":' explain matmul --shape 33x17x9 --json
# Graph moves make another program: its kernels are what is measured.
printf 'winograd(t2, 2)\ninnermost(t3, 1)\n' >"$LATHE_CACHE_DIR/graph.moves"
accepted '"kernel": "k_t5"' explain conv2d --shape 16x7x9x11x3x3 --moves "$LATHE_CACHE_DIR/graph.moves" --json
if grep -qF 'not measured' "$LATHE_CACHE_DIR/out"; then complain "explain --moves: $(grep -F 'not measured' "$LATHE_CACHE_DIR/out")"; fi
accepted 'rank correlation' rank matmul --shape 33x17x9 --plans 12
refused 'has no plan for matmul 9x9x9' tune matmul --shape 9x9x9 --replay "$log"
# A line longer than there is memory for: the rest of the log is not taken for its end.
truncate -s 2G "$LATHE_CACHE_DIR/large.jsonl"
real_bench=$bench
bench=$LATHE_CACHE_DIR/limited
printf '#!/bin/sh\nulimit -v 600000\nexec "%s" "$@"\n' "$real_bench" >"$bench"
chmod +x "$bench"
if "$bench" list >/dev/null 2>&1; then # not with a sanitizer
  refused "can't be read to its end" tune matmul --shape 9x9x9 --replay "$LATHE_CACHE_DIR/large.jsonl"
fi

[ "$failures" -eq 0 ] || exit 1
echo "all as promised"
