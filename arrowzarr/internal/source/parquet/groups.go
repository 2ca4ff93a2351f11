package parquet

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
)

// groupPrefetcher reads row groups ahead, several at once, and returns their batches in
// order: a file of few columns would keep few cores busy otherwise.
type groupPrefetcher struct {
	readers []*groupReader
	rows    []int64 // of the row groups that are not read, the current one first
	at      int     // the reader of the current one
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
}

// groupReader reads every n-th row group, for n readers.
type groupReader struct {
	columns *batchReader
	batches chan groupBatch
}

// groupBatch is the columns of a batch, or the error of reading it.
type groupBatch struct {
	columns []arrow.Array
	err     error
}

// groupsAtOnce returns how many row groups are read at once. The memory of their batches
// is prefetchBytes.
func (s *Source) groupsAtOnce(fields []int) int {
	leaves := 0
	for _, f := range fields {
		leaves += len(appendLeaves(nil, s.arrow.Manifest.Fields[f]))
	}
	groups := 0
	for g := range s.reader.NumRowGroups() {
		if s.reader.MetaData().RowGroup(g).NumRows() > 0 {
			groups++
		}
	}
	// A store is waited for, which columns do at once. A dictionary takes the memory that
	// is for one.
	if leaves == 0 || s.file.IsRemote() || s.dictionaryBytes(fields) > 0 {
		return 1
	}
	return max(min(s.jobs/leaves, groups, maxGroupsAtOnce), 1)
}

// maxGroupsAtOnce bounds the memory of batches that are read ahead.
const maxGroupsAtOnce = 4

// prefetchBytes is the memory of batches that are read ahead of the current row group: each
// reader has one that is ready, and one that is read.
func (s *Source) prefetchBytes(fields []int) int64 {
	n := s.groupsAtOnce(fields)
	if n == 1 {
		return 0
	}
	return 2 * int64(n) * s.limit / batchesPerShare
}

// newGroupPrefetcher returns the reader of the fields of some row groups.
func (s *Source) newGroupPrefetcher(ctx context.Context, fields, groups []int) (*groupPrefetcher, error) {
	p := &groupPrefetcher{}
	footer := s.reader.MetaData()
	n := s.groupsAtOnce(fields)
	parts := make([][]int, n)
	for _, g := range groups {
		if rows := footer.RowGroup(g).NumRows(); rows > 0 {
			i := len(p.rows) % n
			parts[i] = append(parts[i], g)
			p.rows = append(p.rows, rows)
		}
	}
	reading, stop := context.WithCancel(ctx)
	p.ctx, p.stop = reading, stop
	for _, part := range parts {
		if len(part) == 0 {
			continue
		}
		columns, err := s.newBatchReader(reading, fields, part, false)
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
		columns.jobs = max(columns.jobs/n, 1)
		p.readers = append(p.readers, &groupReader{columns: columns, batches: make(chan groupBatch)})
	}
	if len(p.readers) > 1 {
		for _, r := range p.readers {
			p.running.Add(1)
			go func() {
				defer p.running.Done()
				r.run(reading)
			}()
		}
	}
	return p, nil
}

// run sends batches until the end, an error, or the end of the context.
func (r *groupReader) run(ctx context.Context) {
	defer close(r.batches)
	for {
		var b groupBatch
		b.err = arrowdata.CatchPanic(func() (err error) {
			b.columns, err = r.columns.next()
			return err
		})
		select {
		case r.batches <- b:
		case <-ctx.Done():
			arrowdata.ReleaseArrays(b.columns)
			return
		}
		if b.err != nil {
			return
		}
	}
}

// next returns the columns of the next batch, or io.EOF. The caller owns them.
func (p *groupPrefetcher) next() ([]arrow.Array, error) {
	if len(p.rows) == 0 {
		return nil, io.EOF
	}
	r := p.readers[p.at]
	var b groupBatch
	if len(p.readers) == 1 {
		b.columns, b.err = r.columns.next()
	} else {
		var ok bool
		if b, ok = <-r.batches; !ok {
			b.err = context.Cause(p.ctx)
		}
	}
	if b.err != nil {
		p.rows = nil // its reader has ended
		return nil, b.err
	}
	if p.rows[0] -= int64(b.columns[0].Len()); p.rows[0] == 0 {
		p.rows, p.at = p.rows[1:], (p.at+1)%len(p.readers)
	}
	return b.columns, nil
}

// close ends reading.
func (p *groupPrefetcher) close() error {
	p.stop()
	p.running.Wait()
	return arrowdata.CatchPanic(func() error {
		for _, r := range p.readers {
			r.columns.close()
		}
		return nil
	})
}
