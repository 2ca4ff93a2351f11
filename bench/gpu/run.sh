#!/usr/bin/env bash
# Runs Quiver's tests and benchmarks on a machine with an NVIDIA GPU, Python 3,
# CuPy, NumPy and pyarrow. No Go is needed: `make gpu-bundle` built everything.
#
# Usage, in the root of the working tree: OUT=folder .gpu/run.sh [tests] [bench]
#
# OUT gets tests.log, bench.log and the result files that belong into
# bench/results. Exits 1 when a test failed or a benchmark did not run.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export OUT=${OUT:?say where results go: OUT=folder .gpu/run.sh}
what=${*:-tests bench}
mkdir -p "$OUT"
failed=0
python3 -c 'import tarfile; tarfile.open(".gpu/bundle.tar.xz").extractall(".gpu", filter="data")' || exit 1
if [ -e .gpu/shared.tar.xz ] && [ ! -e ../shared ]; then
	python3 -c 'import tarfile; tarfile.open(".gpu/shared.tar.xz").extractall("..", filter="data")' || exit 1
fi

if [[ " $what " == *" tests "* ]]; then
	: >"$OUT/tests.log"
	for test in .gpu/tests/*; do
		name=$(basename "$test")
		folder=${name//+//}
		log=.gpu/log
		# Each runs in its package's folder, as `go test` does it.
		if (cd "$folder" && QUIVER_TEST_DEVICE=cuda timeout 300 "$root/$test" -test.v -test.timeout 280s) >"$log" 2>&1; then
			echo "ok    $folder"
		else
			code=$?
			# One that crashed has no line of its own.
			echo "--- FAIL: package $folder, exit code $code" >>"$log"
			echo "FAIL  $folder"
			grep -E '^ *--- FAIL|panic:|fatal error' "$log" | head -20
			failed=1
		fi
		{ echo "=== package $folder"; cat "$log"; } >>"$OUT/tests.log"
	done
	passes=$(grep -cE '^ *--- PASS' "$OUT/tests.log")
	fails=$(grep -cE '^ *--- FAIL' "$OUT/tests.log")
	skips=$(grep -cE '^ *--- SKIP' "$OUT/tests.log")
	echo "{\"passed\": $passes, \"failed\": $fails, \"skipped\": $skips}" >.gpu/tests.json
	echo "$passes passed, $fails failed, $skips skipped"
fi

if [[ " $what " == *" bench "* ]]; then
	python3 bench/gpu/measure.py --tests .gpu/tests.json --results "$OUT" 2>&1 | tee "$OUT/bench.log" || failed=1
fi
exit "$failed"
