#!/usr/bin/env bash
# Runs Quiver's tests and benchmarks on a machine with an NVIDIA GPU, Python 3,
# CuPy, NumPy, PyTorch and pyarrow. No Go is needed: `make gpu-bundle` built
# everything.
#
# Usage, from the root of the working tree: OUT=folder .gpu/run.sh [step...]
#
#   tests           the tests of every package, on the driver without cgo
#   tests-gorgonia  the tests built with -tags gorgonia
#   tests-two       only the tests that need two GPUs
#   interop         columns shared with Python on the GPU, and with nanoarrow if the
#                   bundle has the part interop
#   sanitizer       the tests that launch kernels, under compute-sanitizer
#   mutations       a million changed inputs of each decoder
#   kills           processes that share columns and are killed at random, 1,000 rounds
#   bench           all benchmarks and their peers; bench-TOPIC runs one topic
#                   (cudabuf, arrow, columns, share, arrays, convert, decode, encode, shuffle, blosc, read, blas; collective, which
#                   needs two GPUs; permutations, a
#                   part of arrays; pin, of cudabuf; or copykernels, which chooses the kernels of copies)
#
# PACKAGES=REGEX limits the tests, the sanitizer and the mutations to some packages.
#
# The default is tests and bench. Tests take less than nine minutes, and the sanitizer less than five.
# OUT receives the logs and the result files for bench/results. The exit code is 1 if a
# test failed or a benchmark did not run.
set -uo pipefail
cd "$(dirname "$0")/.."
export OUT=${OUT:?say where results go: OUT=folder .gpu/run.sh} PYTHONUNBUFFERED=1
mkdir -p "$OUT"
python3 -c 'import tarfile; tarfile.open(".gpu/bundle.tar.xz").extractall(".gpu", filter="data")' || exit 1
if [ -e .gpu/shared.tar.xz ] && [ ! -e ../shared ]; then
	python3 -c 'import tarfile; tarfile.open(".gpu/shared.tar.xz").extractall("..", filter="data")' || exit 1
fi
# Python packages that this machine may lack; bench/gpu/wheels.sh fetched them.
if compgen -G '.whl/*.whl' >/dev/null; then
	python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target .gpu/site .whl/*.whl &&
		export PYTHONPATH=$PWD/.gpu/site${PYTHONPATH:+:$PYTHONPATH}
fi

tests=()
topics=()
for step in "${@:-tests}"; do
	case $step in
	bench) topics+=(all) ;;
	bench-*) topics+=("${step#bench-}") ;;
	*) tests+=("$step") ;;
	esac
done
[ $# -gt 0 ] || topics=(all)

failed=0
if [ ${#tests[@]} -gt 0 ]; then
	python3 bench/gpu/tests.py "${tests[@]}" --out "$OUT" ${PACKAGES:+--packages "$PACKAGES"} || failed=1
fi
if [ ${#topics[@]} -gt 0 ]; then
	python3 bench/gpu/measure.py "${topics[@]}" --tests .gpu/tests.json --results "$OUT" --log "$OUT/bench.log" || failed=1
fi
exit "$failed"
