package arrowbuf

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mostMemory is how much the machine has, with what it swaps, or the container that
// this is: a system that was told to map whatever is asked for (vm.overcommit_memory 1)
// kills the program that uses more.
func mostMemory() (int64, error) {
	var has unix.Sysinfo_t
	if err := unix.Sysinfo(&has); err != nil {
		return 0, fmt.Errorf("asking for the machine's memory: %w", err)
	}
	memory, swap := inBytes(has.Totalram, has.Unit), inBytes(has.Totalswap, has.Unit)
	return min(memory, containerLimit("/sys/fs/cgroup")) + min(swap, containerSwap("/sys/fs/cgroup")), nil
}

func inBytes[N uint32 | uint64](n N, unit uint32) int64 {
	return int64(min(uint64(n)*uint64(unit), math.MaxInt64/2))
}

// containerLimit is what memory the control group at root may have, of version 2 or 1: a
// container sees its own there. (Control Group v2, "Memory Interface Files".)
func containerLimit(root string) int64 {
	return min(limitIn(root, "memory.max"), limitIn(root, "memory/memory.limit_in_bytes"))
}

func containerSwap(root string) int64 { return limitIn(root, "memory.swap.max") }

// limitIn is the largest number where there is no such file, or it says "max".
func limitIn(root, name string) int64 {
	text, _ := os.ReadFile(filepath.Join(root, name))
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return n
}
