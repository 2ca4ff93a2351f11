package soft

// CtxSynchronize waits for every stream of the context. What they report stays
// for their own StreamSynchronize.
func (d *Driver) CtxSynchronize() error {
	const call = "cuCtxSynchronize"
	c, err := d.context(call)
	if err != nil {
		return err
	}
	if err := d.captured(call, c); err != nil {
		return err
	}
	d.wait(func(s *stream) bool { return s.context == c })
	return c.dev.alive(call)
}

// synchronize waits for every stream of a device.
func (d *Driver) synchronize(dev *device) {
	d.wait(func(s *stream) bool { return s.dev == dev })
}

func (d *Driver) wait(which func(*stream) bool) {
	d.mu.Lock()
	var streams []*stream
	for _, c := range d.contexts {
		if c.alive && which(c.null) {
			d.order.Lock()
			streams = append(streams, c.null)
			for s := range c.blocking { // those of threads, too
				streams = append(streams, s)
			}
			streams = append(streams, c.ended...)
			d.order.Unlock()
		}
	}
	for _, s := range d.streams {
		if which(s) {
			streams = append(streams, s)
		}
	}
	d.mu.Unlock()
	drain(streams)
}
