//go:build linux

package libcuda

import (
	"fmt"
	"strings"
)

// find looks all functions up in the open library at path.
func find(path string, library uintptr) (*Driver, error) {
	d := &Driver{path: path}
	for s := range symbolCount {
		for _, name := range s.exports() {
			if d.entry[s] = lookup(library, name); d.entry[s] != 0 {
				break
			}
		}
		if d.entry[s] == 0 && !symbols[s].optional {
			return nil, fmt.Errorf("%s lacks %s: it is no CUDA driver, or one too old", path, strings.Join(s.exports(), " and "))
		}
	}
	return d, nil
}
