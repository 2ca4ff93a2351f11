package cudabuf

import "sync"

// Program is an image of kernels that each device loads when it first needs one
// of them, and keeps until it is closed. Kernels that are compiled into a Go
// program are package-level Programs.
type Program struct {
	// Image is what LoadModule takes. It does not change.
	Image []byte
	// ImageFor answers the image for a GPU of a compute capability, where Image
	// is nil. Each device asks once.
	ImageFor func(major, minor int) ([]byte, error)
	// Twins do the kernels' work on the soft device, by name.
	Twins map[string]HostKernel
}

// programs are what a device has loaded.
type programs struct {
	mu      sync.Mutex
	modules map[*Program]*Module
	kernels map[programKernel]*Kernel
}

type programKernel struct {
	program *Program
	name    string
}

// Kernel returns a kernel of a program, the same one on every call. A failure
// is not remembered: it may have been for want of memory.
func (d *Device) Kernel(p *Program, name string) (*Kernel, error) {
	l := &d.programs
	l.mu.Lock()
	defer l.mu.Unlock()
	key := programKernel{p, name}
	if k, ok := l.kernels[key]; ok {
		return k, nil
	}
	m, ok := l.modules[p]
	if !ok {
		var err error
		if m, err = d.load(p); err != nil {
			return nil, err
		}
		if l.modules == nil {
			l.modules, l.kernels = map[*Program]*Module{}, map[programKernel]*Kernel{}
		}
		l.modules[p] = m
	}
	k, err := m.Kernel(name)
	if err != nil {
		return nil, err
	}
	l.kernels[key] = k
	return k, nil
}

func (d *Device) load(p *Program) (*Module, error) {
	image := p.Image
	if image == nil && p.ImageFor != nil {
		var err error
		if image, err = p.ImageFor(d.major, d.minor); err != nil {
			return nil, err
		}
	}
	return d.LoadModule(image, p.Twins)
}

// close unloads everything.
func (l *programs) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var failure error
	for _, m := range l.modules {
		if err := m.Close(); failure == nil {
			failure = err
		}
	}
	clear(l.modules)
	clear(l.kernels)
	return failure
}
