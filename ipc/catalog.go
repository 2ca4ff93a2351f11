package ipc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// Catalog holds what a process publishes, by name. Names are 1 to 255 bytes of
// UTF-8 without control characters. Its methods may be called from any goroutine.
// Several servers, of any protocol, may serve one catalog.
type Catalog struct {
	mu      sync.Mutex
	entries map[string]*publication
}

// publication is a published name.
type publication struct {
	kind    Kind
	name    string
	schema  *arrow.Schema
	header  []byte // the schema as the metadata of an Arrow IPC message
	device  string
	objects []*object // the batches of a table, or the one buffer or array
	stream  *Stream
}

// PublishOption changes how memory is published. The zero value changes nothing.
type PublishOption struct{ expose bool }

// ExposeAllocation shares memory in place even if a client that opens it can read
// other memory, now and later. Memory of cuMemAlloc exposes its whole allocation.
// Memory of a cudabuf.SharedPool exposes the whole pool, to clients with
// mechanism cuda-pool; copy batches there with arrowbuf.CopyTo and
// SharedPool.AsDevice. Without this option such memory is copied before it is
// shared.
func ExposeAllocation() PublishOption { return PublishOption{expose: true} }

// NewCatalog returns an empty catalog.
func NewCatalog() *Catalog { return &Catalog{entries: map[string]*publication{}} }

// PublishTable publishes batches of one schema and takes a reference to each. The
// error wraps ErrExists if the name is in use, and arrow.ErrInvalid if a batch is
// nil or has another schema.
func (c *Catalog) PublishTable(name string, schema *arrow.Schema, batches []arrow.RecordBatch, options ...PublishOption) error {
	header, err := arrowipc.EncodeSchema(schema)
	if err != nil {
		return fmt.Errorf("ipc.PublishTable: table %q: %w", name, err)
	}
	p := &publication{kind: KindTable, name: name, schema: schema, header: header, device: arrowbuf.CPU().String()}
	for i, b := range batches {
		if b == nil {
			return fmt.Errorf("ipc.PublishTable: table %q: batch %d is nil: %w", name, i, arrow.ErrInvalid)
		}
		if !b.Schema().Equal(schema) {
			return fmt.Errorf("ipc.PublishTable: table %q: schema of batch %d: got %v, want %v: %w", name, i, b.Schema(), schema, arrow.ErrInvalid)
		}
	}
	for i, b := range batches {
		p.objects = append(p.objects, newBatchObject(name, uint64(i), b, options))
		if i == 0 {
			p.device = batchDevice(b).String()
		}
	}
	return c.add(p)
}

// PublishReader is [Catalog.PublishTable] with all batches of a reader, which the caller
// still releases.
func (c *Catalog) PublishReader(name string, r array.RecordReader, options ...PublishOption) error {
	if r == nil {
		return fmt.Errorf("ipc.PublishReader: table %q: nil reader: %w", name, arrow.ErrInvalid)
	}
	var batches []arrow.RecordBatch
	defer func() {
		for _, b := range batches {
			b.Release()
		}
	}()
	for r.Next() {
		r.RecordBatch().Retain()
		batches = append(batches, r.RecordBatch())
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("ipc.PublishReader: table %q: %w", name, err)
	}
	return c.PublishTable(name, r.Schema(), batches, options...)
}

// PublishBuffer publishes a buffer and takes a reference to it. The error wraps
// ErrExists if the name is in use, and arrow.ErrInvalid if b is nil.
func (c *Catalog) PublishBuffer(name string, b arrowbuf.Buffer, options ...PublishOption) error {
	if b == nil {
		return fmt.Errorf("ipc.PublishBuffer: buffer %q is nil: %w", name, arrow.ErrInvalid)
	}
	return c.addBuffer(KindBuffer, name, newBufferObject(name, nil, b, options))
}

// MaxLayout is the maximum length of an array's layout in bytes.
const MaxLayout = 1 << 20

// PublishArray publishes a buffer and the layout of an N-dimensional array in it, and
// takes a reference to the buffer. The layout is that of docs/sharing.md. Package
// ndarray encodes layouts and publishes NDBuffers; this package does not read them.
// The error wraps ErrExists if the name is in use, arrow.ErrInvalid if b is nil, and
// arrowbuf.ErrOutOfRange unless the layout has 1 to MaxLayout bytes.
func (c *Catalog) PublishArray(name string, layout []byte, b arrowbuf.Buffer, options ...PublishOption) error {
	if b == nil {
		return fmt.Errorf("ipc.PublishArray: array %q: nil buffer: %w", name, arrow.ErrInvalid)
	}
	if len(layout) == 0 || len(layout) > MaxLayout {
		return fmt.Errorf("ipc.PublishArray: array %q: layout: got %d bytes, want 1 to %d: %w", name, len(layout), MaxLayout, arrowbuf.ErrOutOfRange)
	}
	return c.addBuffer(KindArray, name, newBufferObject(name, slices.Clone(layout), b, options))
}

