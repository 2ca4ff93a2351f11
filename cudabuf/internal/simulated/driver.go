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

// lastHandle counts through the process, so no two drivers issue the same
// handle.
var lastHandle atomic.Uintptr

// Driver implements driver.API for a set of simulated devices.
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

// Open creates the devices of c. The caller must close the result.
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

// newHandle returns an unused handle. CUDA reserves small stream handles, such
// as CU_STREAM_LEGACY.
func (d *Driver) newHandle() uintptr { return 1<<16 + lastHandle.Add(1) }

func (d *Driver) Init() error {
	d.mu.Lock()
	d.initialized = true
	d.mu.Unlock()
	return d.enter("cuInit")
}

func (d *Driver) DriverGetVersion() (int, error) { return 12080, d.enter("cuDriverGetVersion") }

// enter begins every call: it counts the call, and returns the error that the
// call must fail with.
func (d *Driver) enter(call string) error {
	if d.hostThreads.contains(unix.Gettid()) {
		return &driver.Error{Call: call, Code: notPermitted, Detail: "called from a host function"}
	}
	d.mu.Lock()
	d.calls[call]++
	n, initialized := d.calls[call], d.initialized
	d.mu.Unlock()
	if !initialized {
		return driver.ResultError(call, driver.NotInitialized)
	}
	if d.config.Fail != nil {
		if r := d.config.Fail(call, n); r != driver.Success {
			return &driver.Error{Call: call, Code: r, Detail: fmt.Sprintf("injected at call %d", n)}
		}
	}
	return nil
}

// Close releases the memory of the devices. It returns an error that names each
// object that was never freed. On a lost device nothing needs to be freed.
func (d *Driver) Close() error {
	var leaks error
	lost := false
	for _, dev := range d.devices {
		if d.retained(dev) > 0 {
			leaks = errors.Join(leaks, fmt.Errorf("cuda:%d: primary context retained %d times more than released", dev.ordinal, dev.retained))
			continue // the context is in use, so its streams may still run
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

// streamState is the state of a Driver except memory. Driver.mu guards the maps
// of contexts and of the objects in them. It is never locked while order is
// locked.
type streamState struct {
	hostThreads hostThreads
	contexts    map[driver.Context]*context
	// threads holds the context stack of each thread, by thread id. The last
	// context is current.
	threads   map[int][]*context
	streams   map[driver.Stream]*stream
	events    map[driver.Event]*event
	modules   map[driver.Module]*module
	functions map[driver.Function]*function

	// order is locked while operations are submitted, so that a call submits to
	// several streams at once. It also guards captures and graphs. space.mu may
	// be locked while order is locked, never the other way round.
	order    sync.Mutex
	captures []*capture // not ended
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

// graphLeaks returns an error if graphs were never destroyed.
func (d *Driver) graphLeaks() error {
	d.order.Lock()
	defer d.order.Unlock()
	if n := len(d.graphs) + len(d.execs); n > 0 {
		return fmt.Errorf("%d graphs never destroyed", n)
	}
	return nil
}

// Results that no other package of this module refers to.
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

// system returns err as CUDA_ERROR_OPERATING_SYSTEM, or nil if err is nil.
func system(call string, err error) error {
	if err == nil {
		return nil
	}
	return &driver.Error{Call: call, Code: driver.OperatingSystem, Detail: err.Error()}
}
