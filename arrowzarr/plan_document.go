package arrowzarr

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// planVersion is that of the format of a plan. A program goes on only with plans of its
// own version.
const planVersion = 1

// plan says what a conversion does, so that another process can go on with it. Its object
// is created only if it does not exist, so it is also the lock of the output.
type plan struct {
	Version     int     `json:"version"`
	ID          string  `json:"id"` // random
	Input       string  `json:"input"`
	Format      string  `json:"format"` // of the input
	Output      string  `json:"output"`
	Overwrite   bool    `json:"overwrite,omitempty"` // the output may replace another
	Fingerprint string  `json:"fingerprint"`         // of the input
	Options     Options `json:"options"`             // those that decide the output
	Schema      string  `json:"schema"`              // of the columns, as in the output
	// StreamRows is the number of elements in a chunk of a nested column's arrays.
	StreamRows int64 `json:"stream_rows"`
	// Grouped has the columns that are groups of values and masks. It is empty if that is
	// found at the end.
	Grouped []bool `json:"grouped,omitempty"`

	// The rest is empty if one process converts all rows.

	Append     bool           `json:"append,omitempty"`  // rows are appended to a table
	Planned    bool           `json:"planned,omitempty"` // Plan has made it
	ChunkRows  int64          `json:"chunk_rows,omitempty"`
	ShardRows  int64          `json:"shard_rows,omitempty"`
	Partitions []partition    `json:"partitions,omitempty"`
	End        []*nestedState `json:"end,omitempty"`        // the nested columns after the last partition
	Categories []string       `json:"categories,omitempty"` // keys of the values of dictionaries
	// Codecs are those that a sample decided, by column and array.
	Codecs []map[string]Codec `json:"codecs,omitempty"`
}

// codecs returns the codecs of a column's arrays that a sample decided.
func (p *plan) codecs(column int) map[string]Codec {
	if len(p.Codecs) == 0 {
		return nil
	}
	return p.Codecs[column]
}

// rows returns the number of rows of all partitions.
func (p *plan) rows() int64 { return p.Partitions[len(p.Partitions)-1].To }

// partition is a range of rows that is written by itself.
type partition struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Nested is the state of the nested columns before the first row, by column.
	Nested []*nestedState `json:"nested,omitempty"`
}

// newPlan returns the plan of a conversion by one process.
func (c *conversion) newPlan(ctx context.Context) (*plan, error) {
	message, err := arrowdata.SchemaMessage(c.schema)
	if err != nil {
		return nil, partErrorf(PartInput, "writing the Arrow schema: %w", err)
	}
	p := &plan{
		Version: planVersion, ID: rand.Text(), Input: c.input, Format: c.format, Output: c.target.location, Overwrite: c.options.Overwrite,
		Fingerprint: c.src.Info().Fingerprint, Options: c.options, Schema: base64.StdEncoding.EncodeToString(message),
		StreamRows: streamRows(c.chosen.columns, c.options, c.shares()),
	}
	if !c.target.renames() {
		if p.Grouped, err = c.findGroups(ctx); err != nil {
			return nil, markPart(PartInput, err)
		}
	}
	return p, nil
}

// findGroups reports for each column whether it must be a group of values and masks: some
// are missing, or only the values tell.
func (c *conversion) findGroups(ctx context.Context) ([]bool, error) {
	counts, err := c.src.Count(ctx)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	grouped := make([]bool, len(c.chosen.columns))
	empty := err == nil && counts.Rows == 0
	for i, column := range c.chosen.columns {
		unknown := err != nil || column.isList() && hasNullableElements(column.storage) && !empty
		grouped[i] = column.kind == kindNull || unknown || counts.Nulls[c.chosen.fields[i]] != 0
	}
	return grouped, nil
}

// hasNullableElements reports whether a fixed_size_list may have missing elements.
func hasNullableElements(t arrow.DataType) bool {
	list, ok := arrowdata.StorageType(t).(*arrow.FixedSizeListType)
	return ok && (list.ElemField().Nullable || hasNullableElements(list.Elem()))
}

// layout returns where the arrays of columns are written.
func (p *plan) layout(t *target) layout {
	if t.renames() {
		return layout{building: buildingPrefix}
	}
	return layout{grouped: p.Grouped, appending: p.Append}
}

// readPlan returns the plan of an unfinished output. The error wraps store.ErrNotFound if
// the output has none.
func readPlan(ctx context.Context, s store.Store) (*plan, error) {
	document, err := s.Get(ctx, planKey, store.Range{})
	if err != nil {
		return nil, err
	}
	p := &plan{}
	if err := json.Unmarshal(document, p); err != nil {
		return nil, fmt.Errorf("%s: %w", planKey, err)
	}
	if p.Version != planVersion {
		return nil, fmt.Errorf("%s has version %d, expected %d: another version of the program wrote it", planKey, p.Version, planVersion)
	}
	return p, nil
}

// checkResumable returns an error unless a conversion can go on with what another plan has
// begun.
func (p *plan) checkResumable(before *plan) error {
	switch {
	case before.Append:
		return errAppending(p.Output)
	case before.Planned:
		return fmt.Errorf("%s is planned in partitions, so it is not resumed (arrow2zarr partition and finalize complete it)", p.Output)
	}
	return p.checkSame(before)
}

// checkSame returns an error unless another plan has the same input and options.
func (p *plan) checkSame(before *plan) error {
	if p.Fingerprint != before.Fingerprint {
		return fmt.Errorf("%s was begun from another input, or the input has changed: it was %s, and is %s", p.Output, before.Fingerprint, p.Fingerprint)
	}
	now, err := json.Marshal(p.Options)
	if err != nil {
		return err
	}
	then, err := json.Marshal(before.Options)
	if err != nil {
		return err
	}
	if string(now) != string(then) {
		return fmt.Errorf("%s was begun with other options: %s", p.Output, strings.Join(changedOptions(before.Options, p.Options), "; "))
	}
	return nil
}

// changedOptions describes options that differ, by the names of the command's flags.
func changedOptions(before, now Options) (changes []string) {
	add := func(name, was, is string) {
		if was != is {
			changes = append(changes, fmt.Sprintf("%s was %s, and is %s", name, was, is))
		}
	}
	add("--codec", strings.Join(before.codecRules(), " "), strings.Join(now.codecRules(), " "))
	add("--chunk-rows", fmt.Sprint(before.ChunkRows), fmt.Sprint(now.ChunkRows))
	add("--shard-rows", fmt.Sprint(before.ShardRows), fmt.Sprint(now.ShardRows))
	add("--columns", fmt.Sprintf("%q", before.Columns), fmt.Sprintf("%q", now.Columns))
	add("--exclude", fmt.Sprintf("%q", before.Exclude), fmt.Sprintf("%q", now.Exclude))
	add("--skip-unsupported", fmt.Sprint(before.SkipUnsupported), fmt.Sprint(now.SkipUnsupported))
	add("--index none", fmt.Sprint(before.NoIndex), fmt.Sprint(now.NoIndex))
	was, is := before.Input, now.Input
	add("the list of further inputs", fmt.Sprintf("%q", was.More), fmt.Sprintf("%q", is.More))
	add("--format", strconv.Quote(was.Format), strconv.Quote(is.Format))
	add("--delimiter", strconv.Quote(was.Delimiter), strconv.Quote(is.Delimiter))
	add("--types", strconv.Quote(was.Types), strconv.Quote(is.Types))
	add("--infer-rows", fmt.Sprint(was.InferRows), fmt.Sprint(is.InferRows))
	return changes
}
