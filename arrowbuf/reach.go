package arrowbuf

// reach is a range [from, to) that grows to what is seen.
type reach struct{ from, to int64 }

func (r *reach) see(from, to int64) {
	if r.to == r.from {
		*r = reach{from, to}
		return
	}
	r.from, r.to = min(r.from, from), max(r.to, to)
}
