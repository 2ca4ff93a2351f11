//go:build linux

package simulated

import (
	"fmt"
	"maps"
	"regexp"
	"strconv"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

type module struct {
	context     *context
	hostKernels map[string]driver.HostKernel
	params      map[string][]param // of the kernels of PTX text
}

type function struct {
	module     *module
	hostKernel driver.HostKernel
	params     []param // nil if unknown
	shared     int     // maximum of dynamic shared memory; guarded by Driver.mu
}

// RunsHostKernels reports true, as no other driver does: see cudabuf.Device.
func (d *Driver) RunsHostKernels() bool { return true }

func (d *Driver) ModuleLoadData(image []byte, hostKernels map[string]driver.HostKernel) (driver.Module, error) {
	const call = "cuModuleLoadData"
	c, err := d.enterContext(call)
	if err != nil {
		return 0, err
	}
	if len(image) == 0 {
		return 0, &driver.Error{Call: call, Code: driver.InvalidImage, Detail: "the image is empty"}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	h := driver.Module(d.newHandle())
	d.modules[h] = &module{context: c, hostKernels: hostKernels, params: ptxParams(image)}
	return h, nil
}

func (d *Driver) ModuleUnload(h driver.Module) error {
	m, err := d.enterModule("cuModuleUnload", h)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unload(h, m)
	return nil
}

// unload removes a module and its functions. The caller holds mu.
func (d *Driver) unload(h driver.Module, m *module) {
	delete(d.modules, h)
	maps.DeleteFunc(d.functions, func(_ driver.Function, f *function) bool { return f.module == m })
}

func (d *Driver) ModuleGetFunction(h driver.Module, name string) (driver.Function, error) {
	const call = "cuModuleGetFunction"
	m, err := d.enterModule(call, h)
	if err != nil {
		return 0, err
	}
	kernel, ok := m.hostKernels[name]
	if !ok {
		return 0, &driver.Error{Call: call, Code: driver.NotFound, Detail: fmt.Sprintf("no host kernel %q", name)}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f := driver.Function(d.newHandle())
	d.functions[f] = &function{module: m, hostKernel: kernel, params: m.params[name], shared: sharedPerBlock}
	return f, nil
}

// enterModule begins a call that uses a module.
func (d *Driver) enterModule(call string, h driver.Module) (*module, error) {
	c, err := d.enterContext(call)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	m, ok := d.modules[h]
	if !ok || m.context != c {
		return nil, &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "not a module of the current context"}
	}
	return m, nil
}

func (d *Driver) LaunchKernel(l *driver.Launch) error {
	const call = "cuLaunchKernel"
	_, s, err := d.enterStream(call, l.Stream)
	if err != nil {
		return err
	}
	f, shared, err := d.lookupFunction(call, l.Function)
	if err != nil {
		return err
	}
	if f.module.context != s.context {
		return &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "function and stream belong to different contexts"}
	}
	threads := uint64(l.Block.X) * uint64(l.Block.Y) * uint64(l.Block.Z)
	if !fitsIn(l.Grid, maxGridDim) || !fitsIn(l.Block, maxBlockDim) || threads > maxThreadsPerBlock || int(l.SharedBytes) > shared {
		return &driver.Error{Call: call, Code: driver.InvalidValue, Detail: fmt.Sprintf("grid %v, block %v, %d bytes of shared memory: want at most %d", l.Grid, l.Block, l.SharedBytes, shared)}
	}
	launch := driver.NewHostLaunch(l, s.dev.arena.bytesAtRun)
	return s.submit(call, func() error {
		f.hostKernel(launch)
		return nil
	})
}

func fitsIn(size, limit driver.Dim3) bool {
	return size.X >= 1 && size.Y >= 1 && size.Z >= 1 && size.X <= limit.X && size.Y <= limit.Y && size.Z <= limit.Z
}

// registersPerThread is the assumed register usage of a host kernel, which no
// compiler reports.
const registersPerThread = 32

// FuncGetAttribute returns the attributes of a small kernel.
func (d *Driver) FuncGetAttribute(a driver.FunctionAttribute, h driver.Function) (int, error) {
	const call = "cuFuncGetAttribute"
	if _, err := d.enterContext(call); err != nil {
		return 0, err
	}
	_, shared, err := d.lookupFunction(call, h)
	if err != nil {
		return 0, err
	}
	switch a {
	case driver.FuncMaxThreadsPerBlock:
		return maxThreadsPerBlock, nil
	case driver.FuncSharedBytes, driver.FuncLocalBytes:
		return 0, nil
	case driver.FuncRegisters:
		return registersPerThread, nil
	case driver.FuncMaxDynamicSharedBytes:
		return shared, nil
	}
	return 0, &driver.Error{Call: call, Code: driver.InvalidValue, Detail: fmt.Sprintf("the simulated driver has no function attribute %d", a)}
}

func (d *Driver) FuncSetAttribute(h driver.Function, a driver.FunctionAttribute, v int) error {
	const call = "cuFuncSetAttribute"
	if _, err := d.enterContext(call); err != nil {
		return err
	}
	f, _, err := d.lookupFunction(call, h)
	if err != nil {
		return err
	}
	if a != driver.FuncMaxDynamicSharedBytes {
		return &driver.Error{Call: call, Code: driver.InvalidValue, Detail: fmt.Sprintf("function attribute %d cannot be set", a)}
	}
	if v < 0 || v > sharedPerBlockOptin {
		return &driver.Error{Call: call, Code: driver.InvalidValue, Detail: fmt.Sprintf("%d bytes of shared memory: want at most %d", v, sharedPerBlockOptin)}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f.shared = v
	return nil
}

// FuncGetParamInfo knows the parameters of kernels in PTX text. Other images are not
// read: a call for them is NotSupported, as of a driver that lacks it.
func (d *Driver) FuncGetParamInfo(h driver.Function, index int) (offset, size int64, err error) {
	const call = "cuFuncGetParamInfo"
	if _, err := d.enterContext(call); err != nil {
		return 0, 0, err
	}
	f, _, err := d.lookupFunction(call, h)
	if err != nil {
		return 0, 0, err
	}
	if f.params == nil {
		return 0, 0, driver.ResultError(call, driver.NotSupported)
	}
	if index < 0 || index >= len(f.params) {
		return 0, 0, invalid(call, "parameter %d of %d", index, len(f.params))
	}
	return f.params[index].offset, f.params[index].size, nil
}

// param is a parameter of a kernel, in bytes.
type param struct{ offset, size int64 }

var (
	ptxEntry = regexp.MustCompile(`(?s)\.entry\s+([\w$]+)\s*\(([^)]*)\)`)
	ptxParam = regexp.MustCompile(`\.param\s+(?:\.align\s+(\d+)\s+)?\.([busf])(\d+)[^,\[]*(?:\[(\d+)\])?`)
)

// ptxParams returns the parameters of each kernel of PTX text, and none of another
// image (PTX ISA, "Kernel and Function Directives: .entry").
func ptxParams(image []byte) map[string][]param {
	kernels := map[string][]param{}
	for _, entry := range ptxEntry.FindAllSubmatch(image, -1) {
		params, end := []param{}, int64(0)
		for _, p := range ptxParam.FindAllSubmatch(entry[2], -1) {
			bits, _ := strconv.ParseInt(string(p[3]), 10, 64)
			size, align := bits/8, bits/8
			if n, err := strconv.ParseInt(string(p[4]), 10, 64); err == nil {
				size *= n
			}
			if n, err := strconv.ParseInt(string(p[1]), 10, 64); err == nil {
				align = n
			}
			offset := (end + align - 1) / align * align
			params, end = append(params, param{offset, size}), offset+size
		}
		kernels[string(entry[1])] = params
	}
	return kernels
}

func (d *Driver) OccupancyMaxActiveBlocksPerMultiprocessor(h driver.Function, threads int, sharedBytes int64) (int, error) {
	const call = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
	if _, err := d.enterContext(call); err != nil {
		return 0, err
	}
	_, shared, err := d.lookupFunction(call, h)
	if err != nil {
		return 0, err
	}
	if threads <= 0 || sharedBytes < 0 {
		return 0, driver.ResultError(call, driver.InvalidValue)
	}
	return activeBlocks(threads, sharedBytes, shared), nil
}

func (d *Driver) OccupancyMaxPotentialBlockSize(h driver.Function, sharedBytes int64, limit int) (blocks, threads int, err error) {
	const call = "cuOccupancyMaxPotentialBlockSize"
	if _, err := d.enterContext(call); err != nil {
		return 0, 0, err
	}
	_, shared, err := d.lookupFunction(call, h)
	if err != nil {
		return 0, 0, err
	}
	if sharedBytes < 0 || limit < 0 {
		return 0, 0, driver.ResultError(call, driver.InvalidValue)
	}
	if limit == 0 || limit > maxThreadsPerBlock {
		limit = maxThreadsPerBlock
	}
	best := 0
	for n := limit; n > 0; n = (n - 1) / warpSize * warpSize { // the limit itself, then multiples of a warp
		if a := activeBlocks(n, sharedBytes, shared); a*n > best {
			best, blocks, threads = a*n, a*multiprocessors, n
		}
	}
	return blocks, threads, nil
}

// activeBlocks returns the number of blocks that fit on a multiprocessor. It is
// 0 for a block that cannot be launched.
func activeBlocks(threads int, sharedBytes int64, shared int) int {
	if threads > maxThreadsPerBlock || sharedBytes > int64(shared) {
		return 0
	}
	warps := roundUp(threads, warpSize) / warpSize
	return min(maxBlocksPerSM,
		maxThreadsPerSM/(warps*warpSize),
		registersPerSM/(warps*roundUp(registersPerThread*warpSize, registerUnit)),
		sharedPerSM/(int(sharedBytes)+sharedReservedPerBlock))
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// lookupFunction returns a function, and the maximum of its dynamic shared
// memory.
func (d *Driver) lookupFunction(call string, h driver.Function) (f *function, shared int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.functions[h]
	if !ok {
		return nil, 0, &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "no such function"}
	}
	return f, f.shared, nil
}
