//go:build !amd64

package cpu

func countBlocks([]byte) (trues, done int) { return 0, 0 }

func listBlocks([]byte, int64, []uint64) (n, done int) { return 0, 0 }

func atMost1Blocks([]byte) (done int, ok bool) { return 0, true }
