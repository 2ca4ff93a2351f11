package collective_test

import (
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/internal/apitest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/collective"
)

func TestNilArgumentsReturnErrors(t *testing.T) {
	var c *collective.Comm
	var a *ndview.NDBuffer
	var g *collective.Group
	harmless := apitest.Harmless
	second := func(_ any, err error) error { return err }
	apitest.NilSafe(t, ".", map[string]func() error{
		"NewID":            func() error { return second(collective.NewID("")) },
		"ParseID":          func() error { return second(collective.ParseID(nil)) },
		"ID.Compare":       func() error { return harmless(func() { collective.ID{}.Compare(collective.ID{}) }) },
		"ID.String":        func() error { return harmless(func() { _ = collective.ID{}.String() }) },
		"ID.MarshalText":   func() error { return harmless(func() { _, _ = collective.ID{}.MarshalText() }) },
		"ID.UnmarshalText": func() error { return (*collective.ID)(nil).UnmarshalText(nil) },
		"FromEnv": func() error {
			t.Setenv("RANK", "")
			return second(collective.FromEnv())
		},
		"Connect": func() error { return second(collective.Connect(nil, collective.Rendezvous{}, collective.Options{})) },
		"New":     func() error { return second(collective.New(nil, collective.ID{}, 0, 1, collective.Options{})) },
		"NewAll":  func() error { return second(collective.NewAll(nil, collective.Options{})) },
		"ParseOp": func() error { return second(collective.ParseOp("")) },

		"Comm.AllReduce":         func() error { return second(c.AllReduce(a, 0)) },
		"Comm.AllReduceInto":     func() error { return c.AllReduceInto(a, a, 0) },
		"Comm.Reduce":            func() error { return second(c.Reduce(a, 0, 0)) },
		"Comm.ReduceInto":        func() error { return c.ReduceInto(a, a, 0, 0) },
		"Comm.ReduceScatter":     func() error { return second(c.ReduceScatter(a, 0)) },
		"Comm.ReduceScatterInto": func() error { return c.ReduceScatterInto(a, a, 0) },
		"Comm.Broadcast":         func() error { return c.Broadcast(a, 0) },
		"Comm.AllGather":         func() error { return second(c.AllGather(a)) },
		"Comm.AllGatherInto":     func() error { return c.AllGatherInto(a, a) },
		"Comm.AllToAll":          func() error { return second(c.AllToAll(a)) },
		"Comm.AllToAllInto":      func() error { return c.AllToAllInto(a, a) },
		"Comm.Gather":            func() error { return second(c.Gather(a, 0)) },
		"Comm.GatherInto":        func() error { return c.GatherInto(a, a, 0) },
		"Comm.ScatterInto":       func() error { return c.ScatterInto(a, a, 0) },
		"Comm.Send":              func() error { return c.Send(a, 0) },
		"Comm.Recv":              func() error { return c.Recv(a, 0) },
		"Comm.SendBatch":         func() error { return c.SendBatch(nil, 0) },
		"Comm.RecvBatch":         func() error { return second(c.RecvBatch(0)) },
		"Comm.BroadcastBatch":    func() error { return second(c.BroadcastBatch(nil, 0)) },
		"Comm.AllGatherBatches":  func() error { return second(c.AllGatherBatches(nil)) },
		"Comm.GatherBatches":     func() error { return second(c.GatherBatches(nil, 0)) },
		"Comm.AllToAllBatches":   func() error { return second(c.AllToAllBatches([]arrow.RecordBatch{nil})) },
		"Comm.Split":             func() error { return second(c.Split(0, 0)) },
		"Comm.Err":               func() error { return c.Err() },
		"Comm.Wait":              func() error { return c.Wait() },
		"Comm.Close":             func() error { return c.Close() },
		"Comm.Abort":             func() error { return harmless(c.Abort) },
		"Comm.Rank":              func() error { return harmless(func() { c.Rank() }) },
		"Comm.Size":              func() error { return harmless(func() { c.Size() }) },
		"Comm.Device":            func() error { return harmless(func() { c.Device() }) },

		"Group.Comm":    func() error { return harmless(func() { g.Comm(nil); new(collective.Group).Comm(nil) }) },
		"Group.Run":     func() error { return g.Run() },
		"Op.String":     func() error { return harmless(func() { _ = collective.Op(0).String() }) },
		"Result.String": func() error { return harmless(func() { _ = collective.Result(-1).String() }) },
		"Error.Error":   func() error { return harmless(func() { _ = (*collective.Error)(nil).Error() }) },
		"Error.Unwrap":  func() error { return harmless(func() { _ = (*collective.Error)(nil).Unwrap() }) },
	})
}

// The arrays of a call are nil, or an empty communicator is used.
func TestNilArraysOfACommunicatorReturnErrors(t *testing.T) {
	onRanks(t, 1, collective.Options{}, func(t *testing.T, k kind, comms []*collective.Comm) {
		for _, c := range []*collective.Comm{comms[0], {}} {
			for name, err := range map[string]error{
				"AllReduceInto":     c.AllReduceInto(nil, nil, 0),
				"ReduceInto":        c.ReduceInto(nil, nil, 0, 0),
				"ReduceScatterInto": c.ReduceScatterInto(nil, nil, 0),
				"Broadcast":         c.Broadcast(nil, 0),
				"AllGatherInto":     c.AllGatherInto(nil, nil),
				"AllToAllInto":      c.AllToAllInto(nil, nil),
				"GatherInto":        c.GatherInto(nil, nil, 0),
				"ScatterInto":       c.ScatterInto(nil, nil, 0),
				"Send":              c.Send(nil, 0),
				"Recv":              c.Recv(nil, 0),
				"SendBatch":         c.SendBatch(nil, 0),
			} {
				if err == nil {
					t.Errorf("%s returned no error", name)
				}
			}
		}
	})
}

// Without this error, the ranks would send what the others do not expect.
func TestOneNilArrayIsAnErrorBeforeOtherRanksAreConcerned(t *testing.T) {
	onRanks(t, 2, collective.Options{}, func(t *testing.T, k kind, comms []*collective.Comm) {
		c := comms[0]
		a, err := ndview.Zeros(c.Device(), ndview.Int32, 8)
		require.NoError(t, err)
		defer a.Release()
		for name, err := range map[string]error{
			"AllGatherInto without destination": c.AllGatherInto(nil, a),
			"AllGatherInto without source":      c.AllGatherInto(a, nil),
			"AllToAllInto without destination":  c.AllToAllInto(nil, a),
			"AllToAllInto without source":       c.AllToAllInto(a, nil),
			"GatherInto without destination":    c.GatherInto(nil, a, 0),
			"GatherInto without source":         c.GatherInto(a, nil, 1),
			"ScatterInto without destination":   c.ScatterInto(nil, a, 0),
			"ScatterInto without source":        c.ScatterInto(a, nil, 0),
		} {
			assert.ErrorIs(t, err, ndview.ErrNil, name)
		}
		assert.NoError(t, c.Err())
	})
}

func TestNewAllWithANilDeviceDoesNotWait(t *testing.T) {
	start := time.Now()
	_, err := collective.NewAll([]arrowbuf.Device{arrowbuf.CPU(), nil}, collective.Options{})
	assert.ErrorIs(t, err, ndview.ErrNil)
	assert.Less(t, time.Since(start), limit)
}
