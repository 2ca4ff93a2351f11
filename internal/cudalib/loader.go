package cudalib

import "sync"

// Loader keeps a library open that is opened when it is first needed. L is what a package
// keeps of it.
type Loader[L any] struct {
	Library
	// Load opens one path, as the function of [Library.Open].
	Load func(path string) (l L, missing, err error)

	mu     sync.Mutex
	opened bool
	open   L
}

// Get returns the library of the process, which it opens on the first call. It tries again
// after a failure.
func (l *Loader[L]) Get() (L, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opened {
		return l.open, nil
	}
	var found L
	err := l.Open(func(path string) (missing, err error) {
		found, missing, err = l.Load(path)
		return missing, err
	})
	if err != nil {
		var none L
		return none, err
	}
	l.opened, l.open = true, found
	return found, nil
}

// Forget makes the next Get open the library again, as tests with libraries of their own need.
func (l *Loader[L]) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened = false
}
