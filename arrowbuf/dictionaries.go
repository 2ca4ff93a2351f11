package arrowbuf

import "github.com/apache/arrow-go/v18/arrow/array"

// dictionaries are those of the last batch, with the copies that were made of
// them on a device.
type dictionaries map[*array.Data]*array.Data

// replace keeps the dictionaries of cuts, and forgets the others.
func (d *dictionaries) replace(cuts []cut) {
	next := dictionaries{}
	for i := range cuts {
		cuts[i].collect(next)
	}
	for source, copied := range next {
		source.Retain()
		copied.Retain()
	}
	d.release()
	*d = next
}

func (d *dictionaries) release() {
	for source, copied := range *d {
		source.Release()
		copied.Release()
	}
	*d = nil
}

// collect adds the dictionaries of a cut that was built.
func (out *cut) collect(all dictionaries) {
	if d := out.dictionary; d != nil {
		all[d.source] = d.built
		d.collect(all)
	}
	for i := range out.children {
		out.children[i].collect(all)
	}
}
