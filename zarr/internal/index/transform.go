package index

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quiver-gpu/quiver/zarr/internal/grid"
)

// Transform maps the positions of a domain to positions of an array, as the JSON
// selections of package zarr-indexing and the index transforms of TensorStore do. Its
// JSON is the normalized form.
type Transform struct {
	Min, Max []Bound  // of the domain: [Min, Max)
	Labels   []string // one per axis of the domain
	Output   []Map    // one per axis of the array
}

// Bound is a bound of a domain, which may be infinite, or implicit: not given by the
// user, but taken from the array.
type Bound struct {
	Value    int64
	Infinite int // -1 or 1, otherwise 0
	Implicit bool
}

// Map gives the position along one axis of the array: Offset, plus Stride times either
// the position along an axis of the domain or an element of an array.
type Map struct {
	Offset, Stride int64
	Axis           int     // of the domain; -1 for none
	Array          *Nested // nil for none
	Bounds         [2]Bound
}

// Nested is an array of integers that JSON represents as nested lists.
type Nested struct {
	Shape  []int64
	Values []int64 // in C order
}

// maxRank bounds the number of axes of a domain, as NumPy and TensorStore do.
const maxRank = 32

// FormatError reports a malformed selection. The codes are those of zarr-indexing.
type FormatError struct{ Code, Detail string }

func (e *FormatError) Error() string { return e.Code + ": " + e.Detail }

// The codes of a [FormatError].
const (
	InvalidJSON        = "invalid_json"
	UnknownKind        = "unknown_kind"
	UnknownField       = "unknown_field"
	RankMismatch       = "rank_mismatch"
	StepZero           = "step_zero"
	BoundsOutOfOrder   = "bounds_out_of_order"
	MultipleUpperBound = "multiple_upper_bounds"
	OutputMapConflict  = "output_map_conflict"
)

func malformed(code, format string, args ...any) error {
	return &FormatError{code, fmt.Sprintf(format, args...)}
}

// decode parses one JSON value strictly: unknown members are errors.
func decode(raw []byte, v any) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return malformed(InvalidJSON, "%v", err)
	}
	known := map[string]bool{}
	fields, err := json.Marshal(v) // all members, since none is omitted
	if err == nil {
		var all map[string]json.RawMessage
		if err = json.Unmarshal(fields, &all); err == nil {
			for name := range all {
				known[name] = true
			}
		}
	}
	if err != nil {
		return malformed(InvalidJSON, "%v", err)
	}
	for name := range members {
		if !known[name] {
			return malformed(UnknownField, "member %q", name)
		}
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return malformed(InvalidJSON, "%v", err)
	}
	return nil
}

// ParseTransform parses a JSON selection of kind box, point, points, slice or transform.
// Errors are a [*FormatError].
func ParseTransform(raw []byte) (*Transform, error) {
	var head struct{ Kind *string }
	if err := json.Unmarshal(raw, &head); err != nil || head.Kind == nil {
		return nil, malformed(InvalidJSON, "a selection is an object with a kind")
	}
	switch *head.Kind {
	case "point":
		return parsePoint(raw)
	case "points":
		return parsePoints(raw)
	case "slice":
		return parseSlice(raw)
	case "box":
		return parseBox(raw)
	case "transform":
		return parseTransform(raw)
	default:
		return nil, malformed(UnknownKind, "%q", *head.Kind)
	}
}

func parsePoint(raw []byte) (*Transform, error) {
	var in struct {
		Kind   string  `json:"kind"`
		Coords []int64 `json:"coords"`
	}
	if err := decode(raw, &in); err != nil {
		return nil, err
	}
	if in.Coords == nil {
		return nil, malformed(InvalidJSON, "coords are missing")
	}
	t := &Transform{}
	for _, c := range in.Coords {
		t.Output = append(t.Output, Map{Offset: c, Axis: -1})
	}
	return t, nil
}

