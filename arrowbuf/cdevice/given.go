package cdevice

import (
	"sync"
	"sync/atomic"
)

// given is what C has: by the number in the private_data of a struct, since the
// consumer may move the struct itself.
var (
	given   sync.Map // uintptr -> *schemaNode, *arrayNode or *source
	tickets atomic.Uintptr
)

func give(what any) (private uintptr) {
	private = tickets.Add(1)
	given.Store(private, what)
	return private
}

// takeBack ends what was given, once.
func takeBack[T any](private uintptr) (what T, ok bool) {
	found, ok := given.LoadAndDelete(private)
	if !ok {
		return what, false
	}
	what, ok = found.(T)
	return what, ok
}
