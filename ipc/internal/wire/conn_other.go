//go:build !linux

package wire

import "os"

const rightsSpace = 0

func rights(int) []byte { return nil }

func truncatedRights(int) bool { return false }

func parseRights([]byte) ([]*os.File, error) {
	return nil, fault("descriptors travel on Linux only")
}
