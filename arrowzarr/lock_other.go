//go:build !unix

package arrowzarr

import "os"

// tryLock does nothing: files are not locked on this system.
func tryLock(*os.File, bool) error { return nil }
