package pool

// WithRetry calls more when there is no memory for a block of want bytes, and
// asks again while it answers true. more runs without any lock held: it may put
// blocks, and trim the pool.
func WithRetry[S comparable](p Pool[S], more func(want int64) bool) Pool[S] {
	return retry[S]{p, more}
}

type retry[S comparable] struct {
	Pool[S]
	more func(want int64) bool
}

func (r retry[S]) Get(n int64, s S) (*Block[S], error) {
	for {
		b, err := r.Pool.Get(n, s)
		if !outOfMemory(err) || !r.more(n) {
			return b, err
		}
	}
}
