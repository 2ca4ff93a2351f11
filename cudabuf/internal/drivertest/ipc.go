package drivertest

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

func (m *fixture) ownHandles() {
	p := m.alloc(1 << 16)
	h := must[driver.IPCMemHandle](m)(m.api.IpcGetMemHandle(p))
	assert.Equal(m, h, must[driver.IPCMemHandle](m)(m.api.IpcGetMemHandle(p+100)), "the handle is that of the whole allocation")
	_, err := m.api.IpcOpenMemHandle(h)
	m.wantCode(driver.InvalidContext, err, "opening it in its own process")
	assert.NotEqual(m, driver.Success, resultOf(m.api.IpcCloseMemHandle(p)), "closing what was not opened")
}

// childEnvironment is set in the child process of a test. Its value is the name
// of the driver.
const childEnvironment = "QUIVER_DRIVERTEST_CHILD"

// Child is the main function of the child process. A package that runs the
// suite calls it from TestMain with its drivers by name. In other processes it
// returns at once.
func Child(open map[string]func() (driver.API, error)) {
	name := os.Getenv(childEnvironment)
	if name == "" {
		return
	}
	if err := runChild(open[name]); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runChild reads commands from standard input, one per line: a name and a
// hexadecimal argument. It writes one line for each.
func runChild(open func() (driver.API, error)) error {
	runtime.LockOSThread()
	api, err := open()
	if err != nil {
		return err
	}
	if err := api.Init(); err != nil {
		return err
	}
	ctx, err := api.DevicePrimaryCtxRetain(0)
	if err != nil {
		return err
	}
	if err := api.CtxSetCurrent(ctx); err != nil {
		return err
	}
	c := &child{api: api}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		command, argument, _ := strings.Cut(lines.Text(), " ")
		data, err := hex.DecodeString(argument)
		if err != nil {
			return err
		}
		reply, err := c.run(command, data)
		if err != nil {
			reply = "error: " + err.Error()
		}
		fmt.Println(reply)
	}
	return lines.Err()
}

type child struct {
	api     driver.API
	address uintptr
	event   driver.Event
	pool    driver.MemPool
}

// inheritedFD is the first descriptor of exec.Cmd.ExtraFiles.
const inheritedFD = 3

func (c *child) run(command string, data []byte) (reply string, err error) {
	switch command {
	case "open":
		var again uintptr
		if c.address, err = c.api.IpcOpenMemHandle(driver.IPCMemHandle(data)); err == nil {
			again, err = c.api.IpcOpenMemHandle(driver.IPCMemHandle(data))
		}
		if err == nil && again != c.address {
			return "", fmt.Errorf("opened twice, at %#x and %#x", c.address, again)
		}
		if err == nil {
			err = c.api.IpcCloseMemHandle(again)
		}
	case "close":
		err = c.api.IpcCloseMemHandle(c.address)
	case "event":
		c.event, err = c.api.IpcOpenEventHandle(driver.IPCEventHandle(data))
	case "read": // after the event, if there is one
		if c.event != 0 {
			if err := c.api.StreamWaitEvent(0, c.event); err != nil {
				return "", err
			}
		}
		got := make([]byte, data[0])
		if err = c.api.MemcpyDtoHAsync(got, c.address, 0); err == nil {
			err = c.api.StreamSynchronize(0)
		}
		reply = string(got)
	case "write":
		if err = c.api.MemcpyHtoDAsync(c.address, data, 0); err == nil {
			err = c.api.StreamSynchronize(0)
		}
	case "map":
		err = c.mapMemory()
	case "pool":
		c.pool, err = c.api.MemPoolImportFromShareableHandle(inheritedFD)
		if err == nil {
			err = c.api.MemPoolSetAccess(c.pool, 0)
		}
	case "pool-again":
		var again driver.MemPool
		if again, err = c.api.MemPoolImportFromShareableHandle(inheritedFD); err == nil && again != c.pool {
			err = fmt.Errorf("imported twice, as %#x and %#x", c.pool, again)
		}
	case "destroy":
		err = c.api.MemPoolDestroy(c.pool)
	case "pointer":
		c.address, err = c.api.MemPoolImportPointer(c.pool, driver.PoolPointer(data))
	case "free":
		if err = c.api.MemFreeAsync(c.address, 0); err == nil {
			err = c.api.StreamSynchronize(0)
		}
	default:
		err = fmt.Errorf("unknown command %q", command)
	}
	return reply, err
}

func (c *child) mapMemory() error {
	h, err := c.api.MemImportFromShareableHandle(inheritedFD)
	if err != nil {
		return err
	}
	g, err := c.api.MemGetAllocationGranularity(0, true)
	if err != nil {
		return err
	}
	if c.address, err = c.api.MemAddressReserve(g); err != nil {
		return err
	}
	if err := c.api.MemMap(c.address, g, h); err != nil {
		return err
	}
	return c.api.MemSetAccess(c.address, g, 0)
}

// childProcess is a child process of the test.
type childProcess struct {
	m    *fixture
	in   io.WriteCloser
	out  *bufio.Scanner
	wait func() error
}

// startChild runs a child, which inherits file if it is not nil.
func (m *fixture) startChild(file *os.File) *childProcess {
	m.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", childEnvironment+"="+m.Child)
	cmd.Stderr = os.Stderr
	if file != nil {
		cmd.ExtraFiles = []*os.File{file}
	}
	in, err := cmd.StdinPipe()
	require.NoError(m, err)
	out, err := cmd.StdoutPipe()
	require.NoError(m, err)
	require.NoError(m, cmd.Start())
	p := &childProcess{m: m, in: in, out: bufio.NewScanner(out), wait: cmd.Wait}
	return p
}

