package cudabuf

import "sync"

// crew are the goroutines that do one copy.
type crew struct {
	mu      sync.Mutex
	over    bool // no more may join
	active  sync.WaitGroup
	failure error // the first
}

// lead works, and returns when nobody does any more.
func (c *staged) lead(work func() error) error {
	c.report(work())
	c.crew.mu.Lock()
	c.over = true
	c.crew.mu.Unlock()
	c.active.Wait()
	return c.failure
}

// help works, unless it comes too late.
func (c *staged) help(work func() error) {
	c.crew.mu.Lock()
	late := c.over
	if !late {
		c.active.Add(1)
	}
	c.crew.mu.Unlock()
	if !late {
		defer c.active.Done()
		c.report(work())
	}
}

func (c *staged) report(err error) {
	if err == nil {
		return
	}
	c.failed.Store(true)
	c.crew.mu.Lock()
	defer c.crew.mu.Unlock()
	if c.failure == nil {
		c.failure = err
	}
}
