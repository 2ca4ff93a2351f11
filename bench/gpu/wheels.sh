#!/usr/bin/env bash
# Downloads RMM, a peer of the pools, and nvCOMP, a peer of compress, as wheels into .whl for a GPU machine without a
# package index. run.sh installs the wheels. Without them a run
# reports their figures as missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-python3}
platforms=()
for glibc in 2_28 2_27 2_24 2_17; do
	platforms+=(--platform "manylinux_${glibc}_x86_64")
done
rm -rf .whl
# numpy and cuda-bindings are installed on the machine.
"$PYTHON" -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
	"${platforms[@]}" --dest .whl rmm-cu13==26.10.0 librmm-cu13==26.10.0 rapids-logger==0.3.0 nvidia-libnvcomp-cu13==6.0.0.12
echo ".whl: $(du -sh .whl | cut -f1)"
