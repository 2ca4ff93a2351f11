#!/usr/bin/env bash
# Downloads peers as wheels into .whl for a GPU machine without a package index: RMM for
# the pools, nvCOMP for compress, zarr-python for zarr, tensorstore for arrow2zarr. run.sh installs the wheels. Without
# them a run reports their figures as missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-python3}
platforms=()
for glibc in 2_28 2_27 2_24 2_17; do
	platforms+=(--platform "manylinux_${glibc}_x86_64")
done
rm -rf .whl
# numpy, cuda-bindings and pyyaml are installed on the machine.
"$PYTHON" -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
	"${platforms[@]}" --dest .whl rmm-cu13==26.10.0 librmm-cu13==26.10.0 rapids-logger==0.3.0 \
	nvidia-libnvcomp-cu13==6.0.0.12 \
	tensorstore==0.1.86 zarr==3.4.2 numcodecs==0.17.1 donfig==0.8.1.post1 google-crc32c==1.9.0 msgspec==0.22.0
echo ".whl: $(du -sh .whl | cut -f1)"
