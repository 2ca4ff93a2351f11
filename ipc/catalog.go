package ipc

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// Kind is what a name stands for.
type Kind = wire.Kind

// The kinds.
const (
	KindTable  = wire.Table
	KindStream = wire.Stream
	KindBuffer = wire.Buffer
)

// Entry says what is published under a name: how many rows, batches and bytes,
// and on which device. A stream counts what was written so far.
type Entry = wire.Entry

// Catalog is what a process publishes, by name. Names are 1 to 255 bytes of
// UTF-8 without control characters. It may be used from any goroutine, and
// offered by several servers, over whatever protocol.
type Catalog struct {
	mu      sync.Mutex
	entries map[string]*published
}

// published is one name.
type published struct {
	kind   Kind
	name   string
	schema *arrow.Schema
	header []byte // the schema as the metadata of an Arrow IPC message
	device string
	items  []*item // of a table, or the one of a buffer
	stream *Stream
}

// PublishOption is how to publish.
type PublishOption func(*item)

// Pooled shares memory as it is although what opens it opens other memory too,
// with what lies there now and later: where it is of cuMemAlloc, the whole
// allocation; where it is of a cudabuf.SharedPool, the whole pool, to clients that
// have mechanism cuda-pool. (arrowbuf.CopyTo to SharedPool.AsDevice places batches
// there.) Without it such memory is copied.
func Pooled() PublishOption { return func(it *item) { it.pooled = true } }

// NewCatalog returns an empty catalog.
func NewCatalog() *Catalog { return &Catalog{entries: map[string]*published{}} }

// PublishTable publishes batches of one schema, to which it takes references. A
// name that is taken is ErrExists.
func (c *Catalog) PublishTable(name string, schema *arrow.Schema, batches []arrow.RecordBatch, options ...PublishOption) error {
	header, err := arrowipc.EncodeSchema(schema)
	if err != nil {
		return fmt.Errorf("table %q: %w", name, err)
	}
	p := &published{kind: KindTable, name: name, schema: schema, header: header, device: arrowbuf.CPU().String()}
	for i, b := range batches {
		if b == nil {
			return fmt.Errorf("table %q: batch %d: there is none: %w", name, i, arrow.ErrInvalid)
		}
		if !b.Schema().Equal(schema) {
			return fmt.Errorf("table %q: batch %d is of another schema: %v, not %v: %w", name, i, b.Schema(), schema, arrow.ErrInvalid)
		}
	}
	for i, b := range batches {
		p.items = append(p.items, newBatchItem(name, uint64(i), b, options))
		if i == 0 {
			p.device = deviceOf(b).String()
		}
	}
	return c.add(p)
}

// PublishBuffer publishes a buffer, to which it takes a reference.
func (c *Catalog) PublishBuffer(name string, b arrowbuf.Buffer, options ...PublishOption) error {
	if b == nil {
		return fmt.Errorf("buffer %q: there is none: %w", name, arrow.ErrInvalid)
	}
	it := newBufferItem(name, b, options)
	return c.add(&published{kind: KindBuffer, name: name, device: b.Device().String(), items: []*item{it}})
}

// add publishes, and gives everything back where it cannot.
func (c *Catalog) add(p *published) error {
	err := wire.CheckName(p.name)
	c.mu.Lock()
	if _, taken := c.entries[p.name]; err == nil && taken {
		err = fmt.Errorf("%q: %w", p.name, ErrExists)
	}
	if err == nil {
		c.entries[p.name] = p
	}
	c.mu.Unlock()
	if err != nil {
		p.end()
	}
	return err
}

// Withdraw ends a name. What clients hold of it stays theirs until they release
// it; readers of a stream get what was written, and then its end.
func (c *Catalog) Withdraw(name string) error {
	c.mu.Lock()
	p, ok := c.entries[name]
	delete(c.entries, name)
	c.mu.Unlock()
	if !ok {
		return fmt.Errorf("%q: %w", name, ErrNotFound)
	}
	p.end()
	return nil
}

// Close withdraws every name.
func (c *Catalog) Close() {
	for _, e := range c.List() {
		_ = c.Withdraw(e.Name) // unless another did
	}
}

func (p *published) end() {
	if p.stream != nil {
		p.stream.end()
	}
	for _, it := range p.items {
		it.release()
	}
}

// List returns what is published, in the order of names.
func (c *Catalog) List() []Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]Entry, 0, len(c.entries))
	for _, p := range c.entries {
		list = append(list, p.entry())
	}
	slices.SortFunc(list, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func (p *published) entry() Entry {
	e := Entry{Kind: p.kind, Name: p.name, Device: p.device, Batches: int64(len(p.items))}
	for _, it := range p.items {
		e.Rows += it.rows()
		e.Bytes += it.bytes()
	}
	switch p.kind {
	case KindStream:
		e.Rows, e.Batches, e.Bytes, e.Subscribers, e.Device = p.stream.written()
	case KindBuffer:
		e.Batches = 0
	}
	return e
}

// find returns a name's entry if it is of the kind.
func (c *Catalog) find(name string, kinds ...Kind) (*published, error) {
	p, ok := c.entries[name]
	if !ok {
		return nil, fmt.Errorf("%q: %w", name, ErrNotFound)
	}
	if !slices.Contains(kinds, p.kind) {
		return nil, fmt.Errorf("%q is a %v: %w", name, p.kind, ErrWrongKind)
	}
	return p, nil
}

// items returns what a table or a buffer is made of, and the header of a table's
// schema. The caller owns one reference to each item.
func (c *Catalog) items(name string) (header []byte, items []*item, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.find(name, KindTable, KindBuffer)
	if err != nil {
		return nil, nil, err
	}
	for _, it := range p.items {
		it.retain()
	}
	return p.header, p.items, nil
}

// Table returns the batches of a table. The caller owns one reference to each.
func (c *Catalog) Table(name string) (*arrow.Schema, []arrow.RecordBatch, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.find(name, KindTable)
	if err != nil {
		return nil, nil, err
	}
	batches := make([]arrow.RecordBatch, len(p.items))
	for i, it := range p.items {
		batches[i] = it.batch
		batches[i].Retain()
	}
	return p.schema, batches, nil
}

// Buffer returns a published buffer. The caller owns one reference to it.
func (c *Catalog) Buffer(name string) (arrowbuf.Buffer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.find(name, KindBuffer)
	if err != nil {
		return nil, err
	}
	b := p.items[0].buffer
	b.Retain()
	return b, nil
}
