//go:build !amd64

package cpu

import "unsafe"

func everyNth(_, _ unsafe.Pointer, _, _, _ int64) int64 { return 0 }

func reverseVectors(_, _ unsafe.Pointer, _, _ int64) int64 { return 0 }
