//go:build gorgonia

package drivertest_test

import "github.com/quiver-gpu/quiver/cudabuf/internal/gorgonia"

var openGPU = gorgonia.Open
