//go:build !linux

package wire

import "os"

const rightsSpace = 0

func rightsMessage(int) []byte { return nil }

func truncatedRights(int) bool { return false }

func parseRights([]byte) ([]*os.File, error) {
	return nil, fault("descriptors can be received on Linux only")
}