func parsePoints(raw []byte) (*Transform, error) {
	var in struct {
		Kind   string    `json:"kind"`
		Coords [][]int64 `json:"coords"`
	}
	if err := decode(raw, &in); err != nil {
		return nil, err
	}
	if in.Coords == nil {
		return nil, malformed(InvalidJSON, "coords are missing")
	}
	n := int64(len(in.Coords))
	t := &Transform{Min: []Bound{{}}, Max: []Bound{{Value: n}}, Labels: []string{""}}
	for i, point := range in.Coords {
		if len(point) != len(in.Coords[0]) {
			return nil, malformed(RankMismatch, "point %d has %d coordinates, want %d", i, len(point), len(in.Coords[0]))
		}
	}
	if n == 0 {
		return t, nil
	}
	for axis := range in.Coords[0] {
		values := make([]int64, n)
		for i, point := range in.Coords {
			values[i] = point[axis]
		}
		t.Output = append(t.Output, Map{Stride: 1, Axis: -1, Array: &Nested{[]int64{n}, values}, Bounds: everywhere})
	}
	return t, nil
}

var everywhere = [2]Bound{{Infinite: -1}, {Infinite: 1}}

func parseSlice(raw []byte) (*Transform, error) {
	var in struct {
		Kind   string   `json:"kind"`
		Start  []int64  `json:"start"`
		Stop   []int64  `json:"stop"`
		Step   []int64  `json:"step"`
		Labels []string `json:"labels"`
	}
	if err := decode(raw, &in); err != nil {
		return nil, err
	}
	if in.Start == nil || in.Stop == nil {
		return nil, malformed(InvalidJSON, "start or stop is missing")
	}
	if in.Step == nil {
		in.Step = slices.Repeat([]int64{1}, len(in.Start))
	}
	if len(in.Stop) != len(in.Start) || len(in.Step) != len(in.Start) {
		return nil, malformed(RankMismatch, "start, stop and step have %d, %d and %d entries", len(in.Start), len(in.Stop), len(in.Step))
	}
	t := &Transform{}
	for i, step := range in.Step {
		start, stop := in.Start[i], in.Stop[i]
		switch {
		case step == 0:
			return nil, malformed(StepZero, "axis %d", i)
		case step > 0 && stop < start || step < 0 && stop > start:
			return nil, malformed(BoundsOutOfOrder, "axis %d: start %d, stop %d, step %d", i, start, stop, step)
		case step == math.MinInt64 || start == math.MinInt64 || max(start, stop) > math.MaxInt64+min(start, stop, 0):
			return nil, malformed(InvalidJSON, "axis %d: start %d, stop %d, step %d exceed 2^63", i, start, stop, step)
		}
		n := (stop - start) / step
		if (stop-start)%step != 0 {
			n++
		}
		first := start / step
		t.Min = append(t.Min, Bound{Value: first})
		t.Max = append(t.Max, Bound{Value: first + n})
		t.Output = append(t.Output, Map{Offset: start - first*step, Stride: step, Axis: i})
	}
	return t, t.setLabels(in.Labels)
}

// domain is how JSON describes a domain.
type domain struct {
	min, exclusive, inclusive []Bound
	shape                     []int64
	labels                    []string
	rank                      *int64
}

func parseBox(raw []byte) (*Transform, error) {
	var in struct {
		Kind      string   `json:"kind"`
		Min       []Bound  `json:"inclusive_min"`
		Exclusive []Bound  `json:"exclusive_max"`
		Inclusive []Bound  `json:"inclusive_max"`
		Shape     []int64  `json:"shape"`
		Labels    []string `json:"labels"`
	}
	if err := decode(raw, &in); err != nil {
		return nil, err
	}
	t, err := domain{in.Min, in.Exclusive, in.Inclusive, in.Shape, in.Labels, nil}.transform()
	if err == nil {
		t.identity()
	}
	return t, err
}