func (c *Catalog) addBuffer(kind Kind, name string, o *object) error {
	return c.add(&publication{kind: kind, name: name, device: o.deviceName(), objects: []*object{o}})
}

// add registers a publication. On an error it releases the publication.
func (c *Catalog) add(p *publication) error {
	err := wire.CheckName(p.name)
	c.mu.Lock()
	if _, exists := c.entries[p.name]; err == nil && exists {
		err = fmt.Errorf("%q: %w", p.name, ErrExists)
	}
	if err == nil {
		c.entries[p.name] = p
	}
	c.mu.Unlock()
	if err != nil {
		p.release()
	}
	return err
}

// Withdraw removes a name. Clients keep what they hold until they release it.
// Subscribers of a stream receive the batches that were written, and then the end
// of the stream. The error wraps ErrNotFound if the name is not published.
func (c *Catalog) Withdraw(name string) error {
	c.mu.Lock()
	p, ok := c.entries[name]
	delete(c.entries, name)
	c.mu.Unlock()
	if !ok {
		return fmt.Errorf("%q: %w", name, ErrNotFound)
	}
	p.release()
	return nil
}

// Close withdraws every name.
func (c *Catalog) Close() {
	for _, e := range c.List() {
		_ = c.Withdraw(e.Name) // another goroutine may have withdrawn it
	}
}

func (p *publication) release() {
	if p.stream != nil {
		p.stream.finish()
	}
	for _, o := range p.objects {
		o.release()
	}
}

// List returns the published names in ascending order.
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

func (p *publication) entry() Entry {
	e := Entry{Kind: p.kind, Name: p.name, Device: p.device, Batches: int64(len(p.objects))}
	for _, o := range p.objects {
		e.Rows += o.rows()
		e.Bytes += o.bytes()
	}
	switch p.kind {
	case KindStream:
		e.Rows, e.Batches, e.Bytes, e.Subscribers, e.Device = p.stream.totals()
	case KindBuffer, KindArray:
		e.Batches = 0
	}
	return e
}

// lookup returns the publication of a name. The error wraps ErrNotFound, or
// ErrWrongKind if the kind is not in kinds. The caller holds mu.
func (c *Catalog) lookup(name string, kinds ...Kind) (*publication, error) {
	p, ok := c.entries[name]
	if !ok {
		return nil, fmt.Errorf("%q: %w", name, ErrNotFound)
	}
	if !slices.Contains(kinds, p.kind) {
		return nil, fmt.Errorf("%q is a %v: %w", name, p.kind, ErrWrongKind)
	}
	return p, nil
}

// objects returns the objects of a table, buffer or array, and a table's encoded
// schema. The caller owns one reference to each object.
func (c *Catalog) objects(name string) (header []byte, objects []*object, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.lookup(name, KindTable, KindBuffer, KindArray)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range p.objects {
		o.retain()
	}
	return p.header, p.objects, nil
}

// Table returns a table with the batches that were published. The caller releases it.
func (c *Catalog) Table(name string) (*Table, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.lookup(name, KindTable)
	if err != nil {
		return nil, err
	}
	t := &Table{Schema: p.schema, Batches: make([]arrow.RecordBatch, len(p.objects))}
	for i, o := range p.objects {
		t.Batches[i] = o.batch
		o.batch.Retain()
	}
	return t, nil
}

// Buffer returns a published buffer. The caller owns one reference to it.
func (c *Catalog) Buffer(name string) (arrowbuf.Buffer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.lookup(name, KindBuffer)
	if err != nil {
		return nil, err
	}
	b := p.objects[0].buffer
	b.Retain()
	return b, nil
}

// Array returns the layout and the buffer of a published array. The caller owns one
// reference to the buffer.
func (c *Catalog) Array(name string) (layout []byte, b arrowbuf.Buffer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.lookup(name, KindArray)
	if err != nil {
		return nil, nil, err
	}
	o := p.objects[0]
	o.buffer.Retain()
	return slices.Clone(o.layout), o.buffer, nil
}

// Schema returns the schema of a table or a stream.
func (c *Catalog) Schema(name string) (*arrow.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.lookup(name, KindTable, KindStream)
	if err != nil {
		return nil, err
	}
	if p.stream != nil {
		return p.stream.schema, nil
	}
	return p.schema, nil
}

