// Package arrowbuftest has a device for tests of code that uses package arrowbuf.
//
// [Checked] makes it of any other device, of the CPU too. When the test ends, it
// fails with a line for each buffer that was not released, which names the call
// that allocated it; a Release too many fails it with a line that names who
// released the buffer before. The memory that Arrow arrays hold counts as theirs:
// an array or batch that is not released is a leak of the call that made it.
package arrowbuftest
