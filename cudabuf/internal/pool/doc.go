// Package pool keeps the books of memory: which of the driver's allocations are
// held, which parts of them are lent, and when a part may be lent again although
// a stream may still use it. It calls no driver itself; [Upstream] is what it
// asks for.
//
// Three kinds stand behind the interface [Pool]: [Caching] cuts requests out of
// allocations that it keeps, [Direct] asks the driver every time, and [Ordered]
// leaves everything to the driver's allocation in the order of a stream.
// [WithRetry], [WithLog] and [Track] lay something on top of any of them.
//
// A stream is any comparable value; the zero value is no stream: memory got for
// it may be used by anybody at once.
package pool
