package ndview

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Scope owns arrays and releases them together. Results of operations on arrays of a
// scope belong to the scope too, so a chain of operations needs one Release:
//
//	s := ndview.NewScope()
//	defer s.Release()
//	x, err := s.Add(ndview.FromArrow(column))
//	y, err := ndview.Sqrt.Of(x)
//
// If operands belong to several scopes, the result belongs to the one made last. So
// results of an inner scope do not stay in an outer one. Arrays that no operand made,
// such as those of [Zeros] and [FromArrow], belong to no scope until Add. A Reduction
// and a Unary count as operations; functions that write into an array make none.
//
// A Scope may be used from any goroutine. Operations that are in progress when it is
// released finish first or return arrowbuf.ErrReleased. The zero Scope is ready to use.
type Scope struct {
	mu       sync.Mutex
	number   atomic.Uint64          // of the order in which scopes were made; 0 for none yet
	arrays   map[*NDBuffer]struct{} // nil if released is true
	released bool
}

// scopes counts the scopes made.
var scopes atomic.Uint64

// NewScope returns a scope without arrays. The caller must release it.
func NewScope() *Scope {
	s := &Scope{}
	s.number.Store(scopes.Add(1))
	return s
}

// Add gives an array to the scope: the caller's reference becomes the scope's. It
// returns the array. An array of another scope moves from there. The arguments are
// those that a function returns; Add passes on an error.
//
// Add returns ErrNil for a nil array, and arrowbuf.ErrReleased after Release; then it
// releases the array.
func (s *Scope) Add(a *NDBuffer, err error) (*NDBuffer, error) {
	switch {
	case err != nil:
		return nil, err
	case a == nil:
		return nil, named("Scope.Add", ErrNil)
	case s == nil:
		return nil, named("Scope.Add", fmt.Errorf("nil scope: %w", ErrNil))
	}
	a.leaveScope()
	a, err = s.take(a)
	return a, named("Scope.Add", err)
}

// take adds a new array. A nil scope takes none and returns the array.
func (s *Scope) take(a *NDBuffer) (*NDBuffer, error) {
	if s == nil || a == nil {
		return a, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		a.Release()
		return nil, fmt.Errorf("the scope: %w", arrowbuf.ErrReleased)
	}
	if s.arrays == nil {
		s.arrays = map[*NDBuffer]struct{}{}
		s.number.CompareAndSwap(0, scopes.Add(1))
	}
	s.arrays[a] = struct{}{}
	a.scope.Store(s)
	return a, nil
}

// Keep takes an array out of the scope: the scope's reference becomes the caller's. It
// returns the array. Views of it stay in the scope, and keep its memory only until
// then. Keep returns ErrNil for a nil array, arrowbuf.ErrReleased after Release, and
// ErrScope if the array does not belong to the scope.
func (s *Scope) Keep(a *NDBuffer) (*NDBuffer, error) {
	if s == nil || a == nil {
		return nil, named("Scope.Keep", ErrNil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return nil, named("Scope.Keep", fmt.Errorf("the scope: %w", arrowbuf.ErrReleased))
	}
	if _, ok := s.arrays[a]; !ok {
		return nil, named("Scope.Keep", fmt.Errorf("array of %s %v: %w", a.dtype, a.shape, ErrScope))
	}
	delete(s.arrays, a)
	a.scope.Store(nil)
	return a, nil
}

// Release releases the scope's references to its arrays. Another Release does nothing.
// An array that another reference keeps valid can still be read and written. Operations
// that make arrays from it return arrowbuf.ErrReleased until it is added to another
// scope. To use an array after Release, take it out with Keep.
func (s *Scope) Release() {
	if s == nil {
		return
	}
	s.mu.Lock()
	arrays := s.arrays
	s.arrays, s.released = nil, true
	s.mu.Unlock()
	// The arrays still name the scope: an operation that is in progress would otherwise
	// make an array that belongs to no scope.
	for a := range arrays {
		a.Release()
	}
}

// Scope returns the scope that the array belongs to, or nil.
func (a *NDBuffer) Scope() *Scope {
	if a == nil {
		return nil
	}
	return a.scope.Load()
}

// leaveScope takes a out of its scope, if it has one. The caller holds the reference
// that the scope had.
func (a *NDBuffer) leaveScope() {
	s := a.scope.Load()
	if s == nil {
		return
	}
	s.mu.Lock()
	if _, ok := s.arrays[a]; ok {
		delete(s.arrays, a)
		a.scope.Store(nil)
	}
	s.mu.Unlock()
}

// ScopeOf returns the scope made last of those that arrays belong to, or nil.
func ScopeOf(arrays ...*NDBuffer) *Scope {
	var last *Scope
	for _, a := range arrays {
		if a == nil {
			continue
		}
		if s := a.scope.Load(); s != nil && (last == nil || s.number.Load() > last.number.Load()) {
			last = s
		}
	}
	return last
}

// scopeOfValues is ScopeOf for operands, of which some are no arrays.
func scopeOfValues(operands ...any) *Scope {
	var arrays [3]*NDBuffer
	for i, v := range operands {
		arrays[i], _ = v.(*NDBuffer)
	}
	return ScopeOf(arrays[:]...)
}
