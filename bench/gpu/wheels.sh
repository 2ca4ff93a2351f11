#!/usr/bin/env bash
# Puts RMM, a peer of the pools, into .whl as wheels for a GPU machine that
# cannot reach a package index. run.sh installs what it finds there; where there
# is nothing, and the machine has no RMM either, its figures are left out and
# the run says so.
set -euo pipefail
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-python3}
platforms=()
for glibc in 2_28 2_27 2_24 2_17; do
	platforms+=(--platform "manylinux_${glibc}_x86_64")
done
rm -rf .whl
# Not numpy and cuda-bindings, which are there already.
"$PYTHON" -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
	"${platforms[@]}" --dest .whl rmm-cu13==26.10.0 librmm-cu13==26.10.0 rapids-logger==0.3.0
echo ".whl: $(du -sh .whl | cut -f1)"
