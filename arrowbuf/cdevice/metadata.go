package cdevice

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
)

// The keys of metadata that say which extension type a field has.
const (
	extensionName = "ARROW:extension:name"
	extensionData = "ARROW:extension:metadata"
)

// encodeMetadata writes pairs as C has them: their number, then of each key and
// value the length and the bytes, in the machine's byte order. No pairs are nil.
func encodeMetadata(m arrow.Metadata) ([]byte, error) {
	if m.Len() == 0 {
		return nil, nil
	}
	out := binary.NativeEndian.AppendUint32(nil, uint32(m.Len()))
	for i, key := range m.Keys() {
		for _, text := range []string{key, m.Values()[i]} {
			if len(text) > math.MaxInt32 {
				return nil, fmt.Errorf("metadata of %d bytes: %w", len(text), arrow.ErrInvalid)
			}
			out = append(binary.NativeEndian.AppendUint32(out, uint32(len(text))), text...)
		}
	}
	return out, nil
}

// decodeMetadata copies what encodeMetadata writes; there may be none.
func decodeMetadata(address uintptr) (arrow.Metadata, error) {
	if address == 0 {
		return arrow.Metadata{}, nil
	}
	// Lengths lie at any address. That behind the last text is never a pointer.
	read := func(n int) []byte {
		if n == 0 {
			return nil
		}
		b := unsafe.Slice((*byte)(pointer(address)), n)
		address += uintptr(n)
		return b
	}
	number := func() (int, error) {
		n := int32(binary.NativeEndian.Uint32(read(4)))
		if n < 0 {
			return 0, fmt.Errorf("metadata with a length of %d: %w", n, arrow.ErrInvalid)
		}
		return int(n), nil
	}
	text := func() (string, error) {
		n, err := number()
		if err != nil {
			return "", err
		}
		return string(read(n)), nil
	}
	pairs, err := number()
	if err != nil {
		return arrow.Metadata{}, err
	}
	var keys, values []string
	for range pairs {
		key, err := text()
		if err != nil {
			return arrow.Metadata{}, err
		}
		value, err := text()
		if err != nil {
			return arrow.Metadata{}, err
		}
		keys, values = append(keys, key), append(values, value)
	}
	return arrow.NewMetadata(keys, values), nil
}

// withExtension adds what says that a field has an extension type.
func withExtension(m arrow.Metadata, t arrow.ExtensionType) arrow.Metadata {
	plain := withoutExtension(m)
	return arrow.NewMetadata(
		append(plain.Keys(), extensionName, extensionData),
		append(plain.Values(), t.ExtensionName(), t.Serialize()))
}

func withoutExtension(m arrow.Metadata) arrow.Metadata {
	var keys, values []string
	for i, key := range m.Keys() {
		if key != extensionName && key != extensionData {
			keys, values = append(keys, key), append(values, m.Values()[i])
		}
	}
	return arrow.NewMetadata(keys, values)
}

// extensionOf is the extension type that metadata names over a storage type, if
// it names one that is registered. An unknown one is left to the metadata.
func extensionOf(storage arrow.DataType, m arrow.Metadata) (arrow.ExtensionType, error) {
	i := m.FindKey(extensionName)
	if i < 0 {
		return nil, nil
	}
	known := arrow.GetExtensionType(m.Values()[i])
	if known == nil {
		return nil, nil
	}
	data, _ := m.GetValue(extensionData)
	t, err := known.Deserialize(storage, data)
	if err != nil {
		return nil, fmt.Errorf("extension type %q: %w", known.ExtensionName(), err)
	}
	return t, nil
}
