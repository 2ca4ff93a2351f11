package reduce

import "unsafe"

// The loops of keys_amd64.s, keyswide_amd64.s and sums_amd64.s.

//go:noescape
func flipKeys(to, x unsafe.Pointer, n int, flip, other uint64)

//go:noescape
func keys16(to, x unsafe.Pointer, n int, flip, other, alike uint64)

//go:noescape
func keys32(to, x unsafe.Pointer, n int, flip, other uint64)

//go:noescape
func keys64(to, x unsafe.Pointer, n int, flip, other uint64)

//go:noescape
func greatest8(lanes, keys unsafe.Pointer, n int)

//go:noescape
func greatest16(lanes, keys unsafe.Pointer, n int)

//go:noescape
func greatest32(lanes, keys unsafe.Pointer, n int)

//go:noescape
func greatest64(lanes, keys unsafe.Pointer, n int)

//go:noescape
func eachGreatest8(w, keys unsafe.Pointer, n int)

//go:noescape
func eachGreatest16(w, keys unsafe.Pointer, n int)

//go:noescape
func eachGreatest32(w, keys unsafe.Pointer, n int)

//go:noescape
func eachGreatest64(w, keys unsafe.Pointer, n int)

//go:noescape
func eachGreatestOf4x8(w, keys unsafe.Pointer, n, pitch int)

//go:noescape
func eachGreatestOf4x16(w, keys unsafe.Pointer, n, pitch int)

//go:noescape
func eachGreatestOf4x32(w, keys unsafe.Pointer, n, pitch int)

//go:noescape
func eachGreatestOf4x64(w, keys unsafe.Pointer, n, pitch int)

//go:noescape
func place8(best, at, keys unsafe.Pointer, n int, row uint64)

//go:noescape
func place16(best, at, keys unsafe.Pointer, n int, row uint64)

//go:noescape
func place32(best, at, keys unsafe.Pointer, n int, row uint64)

//go:noescape
func place64(best, at, keys unsafe.Pointer, n int, row uint64)

//go:noescape
func find8(keys unsafe.Pointer, n int, w uint64) int

//go:noescape
func find16(keys unsafe.Pointer, n int, w uint64) int

//go:noescape
func find32(keys unsafe.Pointer, n int, w uint64) int

//go:noescape
func find64(keys unsafe.Pointer, n int, w uint64) int

//go:noescape
func zeros8(x unsafe.Pointer, n int, mask uint64) int

//go:noescape
func zeros16(x unsafe.Pointer, n int, mask uint64) int

//go:noescape
func zeros32(x unsafe.Pointer, n int, mask uint64) int

//go:noescape
func zeros64(x unsafe.Pointer, n int, mask uint64) int

//go:noescape
func sums32(lanes, x unsafe.Pointer, n int)

//go:noescape
func add32(acc, x unsafe.Pointer, n int)

//go:noescape
func sums64(sums, rests, x unsafe.Pointer, n int)

//go:noescape
func add64(acc, x unsafe.Pointer, n int)

//go:noescape
func add32x4(acc, x unsafe.Pointer, pitch, ahead, n int)

//go:noescape
func add64x4(acc, x unsafe.Pointer, pitch, ahead, n int)

//go:noescape
func exactValues(x unsafe.Pointer, n int)

//go:noescape
func narrow(out, x unsafe.Pointer, n int)

//go:noescape
func back32(to, x unsafe.Pointer, n int, flip, other uint64)

//go:noescape
func back64(to, x unsafe.Pointer, n int, flip, other uint64)

//go:noescape
func greatestFloat32(to, x unsafe.Pointer, n int, flip, other uint64)

//go:noescape
func greatestFloat64(to, x unsafe.Pointer, n int, flip, other uint64)

//go:noescape
func eachFloat32(to, x unsafe.Pointer, n int, flip, other uint64)

//go:noescape
func eachFloat64(to, x unsafe.Pointer, n int, flip, other uint64)

//go:noescape
func wideGreatestFloat32(lanes, x unsafe.Pointer, n int, flip, zero uint64)

//go:noescape
func wideGreatestFloat64(lanes, x unsafe.Pointer, n int, flip, zero uint64)

//go:noescape
func wideEachFloat32(w, x unsafe.Pointer, n int, flip, zero uint64, pitch int)

//go:noescape
func wideEachFloat64(w, x unsafe.Pointer, n int, flip, zero uint64, pitch int)
