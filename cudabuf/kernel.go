package cudabuf

import "github.com/quiver-gpu/quiver/cudabuf/internal/driver"

// Kernel is a function that runs on the device. It may be launched from any
// goroutine.
type Kernel struct {
	dev    *Device
	name   string
	handle driver.Function
}

// Name is the name that the image exports.
func (k *Kernel) Name() string { return k.name }

// KernelAttributes are what the compiler made of a kernel (cuFuncGetAttribute).
type KernelAttributes struct {
	MaxThreadsPerBlock int
	Registers          int   // a thread
	SharedBytes        int64 // static, a block
	LocalBytes         int64 // a thread
}

// Attributes asks the driver for them.
func (k *Kernel) Attributes() (KernelAttributes, error) {
	var a KernelAttributes
	var shared, local int
	err := k.dev.do(func() (err error) {
		for _, ask := range []struct {
			v *int
			a driver.FunctionAttribute
		}{
			{&a.MaxThreadsPerBlock, driver.FuncMaxThreadsPerBlock},
			{&a.Registers, driver.FuncRegisters},
			{&shared, driver.FuncSharedBytes},
			{&local, driver.FuncLocalBytes},
		} {
			if *ask.v, err = k.dev.api.FuncGetAttribute(ask.a, k.handle); err != nil {
				return err
			}
		}
		return nil
	})
	a.SharedBytes, a.LocalBytes = int64(shared), int64(local)
	return a, k.named(err)
}

// SetMaxDynamicShared lets launches use so many bytes of dynamic shared memory
// a block, where that is more than Limits.SharedPerBlock (cuFuncSetAttribute).
func (k *Kernel) SetMaxDynamicShared(bytes int) error {
	return k.named(k.dev.do(func() error {
		return k.dev.api.FuncSetAttribute(k.handle, driver.FuncMaxDynamicSharedBytes, bytes)
	}))
}

// ActiveBlocks is how many blocks of so many threads and bytes of dynamic
// shared memory run on one multiprocessor at once
// (cuOccupancyMaxActiveBlocksPerMultiprocessor).
func (k *Kernel) ActiveBlocks(threads int, sharedBytes int64) (blocks int, err error) {
	err = k.dev.do(func() (err error) {
		blocks, err = k.dev.api.OccupancyMaxActiveBlocksPerMultiprocessor(k.handle, threads, sharedBytes)
		return err
	})
	return blocks, k.named(err)
}

// BestBlock is the size of a block that fills the device best, in threads, and
// the fewest blocks that do (cuOccupancyMaxPotentialBlockSize). Where limit is
// not 0, blocks have at most so many threads.
func (k *Kernel) BestBlock(sharedBytes int64, limit int) (blocks, threads int, err error) {
	err = k.dev.do(func() (err error) {
		blocks, threads, err = k.dev.api.OccupancyMaxPotentialBlockSize(k.handle, sharedBytes, limit)
		return err
	})
	return blocks, threads, k.named(err)
}
