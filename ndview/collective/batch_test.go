package collective_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/collective"
)

var batchSchema = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "tags", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true},
	{Name: "color", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, Nullable: true},
	{Name: "ok", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
}, nil)

// batchOf returns a record batch on the host that depends on the seed.
func batchOf(seed, rows int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, batchSchema)
	defer b.Release()
	for i := range rows {
		b.Field(0).(*array.Int64Builder).Append(int64(seed*1000 + i))
		names, tags := b.Field(1).(*array.StringBuilder), b.Field(2).(*array.ListBuilder)
		colors, oks := b.Field(3).(*array.BinaryDictionaryBuilder), b.Field(4).(*array.BooleanBuilder)
		if (i+seed)%4 == 0 {
			names.AppendNull()
			tags.AppendNull()
			colors.AppendNull()
			oks.AppendNull()
			continue
		}
		names.Append(strings.Repeat("x", (i+seed)%7) + fmt.Sprint(seed))
		tags.Append(true)
		for j := range (i + seed) % 3 {
			tags.ValueBuilder().(*array.Float32Builder).Append(float32(j))
		}
		_ = colors.AppendString([]string{"red", "green", "blue"}[(i+seed)%3]) // never fails for text
		oks.Append(i%2 == 0)
	}
	return b.NewRecordBatch()
}

// sameBatch returns an error unless a received batch lies on a device and is the wanted one.
func sameBatch(got, want arrow.RecordBatch, dev arrowbuf.Device) error {
	if got == nil {
		return errors.New("got no batch")
	}
	for _, column := range got.Columns() {
		for _, b := range column.Data().Buffers() {
			if on, ok := arrowbuf.FromArrow(b); ok {
				same := on.Device() == dev
				on.Release()
				if !same {
					return fmt.Errorf("a buffer lies on %v, want %v", on.Device(), dev)
				}
			}
		}
	}
	host, err := arrowbuf.CopyTo(got, arrowbuf.CPU())
	if err != nil {
		return err
	}
	defer host.Release()
	if !array.RecordEqual(host, want) {
		return fmt.Errorf("got %v, want %v", host, want)
	}
	return nil
}

func TestRecordBatchesTravelBetweenRanks(t *testing.T) {
	for _, ranks := range []int{2, 3} {
		onRanks(t, ranks, collective.Options{}, func(t *testing.T, k kind, comms []*collective.Comm) {
			for _, rows := range []int{0, 1, 1000} {
				together(t, comms, func(c *collective.Comm) error { return checkBatches(c, rows) })
			}
		})
	}
}

func checkBatches(c *collective.Comm, rows int) error {
	size, rank := c.Size(), c.Rank()
	var held []interface{ Release() }
	defer func() {
		for _, h := range held {
			h.Release()
		}
	}()
	host := func(seed int) arrow.RecordBatch {
		b := batchOf(seed, rows+seed%3) // ranks have different lengths
		held = append(held, b)
		return b
	}
	mine, err := arrowbuf.CopyTo(host(rank), c.Device())
	if err != nil {
		return err
	}
	held = append(held, mine)
	check := func(got arrow.RecordBatch, seed int) error {
		held = append(held, got)
		return sameBatch(got, host(seed), c.Device())
	}

	var given arrow.RecordBatch
	if rank == 1 {
		given = mine
	}
	got, err := c.BroadcastBatch(given, 1)
	if err != nil {
		return err
	}
	if err := check(got, 1); err != nil {
		return fmt.Errorf("BroadcastBatch: %w", err)
	}

	all, err := c.AllGatherBatches(mine)
	if err != nil {
		return err
	}
	for r, b := range all {
		if err := check(b, r); err != nil {
			return fmt.Errorf("AllGatherBatches, rank %d: %w", r, err)
		}
	}

	all, err = c.GatherBatches(mine, 1)
	if err != nil {
		return err
	}
	if (all != nil) != (rank == 1) {
		return fmt.Errorf("GatherBatches returned %d batches at rank %d", len(all), rank)
	}
	for r, b := range all {
		if err := check(b, r); err != nil {
			return fmt.Errorf("GatherBatches, rank %d: %w", r, err)
		}
	}

	// Rank r sends the batch of seed 10r+to to each rank, and nothing to the next. These lie
	// on the host.
	sent := make([]arrow.RecordBatch, size)
	for to := range sent {
		if to != (rank+1)%size {
			sent[to] = host(10*rank + to)
		}
	}
	received, err := c.AllToAllBatches(sent)
	if err != nil {
		return err
	}
	for from, b := range received {
		if rank == (from+1)%size {
			if b != nil {
				return fmt.Errorf("AllToAllBatches: got %v from rank %d, which sent nothing", b, from)
			}
			continue
		}
		if err := check(b, 10*from+rank); err != nil {
			return fmt.Errorf("AllToAllBatches, rank %d: %w", from, err)
		}
	}

	switch rank {
	case 0:
		return c.SendBatch(mine, 1)
	case 1:
		got, err := c.RecvBatch(0)
		if err != nil {
			return err
		}
		return check(got, 0)
	}
	return nil
}

