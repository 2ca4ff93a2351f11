package soft

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"golang.org/x/sys/unix"
)

// crossEvent is an event of several processes: two counters in memory that they
// share. It is given back when nobody knows it any more.
type crossEvent struct {
	*counters
	file   *file
	opened bool // it is another process's
}

type counters struct {
	recorded  atomic.Uint64
	completed atomic.Uint64
	recorder  atomic.Int64 // the process of the last record
}

func newCrossEvent(f *file, opened bool) (*crossEvent, error) {
	memory, err := f.mapped(0, f.size, usable)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	e := &crossEvent{(*counters)(unsafe.Pointer(unsafe.SliceData(memory))), f, opened}
	runtime.AddCleanup(e, func(f *file) { _ = errors.Join(unmap(memory), f.close()) }, f)
	return e, nil
}

func (e *crossEvent) begin() (finish func()) {
	e.recorder.Store(int64(os.Getpid()))
	n := e.recorded.Add(1)
	return func() {
		for done := e.completed.Load(); done < n && !e.completed.CompareAndSwap(done, n); {
			done = e.completed.Load()
		}
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, e.futex(), futexWake, 1<<30, 0, 0, 0)
	}
}

func (e *crossEvent) last() place {
	if n := e.recorded.Load(); n > 0 {
		return crossPlace{e, n}
	}
	return nil
}

const (
	futexWait = 0
	futexWake = 1
)

// futex is the low half of completed, which comes first.
func (e *crossEvent) futex() uintptr { return uintptr(unsafe.Pointer(&e.completed)) }

// crossPlace is a record of some process.
type crossPlace struct {
	event *crossEvent
	n     uint64
}

func (p crossPlace) reached() bool { return p.event.completed.Load() >= p.n }

// wait ends also when the process that recorded last has died: what it had on
// its streams is gone.
func (p crossPlace) wait() {
	for {
		done := p.event.completed.Load()
		if done >= p.n {
			return
		}
		timeout := unix.NsecToTimespec(int64(100 * time.Millisecond))
		_, _, errno := unix.Syscall6(unix.SYS_FUTEX, p.event.futex(), futexWait, uintptr(uint32(done)), uintptr(unsafe.Pointer(&timeout)), 0, 0)
		if errno == unix.ETIMEDOUT && unix.Kill(int(p.event.recorder.Load()), 0) == unix.ESRCH {
			return
		}
	}
}

// eventMagic begins an IPCEventHandle: process and descriptor, as int32, and
// inode follow.
const eventMagic = "qvie"

// IpcGetEventHandle shares the event from its first handle on.
func (d *Driver) IpcGetEventHandle(h driver.Event) (name driver.IPCEventHandle, err error) {
	const call = "cuIpcGetEventHandle"
	e, err := d.event(call, h)
	if err != nil {
		return name, err
	}
	d.order.Lock()
	defer d.order.Unlock()
	if e.flags&driver.EventInterprocess == 0 {
		return name, &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "the event was not made for several processes"}
	}
	if e.shared == nil {
		if e.shared, err = e.cross(); err != nil {
			return name, system(call, err)
		}
	}
	cross := e.shared.(*crossEvent)
	if cross.opened {
		return name, &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "the event is another process's"}
	}
	p := append(name[:0], eventMagic...)
	p = binary.NativeEndian.AppendUint32(p, uint32(os.Getpid()))
	p = binary.NativeEndian.AppendUint32(p, uint32(cross.file.fd))
	binary.NativeEndian.AppendUint64(p, cross.file.inode)
	return name, nil
}

// cross shares an event, with the record that it has.
func (e *event) cross() (sharedEvent, error) {
	f, err := newFile(eventFile, e.context.dev.ordinal, pages(1))
	if err != nil {
		return nil, err
	}
	cross, err := newCrossEvent(f, false)
	if err != nil {
		return nil, err
	}
	if r := e.record; r != nil && r.capture == nil {
		finish := cross.begin()
		go func() {
			r.at.wait()
			finish()
		}()
	}
	return cross, nil
}

func (d *Driver) IpcOpenEventHandle(name driver.IPCEventHandle) (driver.Event, error) {
	const call = "cuIpcOpenEventHandle"
	c, err := d.context(call)
	if err != nil {
		return 0, err
	}
	if string(name[:len(eventMagic)]) != eventMagic {
		return 0, invalid(call, "the bytes are no handle that a soft driver made")
	}
	h := handle{
		pid: int32(binary.NativeEndian.Uint32(name[4:])),
		fd:  int32(binary.NativeEndian.Uint32(name[8:])),
	}
	if int(h.pid) == os.Getpid() {
		return 0, &driver.Error{Call: call, Code: driver.InvalidContext, Detail: "the handle is this process's own"}
	}
	f, _, err := h.open(h.fd, eventFile, binary.NativeEndian.Uint64(name[12:]))
	if err != nil {
		return 0, invalid(call, "%v", err)
	}
	if f.size < int64(unsafe.Sizeof(counters{})) {
		return 0, errors.Join(invalid(call, "an event of %d bytes", f.size), f.close())
	}
	cross, err := newCrossEvent(f, true)
	if err != nil {
		return 0, system(call, err)
	}
	return d.addEvent(&event{context: c, flags: driver.EventInterprocess | driver.EventDisableTiming, shared: cross}), nil
}
