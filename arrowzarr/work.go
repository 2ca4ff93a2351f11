package arrowzarr

import "context"

// job is one column of one chunk of rows.
type job struct {
	column int
	rows   *rowChunk
	bytes  int64    // that the work takes, beside the spans
	spans  [][]byte // of the input's memory that it reads
}

// work bounds the memory of the jobs that are under way.
type work struct {
	*budget
	jobs int
}

// begin waits until there is room for a job that takes n bytes, or until no
// other is under way.
func (w *work) begin(ctx context.Context, n int64) error {
	return w.takeWhen(ctx, n, func() (bool, error) {
		ok := w.jobs == 0 || w.used+n <= w.limit
		if ok {
			w.jobs++
		}
		return ok, nil
	})
}

// end ends a job, and gives back n bytes.
func (w *work) end(n int64) {
	w.change(func() { w.jobs, w.used = w.jobs-1, w.used-n })
}

// emptyText is how many bytes an element of no text takes while it is encoded.
const emptyText = 24

// plan says what working on a column of a chunk takes. More than the share of
// the work is had alone; what could not be had beside the held batches even then
// is an error.
func (c *conversion) plan(j *job) error {
	plan := c.columns[j.column]
	if plan.form == formNull {
		return nil
	}
	parts := j.rows.parts(j.column)
	var input float64
	err := protect(func() error {
		for _, p := range parts {
			j.spans = append(j.spans, p.spans()...)
		}
		for _, span := range j.spans {
			input += float64(len(span))
		}
		return nil
	})
	if err != nil {
		return failedf(PartInput, "column %q: %w", plan.name, err)
	}
	// The last chunk is encoded as a whole one.
	rows := float64(max(j.rows.rows, c.grid.chunkRows))
	padding := rows - float64(j.rows.rows)
	values, masks := input+8*rows+emptyText*padding, rows
	if plan.form == formFixed || plan.form == formDictionary {
		values = rows * plan.rowBytes(nil, 0)
	}
	if plan.isList() {
		masks += rows * float64(plan.layout.elements())
	}
	// An encoder that is used again has the tables of its largest chunk.
	c.tables = max(c.tables, c.options.Codec.tables(values))
	// What is made is then encoded, which hardly makes it larger.
	need := 2*(values+masks) + float64(outside(int64(c.tables)))
	if plan.form == formFixed && plan.layout.inPlace() && len(parts) == 1 && parts[0].values.NullN() == 0 && padding == 0 {
		need -= values // shown, not made
	}
	if most := c.options.MaxMemory / heldShare; need > float64(most) {
		return failedf(PartUsage, "column %q: encoding one chunk takes %.0f bytes, more than half of --max-memory, %d: lower --chunk-rows, or raise --max-memory", plan.name, need, most)
	}
	j.bytes = int64(need)
	return nil
}
