//go:build !amd64

package cpu

func addVectors(*[Types][Types]cast, map[Type]cast) {}
