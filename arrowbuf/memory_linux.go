package arrowbuf

import (
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// probeMemory returns an error if n bytes exceed the total memory, or if the kernel
// refuses to map n bytes now.
func probeMemory(n int64) error {
	const large = 1 << 30
	if n < large {
		return nil
	}
	if most := totalMemory(); n > most {
		return fmt.Errorf("the system has %d bytes", most)
	}
	m, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	return unix.Munmap(m)
}

// totalMemory returns the memory and swap of the machine in bytes, or the limit of
// its container if that is less. It matters on systems that map any size
// (vm.overcommit_memory 1): they kill a process that uses more. It returns
// math.MaxInt64 if the system does not report a size.
func totalMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return math.MaxInt64
	}
	groups, _ := os.ReadFile("/proc/self/cgroup")
	return cgroupLimit(inBytes(info.Totalram, info.Unit), inBytes(info.Totalswap, info.Unit), string(groups), "/sys/fs/cgroup")
}

// inBytes returns n units in bytes, limited to half of math.MaxInt64 so that sums do
// not overflow.
func inBytes[N uint32 | uint64](n N, unit uint32) int64 {
	return int64(min(uint64(n)*uint64(unit), math.MaxInt64/2))
}

// cgroupLimit returns the memory and swap that a process may use under its control
// groups and their ancestors. groups is the text of /proc/pid/cgroup, root the mount
// point of the control groups. See cgroups(7), section "/proc/pid/cgroup"; Control
// Group v2, section "Memory Interface Files"; and for version 1 memory.txt, section
// 3.
func cgroupLimit(memory, swap int64, groups, root string) int64 {
	both := int64(math.MaxInt64)
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // hierarchy number, controllers, group
		if len(fields) < 3 {
			continue
		}
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			if fields[1] == "" {
				memory = min(memory, readLimit(root, group, "memory.max"))
				swap = min(swap, readLimit(root, group, "memory.swap.max"))
			} else if slices.Contains(strings.Split(fields[1], ","), "memory") {
				memory = min(memory, readLimit(root, "memory", group, "memory.limit_in_bytes"))
				both = min(both, readLimit(root, "memory", group, "memory.memsw.limit_in_bytes"))
			}
			if group == "/" {
				break
			}
		}
	}
	return min(memory+swap, both)
}

// readLimit returns the number in a file, or math.MaxInt64 if the file does not
// exist or contains "max".
func readLimit(file ...string) int64 {
	text, _ := os.ReadFile(filepath.Join(file...))
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return n
}