func parseTransform(raw []byte) (*Transform, error) {
	var in struct {
		Kind      string            `json:"kind"`
		Rank      *int64            `json:"input_rank"`
		Min       []Bound           `json:"input_inclusive_min"`
		Exclusive []Bound           `json:"input_exclusive_max"`
		Inclusive []Bound           `json:"input_inclusive_max"`
		Shape     []int64           `json:"input_shape"`
		Labels    []string          `json:"input_labels"`
		Output    []json.RawMessage `json:"output"`
	}
	if err := decode(raw, &in); err != nil {
		return nil, err
	}
	output := make([]Map, len(in.Output))
	for i, raw := range in.Output {
		var err error
		if output[i], err = parseMap(raw); err != nil {
			return nil, err
		}
	}
	t, err := domain{in.Min, in.Exclusive, in.Inclusive, in.Shape, in.Labels, in.Rank}.transform()
	if err != nil {
		return nil, err
	}
	if in.Output == nil {
		t.identity()
		return t, nil
	}
	for i, m := range output {
		if m.Axis >= len(t.Min) {
			return nil, malformed(RankMismatch, "output %d: input_dimension %d of %d", i, m.Axis, len(t.Min))
		}
	}
	t.Output = output
	return t, nil
}

func parseMap(raw []byte) (Map, error) {
	var in struct {
		Offset int64   `json:"offset"`
		Stride *int64  `json:"stride"`
		Axis   *int    `json:"input_dimension"`
		Array  *Nested `json:"index_array"`
		Bounds []Bound `json:"index_array_bounds"`
	}
	if err := decode(raw, &in); err != nil {
		return Map{}, err
	}
	m := Map{Offset: in.Offset, Stride: 1, Axis: -1, Array: in.Array, Bounds: everywhere}
	if in.Stride != nil {
		m.Stride = *in.Stride
	}
	switch {
	case in.Axis != nil && in.Array != nil:
		return m, malformed(OutputMapConflict, "both input_dimension and index_array")
	case in.Bounds != nil && (len(in.Bounds) != 2 || in.Array == nil):
		return m, malformed(InvalidJSON, "index_array_bounds has %d entries, want 2 beside an index_array", len(in.Bounds))
	case in.Axis != nil && *in.Axis < 0:
		return m, malformed(RankMismatch, "input_dimension %d", *in.Axis)
	case in.Axis != nil:
		m.Axis = *in.Axis
	case in.Bounds != nil:
		m.Bounds = [2]Bound(in.Bounds)
	}
	return m, nil
}

func (d domain) transform() (*Transform, error) {
	upper, rank := 0, int64(-1)
	for _, n := range []int{len(d.exclusive), len(d.inclusive), len(d.shape)} {
		if n > 0 {
			upper++
		}
	}
	if upper > 1 {
		return nil, malformed(MultipleUpperBound, "want one of exclusive_max, inclusive_max and shape")
	}
	if d.rank != nil {
		rank = *d.rank
	}
	for _, list := range []struct {
		given bool
		n     int
	}{{d.min != nil, len(d.min)}, {d.exclusive != nil, len(d.exclusive)}, {d.inclusive != nil, len(d.inclusive)}, {d.shape != nil, len(d.shape)}, {d.labels != nil, len(d.labels)}} {
		if list.given && rank >= 0 && int64(list.n) != rank {
			return nil, malformed(RankMismatch, "%d entries, want %d", list.n, rank)
		} else if list.given {
			rank = int64(list.n)
		}
	}
	if rank < 0 || rank > maxRank {
		return nil, malformed(RankMismatch, "rank %d is not known or not within 0 to %d", rank, maxRank)
	}
	t := &Transform{Min: d.min}
	if t.Min == nil {
		t.Min = make([]Bound, rank)
	}
	for i := range rank {
		low, high := t.Min[i], Bound{Infinite: 1, Implicit: true}
		switch {
		case d.exclusive != nil:
			high = d.exclusive[i]
		case d.inclusive != nil:
			if high = d.inclusive[i]; high.Infinite == 0 {
				high.Value++
			}
		case d.shape != nil && low.Infinite != 0:
			return nil, malformed(BoundsOutOfOrder, "axis %d: a shape from an infinite bound", i)
		case d.shape != nil:
			high = Bound{Value: low.Value + d.shape[i]}
		}
		if low.Infinite == 0 && high.Infinite == 0 && high.Value < low.Value || low.Infinite > 0 || high.Infinite < 0 {
			return nil, malformed(BoundsOutOfOrder, "axis %d: from %v to %v", i, low, high)
		}
		t.Max = append(t.Max, high)
	}
	return t, t.setLabels(d.labels)
}

