package arrowbuftest_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowbuftest"
	"github.com/quiver-gpu/quiver/internal/apitest"
)

func TestNilValuesReturnErrors(t *testing.T) {
	calls := map[string]func() error{
		"Checked": func() error {
			if err := apitest.Panics(func() { arrowbuftest.Checked(nil, arrowbuf.CPU()) }, arrow.ErrInvalid); err == nil {
				return nil
			}
			return apitest.Panics(func() { arrowbuftest.Checked(t, nil) }, arrow.ErrInvalid)
		},
		"CheckedStream": func() error {
			if _, err := arrowbuftest.CheckedStream(nil, nil); err == nil {
				return nil
			}
			_, err := arrowbuftest.CheckedStream(arrowbuftest.Checked(t, arrowbuf.CPU()), nil)
			return err
		},
	}
	apitest.NilSafe(t, ".", calls)
}
