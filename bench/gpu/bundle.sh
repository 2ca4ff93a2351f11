#!/usr/bin/env bash
# Builds into .gpu what run.sh needs on a machine that has a GPU but no Go. run.sh runs
# in a copy of this working tree, where the tests find their testdata.
#
# Usage: bundle.sh [PART...]; the default is tests and gorgonia:
#
#   tests     tests and benchmarks of every package that uses a device, and the
#             commands
#   two       only the packages with tests that need two GPUs
#   gorgonia  the tests built with -tags gorgonia, by bundle-gorgonia.sh
#   interop   libraries for interop/cdevice_cuda.py; it compiles nanoarrow, which
#             takes minutes the first time
set -euo pipefail
cd "$(dirname "$0")/../.."
GO=${GO:-go}
export CGO_ENABLED=0 GOOS=linux GOARCH=amd64

parts=" ${*:-tests gorgonia} "

rm -rf .gpu
mkdir -p .gpu/tests
flags=(-trimpath -ldflags='-s -w')
root=$("$GO" list -m)

# Lists the tests that need several GPUs: those that request them from cudatest, those
# with telling names, and the driver suite, which tests more with two GPUs.
find . -name '.?*' -prune -o -name '*_test.go' -print | LC_ALL=C sort | xargs awk '
	/^func Test/ { name = $2; sub(/\(.*/, "", name); asks = name ~ /TwoGPU|PeerAccess|AcrossDevices/ }
	/ForEachDriver\(t, [2-9]/ { asks = 1 }
	/onRanks\(t, |forEachKind\(t, |onCUDA\(t, [2-9]|processDevices\(t, 2/ && FILENAME ~ /collective/ { asks = 1 }
	asks && name != "" { folder = FILENAME; sub(/^\.\//, "", folder); sub(/\/[^\/]*$/, "", folder); print folder, name; name = "" }
	END { print "cudabuf/internal/drivertest TestGPU" }
' >.gpu/two-gpus

folders=()
case $parts in
*' tests '*)
	for command in arrow2zarr quiver-share; do
		"$GO" build "${flags[@]}" -o ".gpu/$command" "./cmd/$command"
	done
	has_tests='{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}'
	for package in $("$GO" list -f "$has_tests" ./arrowbuf/... ./cudabuf/... ./ndview/... ./compress/... ./ipc/... ./zarr/... ./arrowzarr/... ./cmd/...); do
		# Only packages that can call a driver are bundled. grep -q is not used: it
		# would close the pipe, and go list would fail.
		if "$GO" list -deps -test "$package" | grep "^$root/cudabuf/internal/libcuda" >/dev/null; then
			folders+=("${package#"$root"/}")
		fi
	done
	;;
*' two '*) mapfile -t folders < <(cut -d' ' -f1 .gpu/two-gpus | LC_ALL=C sort -u) ;;
esac
for folder in "${folders[@]}"; do
	# tests.py derives the folder from the name: it replaces + by /.
	"$GO" test -c "${flags[@]}" -o ".gpu/tests/${folder//\//+}" "./$folder"
done
case $parts in *' gorgonia '*) bench/gpu/bundle-gorgonia.sh ;; esac
case $parts in *' interop '*) "${PYTHON:-.venv/bin/python}" interop/cdevice_cuda.py --build .gpu/interop ;; esac

cp bench/gpu/run.sh .gpu/run.sh
commit=$(git rev-parse --short=12 HEAD)
[ -z "$(git status --porcelain --untracked-files=no)" ] || commit+=-modified
echo "$commit" >.gpu/commit

# The binaries share most of their code, so a window over many of them shrinks the
# bundle to a tenth. Binaries with kernel images, which are incompressible, are adjacent.
content=$(cd .gpu && find . -type f \( -perm -100 -path './*/*' -o -name arrow2zarr -o -name quiver-share -o -name '*.so' \) | LC_ALL=C sort)
with=$(cd .gpu && grep -lF "internal/kernels.Image" $content || true)
without=$(cd .gpu && grep -LF "internal/kernels.Image" $content || true)
tar -C .gpu -cf - $with $without | xz -T1 --lzma2=preset=1,dict=256MiB >.gpu/bundle.tar.xz
(cd .gpu && rm -rf arrow2zarr quiver-share tests gorgonia interop)
# Files of other projects that tests read.
[ ! -d ../shared/data ] || tar -C .. -cf - shared/data | xz -T1 -1 >.gpu/shared.tar.xz
echo ".gpu: $(du -sh .gpu | cut -f1)"
