package store

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Two ranges of one value are read by one request if at most maxGap bytes are between
// them and the request reads at most maxRequest bytes. A request to an object store takes
// about as long as the transfer of a MiB.
const (
	maxGap     = 1 << 20
	maxRequest = 16 << 20
)

// GetRanges returns several ranges of one value, in the order of ranges. A store that is
// no [RangesGetter] gets nearby ranges in one request and makes requests concurrently.
// The ranges may overlap. It returns an error wrapping ErrNotFound if no value has the
// key.
func GetRanges(ctx context.Context, s Store, key string, ranges []Range) ([][]byte, error) {
	if getter, ok := s.(RangesGetter); ok {
		return getter.GetRanges(ctx, key, ranges)
	}
	values := make([][]byte, len(ranges))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(requests)
	for _, request := range coalesce(ranges) {
		group.Go(func() error {
			value, err := s.Get(ctx, key, request.covers)
			if err != nil {
				return err
			}
			return request.distribute(values, ranges, key, value)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return values, nil
}

// request is one request for several ranges.
type request struct {
	covers  Range
	indices []int // of the ranges
}

// coalesce joins ranges with two bounds that are near one another.
func coalesce(ranges []Range) []request {
	order := make([]int, len(ranges))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return int(min(max(ranges[a].start-ranges[b].start, -1), 1))
	})
	var out []request
	joined := -1 // the request that the next range may join
	for _, i := range order {
		r := ranges[i]
		if r.kind != between || r.start < 0 || r.end < r.start {
			out = append(out, request{r, []int{i}})
			continue
		}
		if joined >= 0 {
			last := &out[joined]
			end := max(last.covers.end, r.end)
			if r.start-last.covers.end <= maxGap && end-last.covers.start <= maxRequest {
				last.covers.end = end
				last.indices = append(last.indices, i)
				continue
			}
		}
		joined = len(out)
		out = append(out, request{r, []int{i}})
	}
	return out
}

// distribute sets the values of the request's ranges to parts of its response.
func (q request) distribute(values [][]byte, ranges []Range, key string, response []byte) error {
	if len(q.indices) == 1 {
		values[q.indices[0]] = response
		return nil
	}
	for _, i := range q.indices {
		r := ranges[i]
		start, end, err := Between(r.start-q.covers.start, r.end-q.covers.start).Resolve(int64(len(response)))
		if err != nil {
			return fmt.Errorf("store.GetRanges: key %q: %w", key, err)
		}
		values[i] = response[start:end:end]
	}
	return nil
}
