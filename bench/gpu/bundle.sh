#!/usr/bin/env bash
# Puts into .gpu what run.sh needs on a machine that has a GPU but no Go. It is
# run there from a copy of this working tree, where the tests find their testdata.
#
# Usage: bundle.sh [PART...], both of tests and gorgonia where none is given:
#
#   tests     the tests of every package that works on a device, with their
#             benchmarks, and the commands
#   two       only the tests of packages with tests that need two GPUs
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

# The tests that need several GPUs: those that ask cudatest for them, those whose
# names say so, and the suite of drivers, which does more where there are two.
find . -name '.?*' -prune -o -name '*_test.go' -print | LC_ALL=C sort | xargs awk '
	/^func Test/ { name = $2; sub(/\(.*/, "", name); asks = name ~ /TwoGPU|Peer|AcrossDevices/ }
	/ForEachDriver\(t, [2-9]/ { asks = 1 }
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
	for package in $("$GO" list -f "$has_tests" ./arrowbuf/... ./cudabuf/... ./ndview/... ./ipc/... ./zarr ./arrowzarr/... ./cmd/...); do
		# Only what may call a driver is worth running there. (grep reads all, since
		# go list fails where nobody does.)
		if "$GO" list -deps -test "$package" | grep "^$root/cudabuf/internal/libcuda" >/dev/null; then
			folders+=("${package#"$root"/}")
		fi
	done
	;;
*' two '*) mapfile -t folders < <(cut -d' ' -f1 .gpu/two-gpus | LC_ALL=C sort -u) ;;
esac
for folder in "${folders[@]}"; do
	# The folder is found again from the name: tests.py turns + into /.
	"$GO" test -c "${flags[@]}" -o ".gpu/tests/${folder//\//+}" "./$folder"
done
case $parts in *' gorgonia '*) bench/gpu/bundle-gorgonia.sh ;; esac
case $parts in *' interop '*) "${PYTHON:-.venv/bin/python}" interop/cdevice_cuda.py --build .gpu/interop ;; esac

cp bench/gpu/run.sh .gpu/run.sh
commit=$(git rev-parse --short=12 HEAD)
[ -z "$(git status --porcelain --untracked-files=no)" ] || commit+=-modified
echo "$commit" >.gpu/commit

# The binaries share most of their code, so a window over many of them makes the
# bundle a tenth of their size; those with the kernels' images, which nothing
# compresses, lie together in it.
content=$(cd .gpu && find . -type f \( -perm -100 -path './*/*' -o -name arrow2zarr -o -name quiver-share -o -name '*.so' \) | LC_ALL=C sort)
with=$(cd .gpu && grep -lF "ndview/kernels.Image" $content || true)
without=$(cd .gpu && grep -LF "ndview/kernels.Image" $content || true)
tar -C .gpu -cf - $with $without | xz -T1 --lzma2=preset=1,dict=256MiB >.gpu/bundle.tar.xz
(cd .gpu && rm -rf arrow2zarr quiver-share tests gorgonia interop)
# The real files that tests read beside the project.
[ ! -d ../shared/data ] || tar -C .. -cf - shared/data | xz -T1 -1 >.gpu/shared.tar.xz
echo ".gpu: $(du -sh .gpu | cut -f1)"
