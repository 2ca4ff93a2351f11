package reduce

import "unsafe"

// maxima finds the greatest of elements that have keys, which are its accumulators.
func maxima[U unsigned, S signed](k keying[U, S]) *Reducer {
	blocks := newScratch()
	return operation[U, S]{
		none: lowest[S](),
		along: func(acc *S, x []U, _ int64, f *Finish) {
			block, _ := blocks.Get().(*scratch)
			*acc = k.greatestOf(*acc, x, f, block)
			blocks.Put(block)
		},
		across: func(acc []S, x grid[U], _ int64, f *Finish) {
			block, _ := blocks.Get().(*scratch)
			for r := int64(0); r < x.rows; {
				rows, done := k.each(acc, x, r, f)
				for last := r + rows; r < last; r++ {
					row := x.row(r)
					for first := done; first < len(row); {
						keys := k.of(row[first:], f, block)
						eachGreatest(acc[first:], keys)
						first += len(keys)
					}
				}
			}
			blocks.Put(block)
		},
		merge: func(acc, other []S) { eachGreatest(acc, other) },
		store: func(acc []S, out results, f *Finish) {
			if k.same(f) && out.stride == int64(unsafe.Sizeof(acc[0])) {
				copy(unsafe.Slice((*S)(out.at), len(acc)), acc)
				return
			}
			k.back(out, acc, f)
		},
	}.reducer()
}

// greatestOf is the greatest of w and the keys of x.
func (k keying[U, S]) greatestOf(w S, x []U, f *Finish, block *scratch) S {
	w, done := k.greatest(w, x, f)
	for x = x[done:]; len(x) > 0; {
		keys := k.of(x, f, block)
		w = greatest(w, keys)
		x = x[len(keys):]
	}
	return w
}

// greatest is the greatest of w and keys.
func greatest[S signed](w S, keys []S) S {
	w, done := greatestVectors(w, keys)
	for _, k := range keys[done:] {
		w = max(w, k)
	}
	return w
}

// eachGreatest makes each of w the greater of it and its key.
func eachGreatest[S signed](w, keys []S) {
	w = w[:len(keys)]
	for i := eachGreatestVectors(w, keys); i < len(w); i++ {
		w[i] = max(w[i], keys[i])
	}
}
