#!/usr/bin/env bash
# Builds the programs that run kernels on a CPU: build.sh FOLDER writes FOLDER/emulate-copy
# and FOLDER/emulate-decode. Needs g++ with its sanitizers.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT

# Shared arrays become static ones, as blocks run one after the other. A plan is passed
# by reference, where the driver would copy it. PTX is removed.
mkdir "$built"/{copy,compress,blas,common}
for file in "$here"/../copy/{tiles,narrow_tiles,matrix_tiles,word_tiles,run_tiles,matrix_byte_tiles,box_tiles,rows,interleave}.cu "$here"/../copy/{plan,transpose,async_copy}.cuh \
	"$here"/../{compress,blas}/*.cu "$here"/../{compress,blas}/*.cuh "$here"/../common/warp.cuh; do
	sed -E -e 's/extern __shared__ (\w+) (\w+)\[\];/\1* const \2 = (\1*)dynamic_shared;/' \
		-e 's/__shared__/static/' -e 's/const __grid_constant__ (\w+) /const \1\& /' \
		-e 's/asm volatile\("prefetch[^;]*;[^;]*;/{}/' -e 's/^#pragma unroll.*//' \
		-e 's/^#include <stdint.h>/#include "cuda.h"/' "$file" >"$built/$(basename "$(dirname "$file")")/$(basename "$file" .cu)$([[ $file == *.cu ]] && echo .cpp)"
done
flags=(-std=c++20 -O1 -g -w -fpermissive -I"$here" -I"$built" -fsanitize=address,alignment -fno-sanitize-recover=alignment)
mkdir "$built/programs"
cp "$here"/*.cpp "$built/programs"
for file in "$built"/{copy,compress,blas,programs}/*.cpp; do
	printf '%s\0' "$file"
done | xargs -0 -P 2 -I{} bash -c 'g++ "${@:2}" -c "$1" -o "${1%.cpp}.o" 2>&1 || exit 255' - {} "${flags[@]}"
link() {
	g++ -fsanitize=address,alignment -rdynamic "${@:2}" "$built/programs/$1.o" "$built/programs/fibers.o" -ldl -o "$out/emulate-$1"
}
out=$1
link copy "$built"/copy/*.o
link decode "$built"/{compress,blas}/*.o
