package codec

import (
	"maps"
	"slices"
)

// BuiltinNames returns the names of the codecs in this package.
func BuiltinNames() []string { return slices.Sorted(maps.Keys(builtins)) }
