package codec

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// VLenArray stores arrays of one axis as elements, in the format of [VLenBytes]
// (numcodecs, "vlen-array"). An element of the element.VLen is the bytes of its items,
// little-endian; see element.VLen.Items and element.PackItems.
type VLenArray struct {
	// DType is the type of items of NumPy, such as "<f4": a number, a bool, a time, or
	// text or bytes of a fixed length ("<U5", "|S5", "|V5"). Items are stored in its byte
	// order.
	DType string
}

// Name returns "numcodecs.vlen-array".
func (VLenArray) Name() string { return numcodecs + "vlen-array" }

// Configuration returns the type of items.
func (c VLenArray) Configuration() any { return metajson.Members{{Key: "dtype", Value: c.DType}} }

func parseVLenArray(config *metajson.Object) (Codec, error) {
	var c VLenArray
	if err := config.DecodeRequired("dtype", &c.DType); err != nil {
		return nil, err
	}
	return c, c.check()
}

func (c VLenArray) check() error {
	_, _, err := c.items()
	return err
}

// items returns the type of items, and whether they are stored big-endian.
func (c VLenArray) items() (of element.Type, swap bool, err error) {
	dtype, order, err := ndview.ParseDType(c.DType)
	of = element.Of(dtype)
	if err != nil { // it may be text of a fixed length
		var text []byte
		if text, err = json.Marshal(c.DType); err == nil {
			of, order, err = element.ParseV2(text)
		}
	}
	switch {
	case err != nil:
		return of, false, fmt.Errorf("vlen-array: items of %w", err)
	case dtype.Kind() == ndview.KindRecord:
		return of, false, fmt.Errorf("vlen-array: items of dtype %q: %w", c.DType, errors.ErrUnsupported)
	}
	return of, order == '>', nil
}

// Serializer returns the codec for chunks of element.Bytes.
func (c VLenArray) Serializer(in ChunkSpec) (Serializer, error) {
	items, swap, err := c.items()
	if err != nil {
		return Serializer{}, err
	}
	s, err := vlenSerializer(c, in, element.Bytes)
	if err != nil {
		return Serializer{}, err
	}
	encode, decode := s.EncodeVLen, s.DecodeVLen
	s.EncodeVLen = func(dst []byte, v *element.VLen) ([]byte, error) {
		if err := checkItems(v, items); err != nil {
			return nil, err
		}
		if swap {
			if v, err = swapped(v, items); err != nil {
				return nil, err
			}
		}
		return encode(dst, v)
	}
	s.DecodeVLen = func(src []byte) (*element.VLen, error) {
		v, err := decode(src)
		if err == nil {
			err = checkItems(v, items)
		}
		if err != nil {
			return nil, err
		}
		if swap {
			return swapped(v, items)
		}
		return v, nil
	}
	return s, nil
}

// checkItems returns an error unless all elements are whole items.
func checkItems(v *element.VLen, items element.Type) error {
	for i := range v.Len() {
		if n := int64(len(v.At(i))); n%items.Size() != 0 {
			return fmt.Errorf("element %d: %d bytes, want a multiple of %d", i, n, items.Size())
		}
	}
	return nil
}

// swapped returns v with items of the other byte order.
func swapped(v *element.VLen, items element.Type) (*element.VLen, error) {
	elements := v.Elements()
	for i, e := range elements {
		elements[i] = make([]byte, len(e))
		items.SwapBytes(elements[i], e)
	}
	return element.PackVLen(elements, v.Shape()...)
}
