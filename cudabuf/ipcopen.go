package cudabuf

import "sync"

// openings are allocations of other processes that are open here, by the 64
// bytes that name them. Each is opened once, however often it is asked for, and
// closed with the last reference: a second mapping would cost the driver as much
// as the first, and old drivers refuse it. Buffers of one allocation share its
// order of streams.
type openings struct {
	mu   sync.Mutex
	open map[[64]byte]*opening
}

type opening struct {
	memory *allocation
	closed chan struct{} // when the driver has closed it
}

// get returns an allocation with a reference for the caller. It calls open for
// one that is not open yet, and not before a former opening is closed. open
// gets what giving the allocation back ends with.
func (o *openings) get(name [64]byte, open func(closed func()) (*allocation, error)) (*allocation, error) {
	for {
		o.mu.Lock()
		found, ok := o.open[name]
		if !ok {
			defer o.mu.Unlock()
			return o.add(name, open)
		}
		if found.memory.tryRetain() {
			o.mu.Unlock()
			return found.memory, nil
		}
		o.mu.Unlock()
		<-found.closed
	}
}

// add opens an allocation. The caller holds mu.
func (o *openings) add(name [64]byte, open func(closed func()) (*allocation, error)) (*allocation, error) {
	added := &opening{closed: make(chan struct{})}
	memory, err := open(func() {
		o.mu.Lock()
		delete(o.open, name)
		o.mu.Unlock()
		close(added.closed)
	})
	if err != nil {
		return nil, err
	}
	if o.open == nil {
		o.open = map[[64]byte]*opening{}
	}
	added.memory = memory
	o.open[name] = added
	return memory, nil
}
