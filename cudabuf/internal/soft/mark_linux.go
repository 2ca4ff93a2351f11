package soft

// place is one that work comes after.
type place interface {
	reached() bool
	wait()
}

// mark is a place in a stream, behind some work. The zero mark is reached.
type mark struct {
	stream *stream
	n      uint64
}

// tail is the place behind all work issued so far.
func (s *stream) tail() mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	return mark{s, s.issued}
}

func (m mark) reached() bool {
	if m.stream == nil {
		return true
	}
	m.stream.mu.Lock()
	defer m.stream.mu.Unlock()
	return m.stream.done >= m.n
}

func (m mark) wait() {
	if m.stream == nil {
		return
	}
	m.stream.mu.Lock()
	defer m.stream.mu.Unlock()
	for m.stream.done < m.n {
		m.stream.changed.Wait()
	}
}
