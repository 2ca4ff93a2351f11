package arrowipc

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// dictionary is what came of a dictionary so far. Arrays are made of it when a
// batch needs them, since dictionaries inside it may come later, or change.
type dictionary struct {
	came  []pieces // one, and additions to it
	built *array.Data
}

// pieces are the values of one message.
type pieces struct {
	node    *node
	buffers []*memory.Buffer
}

func (d *dictionary) release() {
	for _, p := range d.came {
		releaseAll(p.buffers)
	}
	d.came = nil
	d.forget()
}

func (d *dictionary) forget() {
	if d.built != nil {
		d.built.Release()
		d.built = nil
	}
}

// keep takes over the values of a dictionary: instead of those that were there,
// or after them.
func (in *incoming) keep(buffers []*memory.Buffer) {
	// Others may have it inside them.
	for _, other := range in.dictionaries {
		other.forget()
	}
	d := in.dictionaries[in.dictionary]
	if d == nil {
		d = &dictionary{}
		in.dictionaries[in.dictionary] = d
	}
	if !in.delta {
		d.release()
	}
	d.came = append(d.came, pieces{in.nodes[0], buffers})
}

// valuesOf is a dictionary as it is now. It stays the decoder's.
func (d *Decoder) valuesOf(id int64) (*array.Data, error) {
	known := d.dictionaries[id]
	if known == nil || len(known.came) == 0 {
		return nil, fmt.Errorf("dictionary %d did not come: %w", id, arrow.ErrInvalid)
	}
	if known.built != nil {
		return known.built, nil
	}
	var err error
	if len(known.came) == 1 {
		known.built, err = d.build(known.came[0].node, known.came[0].buffers)
	} else {
		known.built, err = d.join(known.came)
	}
	if err != nil {
		return nil, fmt.Errorf("dictionary %d: %w", id, err)
	}
	return known.built, nil
}

// join puts the additions to a dictionary behind it, on the host: they are few
// and small beside the batches that use them.
func (d *Decoder) join(all []pieces) (joined *array.Data, err error) {
	var parts []arrow.Array
	defer func() { releaseAll(parts) }()
	for _, p := range all {
		part, err := d.array(p.node, p.buffers)
		if err != nil {
			return nil, err
		}
		host, err := arrowbuf.CopyArrayTo(part, arrowbuf.CPU())
		part.Release()
		if err != nil {
			return nil, err
		}
		parts = append(parts, host)
	}
	defer rescue("joining the parts of a dictionary", &err)
	host, err := array.Concatenate(parts, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	defer host.Release()
	there, err := arrowbuf.CopyArrayTo(host, d.dev)
	if err != nil {
		return nil, err
	}
	defer there.Release()
	joined = there.Data().(*array.Data)
	joined.Retain()
	return joined, nil
}
