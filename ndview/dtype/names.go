package dtype

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// plainTypes are the types without parameters.
var plainTypes = []DType{Bool, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64,
	Float16, BFloat16, Float32, Float64, Complex64, Complex128}

// plainNames are the types without parameters by NumPy's name.
var plainNames = func() map[string]DType {
	names := map[string]DType{}
	for _, t := range plainTypes {
		names[t.String()] = t
	}
	return names
}()

// ZarrName returns the name of the type in Zarr v3 metadata: that of String, or
// "numpy.datetime64" and "numpy.timedelta64", whose unit and step belong to the
// configuration, or "r24" for 3 raw bytes. It returns ErrDType for records.
func (t DType) ZarrName() (string, error) {
	switch t.kind {
	case 0, KindRecord:
		return "", fmt.Errorf("dtype.ZarrName: %s as a Zarr data type: %w", t, ErrDType)
	case KindDatetime:
		return "numpy.datetime64", nil
	case KindTimedelta:
		return "numpy.timedelta64", nil
	case KindBytes:
		return fmt.Sprintf("r%d", t.Size()*8), nil
	default:
		return t.String(), nil
	}
}

// ParseZarrName returns the type of a name in Zarr v3 metadata. Times have the Generic
// unit, which the caller replaces by that of the configuration.
func ParseZarrName(name string) (DType, error) {
	if t, ok := plainNames[name]; ok {
		return t, nil
	}
	switch name {
	case "numpy.datetime64":
		return Datetime64(Generic, 1), nil
	case "numpy.timedelta64":
		return Timedelta64(Generic, 1), nil
	}
	if digits, ok := strings.CutPrefix(name, "r"); ok {
		if bits, err := strconv.ParseInt(digits, 10, 32); err == nil {
			if bits < 8 || bits%8 != 0 || name != fmt.Sprintf("r%d", bits) {
				return DType{}, fmt.Errorf("dtype.ParseZarrName: data type %q: want a positive multiple of 8 raw bits: %w", name, ErrDType)
			}
			return Bytes(int32(bits / 8)), nil
		}
	}
	return DType{}, fmt.Errorf("dtype.ParseZarrName: data type %q: %w", name, ErrDType)
}

// dlpackCodes are DLPack's DLDataTypeCode by kind.
var dlpackCodes = map[Kind]uint8{KindInt: 0, KindUint: 1, KindFloat: 2, KindBFloat: 4, KindComplex: 5, KindBool: 6}

// DLPack returns the type as DLPack's DLDataType: code, bits per lane, and lanes,
// which is 1. It returns ErrDType for times, bytes and records, which DLPack lacks.
func (t DType) DLPack() (code, bits uint8, lanes uint16, err error) {
	code, ok := dlpackCodes[t.kind]
	if !ok {
		return 0, 0, 0, fmt.Errorf("dtype.DLPack: %s as a DLPack type: %w", t, ErrDType)
	}
	return code, uint8(t.size * 8), 1, nil
}

// ParseDLPack returns the type of a DLDataType. It returns ErrDType if no DType
// matches, as for floats of 8 bits or several lanes.
func ParseDLPack(code, bits uint8, lanes uint16) (DType, error) {
	for _, t := range plainTypes {
		if dlpackCodes[t.kind] == code && uint8(t.size*8) == bits && lanes == 1 {
			return t, nil
		}
	}
	return DType{}, fmt.Errorf("dtype.ParseDLPack: type of code %d, %d bits and %d lanes: %w", code, bits, lanes, ErrDType)
}

// cNames are the C names of types in kernels, with <stdint.h>, <cuda_fp16.h>,
// <cuda_bf16.h> and <cuComplex.h>.
var cNames = map[DType]string{
	Bool: "bool", Int8: "int8_t", Int16: "int16_t", Int32: "int32_t", Int64: "int64_t",
	Uint8: "uint8_t", Uint16: "uint16_t", Uint32: "uint32_t", Uint64: "uint64_t",
	Float16: "__half", BFloat16: "__nv_bfloat16", Float32: "float", Float64: "double",
	Complex64: "cuFloatComplex", Complex128: "cuDoubleComplex",
}

// cTypes are the types by all names that C and C++ have for them.
var cTypes = func() map[string]DType {
	long, unsignedLong := Int64, Uint64
	if runtime.GOOS == "windows" {
		long, unsignedLong = Int32, Uint32
	}
	names := map[string]DType{
		"_Bool": Bool, "signed char": Int8, "unsigned char": Uint8,
		"short": Int16, "unsigned short": Uint16, "int": Int32, "unsigned": Uint32, "unsigned int": Uint32,
		"long": long, "unsigned long": unsignedLong, "long long": Int64, "unsigned long long": Uint64,
		"ptrdiff_t": Int64, "ssize_t": Int64, "intptr_t": Int64, "size_t": Uint64, "uintptr_t": Uint64,
		"half": Float16, "_Float16": Float16, "nv_bfloat16": BFloat16, "__bf16": BFloat16,
		"float _Complex": Complex64, "float complex": Complex64, "std::complex<float>": Complex64, "cuComplex": Complex64,
		"double _Complex": Complex128, "double complex": Complex128, "std::complex<double>": Complex128,
	}
	for t, name := range cNames {
		names[name] = t
	}
	return names
}()

