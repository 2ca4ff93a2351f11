package arrowbuf

import "github.com/apache/arrow-go/v18/arrow"

// element returns an array of the host with element i alone. It copies the
// element, and of a dictionary and of what views point into no more than it
// names.
func (a *Array) element(i int) (arrow.Array, error) {
	if err := CheckRange(int64(i), 1, int64(a.Len())); err != nil {
		return nil, err
	}
	c := cutter{look: true}
	one, err := c.array(a.data, i, 1)
	if err != nil {
		return nil, err
	}
	return c.one(&one, CPU())
}
