// Package pool manages device memory. It knows which allocations of the driver
// are held and which parts of them are in use. It decides when to reuse freed
// memory that a stream may still use. It does not call a driver; [Upstream] is
// the interface to one.
//
// Interface [Pool] has three implementations. [Caching] keeps allocations of
// the driver and splits them. [Direct] calls the driver for each block.
// [Ordered] uses stream-ordered allocation of the driver. [WithRetry],
// [WithLog] and [Track] wrap any of them.
//
// A stream is any comparable value. The zero value means no stream: memory
// allocated for it is ready for use on any stream at once.
package pool
