#!/usr/bin/env bash
# Puts into .gpu what run.sh needs on a machine that has a GPU but no Go: the
# tests of every package that works on a device, benchmarks included, and the
# command, all static. They are run from a copy of this working tree, where the
# tests find their testdata.
set -euo pipefail
cd "$(dirname "$0")/../.."
GO=${GO:-go}
export CGO_ENABLED=0 GOOS=linux GOARCH=amd64

rm -rf .gpu
mkdir -p .gpu/tests
flags=(-trimpath -ldflags='-s -w')
"$GO" build "${flags[@]}" -o .gpu/arrow2zarr ./cmd/arrow2zarr
has_tests='{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}'
root=$("$GO" list -m)
for package in $("$GO" list -f "$has_tests" ./arrowbuf/... ./cudabuf/... ./ndview/... ./zarr ./arrowzarr/... ./cmd/...); do
	folder=${package#"$root"/}
	# The folder is found again from the name: run.sh turns + into /.
	"$GO" test -c "${flags[@]}" -o ".gpu/tests/${folder//\//+}" "./$folder"
done
cp bench/gpu/run.sh .gpu/run.sh
commit=$(git rev-parse --short=12 HEAD)
[ -z "$(git status --porcelain --untracked-files=no)" ] || commit+=-modified
echo "$commit" >.gpu/commit

# The binaries share most of their code, so a window over all of them makes the
# bundle a tenth of their size.
tar -C .gpu -cf - arrow2zarr tests | xz -T1 --lzma2=preset=1,dict=128MiB >.gpu/bundle.tar.xz
rm -r .gpu/arrow2zarr .gpu/tests
# The real files that tests read beside the project.
[ ! -d ../shared/data ] || tar -C .. -cf - shared/data | xz -T1 -1 >.gpu/shared.tar.xz
echo ".gpu: $(du -sh .gpu | cut -f1)"
