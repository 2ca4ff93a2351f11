package ndview

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// plainTypes are the types without parameters.
var plainTypes = []DType{Bool, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64,
	Float16, BFloat16, Float32, Float64, Complex64, Complex128}

var plainNames = func() map[string]DType {
	names := map[string]DType{}
	for _, t := range plainTypes {
		names[t.String()] = t
	}
	return names
}()

// ZarrName is the name of the type in the metadata of Zarr v3: that of String
// but for "numpy.datetime64" and "numpy.timedelta64", whose unit and step are
// written beside the name, and "r24" for 3 raw bytes. A record is ErrDType.
func (t DType) ZarrName() (string, error) {
	switch t.kind {
	case 0, KindRecord:
		return "", fmt.Errorf("%s as a Zarr data type: %w", t, ErrDType)
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

// ParseZarrName is the type that has a name in the metadata of Zarr v3. Times
// have the Generic unit, in place of which goes that of their configuration.
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
				return DType{}, fmt.Errorf("data type %q: raw bits come in a positive multiple of 8: %w", name, ErrDType)
			}
			return Bytes(int32(bits / 8)), nil
		}
	}
	return DType{}, fmt.Errorf("data type %q: %w", name, ErrDType)
}

// dlpackCodes are DLPack's DLDataTypeCode of the kinds that it has.
var dlpackCodes = map[Kind]uint8{KindInt: 0, KindUint: 1, KindFloat: 2, KindBFloat: 4, KindComplex: 5, KindBool: 6}

// DLPack is the type as DLPack's DLDataType: code, bits of a lane, and lanes,
// of which there is one. Times, bytes and records, which DLPack lacks, are
// ErrDType.
func (t DType) DLPack() (code, bits uint8, lanes uint16, err error) {
	code, ok := dlpackCodes[t.kind]
	if !ok {
		return 0, 0, 0, fmt.Errorf("%s as a DLPack type: %w", t, ErrDType)
	}
	return code, uint8(t.size * 8), 1, nil
}

// ParseDLPack is the type that a DLDataType stands for. One that NDBuffer does
// not have, such as floats of 8 bits or of several lanes, is ErrDType.
func ParseDLPack(code, bits uint8, lanes uint16) (DType, error) {
	for _, t := range plainTypes {
		if dlpackCodes[t.kind] == code && uint8(t.size*8) == bits && lanes == 1 {
			return t, nil
		}
	}
	return DType{}, fmt.Errorf("DLPack type of code %d, %d bits and %d lanes: %w", code, bits, lanes, ErrDType)
}

// cNames are the types of kernels in CUDA C++, with <stdint.h>, <cuda_fp16.h>,
// <cuda_bf16.h> and <cuComplex.h>.
var cNames = map[DType]string{
	Bool: "bool", Int8: "int8_t", Int16: "int16_t", Int32: "int32_t", Int64: "int64_t",
	Uint8: "uint8_t", Uint16: "uint16_t", Uint32: "uint32_t", Uint64: "uint64_t",
	Float16: "__half", BFloat16: "__nv_bfloat16", Float32: "float", Float64: "double",
	Complex64: "cuFloatComplex", Complex128: "cuDoubleComplex",
}

// cTypes are the other names that C and C++ have.
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

// CName is the name of the type in CUDA C++: "float", "int64_t", "__half",
// "cuFloatComplex". A time is the "int64_t" that it counts in. Bytes and
// records are ErrDType.
func (t DType) CName() (string, error) {
	if t.IsTime() {
		t = Int64
	}
	name, ok := cNames[t]
	if !ok {
		return "", fmt.Errorf("%s as a C type: %w", t, ErrDType)
	}
	return name, nil
}

// cSpelling leaves out what the name of a C integer may be without: "signed", and "int"
// behind another word.
func cSpelling(name string) string {
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

// ParseCName is the type of a C, C++ or CUDA name, on a platform of 64 bits:
// those of CName, "unsigned int", "long long", "size_t", "_Float16",
// "float _Complex" and their like. "char", whose sign C leaves open, is ErrDType.
func ParseCName(name string) (DType, error) {
	t, ok := cTypes[cSpelling(name)]
	if !ok {
		return DType{}, fmt.Errorf("type %q of C: %w", name, ErrDType)
	}
	return t, nil
}