// Two goroutines of each rank exchange batches at the same time.
func TestConcurrentBatchesKeepTheirLengths(t *testing.T) {
	onRanks(t, 2, collective.Options{Timeout: limit}, func(t *testing.T, k kind, comms []*collective.Comm) {
		const each = 20
		want := map[int64]bool{}
		for seed := range 2 * each {
			want[int64(seed)] = true
		}
		var mu sync.Mutex
		together(t, comms, func(c *collective.Comm) error {
			var both errgroup.Group
			for g := range 2 {
				both.Go(func() error {
					for i := range each {
						if c.Rank() == 0 {
							seed := g*each + i
							b := batchOf(seed, 1+seed%50)
							err := c.SendBatch(b, 1)
							b.Release()
							if err != nil {
								return err
							}
							continue
						}
						got, err := c.RecvBatch(0)
						if err != nil {
							return err
						}
						host, err := arrowbuf.CopyTo(got, arrowbuf.CPU())
						got.Release()
						if err != nil {
							return err
						}
						seed := host.Column(0).(*array.Int64).Value(0) / 1000
						rows := host.NumRows()
						host.Release()
						mu.Lock()
						if !want[seed] || rows != 1+seed%50 {
							err = fmt.Errorf("got %d rows of batch %d, want each once", rows, seed)
						}
						delete(want, seed)
						mu.Unlock()
						if err != nil {
							return err
						}
					}
					return nil
				})
			}
			return both.Wait()
		})
		assert.Empty(t, want)
	})
}

// strangeBatch has a column of a type that Arrow's format does not have.
type strangeBatch struct{ arrow.RecordBatch }

func (strangeBatch) Schema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{{Name: "id", Type: strangeType{arrow.PrimitiveTypes.Int64}}}, nil)
}

type strangeType struct{ arrow.DataType }

func (strangeType) ID() arrow.Type { return 99 }

// A batch that its rank cannot encode is an error of the ranks that wait for it.
func TestBatchThatCannotBeEncodedIsAnErrorOfAllRanks(t *testing.T) {
	for name, call := range map[string]func(c *collective.Comm, mine arrow.RecordBatch) error{
		"send": func(c *collective.Comm, mine arrow.RecordBatch) error {
			if c.Rank() == 0 {
				return c.SendBatch(mine, 1)
			}
			_, err := c.RecvBatch(0)
			return err
		},
		"broadcast": func(c *collective.Comm, mine arrow.RecordBatch) error {
			if c.Rank() != 0 {
				mine = nil
			}
			_, err := c.BroadcastBatch(mine, 0)
			return err
		},
		"gather": func(c *collective.Comm, mine arrow.RecordBatch) error {
			_, err := c.AllGatherBatches(mine)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			forEachKind(t, 2, func(t *testing.T, k kind) {
				if k.name == "cuda" && name != "send" {
					t.Skip("the error does not come from NCCL, whose communicators take seconds")
				}
				comms := newAll(t, k, collective.Options{Timeout: 5 * time.Minute})
				errs := each(comms, func(c *collective.Comm) error {
					b := batchOf(1, 3)
					if c.Rank() == 0 {
						b = strangeBatch{b}
					}
					defer b.Release()
					return call(c, b)
				})
				require.Error(t, errs[0])
				assert.NotErrorIs(t, errs[0], collective.ErrTimeout)
				assert.ErrorIs(t, errs[1], collective.ErrPeer)
				assert.ErrorContains(t, errs[1], "rank 0")
			})
		})
	}
}

func TestBatchesOfInvalidCallsAreErrors(t *testing.T) {
	onRanks(t, 2, collective.Options{}, func(t *testing.T, k kind, comms []*collective.Comm) {
		c := comms[0]
		b := batchOf(1, 3)
		defer b.Release()
		_, none := c.AllGatherBatches(nil)
		_, root := c.BroadcastBatch(nil, 0)
		_, self := c.RecvBatch(0)
		_, few := c.AllToAllBatches([]arrow.RecordBatch{b})
		for name, one := range map[string]struct{ err, want error }{
			"none":     {none, ndview.ErrNil},
			"root":     {root, ndview.ErrNil},
			"nil":      {c.SendBatch(nil, 1), ndview.ErrNil},
			"self":     {c.SendBatch(b, 0), collective.ErrRank},
			"receiver": {c.SendBatch(b, 2), collective.ErrRank},
			"itself":   {self, collective.ErrRank},
			"few":      {few, collective.ErrRank},
		} {
			assert.ErrorIs(t, one.err, one.want, name)
		}
	})
	onRanks(t, 2, collective.Options{Timeout: limit}, func(t *testing.T, k kind, comms []*collective.Comm) {
		b := batchOf(1, 3)
		defer b.Release()
		errs := each(comms, func(c *collective.Comm) error {
			if c.Rank() == 0 {
				return c.SendBatch(b, 1)
			}
			_, err := c.AllGatherBatches(b)
			return err
		})
		require.ErrorIs(t, errs[1], collective.ErrMismatch)
		assert.ErrorContains(t, errs[1], "SendBatch")
	})
}
