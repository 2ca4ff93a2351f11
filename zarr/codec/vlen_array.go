package codec

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// VLenArray stores arrays of one axis as elements, in the format of [VLenBytes]
// (numcodecs, "vlen-array"). An element of the element.VLen is the bytes of its items,
// little-endian; see element.VLen.Items and element.PackItems.
type VLenArray struct {
	// DType is the type of items of NumPy, such as "<f4": a number, a bool or a time.
	// Items are stored in its byte order.
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

// items returns the size of an item, and of the parts of it to swap if items are stored
// big-endian, otherwise 1.
func (c VLenArray) items() (size, swap int, err error) {
	dtype, order, err := ndview.ParseDType(c.DType)
	if err != nil {
		return 0, 0, fmt.Errorf("vlen-array: %w", err)
	}
	size, swap = int(dtype.Size()), 1
	switch dtype.Kind() {
	case ndview.KindBool, ndview.KindInt, ndview.KindUint, ndview.KindFloat, ndview.KindDatetime, ndview.KindTimedelta:
		if order == '>' {
			swap = size
		}
	case ndview.KindComplex:
		if order == '>' {
			swap = size / 2
		}
	default:
		return 0, 0, fmt.Errorf("vlen-array: items of dtype %q: %w", c.DType, errors.ErrUnsupported)
	}
	return size, swap, nil
}

// Serializer returns the codec for chunks of element.Bytes.
func (c VLenArray) Serializer(in ChunkSpec) (Serializer, error) {
	size, swap, err := c.items()
	if err != nil {
		return Serializer{}, err
	}
	s, err := vlenSerializer(c, in, element.Bytes)
	if err != nil {
		return Serializer{}, err
	}
	encode, decode := s.EncodeVLen, s.DecodeVLen
	s.EncodeVLen = func(dst []byte, v *element.VLen) ([]byte, error) {
		if err := checkItems(v, size); err != nil {
			return nil, err
		}
		if v, err = swapped(v, swap); err != nil {
			return nil, err
		}
		return encode(dst, v)
	}
	s.DecodeVLen = func(src []byte) (*element.VLen, error) {
		v, err := decode(src)
		if err == nil {
			err = checkItems(v, size)
		}
		if err != nil {
			return nil, err
		}
		return swapped(v, swap)
	}
	return s, nil
}

// checkItems returns an error unless all elements are whole items.
func checkItems(v *element.VLen, size int) error {
	for i := range v.Len() {
		if n := len(v.At(i)); n%size != 0 {
			return fmt.Errorf("element %d: %d bytes, want a multiple of %d", i, n, size)
		}
	}
	return nil
}

// swapped returns v with each part of size bytes reversed. It returns v if size is 1.
func swapped(v *element.VLen, size int) (*element.VLen, error) {
	if size == 1 {
		return v, nil
	}
	elements := v.Elements()
	for i, e := range elements {
		e = slices.Clone(e)
		for at := 0; at < len(e); at += size {
			slices.Reverse(e[at : at+size])
		}
		elements[i] = e
	}
	return element.PackVLen(elements, v.Shape()...)
}
