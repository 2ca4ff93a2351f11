package ipc

import (
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc/handle"
)

// encoding holds the Arrow IPC messages of an object: its dictionaries, then the
// record batch. The bodies refer to the object's memory.
type encoding struct {
	messages []message
	gpu      *cudabuf.Device // nil if all memory is on the host
	release  func()
}

type message struct {
	metadata []byte // an array's layout; empty for a bare buffer
	length   int64  // of the body, with padding
	body     []bodyPart
}

// bodyPart is a part of a message body, with the mechanisms that share its memory
// in place.
type bodyPart struct {
	arrowipc.Part
	mechanisms handle.Mechanisms
}

// encode encodes an object, once. The caller holds a reference to the object.
func (o *object) encode() (*encoding, error) {
	o.encodeOnce.Do(func() { o.encoding, o.encodeErr = o.newEncoding() })
	return o.encoding, o.encodeErr
}

// newEncoding encodes the batch or buffer and finds the mechanisms of its memory.
func (o *object) newEncoding() (*encoding, error) {
	e := &encoding{release: func() {}}
	if o.batch == nil {
		m := message{metadata: o.layout, length: o.buffer.Len()}
		if o.buffer.Len() > 0 {
			m.body = []bodyPart{{Part: arrowipc.Part{Buffer: o.buffer}}}
		}
		e.messages = []message{m}
	} else if err := e.addBatch(o); err != nil {
		return nil, err
	}
	var known []allocation
	for i := range e.messages {
		for j := range e.messages[i].body {
			p := &e.messages[i].body[j]
			buffer, ok := arrowbuf.As[*cudabuf.Buffer](p.Buffer)
			if !ok {
				continue
			}
			if e.gpu == nil {
				e.gpu = buffer.Device().(*cudabuf.Device)
			}
			if e.gpu == buffer.Device() && (o.batch == nil || buffer.Address()%8 == 0) {
				p.mechanisms, known = inPlaceMechanisms(buffer, o.exposed, known)
			}
		}
	}
	return e, nil
}

// addBatch encodes a record batch.
func (e *encoding) addBatch(o *object) error {
	messages, err := encodeMessages(o.batch)
	if err != nil {
		return err
	}
	e.release = func() {
		for i := range e.messages {
			for _, p := range e.messages[i].body {
				p.Buffer.Release()
			}
		}
		for _, m := range messages {
			m.Release()
		}
	}
	for _, m := range messages {
		encoded := message{metadata: m.Metadata, length: m.BodyLength}
		parts, err := m.Parts()
		if err != nil {
			e.release()
			return err
		}
		for _, p := range parts {
			encoded.body = append(encoded.body, bodyPart{Part: p})
		}
		e.messages = append(e.messages, encoded)
	}
	return nil
}

// encodeMessages encodes a batch with all dictionaries that it needs.
func encodeMessages(b arrow.RecordBatch) ([]*arrowipc.Message, error) {
	if !slices.ContainsFunc(b.Schema().Fields(), func(f arrow.Field) bool { return hasDictionary(f.Type) }) {
		m, err := arrowipc.EncodeRecordBatch(b)
		return []*arrowipc.Message{m}, err
	}
	encoder, err := arrowipc.NewEncoder(b.Schema())
	if err != nil {
		return nil, err
	}
	defer encoder.Release()
	return encoder.Encode(b)
}

func hasDictionary(t arrow.DataType) bool {
	switch t := t.(type) {
	case *arrow.DictionaryType:
		return true
	case arrow.ExtensionType:
		return hasDictionary(t.StorageType())
	case arrow.NestedType:
		return slices.ContainsFunc(t.Fields(), func(f arrow.Field) bool { return hasDictionary(f.Type) })
	}
	return false
}

// allocation is memory whose mechanisms are known.
type allocation struct {
	base       uintptr
	size       int64
	mechanisms handle.Mechanisms
}

// inPlaceMechanisms returns the mechanisms that share the memory of a buffer in
// place. It asks the driver once per allocation. Memory of a SharedPool needs no
// driver call.
func inPlaceMechanisms(buffer *cudabuf.Buffer, exposed bool, known []allocation) (handle.Mechanisms, []allocation) {
	if buffer.SharedPool() != nil {
		if exposed {
			return handle.Mechanisms{handle.CUDAPool}, known
		}
		return nil, known
	}
	for _, a := range known {
		if buffer.Address()-a.base < uintptr(a.size) {
			return a.mechanisms, known
		}
	}
	a := allocation{base: buffer.Address(), size: buffer.Len()}
	for _, m := range []handle.Mechanism{handle.CUDAFD, handle.CUDAIPC} {
		b := block{mechanism: m}
		if b.exportAllocation(buffer, exposed) == nil {
			a = allocation{b.base, b.size, append(a.mechanisms, m)}
			b.free()
		}
	}
	return a.mechanisms, append(known, a)
}

// inPlace returns the memory of the part if mechanism m shares it in place.
func (p *bodyPart) inPlace(m handle.Mechanism) (*cudabuf.Buffer, bool) {
	for _, mechanism := range p.mechanisms {
		if mechanism == m {
			return arrowbuf.As[*cudabuf.Buffer](p.Buffer)
		}
	}
	return nil, false
}

// packed reports whether the whole body is copied, so that it stays contiguous.
func (m *message) packed(mechanism handle.Mechanism) bool {
	for i := range m.body {
		if _, native := m.body[i].inPlace(mechanism); native {
			return false
		}
	}
	return true
}

// inPlaceBytes returns the number of bytes that mechanism m shares in place.
func (e *encoding) inPlaceBytes(m handle.Mechanism) (n int64) {
	if m == handle.Local {
		return math.MaxInt64
	}
	for i := range e.messages {
		for j := range e.messages[i].body {
			if b, ok := e.messages[i].body[j].inPlace(m); ok {
				n += b.Len()
			}
		}
	}
	return n
}

// deviceName returns the name of the device that holds the object.
func (o *object) deviceName() string {
	if o.batch == nil {
		return o.buffer.Device().String()
	}
	return batchDevice(o.batch).String()
}
