package ndview

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ByteOrder is the order of the bytes of foreign elements, in NumPy's letters.
type ByteOrder byte

// The byte orders.
const (
	LittleEndian ByteOrder = '<'
	BigEndian    ByteOrder = '>'
	NoOrder      ByteOrder = '|' // of single bytes
)

// HostOrder is the order in which every NDBuffer holds its elements.
var HostOrder = func() ByteOrder {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return LittleEndian
	}
	return BigEndian
}()

// numpyNames are NumPy's names and codes of types, beside "i4" and its like. As
// in NumPy, int is of 64 bits, and long of as many as a C compiler gives it.
var numpyNames = map[string]DType{
	"bool_": Bool, "?": Bool,
	"byte": Int8, "b": Int8, "short": Int16, "h": Int16, "intc": Int32, "i": Int32,
	"int": Int64, "int_": Int64, "intp": Int64, "p": Int64, "longlong": Int64, "q": Int64,
	"ubyte": Uint8, "B": Uint8, "ushort": Uint16, "H": Uint16, "uintc": Uint32, "I": Uint32,
	"uint": Uint64, "uintp": Uint64, "P": Uint64, "ulonglong": Uint64, "Q": Uint64,
	"n": Int64, "N": Uint64,
	"long": cTypes["long"], "l": cTypes["long"], "ulong": cTypes["unsigned long"], "L": cTypes["unsigned long"],
	"half": Float16, "e": Float16, "single": Float32, "f": Float32,
	"float": Float64, "double": Float64, "d": Float64,
	"csingle": Complex64, "F": Complex64, "complex": Complex128, "cdouble": Complex128, "D": Complex128,
}

// numpyKinds are the letters that go before a size, with the sizes there are.
var numpyKinds = map[byte]struct {
	kind  Kind
	sizes []string
}{
	'b': {KindBool, []string{"1"}},
	'i': {KindInt, []string{"1", "2", "4", "8"}},
	'u': {KindUint, []string{"1", "2", "4", "8"}},
	'f': {KindFloat, []string{"2", "4", "8"}},
	'c': {KindComplex, []string{"8", "16"}},
}

// ParseDType reads a NumPy type and answers the byte order that it speaks of.
// It takes array-protocol strings (">i4", "|b1", "<M8[25us]", "|V5"), names
// ("int32", "bfloat16", "datetime64[D]") and, in JSON, the descr list and the
// dict of names, formats, offsets and itemsize of a structured type (see
// [DType.NumPy]). Types of no fixed size, text and objects are ErrDType, as is a
// record whose fields are of both byte orders.
func ParseDType(s string) (DType, ByteOrder, error) {
	parse := parseSimple
	if strings.HasPrefix(s, "[") || strings.HasPrefix(s, "{") {
		parse = parseStructured
	}
	t, order, err := parse(s)
	if err != nil {
		return DType{}, 0, fmt.Errorf("NumPy dtype %.100q: %w", s, err)
	}
	return t, order, nil
}

func parseSimple(s string) (DType, ByteOrder, error) {
	order, code := HostOrder, s
	parse := parseName
	if s != "" && strings.ContainsRune("<>=|", rune(s[0])) {
		code, parse = s[1:], parseCode
		if s[0] == '<' || s[0] == '>' {
			order = ByteOrder(s[0])
		}
		if code == BFloat16.String() { // see NumPyIn
			parse = parseName
		}
	}
	t, err := parse(code)
	if err != nil {
		return DType{}, 0, err
	}
	if !t.hasOrder() {
		order = NoOrder
	}
	return t, order, nil
}

// hasOrder tells whether elements look different in the other byte order.
func (t DType) hasOrder() bool {
	if t.kind == KindRecord {
		for _, f := range t.record.fields {
			if f.DType.hasOrder() {
				return true
			}
		}
		return false
	}
	return t.size > 1 && t.kind != KindBytes
}