func (p *childProcess) close() {
	p.m.Helper()
	assert.NoError(p.m, p.in.Close())
	assert.NoError(p.m, p.wait())
}

// request sends a command and returns the child's reply.
func (p *childProcess) request(command string, data []byte) string {
	p.m.Helper()
	_, err := fmt.Fprintf(p.in, "%s %x\n", command, data)
	require.NoError(p.m, err)
	require.True(p.m, p.out.Scan(), "%s: the child has ended", command)
	return p.out.Text()
}

func (m *fixture) ipc() {
	if m.Child == "" {
		m.Skip("the driver does not open in another process")
	}
	m.subtest("handles", func() {
		p := m.alloc(1 << 16)
		m.write(p, []byte("hello"))
		h := must[driver.IPCMemHandle](m)(m.api.IpcGetMemHandle(p))
		c := m.startChild(nil)
		assert.Empty(m, c.request("open", h[:]))
		assert.Equal(m, "hello", c.request("read", []byte{5}))
		assert.Empty(m, c.request("write", []byte("world")))
		assert.Equal(m, "world", string(m.read(p, 5)))
		assert.Empty(m, c.request("close", nil))
		assert.Contains(m, c.request("read", []byte{5}), "error", "closed")
		c.close()
	})
	m.subtest("events", func() {
		p, s := m.alloc(1<<16), m.newStream()
		e := m.newEvent(driver.EventInterprocess | driver.EventDisableTiming)
		mh := must[driver.IPCMemHandle](m)(m.api.IpcGetMemHandle(p))
		eh := must[driver.IPCEventHandle](m)(m.api.IpcGetEventHandle(e))
		c := m.startChild(nil)
		assert.Empty(m, c.request("open", mh[:]))
		assert.Empty(m, c.request("event", eh[:]))
		m.write(p, []byte("early"))
		open := m.blockStream(s)
		require.NoError(m, m.api.MemcpyHtoDAsync(p, []byte("later"), s))
		require.NoError(m, m.api.EventRecord(e, s))
		_, err := fmt.Fprintf(c.in, "read 05\n")
		require.NoError(m, err)
		open()
		require.True(m, c.out.Scan())
		assert.Equal(m, "later", c.out.Text(), "the child waited for the record")
		assert.Empty(m, c.request("close", nil))
		c.close()
		_, err = m.api.IpcGetEventHandle(m.newEvent(driver.EventDisableTiming))
		assert.NotEqual(m, driver.Success, resultOf(err), "not an interprocess event")
	})
	m.subtest("descriptors of memory", func() {
		g := must[int64](m)(m.api.MemGetAllocationGranularity(m.dev, true))
		h := must[driver.Physical](m)(m.api.MemCreate(g, m.dev, true))
		at := must[uintptr](m)(m.api.MemAddressReserve(g))
		require.NoError(m, m.api.MemMap(at, g, h))
		require.NoError(m, m.api.MemSetAccess(at, g, m.dev))
		m.write(at, []byte("mapped"))
		fd := must[int](m)(m.api.MemExportToShareableHandle(h))
		file := os.NewFile(uintptr(fd), "memory")
		c := m.startChild(file)
		require.NoError(m, file.Close())
		assert.Empty(m, c.request("map", nil))
		assert.Equal(m, "mapped", c.request("read", []byte{6}))
		assert.Empty(m, c.request("write", []byte("shared")))
		assert.Equal(m, "shared", string(m.read(at, 6)))
		c.close()
		require.NoError(m, m.api.MemUnmap(at, g))
		require.NoError(m, m.api.MemAddressFree(at, g))
		require.NoError(m, m.api.MemRelease(h))
	})
	m.subtest("descriptors of pools", func() {
		s := m.newStream()
		pool := must[driver.MemPool](m)(m.api.MemPoolCreate(m.dev, true))
		p := must[uintptr](m)(m.api.MemAllocFromPoolAsync(1<<16, pool, s))
		require.NoError(m, m.api.MemcpyHtoDAsync(p, []byte("pooled"), s))
		require.NoError(m, m.api.StreamSynchronize(s))
		fd := must[int](m)(m.api.MemPoolExportToShareableHandle(pool))
		pointer := must[driver.PoolPointer](m)(m.api.MemPoolExportPointer(p))
		file := os.NewFile(uintptr(fd), "pool")
		c := m.startChild(file)
		require.NoError(m, file.Close())
		assert.Empty(m, c.request("pool", nil))
		assert.Empty(m, c.request("pointer", pointer[:]))
		assert.Equal(m, "pooled", c.request("read", []byte{6}))
		assert.Empty(m, c.request("pool-again", nil), "a second import counts")
		assert.Contains(m, c.request("destroy", nil), "error", "a pointer is open")
		assert.Empty(m, c.request("free", nil))
		assert.Contains(m, c.request("free", nil), "error", "a second time")
		assert.Empty(m, c.request("destroy", nil), "nothing may use the pool between both calls, or the driver faults")
		assert.Empty(m, c.request("destroy", nil))
		c.close()
		require.NoError(m, m.api.MemFreeAsync(p, s))
		require.NoError(m, m.api.StreamSynchronize(s))
		require.NoError(m, m.api.MemPoolDestroy(pool))
	})
}

// subtest runs a part of a test on the same thread, because the context belongs
// to the thread.
func (m *fixture) subtest(name string, part func()) {
	m.Log(name)
	part()
}