func (t *Transform) setLabels(labels []string) error {
	if labels != nil && len(labels) != len(t.Min) {
		return malformed(RankMismatch, "%d labels, want %d", len(labels), len(t.Min))
	}
	if t.Labels = labels; labels == nil {
		t.Labels = make([]string, len(t.Min))
	}
	return nil
}

func (t *Transform) identity() {
	t.Output = nil
	for i := range t.Min {
		t.Output = append(t.Output, Map{Stride: 1, Axis: i})
	}
}

// MarshalJSON returns the normalized form.
func (t *Transform) MarshalJSON() ([]byte, error) {
	output := make([]map[string]any, len(t.Output))
	for i, m := range t.Output {
		output[i] = map[string]any{"offset": m.Offset}
		switch {
		case m.Axis >= 0:
			output[i]["stride"], output[i]["input_dimension"] = m.Stride, m.Axis
		case m.Array != nil:
			output[i]["stride"], output[i]["index_array"], output[i]["index_array_bounds"] = m.Stride, m.Array, m.Bounds
		}
	}
	return json.Marshal(map[string]any{
		"input_rank":          len(t.Min),
		"input_inclusive_min": append([]Bound{}, t.Min...),
		"input_exclusive_max": append([]Bound{}, t.Max...),
		"input_labels":        append([]string{}, t.Labels...),
		"output":              output,
	})
}

// MarshalJSON returns an integer, "-inf" or "+inf", in a list if it is implicit.
func (b Bound) MarshalJSON() ([]byte, error) {
	text := fmt.Sprint(b.Value)
	if b.Infinite != 0 {
		text = map[bool]string{true: `"+inf"`, false: `"-inf"`}[b.Infinite > 0]
	}
	if b.Implicit {
		text = "[" + text + "]"
	}
	return []byte(text), nil
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (b *Bound) UnmarshalJSON(raw []byte) error {
	*b = Bound{}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) == 1 {
		raw, b.Implicit = list[0], true
	}
	switch string(bytes.TrimSpace(raw)) {
	case `"-inf"`:
		b.Infinite = -1
	case `"+inf"`:
		b.Infinite = 1
	case "null":
		return fmt.Errorf("null, want an integer")
	default:
		return json.Unmarshal(raw, &b.Value)
	}
	return nil
}

// MarshalJSON returns nested lists.
func (n *Nested) MarshalJSON() ([]byte, error) {
	if len(n.Shape) == 0 {
		return json.Marshal(n.Values[0])
	}
	part := grid.Size(n.Shape[1:])
	out := []byte{'['}
	for i := range n.Shape[0] {
		if i > 0 {
			out = append(out, ',')
		}
		row, err := (&Nested{n.Shape[1:], n.Values[i*part:][:part]}).MarshalJSON()
		if err != nil {
			return nil, err
		}
		out = append(out, row...)
	}
	return append(out, ']'), nil
}

// UnmarshalJSON reads nested lists of equal lengths.
func (n *Nested) UnmarshalJSON(raw []byte) error { return n.parse(raw, maxRank) }

func (n *Nested) parse(raw []byte, depth int) error {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || list == nil {
		var value *int64
		if err := json.Unmarshal(raw, &value); err != nil || value == nil {
			return errors.Join(errors.New("an index_array holds integers"), err)
		}
		*n = Nested{Values: []int64{*value}}
		return nil
	}
	if depth == 0 {
		return fmt.Errorf("lists nest deeper than %d", maxRank)
	}
	*n = Nested{Shape: []int64{int64(len(list))}, Values: []int64{}}
	for i, item := range list {
		var row Nested
		if err := row.parse(item, depth-1); err != nil {
			return err
		}
		if i == 0 {
			n.Shape = append(n.Shape, row.Shape...)
		} else if !slices.Equal(row.Shape, n.Shape[1:]) {
			return fmt.Errorf("lists of shapes %v and %v", n.Shape[1:], row.Shape)
		}
		n.Values = append(n.Values, row.Values...)
	}
	return nil
}