// parseName reads what stands without an order.
func parseName(name string) (DType, error) {
	if t, ok := numpyNames[name]; ok {
		return t, nil
	}
	if t, ok := plainNames[name]; ok {
		return t, nil
	}
	if unit, ok := strings.CutPrefix(name, "datetime64"); ok {
		return parseTime(KindDatetime, unit)
	}
	if unit, ok := strings.CutPrefix(name, "timedelta64"); ok {
		return parseTime(KindTimedelta, unit)
	}
	return parseCode(name)
}

// parseCode reads what stands with an order.
func parseCode(code string) (DType, error) {
	if t, ok := numpyNames[code]; ok && len(code) == 1 {
		return t, nil
	}
	if code == "M" || code == "m" {
		code += "8"
	}
	if unit, ok := strings.CutPrefix(code, "M8"); ok {
		return parseTime(KindDatetime, unit)
	}
	if unit, ok := strings.CutPrefix(code, "m8"); ok {
		return parseTime(KindTimedelta, unit)
	}
	if len(code) > 1 {
		size, err := strconv.ParseUint(code[1:], 10, 31)
		if k, ok := numpyKinds[code[0]]; ok && slices.Contains(k.sizes, code[1:]) {
			return DType{kind: k.kind, size: int32(size)}, nil
		}
		if code[0] == 'V' && err == nil && size > 0 {
			return Bytes(int32(size)), nil
		}
	}
	return DType{}, fmt.Errorf("expected a type of fixed size, such as \"<i4\", \"|V5\" or \"float64\": %w", ErrDType)
}

// parseTime reads a unit in brackets, or nothing for the Generic one.
func parseTime(kind Kind, text string) (DType, error) {
	if text == "" {
		return timeType(kind, Generic, 1), nil
	}
	inner, opened := strings.CutPrefix(text, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	name := strings.TrimLeft(inner, "0123456789")
	unit, err := ParseTimeUnit(name)
	step := uint64(1)
	if digits := inner[:len(inner)-len(name)]; digits != "" && err == nil {
		step, err = strconv.ParseUint(digits, 10, 31)
	}
	if err != nil || step < 1 || !opened || !closed {
		return DType{}, fmt.Errorf("expected a unit such as [s] or [25us], of %v: %w", timeUnits, ErrDType)
	}
	return timeType(kind, unit, int32(step)), nil
}

// NumPy is the type as NumPy's array protocol writes it, in the byte order of
// the host: "<i4", "|b1", "<M8[25us]", "|V5". A record is the JSON of its descr,
// a list of [name, format] and [name, format, shape], in which a field without
// a name is a gap; where fields overlap or are out of order it is the JSON of a
// dict {"names", "formats", "offsets", "itemsize"}. bfloat16, for which NumPy
// has no code, is "bfloat16", as ml_dtypes registers it.
func (t DType) NumPy() string { return t.NumPyIn(HostOrder) }

// NumPyIn is NumPy for elements in another byte order. What has no such string,
// a bfloat16 in big-endian order, is ">bfloat16", which ParseDType reads.
func (t DType) NumPyIn(order ByteOrder) string {
	if !t.hasOrder() {
		order = NoOrder
	}
	switch t.kind {
	case KindBool:
		return "|b1"
	case KindInt:
		return fmt.Sprintf("%ci%d", order, t.size)
	case KindUint:
		return fmt.Sprintf("%cu%d", order, t.size)
	case KindFloat:
		return fmt.Sprintf("%cf%d", order, t.size)
	case KindBFloat:
		if order == BigEndian {
			return ">bfloat16"
		}
		return "bfloat16"
	case KindComplex:
		return fmt.Sprintf("%cc%d", order, t.size)
	case KindDatetime:
		return fmt.Sprintf("%cM8%s", order, t.metadata())
	case KindTimedelta:
		return fmt.Sprintf("%cm8%s", order, t.metadata())
	case KindBytes:
		return fmt.Sprintf("|V%d", t.size)
	case KindRecord:
		return t.structured(order)
	default:
		return "invalid"
	}
}
