//go:build !amd64 || noasm

package reduce

// Without assembly these functions process no elements.

func flipVectors[U unsigned, S signed](_ []S, _ []U, _, _ U) int { return 0 }

func floatKeyVectors[U unsigned, S signed](_ []S, _ []U, _, _ U, _ bool) int { return 0 }

func maxVectors[S signed](w S, _ []S) (S, int) { return w, 0 }

func maxEachVectors[S signed](_, _ []S) int { return 0 }

func maxEachOf4Rows[U unsigned, S signed](_ []S, _ grid[U], _ int64) (rows int64, done int) {
	return 1, 0
}

func updateEachVectors[S signed](_, _, _ []S, _ S) int { return 0 }

func findVectors[S signed](S, []S) int { return 0 }

func countZerosVectors[T unsigned]([]T, T) (n, done int) { return 0, 0 }

func sumVectors([]float32) (float64, int) { return 0, 0 }

func addVectors([]float64, grid[float32], int64) (rows int64, done int) { return 1, 0 }

func valuesVectors([]compensated) int { return 0 }

func narrowVectors([]float32, []float64) int { return 0 }

func compensatedVectors([]float64) ([4]compensated, int) { return [4]compensated{}, 0 }

func addCompensatedVectors([]compensated, grid[float64], int64) (rows int64, done int) { return 1, 0 }

func decodeVectors[U unsigned, S signed](_ []U, _ []S, _ U) int { return 0 }

func maxFloatVectors[U unsigned, S signed](w S, _ []U, _ U, _ bool) (S, int) { return w, 0 }

func maxEachFloatVectors[U unsigned, S signed](_ []S, _ grid[U], _ int64, _ U, _ bool) (rows int64, done int) {
	return 1, 0
}
