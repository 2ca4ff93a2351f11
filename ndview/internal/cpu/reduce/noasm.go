//go:build !amd64

package reduce

// There are no vectors: all functions do none of the elements.

func flipVectors[U unsigned, S signed](_ []S, _ []U, _, _ U) int { return 0 }

func floatKeyVectors[U unsigned, S signed](_ []S, _ []U, _, _ U, _ bool) int { return 0 }

func greatestVectors[S signed](w S, _ []S) (S, int) { return w, 0 }

func eachGreatestVectors[S signed](_, _ []S) int { return 0 }

func eachGreatestOf4[U unsigned, S signed](_ []S, _ grid[U], _ int64) (rows int64, done int) {
	return 1, 0
}

func eachPlaceVectors[S signed](_, _, _ []S, _ S) int { return 0 }

func findVectors[S signed](S, []S) int { return 0 }

func zeroVectors[T unsigned]([]T, T) (n, done int) { return 0, 0 }

func sumVectors([]float32) (float64, int) { return 0, 0 }

func addVectors([]float64, grid[float32], int64) (rows int64, done int) { return 1, 0 }

func valuesVectors([]exact) int { return 0 }

func narrowVectors([]float32, []float64) int { return 0 }

func exactVectors([]float64) ([4]exact, int) { return [4]exact{}, 0 }

func addExactVectors([]exact, grid[float64], int64) (rows int64, done int) { return 1, 0 }

func backVectors[U unsigned, S signed](_ []U, _ []S, _ U) int { return 0 }

func greatestFloatVectors[U unsigned, S signed](w S, _ []U, _ U, _ bool) (S, int) { return w, 0 }

func eachFloatVectors[U unsigned, S signed](_ []S, _ grid[U], _ int64, _ U, _ bool) (rows int64, done int) {
	return 1, 0
}
