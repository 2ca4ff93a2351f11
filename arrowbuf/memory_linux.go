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

// checkRoom asks what there is at most, and the kernel whether it would map n bytes now.
func checkRoom(n int64) error {
	const large = 1 << 30
	if n < large {
		return nil
	}
	if most := mostMemory(); n > most {
		return fmt.Errorf("there are %d bytes", most)
	}
	m, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	return unix.Munmap(m)
}

// mostMemory is how much the machine has, with what it swaps, or the container that
// this is: a system that was told to map whatever is asked for (vm.overcommit_memory 1)
// kills the program that uses more. It is no limit where the system does not say.
func mostMemory() int64 {
	var has unix.Sysinfo_t
	if err := unix.Sysinfo(&has); err != nil {
		return math.MaxInt64
	}
	groups, _ := os.ReadFile("/proc/self/cgroup")
	return limited(inBytes(has.Totalram, has.Unit), inBytes(has.Totalswap, has.Unit), string(groups), "/sys/fs/cgroup")
}

func inBytes[N uint32 | uint64](n N, unit uint32) int64 {
	return int64(min(uint64(n)*uint64(unit), math.MaxInt64/2))
}

// limited is what the control groups of a process leave it of memory and swap, and those
// that they are in. A container has its own at the root. (cgroups(7), "/proc/pid/cgroup";
// Control Group v2, "Memory Interface Files"; of version 1 memory.txt, 3.)
func limited(memory, swap int64, groups, root string) int64 {
	both := int64(math.MaxInt64)
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, group
		if len(fields) < 3 {
			continue
		}
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			if fields[1] == "" {
				memory = min(memory, limitIn(root, group, "memory.max"))
				swap = min(swap, limitIn(root, group, "memory.swap.max"))
			} else if slices.Contains(strings.Split(fields[1], ","), "memory") {
				memory = min(memory, limitIn(root, "memory", group, "memory.limit_in_bytes"))
				both = min(both, limitIn(root, "memory", group, "memory.memsw.limit_in_bytes"))
			}
			if group == "/" {
				break
			}
		}
	}
	return min(memory+swap, both)
}

// limitIn is the largest number where there is no such file, or it says "max".
func limitIn(file ...string) int64 {
	text, _ := os.ReadFile(filepath.Join(file...))
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return n
}

// useLargePages asks for pages of 2 MiB where they fit between others.
func useLargePages(memory []byte) {
	const page = 2 << 20
	start := sliceAddress(memory)
	from, to := (start+page-1)/page*page-start, (start+uintptr(len(memory)))/page*page-start
	if from < to {
		_ = unix.Madvise(memory[from:to], unix.MADV_HUGEPAGE) // a kernel may have none
	}
}
