package kernel

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/quiver-gpu/quiver/ndview/dtype"
)

// Arg declares an argument of a kernel. In the kernel's C++ the name is a variable:
// an element of an array, or the scalar. float16 and bfloat16 are float there, bool
// is C's. Complex numbers have the members re and im, and the operators + - * / among
// themselves. datetime64 and timedelta64 are counts of type long long. A record is a
// struct with a member per field, see [DeclareRecord]. NAME_t is the variable's type.
type Arg struct {
	Name  string
	DType dtype.DType
	// Read and Write say what the kernel does with an array. Scalar says that the
	// argument is one value. At least one must be set, and Scalar only alone.
	Read, Write, Scalar bool
}

// variable is an argument with the C++ types of its elements: in memory, and in the
// variable that the kernel's code uses.
type variable struct {
	Arg
	stored, local string
}

// plainTypes are the C++ types of elements in memory. Times, which are not listed, are
// long long.
var plainTypes = map[dtype.DType]string{
	dtype.Bool: "bool", dtype.Int8: "signed char", dtype.Int16: "short", dtype.Int32: "int", dtype.Int64: "long long",
	dtype.Uint8: "unsigned char", dtype.Uint16: "unsigned short", dtype.Uint32: "unsigned int", dtype.Uint64: "unsigned long long",
	dtype.Float16: "quiver_half", dtype.BFloat16: "quiver_bfloat", dtype.Float32: "float", dtype.Float64: "double",
	dtype.Complex64: "quiver_complex<float>", dtype.Complex128: "quiver_complex<double>",
}

// isHalf reports whether variables of a dtype are float, and elements are not.
func isHalf(t dtype.DType) bool { return t == dtype.Float16 || t == dtype.BFloat16 }

// plainType returns the C++ type of an element in memory that is no record. ok is false
// if C++ has none.
func plainType(t dtype.DType) (name string, ok bool) {
	if t.IsTime() {
		return "long long", true
	}
	name, ok = plainTypes[t]
	return name, ok
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z_0-9]*$`)

// keywords are those of C++17.
var keywords = func() map[string]bool {
	words := map[string]bool{}
	for _, w := range strings.Fields(`alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class
		compl const const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit export extern false float
		for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public
		register reinterpret_cast return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
		true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq`) {
		words[w] = true
	}
	return words
}()

// checkName returns an error unless the caller may use a name in C++.
func checkName(name string) error {
	switch {
	case !identifier.MatchString(name) || strings.HasPrefix(name, "quiver_"):
		return fmt.Errorf("got name %q, want a C identifier that does not begin with quiver_", name)
	case keywords[name]:
		return fmt.Errorf("got name %q, which is a keyword of C++", name)
	}
	return nil
}

// declareArgs checks names, types and flags, and returns the arguments with their C++
// types, of which it declares the records.
func declareArgs(args []Arg, records *recordTypes) ([]variable, error) {
	seen := map[string]bool{}
	vars := make([]variable, len(args))
	for i, arg := range args {
		if err := checkName(arg.Name); err != nil {
			return nil, fmt.Errorf("argument %d: %w", i, err)
		}
		stored, local, err := records.typesOf(arg.DType)
		switch {
		case seen[arg.Name]:
			return nil, fmt.Errorf("two arguments are named %q", arg.Name)
		case err != nil:
			return nil, fmt.Errorf("argument %s: %w", arg.Name, err)
		case !arg.Read && !arg.Write && !arg.Scalar:
			return nil, fmt.Errorf("argument %s is neither read nor written nor a scalar", arg.Name)
		case arg.Scalar && (arg.Read || arg.Write):
			return nil, fmt.Errorf("argument %s is a scalar and an array", arg.Name)
		}
		seen[arg.Name] = true
		vars[i] = variable{arg, stored, local}
	}
	return vars, nil
}

// removeIndices replaces name[i], as pygpu's kernels write elements, by name.
func removeIndices(code string, args []Arg) string {
	for _, arg := range args {
		code = regexp.MustCompile(`\b`+arg.Name+`\[i\]`).ReplaceAllString(code, arg.Name)
	}
	return code
}
