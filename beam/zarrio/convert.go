package zarrio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/transforms/stats"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

// Conversion is what Convert converts, and how.
type Conversion struct {
	// Input is a file, folder, pattern or URL, as of arrowzarr.Convert. Further ones are in
	// Options.Input.More.
	Input string
	// Output is a folder or the URL of a prefix in an object store.
	Output string
	// Partitions is the number of parts that workers write independently, at least 1.
	Partitions int
	// Options decide the output. Device, Jobs, MaxMemory, StoreConcurrency and Progress
	// must be zero: Worker has them. Checkpoint and Resume have no effect.
	Options arrowzarr.Options
	Worker  Worker
}

// Check returns an error if the conversion cannot run.
func (c Conversion) Check() error {
	o := c.Options
	switch {
	case c.Input == "" || c.Output == "":
		return fmt.Errorf("zarrio.Convert: input %q, output %q: expected both", c.Input, c.Output)
	case c.Partitions < 1:
		return fmt.Errorf("zarrio.Convert: %d partitions: expected at least 1", c.Partitions)
	case o.Device != nil || o.Jobs != 0 || o.MaxMemory != 0 || o.StoreConcurrency != 0 || o.Progress != nil:
		return errors.New("zarrio.Convert: Options has a device, jobs, memory, concurrency or progress: expected them in Worker")
	}
	return nil
}

// Convert converts a table when the pipeline runs, and returns a collection of one
// arrowzarr.Report. It panics if Conversion.Check returns an error, as transforms do.
//
// Each step may be repeated. A pipeline that failed can be run again, with the same
// conversion: partitions that are done are not written again. arrowzarr.Abort deletes them
// instead.
func Convert(s beam.Scope, c Conversion) beam.PCollection {
	if err := c.Check(); err != nil {
		panic(err)
	}
	options, err := json.Marshal(c.Options)
	if err != nil {
		panic(fmt.Errorf("zarrio.Convert: %w", err))
	}
	s = s.Scope("zarrio.Convert")
	plan := &planFn{Input: c.Input, Output: c.Output, Partitions: c.Partitions, Options: options, Overwrite: c.Options.Overwrite, Worker: c.Worker}
	// Reshuffle gives the partitions to all workers. Without it, the worker that plans
	// would write them all.
	partitions := beam.Reshuffle(s, beam.ParDo(s, plan, beam.Impulse(s)))
	rows := beam.ParDo(s, &partitionFn{Output: c.Output, Worker: c.Worker}, partitions)
	// The sum is known when all partitions are written.
	return beam.ParDo(s, &finalizeFn{Output: c.Output, Worker: c.Worker}, stats.Sum(s, rows))
}

// planFn emits the numbers of the partitions.
type planFn struct {
	Input, Output string
	Partitions    int
	// Options are arrowzarr.Options as JSON, in which they have no Overwrite. Beam cannot
	// encode their fields that are interfaces.
	Options   []byte
	Overwrite bool
	Worker    Worker
}

func (f *planFn) ProcessElement(ctx context.Context, _ []byte, emit func(int)) error {
	var o arrowzarr.Options
	if err := json.Unmarshal(f.Options, &o); err != nil {
		return err
	}
	o = f.Worker.options(o)
	// A runner may repeat this, after a failure of any step.
	o.Overwrite, o.Resume = f.Overwrite, true
	r, err := arrowzarr.Plan(ctx, f.Input, f.Output, f.Partitions, o)
	if err != nil {
		return err
	}
	for number := range r.Partitions {
		emit(number)
	}
	return nil
}

// partitionFn writes partitions, and emits how many rows each has.
type partitionFn struct {
	Output string
	Worker Worker

	device workerDevice
}

func (f *partitionFn) Setup() error    { return f.device.open(f.Worker.Device) }
func (f *partitionFn) Teardown() error { return f.device.close() }

func (f *partitionFn) ProcessElement(ctx context.Context, number int, emit func(int64)) error {
	o := f.Worker.options(arrowzarr.Options{})
	o.Device = f.device.Device
	r, err := arrowzarr.RunPartition(ctx, f.Output, number, o)
	if err != nil {
		return fmt.Errorf("partition %d of %s: %w", number, f.Output, err)
	}
	emit(r.Rows)
	return nil
}

// finalizeFn makes the output of the partitions.
type finalizeFn struct {
	Output string
	Worker Worker
}

func (f *finalizeFn) ProcessElement(ctx context.Context, rows int64, emit func(arrowzarr.Report)) error {
	r, err := arrowzarr.Finalize(ctx, f.Output, f.Worker.options(arrowzarr.Options{}))
	if err != nil {
		// A worker may have died after it finalized the output, before it said so.
		status, failed := arrowzarr.Status(ctx, f.Output)
		if failed != nil || status.State != arrowzarr.StateComplete {
			return err
		}
		r = &arrowzarr.Report{Output: f.Output, Rows: rows}
	}
	if r.Rows != rows {
		return fmt.Errorf("%s has %d rows, expected the %d of its partitions", f.Output, r.Rows, rows)
	}
	emit(*r)
	return nil
}

func init() {
	register.DoFn3x1[context.Context, []byte, func(int), error](&planFn{})
	register.DoFn3x1[context.Context, int, func(int64), error](&partitionFn{})
	register.DoFn3x1[context.Context, int64, func(arrowzarr.Report), error](&finalizeFn{})
	register.Emitter1[int]()
	register.Emitter1[int64]()
	register.Emitter1[arrowzarr.Report]()
	beam.RegisterCoder(reflect.TypeFor[arrowzarr.Report](), encodeReport, decodeReport)
}

// Beam's own coders do not know the maps in a report.
func encodeReport(r arrowzarr.Report) ([]byte, error) { return json.Marshal(r) }

func decodeReport(b []byte) (arrowzarr.Report, error) {
	var r arrowzarr.Report
	err := json.Unmarshal(b, &r)
	return r, err
}
