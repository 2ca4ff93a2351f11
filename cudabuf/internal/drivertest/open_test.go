//go:build !gorgonia

package drivertest_test

import "github.com/quiver-gpu/quiver/cudabuf/internal/libcuda"

var openGPU = libcuda.Open
