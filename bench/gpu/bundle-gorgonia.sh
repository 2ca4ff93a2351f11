#!/usr/bin/env bash
# Builds the tests of cudabuf and of the drivers with -tags gorgonia into
# .gpu/gorgonia. They are linked to libcuda.so.1, which this machine need not have:
# the script builds a stub of that name with every function in cuda.h.
set -euo pipefail
cd "$(dirname "$0")/../.."
GO=${GO:-go}
headers=$(cat .tools/cuda13/.installed)
stub=$(mktemp -d)
trap 'rm -r "$stub"' EXIT
grep -oE '\bcu[A-Z][A-Za-z0-9]*(_v[0-9]+)?(_ptsz|_ptds)?\b' "$headers/cuda.h" | sort -u |
	sed 's/.*/void &(void) {}/' >"$stub/cuda.c"
gcc -shared -fPIC -w -Wl,-soname,libcuda.so.1 -o "$stub/libcuda.so" "$stub/cuda.c"

export CGO_ENABLED=1 GOOS=linux GOARCH=amd64
export CGO_CFLAGS="-O2 -I$PWD/cudabuf/internal/gorgonia/include -I$headers"
export CGO_LDFLAGS="-L$stub"
mkdir -p .gpu/gorgonia
for folder in cudabuf cudabuf/internal/libcuda cudabuf/internal/drivertest ndview; do
	[ -d "$folder" ] || continue
	"$GO" test -c -tags gorgonia -trimpath -ldflags='-s -w' -o ".gpu/gorgonia/${folder//\//+}" "./$folder"
done