// CName returns the name of the type in CUDA C++: "float", "int64_t", "__half",
// "cuFloatComplex". A time is "int64_t". It returns ErrDType for bytes and records.
func (t DType) CName() (string, error) {
	if t.IsTime() {
		t = Int64
	}
	name, ok := cNames[t]
	if !ok {
		return "", fmt.Errorf("dtype.CName: %s as a C type: %w", t, ErrDType)
	}
	return name, nil
}

// normalizeCName removes the optional words of a C integer's name: "signed", and "int"
// after another word.
func normalizeCName(name string) string {
	words := strings.Fields(name)
	if n := len(words); n > 1 && words[n-1] == "int" && slices.Contains([]string{"short", "long", "unsigned"}, words[n-2]) {
		words = words[:n-1]
	}
	name = strings.Join(words, " ")
	switch short, signed := strings.CutPrefix(name, "signed"); {
	case signed && (short == "" || short == " int"):
		return "int"
	case signed && slices.Contains([]string{" short", " long", " long long"}, short):
		return short[1:]
	}
	return name
}

// ParseCName returns the type of a C, C++ or CUDA name on a 64-bit platform: the names
// of CName, "unsigned int", "long long", "size_t", "_Float16", "float _Complex" and
// similar. It returns ErrDType for "char", whose sign C leaves open.
func ParseCName(name string) (DType, error) {
	t, ok := cTypes[normalizeCName(name)]
	if !ok {
		return DType{}, fmt.Errorf("dtype.ParseCName: C type %q: %w", name, ErrDType)
	}
	return t, nil
}

// ByteOrder is the byte order of foreign elements, in NumPy's notation.
type ByteOrder byte

// The byte orders.
const (
	LittleEndian ByteOrder = '<'
	BigEndian    ByteOrder = '>'
	NoOrder      ByteOrder = '|' // of single bytes
)

// HostOrder is the byte order of the host, in which arrays hold their elements.
var HostOrder = func() ByteOrder {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return LittleEndian
	}
	return BigEndian
}()

// numpyNames are NumPy's names and codes of types except those of a kind and a size,
// such as "i4". As in NumPy, int has 64 bits, and long has those of a C compiler.
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

// numpyKinds are the kinds by their letter, with the sizes that may follow it.
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

// ParseDType parses a NumPy type and returns its byte order, too. It accepts
// array-protocol strings (">i4", "|b1", "<M8[25us]", "|V5"), names ("int32",
// "bfloat16", "datetime64[D]") and structured types in JSON: the descr list, and the
// dict of names, formats, offsets and itemsize (see [DType.NumPy]). It returns
// ErrDType for types without a fixed size, text, objects, and records whose fields
// have both byte orders.
func ParseDType(s string) (DType, ByteOrder, error) {
	parse := parseSimple
	if strings.HasPrefix(s, "[") || strings.HasPrefix(s, "{") {
		parse = parseStructured
	}
	t, order, err := parse(s)
	if err != nil {
		return DType{}, 0, fmt.Errorf("dtype.ParseDType: %.100q: %w", s, err)
	}
	return t, order, nil
}

// parseSimple parses a type that is not structured.
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
	if !t.hasByteOrder() {
		order = NoOrder
	}
	return t, order, nil
}

// hasByteOrder reports whether the byte order affects elements.
func (t DType) hasByteOrder() bool {
	if t.kind == KindRecord {
		for _, f := range t.record.fields {
			if f.DType.hasByteOrder() {
				return true
			}
		}
		return false
	}
	return t.size > 1 && t.kind != KindBytes
}

// parseName parses a type without a byte order.
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
	return DType{}, fmt.Errorf("want a type of fixed size, such as \"<i4\", \"|V5\" or \"float64\": %w", ErrDType)
}

// parseTime parses a unit in brackets, or "" for the Generic unit.
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
		return DType{}, fmt.Errorf("want a unit such as [s] or [25us], of %v: %w", timeUnits, ErrDType)
	}
	return timeType(kind, unit, int32(step)), nil
}

// NumPy returns the type in NumPy's array protocol, in the byte order of the host:
// "<i4", "|b1", "<M8[25us]", "|V5". A record is the JSON of its descr: a list of
// [name, format] and [name, format, shape], where an empty name marks a gap. If fields
// overlap or are out of order, it is the JSON of a dict {"names", "formats",
// "offsets", "itemsize"}. bfloat16, which NumPy has no code for, is "bfloat16", as
// ml_dtypes registers it.
func (t DType) NumPy() string { return t.NumPyIn(HostOrder) }

