package driver

// Package cudabuf sets these functions when the program starts. They make values of its
// types in packages that it imports, and in cudatest without an exported function.
var (
	// StoreError stores e in target, if that points to a pointer to cudabuf's Error,
	// and reports whether it does.
	StoreError func(e *Error, target any) bool
	// NewDriver returns a *cudabuf.Driver on an implementation of this interface. With
	// stacks, the built-in pools of its devices record the stack of each allocation.
	NewDriver func(api API, stacks bool) (any, error)
)

// As implements the interface of errors.As for cudabuf's Error.
func (e *Error) As(target any) bool { return StoreError != nil && StoreError(e, target) }
