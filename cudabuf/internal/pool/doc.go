// Package pool manages device memory: which allocations of the driver are held,
// which parts of them are in use, and when freed memory is reused although a
// stream may still use it. It does not call a driver; [Upstream] is the
// interface to one.
//
// Interface [Pool] has three implementations. [Caching] keeps allocations of
// the driver and splits them, [Direct] calls the driver for each block, and
// [Ordered] uses stream-ordered allocation of the driver. [WithRetry],
// [WithLog] and [Track] wrap any of them.
//
// A stream is any comparable value. The zero value means no stream: memory
// allocated for it is ready for use on any stream at once.
package pool
