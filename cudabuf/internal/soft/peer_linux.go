package soft

import (
	"fmt"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// CtxEnablePeerAccess lets kernels of the current context reach the memory of
// another device's.
func (d *Driver) CtxEnablePeerAccess(h driver.Context) error {
	const call = "cuCtxEnablePeerAccess"
	c, err := d.context(call)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	peer, err := d.find(call, h)
	switch {
	case err != nil:
		return err
	case peer == c:
		return &driver.Error{Call: call, Code: driver.InvalidContext, Detail: "it is the current context"}
	case !d.reaches(c.dev, peer.dev):
		return driver.Check(call, peerUnsupported)
	case c.peers[peer]:
		return driver.Check(call, peerEnabled)
	}
	c.peers[peer] = true
	d.link(c.dev)
	return nil
}

// link tells memory which devices a device reaches: those that any of its
// contexts may. The caller holds mu.
func (d *Driver) link(dev *device) {
	reached := deviceSet{}
	for _, c := range d.contexts {
		if c.dev == dev && c.alive {
			for peer := range c.peers {
				reached[peer.dev.ordinal] = true
			}
		}
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	dev.peers = reached
}

// mayShare fails where a device cannot be given access to another's memory.
func (d *Driver) mayShare(call string, dev, owner *device) error {
	if dev == owner || d.reaches(dev, owner) {
		return nil
	}
	return &driver.Error{Call: call, Code: driver.InvalidDevice, Detail: fmt.Sprintf("cuda:%d does not reach cuda:%d", dev.ordinal, owner.ordinal)}
}

// reaches tells whether the hardware lets a device reach another's memory.
func (d *Driver) reaches(dev, peer *device) bool {
	return dev != peer && (d.config.PeerAccess == nil || d.config.PeerAccess(dev.ordinal, peer.ordinal))
}
