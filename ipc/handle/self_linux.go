package handle

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Self is this process.
func Self() (Process, error) { return self() }

var self = sync.OnceValues(func() (Process, error) {
	p := Process{PID: uint32(os.Getpid())}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return p, err
	}
	if p.Machine, err = parseBootID(string(boot)); err != nil {
		return p, err
	}
	const namespace = "/proc/self/ns/pid"
	info, err := os.Stat(namespace)
	if err != nil {
		return p, err
	}
	p.Namespace = info.Sys().(*syscall.Stat_t).Ino
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return p, err
	}
	p.Start, err = startOf(string(stat))
	return p, err
})

// startOf is field 22 of /proc/PID/stat. Field 2 is a name in parentheses, in
// which anything may stand.
func startOf(stat string) (uint64, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0, fmt.Errorf("/proc/self/stat has %d fields behind the name, not 20", len(fields))
	}
	return strconv.ParseUint(fields[19], 10, 64)
}
