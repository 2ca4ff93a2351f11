// Package faults shows how a program is tested against every failure of the driver: each
// driver call fails once, and the program must return the error and release all memory.
package faults

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
)

// total is the program: it copies numbers to a GPU and adds them there.
func total(driver *cudabuf.Driver, numbers []float64) (float64, error) {
	device, err := driver.Device(0)
	if err != nil {
		return 0, err
	}
	array, err := ndview.FromSlice(device, numbers, int64(len(numbers)))
	if err != nil {
		return 0, err
	}
	defer array.Release()
	sum, err := ndview.Sum.Of(array, ndview.ReduceOptions{})
	if err != nil {
		return 0, err
	}
	defer sum.Release()
	value := make([]float64, 1)
	err = ndview.Read(sum, value)
	return value[0], err
}

func TestTotalSurvivesEachFailureOfTheDriver(t *testing.T) {
	numbers := make([]float64, 1000)
	numbers[0], numbers[999] = 1, 2
	for call := 1; ; call++ {
		driver := cudatest.New(cudatest.Config{Fail: cudatest.FailAt(call, cudatest.NotPermitted)})
		sum, err := total(driver, numbers)
		closing := driver.Close()
		if err == nil && closing == nil { // there are fewer calls
			require.Equal(t, 3.0, sum)
			require.Greater(t, call, 20)
			return
		}
		require.ErrorContains(t, errors.Join(err, closing), "CUDA_ERROR_NOT_PERMITTED", "call %d", call)
		if err != nil {
			require.NoError(t, closing, "call %d leaks", call)
		}
	}
}
