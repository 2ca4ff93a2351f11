// Package arrowbuftest has a device for tests of code that uses package arrowbuf.
//
// [Checked] wraps any device, including the CPU. When the test ends, it fails with a
// line per buffer that was not released, which names the call that allocated it. An
// extra Release fails the test with a line that names the call of the previous
// release. The memory of Arrow arrays is checked too: an array or batch that is not
// released is reported as a leak of the call that made it.
package arrowbuftest