// Reader returns a reader of the batches of a table. For a stream it reads the
// batches written after the call, until the stream ends or ctx is done. The
// batches stay on the device on which they were published. The caller releases
// the reader.
func (c *Catalog) Reader(ctx context.Context, name string) (array.RecordReader, error) {
	t, err := c.Table(name)
	if err == nil {
		return arrowbuf.NewReaderFunc(t.Schema, func() (arrow.RecordBatch, error) {
			if len(t.Batches) == 0 {
				return nil, io.EOF
			}
			batch := t.Batches[0]
			t.Batches = t.Batches[1:]
			return batch, nil
		}, t.Release), nil
	}
	if !errors.Is(err, ErrWrongKind) {
		return nil, err
	}
	feed, err := c.Subscribe(name)
	if err != nil {
		return nil, err
	}
	return arrowbuf.NewReaderFunc(feed.Schema(), func() (arrow.RecordBatch, error) {
		batch, _, err := feed.Next(ctx)
		if errors.Is(err, ErrClosed) {
			return nil, io.EOF
		}
		return batch, err
	}, feed.Close), nil
}

// object is a published batch, buffer or array. It is reference counted: the catalog and
// each request that sends it hold a reference.
type object struct {
	name     string
	sequence uint64
	batch    arrow.RecordBatch
	buffer   arrowbuf.Buffer // nil if batch is set
	layout   []byte          // of an array in the buffer, otherwise nil
	exposed  bool            // set by ExposeAllocation

	refs atomic.Int64
	size func() int64

	encodeOnce sync.Once
	encoding   *encoding
	encodeErr  error

	mu      sync.Mutex // held while an export is made
	exports map[exportKey]*export
}

func newBatchObject(name string, sequence uint64, b arrow.RecordBatch, options []PublishOption) *object {
	b.Retain()
	o := &object{name: name, sequence: sequence, batch: b, exports: map[exportKey]*export{}}
	o.size = sync.OnceValue(func() int64 { return batchBytes(b) })
	return o.applyOptions(options)
}

func newBufferObject(name string, layout []byte, b arrowbuf.Buffer, options []PublishOption) *object {
	b.Retain()
	o := &object{name: name, layout: layout, buffer: b, size: b.Len, exports: map[exportKey]*export{}}
	return o.applyOptions(options)
}

func (o *object) applyOptions(options []PublishOption) *object {
	o.refs.Store(1)
	for _, option := range options {
		o.exposed = o.exposed || option.expose
	}
	return o
}

func (o *object) retain() { o.refs.Add(1) }

// release drops a reference. The last release frees the object; an export of it
// lives until its last lease ends.
func (o *object) release() {
	if o.refs.Add(-1) > 0 {
		return
	}
	o.mu.Lock()
	forms := o.exports
	o.exports = nil
	o.mu.Unlock()
	for key, f := range forms {
		key.server.unregisterExport(f)
	}
	if o.encoding != nil {
		o.encoding.release()
	}
	if o.batch != nil {
		o.batch.Release()
	} else {
		o.buffer.Release()
	}
}

// removeExport removes an export from the object. It returns false if release has
// already removed it.
func (o *object) removeExport(ex *export) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.exports[ex.key] != ex {
		return false
	}
	delete(o.exports, ex.key)
	return true
}

func (o *object) rows() int64 {
	if o.batch == nil {
		return 0
	}
	return o.batch.NumRows()
}

func (o *object) bytes() int64 { return o.size() }

// batchDevice returns the GPU of the first column that is on a GPU, else the CPU
// device.
func batchDevice(b arrow.RecordBatch) arrowbuf.Device {
	for _, column := range b.Columns() {
		if dev := arrowbuf.DeviceOf(column); dev.Type() == arrowbuf.DeviceCUDA {
			return dev
		}
	}
	return arrowbuf.CPU()
}

// batchBytes returns the total length of the buffers of a batch. A buffer counts
// once per column that uses it.
func batchBytes(b arrow.RecordBatch) (n int64) {
	for _, column := range b.Columns() {
		n += dataBytes(column.Data())
	}
	return n
}

func dataBytes(d arrow.ArrayData) (n int64) {
	for _, b := range d.Buffers() {
		if b != nil {
			n += int64(b.Len())
		}
	}
	for _, child := range d.Children() {
		n += dataBytes(child)
	}
	if d.DataType().ID() == arrow.DICTIONARY && d.Dictionary() != nil {
		n += dataBytes(d.Dictionary())
	}
	return n
}
