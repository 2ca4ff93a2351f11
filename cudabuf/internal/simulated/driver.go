//go:build linux

package simulated

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"golang.org/x/sys/unix"
)

// lastHandle counts through the process: a handle of one driver is none of
// another's.
var lastHandle atomic.Uintptr

// Driver is a machine with soft devices.
type Driver struct {
	streamState
	memoryState
	config  Config
	devices []*device

	mu          sync.Mutex
	initialized bool
	calls       map[string]int
}

var _ driver.API = (*Driver)(nil)

// Open makes a machine.
func Open(c Config) (driver.API, error) {
	d := &Driver{
		streamState: newStreamState(),
		memoryState: newMemoryState(),
		config:      c,
		calls:       map[string]int{},
	}
	for i := range c.Devices {
		dev := &device{ordinal: i, context: driver.Context(d.newHandle())}
		var err error
		if dev.arena, err = newArena(d.space, dev, c.MemoryBytes); err != nil {
			return nil, errors.Join(err, d.Close())
		}
		dev.primary = &context{driver: d, dev: dev, handle: dev.context}
		d.contexts[dev.context] = dev.primary
		d.devices = append(d.devices, dev)
	}
	return d, nil
}

// Small numbers are streams of their own in CUDA (CU_STREAM_LEGACY).
func (d *Driver) newHandle() uintptr { return 1<<16 + lastHandle.Add(1) }

func (d *Driver) Init() error {
	d.mu.Lock()
	d.initialized = true
	d.mu.Unlock()
	return d.enter("cuInit")
}

func (d *Driver) DriverGetVersion() (int, error) { return 12080, d.enter("cuDriverGetVersion") }

// enter begins every call: it counts it and lets the test fail it.
func (d *Driver) enter(call string) error {
	if d.hostThreads.contains(unix.Gettid()) {
		return &driver.Error{Call: call, Code: notPermitted, Detail: "called from a host function"}
	}
	d.mu.Lock()
	d.calls[call]++
	n, initialized := d.calls[call], d.initialized
	d.mu.Unlock()
	if !initialized {
		return driver.Check(call, driver.NotInitialized)
	}
	if d.config.Fail != nil {
		if r := d.config.Fail(call, n); r != driver.Success {
			return &driver.Error{Call: call, Code: r, Detail: fmt.Sprintf("injected at call %d", n)}
		}
	}
	return nil
}

// Close gives the memory of the machine back. What was never freed is an
// error; on a lost device there is nothing left to free.
func (d *Driver) Close() error {
	var leaks error
	lost := false
	for _, dev := range d.devices {
		if d.retained(dev) > 0 {
			leaks = errors.Join(leaks, fmt.Errorf("cuda:%d: primary context retained %d times more than released", dev.ordinal, dev.retained))
			continue // its streams may still run
		}
		d.destroyContexts(dev)
		if dev.lost.Load() != nil {
			lost = true
		} else {
			leaks = errors.Join(leaks, dev.leaks())
		}
		leaks = errors.Join(leaks, dev.arena.close())
	}
	if !lost {
		leaks = errors.Join(leaks, d.hostLeaks(), d.graphLeaks())
	}
	return leaks
}

// streamState is what a machine has beside memory. Driver.mu guards the maps of
// contexts and what belongs to them; it is not taken with order held.
type streamState struct {
	hostThreads hostThreads
	contexts    map[driver.Context]*context
	threads     map[int][]*context // by thread id; the last is current
	streams     map[driver.Stream]*stream
	events      map[driver.Event]*event
	modules     map[driver.Module]*module
	functions   map[driver.Function]*function

	// order is held while work is issued, so that what one call issues to
	// several streams is issued at once. It guards captures and graphs too.
	// space.mu may be taken with it held, not the other way round.
	order    sync.Mutex
	captures []*capture // that have not ended
	graphs   map[driver.Graph]*graph
	execs    map[driver.GraphExec]*graphExec
}

func newStreamState() streamState {
	return streamState{
		contexts:  map[driver.Context]*context{},
		threads:   map[int][]*context{},
		streams:   map[driver.Stream]*stream{},
		events:    map[driver.Event]*event{},
		modules:   map[driver.Module]*module{},
		functions: map[driver.Function]*function{},
		graphs:    map[driver.Graph]*graph{},
		execs:     map[driver.GraphExec]*graphExec{},
	}
}

// graphLeaks is an error where graphs were never destroyed.
func (d *Driver) graphLeaks() error {
	d.order.Lock()
	defer d.order.Unlock()
	if n := len(d.graphs) + len(d.execs); n > 0 {
		return fmt.Errorf("%d graphs never destroyed", n)
	}
	return nil
}

// Results that nothing but this driver gives by name.
const (
	peerUnsupported    driver.Result = 217
	illegalState       driver.Result = 401
	peerEnabled        driver.Result = 704
	contextDestroyed   driver.Result = 709
	notPermitted       driver.Result = 800
	captureUnsupported driver.Result = 900
	captureInvalidated driver.Result = 901
	captureMerge       driver.Result = 902
	captureUnmatched   driver.Result = 903
	captureUnjoined    driver.Result = 904
	captureIsolation   driver.Result = 905
	captureImplicit    driver.Result = 906
	capturedEvent      driver.Result = 907
	captureWrongThread driver.Result = 908
)

func invalid(call, format string, args ...any) error {
	return &driver.Error{Call: call, Code: driver.InvalidValue, Detail: fmt.Sprintf(format, args...)}
}

// system is what a failure of the machine below is in CUDA, nil for nil.
func system(call string, err error) error {
	if err == nil {
		return nil
	}
	return &driver.Error{Call: call, Code: driver.OperatingSystem, Detail: err.Error()}
}

// enterNamedDevice begins a call that names a device, and wants a current context too.
func (d *Driver) enterNamedDevice(call string, h driver.Device) (*device, error) {
	if _, err := d.enterCurrentDevice(call); err != nil {
		return nil, err
	}
	return d.lookupDevice(call, h)
}
