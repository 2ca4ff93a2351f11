package nvrtc

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
)

// An entry is a file of a Cache: a line that tells the format, the SHA-256 of
// all that follows, and then runs of bytes, each after its length: the key, the
// image, the log, and the name expressions with their names in turn.
const entryMagic = "quiver kernel 1\n"

var errDamaged = errors.New("damaged")

// key is all that counts for what NVRTC makes of a source. Each list comes
// after its length, so that no two sources have the same key.
func (s *Source) key(build string) []byte {
	key := appendRuns(nil, build, s.Arch, s.name(), s.Text)
	key = appendRuns(binary.AppendUvarint(key, uint64(len(s.Options))), s.Options...)
	key = appendRuns(binary.AppendUvarint(key, uint64(len(s.Names))), s.Names...)
	key = binary.AppendUvarint(key, uint64(len(s.Headers)))
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		key = appendRuns(key, name, s.Headers[name])
	}
	return key
}

func appendRuns(b []byte, runs ...string) []byte {
	for _, run := range runs {
		b = append(binary.AppendUvarint(b, uint64(len(run))), run...)
	}
	return b
}

func encodeEntry(key []byte, image *Image) []byte {
	runs := []string{string(key), string(image.Bytes), image.Log}
	for _, expression := range slices.Sorted(maps.Keys(image.Names)) {
		runs = append(runs, expression, image.Names[expression])
	}
	body := appendRuns(nil, runs...)
	sum := sha256.Sum256(body)
	return slices.Concat([]byte(entryMagic), sum[:], body)
}

func readEntry(path string, key []byte) (*Image, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	image, err := decodeEntry(data, key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return image, nil
}

// decodeEntry answers errDamaged for anything but what encodeEntry made for the
// key.
func decodeEntry(data, key []byte) (*Image, error) {
	rest, ok := bytes.CutPrefix(data, []byte(entryMagic))
	if !ok || len(rest) < sha256.Size {
		return nil, fmt.Errorf("%w: no entry of %d bytes begins so", errDamaged, len(data))
	}
	sum, body := rest[:sha256.Size], rest[sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(sum, got[:]) {
		return nil, fmt.Errorf("%w: the checksum of its %d bytes is another", errDamaged, len(data))
	}
	return decodeBody(body, key)
}

func decodeBody(body, key []byte) (*Image, error) {
	var runs [][]byte
	for len(body) > 0 {
		length, n := binary.Uvarint(body)
		if n <= 0 || length > uint64(len(body)-n) {
			return nil, fmt.Errorf("%w: run %d reaches beyond the end", errDamaged, len(runs))
		}
		body = body[n:]
		runs, body = append(runs, body[:length:length]), body[length:]
	}
	if len(runs) < 3 || len(runs)%2 == 0 {
		return nil, fmt.Errorf("%w: it has %d parts", errDamaged, len(runs))
	}
	if !bytes.Equal(runs[0], key) {
		return nil, fmt.Errorf("%w: it is another source's", errDamaged)
	}
	image := &Image{Bytes: runs[1], Log: string(runs[2]), Cached: true}
	for pair := range slices.Chunk(runs[3:], 2) {
		if image.Names == nil {
			image.Names = map[string]string{}
		}
		image.Names[string(pair[0])] = string(pair[1])
	}
	return image, nil
}