// NumPyIn is NumPy for elements in another byte order. A big-endian bfloat16, which
// ml_dtypes has no name for, is ">bfloat16"; ParseDType accepts it.
func (t DType) NumPyIn(order ByteOrder) string {
	if !t.hasByteOrder() {
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
		return fmt.Sprintf("%cM8%s", order, t.unitSuffix())
	case KindTimedelta:
		return fmt.Sprintf("%cm8%s", order, t.unitSuffix())
	case KindBytes:
		return fmt.Sprintf("|V%d", t.size)
	case KindRecord:
		return t.structuredJSON(order)
	default:
		return "invalid"
	}
}

// arrowTypes are the Arrow types of the types without parameters.
var arrowTypes = map[DType]arrow.DataType{
	Bool: arrow.FixedWidthTypes.Boolean,
	Int8: arrow.PrimitiveTypes.Int8, Int16: arrow.PrimitiveTypes.Int16, Int32: arrow.PrimitiveTypes.Int32, Int64: arrow.PrimitiveTypes.Int64,
	Uint8: arrow.PrimitiveTypes.Uint8, Uint16: arrow.PrimitiveTypes.Uint16, Uint32: arrow.PrimitiveTypes.Uint32, Uint64: arrow.PrimitiveTypes.Uint64,
	Float16: arrow.FixedWidthTypes.Float16, Float32: arrow.PrimitiveTypes.Float32, Float64: arrow.PrimitiveTypes.Float64,
}

// fromArrowTypes is the inverse of arrowTypes, with the Arrow types that are integers
// with a meaning.
var fromArrowTypes = func() map[arrow.Type]DType {
	types := map[arrow.Type]DType{
		arrow.DATE32: Int32, arrow.TIME32: Int32, arrow.DECIMAL32: Int32,
		arrow.TIME64: Int64, arrow.DECIMAL64: Int64,
	}
	for dtype, t := range arrowTypes {
		types[t.ID()] = dtype
	}
	return types
}()

var arrowUnits = map[TimeUnit]arrow.TimeUnit{
	Second: arrow.Second, Millisecond: arrow.Millisecond, Microsecond: arrow.Microsecond, Nanosecond: arrow.Nanosecond,
}

// Arrow returns the Arrow type whose values are elements of this type. A datetime64 or
// timedelta64 of whole seconds, milliseconds, microseconds or nanoseconds is a
// timestamp without a time zone or a duration; fixed bytes are fixed_size_binary. It
// returns ErrDType for types that Arrow lacks: bfloat16, complex numbers, other units
// of time, and records, whose fields Arrow stores separately. Elements of Bool are
// bytes, those of Arrow's boolean bits; ndview.ToArrow converts them.
func (t DType) Arrow() (arrow.DataType, error) {
	unit, whole := arrowUnits[t.unit]
	switch {
	case t.kind == KindDatetime && whole && t.step == 1:
		return &arrow.TimestampType{Unit: unit}, nil
	case t.kind == KindTimedelta && whole && t.step == 1:
		return &arrow.DurationType{Unit: unit}, nil
	case t.kind == KindBytes:
		return &arrow.FixedSizeBinaryType{ByteWidth: int(t.size)}, nil
	}
	if of, ok := arrowTypes[t]; ok {
		return of, nil
	}
	return nil, fmt.Errorf("dtype.Arrow: %s as an Arrow type: %w", t, ErrDType)
}

// ParseArrow returns the type of the elements of an Arrow column, the inverse of
// [DType.Arrow]. It drops the time zone of a timestamp. It also accepts date64 as
// datetime64[ms]; date32, time32, time64 and decimals of 32 and 64 bits as their
// integers; and an extension type as its storage type. It returns ErrDType for other
// types.
func ParseArrow(t arrow.DataType) (DType, error) {
	switch t := t.(type) {
	case arrow.ExtensionType:
		return ParseArrow(t.StorageType())
	case *arrow.TimestampType:
		return Datetime64(TimeUnit(t.Unit.String()), 1), nil
	case *arrow.DurationType:
		return Timedelta64(TimeUnit(t.Unit.String()), 1), nil
	case *arrow.Date64Type:
		return Datetime64(Millisecond, 1), nil
	case *arrow.FixedSizeBinaryType:
		if t.ByteWidth > 0 {
			return Bytes(int32(t.ByteWidth)), nil
		}
	case nil:
		return DType{}, fmt.Errorf("dtype.ParseArrow: nil type: %w", ErrDType)
	}
	dtype, ok := fromArrowTypes[t.ID()]
	if !ok {
		return DType{}, fmt.Errorf("dtype.ParseArrow: Arrow type %s: %w", t, ErrDType)
	}
	return dtype, nil
}
