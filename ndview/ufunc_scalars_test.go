package ndview_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// goldenScalar is a case of testdata/golden/scalars.json: see the script beside
// it.
type goldenScalar struct {
	name, dtype, result string
	scalar              any
	side                int
	elements            string
}

func (c *goldenScalar) UnmarshalJSON(data []byte) error {
	var number json.RawMessage
	fields := []any{&c.name, &c.dtype, &number, &c.side, &c.result, &c.elements}
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	text := string(number)
	var err error
	switch {
	case text == "true":
		c.scalar = true
	case text[0] == '[':
		var typed [2]string
		err = json.Unmarshal(number, &typed)
		c.scalar = typed
	case strings.ContainsAny(text, ".e"):
		c.scalar, err = strconv.ParseFloat(text, 64)
	default:
		c.scalar, err = strconv.Atoi(text)
	}
	return err
}

func TestOperationsWithScalarsAreNumPys(t *testing.T) {
	var golden struct {
		Values map[string]string
		Cases  []goldenScalar
	}
	readGolden(t, "scalars.json", &golden)
	operations := maps.Clone(binaryOperations)
	maps.Copy(operations, binaryFunctions)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		arrays := map[string]*ndview.NDBuffer{}
		for name, text := range golden.Values {
			data, dtype := decode64(t, text), dtypesByName[name]
			arrays[name] = at(t, upload(t, dev, data), dtype, 0, int64(len(data))/dtype.Size())
		}
		for _, c := range golden.Cases {
			scalar := c.scalar
			if typed, ok := scalar.([2]string); ok {
				s, err := ndview.NewScalar(dtypesByName[typed[0]], decode64(t, typed[1]))
				require.NoError(t, err)
				scalar = s
			}
			operands := [2]any{arrays[c.dtype], scalar}
			if c.side == 0 {
				operands[0], operands[1] = operands[1], operands[0]
			}
			about := fmt.Sprintf("%s of %s and %v (%T), from the side %d", c.name, c.dtype, scalar, c.scalar, c.side)
			got, err := operations[c.name].Of(operands[0], operands[1])
			switch c.result {
			case "TypeError":
				assert.ErrorIs(t, err, ndview.ErrDType, about)
				continue
			case "ValueError", "OverflowError":
				assert.ErrorIs(t, err, ndview.ErrRange, about)
				continue
			}
			if !assert.NoError(t, err, about) {
				continue
			}
			bound := ulps(c.name, got.DType())
			if of, ok := errorBounds[c.name]; ok {
				bound = of
			}
			t.Run(about, func(t *testing.T) {
				require.Equal(t, c.result, got.DType().String())
				requireSame(t, got.DType(), decode64(t, c.elements), elements(t, got), bound)
			})
			got.Release()
		}
	})
}
