package arrowbuf_test

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

func TestCatchHostAccessNamesColumn(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 30, arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String,
			arrow.ListOf(arrow.BinaryTypes.LargeString), &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String})
		moved := copyBatch(t, host, dev)
		defer moved.Release()
		for name, c := range map[string]struct {
			touch func()
			want  string
		}{
			"a value": {func() {
				raw := array.NewInt32Data(moved.Column(0).Data())
				defer raw.Release()
				sink = byte(raw.Value(3))
			}, `column 0, "a", of type int32`},
			"a constructor": {func() {
				data := moved.Column(1).Data()
				defer data.Release() // arrow-go has retained the data before the panic
				array.MakeFromData(data)
			}, `column 1, "b", of type utf8`},
			"a child":        {func() { touch(moved.Column(2).Data().Children()[0]) }, `column 2, "c", of type list`},
			"a dictionary":   {func() { touch(moved.Column(3).Data().Dictionary()) }, `column 3, "d", of type dictionary`},
			"a copy":         {func() { bytes.Clone(moved.Column(0).Data().Buffers()[1].Bytes()) }, `column 0, "a"`},
			"a write":        {func() { clear(moved.Column(0).Data().Buffers()[1].Bytes()) }, `column 0, "a"`},
			"the last bytes": {func() { b := moved.Column(0).Data().Buffers()[1].Bytes(); sink = b[len(b)-1] }, `column 0, "a"`},
		} {
			t.Run(name, func(t *testing.T) {
				defer func() {
					err, ok := recover().(error)
					require.True(t, ok)
					assert.ErrorIs(t, err, arrowbuf.ErrDevice)
					assert.ErrorContains(t, err, c.want)
					assert.ErrorContains(t, err, "on cuda:0; call ToHost first")
				}()
				arrowbuf.CatchHostAccess(moved, c.touch)
			})
		}
	})
}

var sink byte

func touch(data arrow.ArrayData) { sink = data.Buffers()[1].Bytes()[0] }

func TestCatchHostAccessKeepsOtherPanics(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		moved := copyBatch(t, randomBatch(t, checked(t), 3, arrow.PrimitiveTypes.Int32), dev)
		defer moved.Release()
		other := alloc(t, dev, 10).Arrow()
		defer other.Release()
		ran := false
		arrowbuf.CatchHostAccess(moved, func() { ran = moved.Column(0).String() != "" })
		assert.True(t, ran)
		mine := errors.New("mine")
		assert.PanicsWithError(t, "mine", func() { arrowbuf.CatchHostAccess(moved, func() { panic(mine) }) })
		func() {
			defer func() {
				err, ok := recover().(runtime.Error)
				require.True(t, ok)
				assert.NotErrorIs(t, err, arrowbuf.ErrDevice)
			}()
			arrowbuf.CatchHostAccess(moved, func() { sink = other.Bytes()[0] })
		}()
	})
}
