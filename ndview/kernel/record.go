package kernel

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// DeclareRecord returns C++ that declares struct name with the layout of a record dtype,
// for sources that the caller compiles with package nvrtc. Fields become members, and
// subarrays C arrays. Bytes are arrays of unsigned char, and times are long long.
// float16 and bfloat16 are structs that convert to and from float, and complex numbers
// are structs with the members re and im.
//
// The record must have the layout that C gives the struct (dtype.Aligned), otherwise
// the error names the field and wraps dtype.ErrDType. Kernels of this package take
// records of any layout without overlaps, and declare their structs themselves.
func DeclareRecord(name string, t dtype.DType) (string, error) {
	if t.Kind() != dtype.KindRecord {
		return "", fmt.Errorf("kernel.DeclareRecord: got %s, want a record: %w", describe(t), dtype.ErrDType)
	}
	records, err := newRecordTypes(map[string]dtype.DType{name: t})
	if err == nil {
		err = checkCLayout(t)
	}
	if err != nil {
		return "", fmt.Errorf("kernel.DeclareRecord: %w", err)
	}
	return prelude + records.text.String(), nil
}

// describe returns a dtype's text, which the zero DType lacks.
func describe(t dtype.DType) string {
	if t == (dtype.DType{}) {
		return "the zero DType"
	}
	return t.String()
}

// recordTypes declares the structs of record dtypes. Equal dtypes share a struct.
//
// A record in C's layout is one struct. Any other record is two: variables have a struct
// whose members are aligned, and elements in memory are bytes that convert to and from
// it. So no access is misaligned, which would be an error of the whole context.
type recordTypes struct {
	names map[dtype.DType]string
	taken map[string]bool
	text  strings.Builder
}

// newRecordTypes declares records of the caller's names.
func newRecordTypes(named map[string]dtype.DType) (*recordTypes, error) {
	r := &recordTypes{names: map[dtype.DType]string{}, taken: map[string]bool{}}
	names := slices.Sorted(maps.Keys(named))
	for _, name := range names {
		t := named[name]
		if err := checkName(name); err != nil {
			return nil, fmt.Errorf("record: %w", err)
		}
		if t.Kind() != dtype.KindRecord {
			return nil, fmt.Errorf("record %s: got %s, want a record: %w", name, describe(t), dtype.ErrDType)
		}
		if other, ok := r.names[t]; ok {
			return nil, fmt.Errorf("records %s and %s have the same dtype: %w", other, name, dtype.ErrDType)
		}
		r.names[t], r.taken[name] = name, true
	}
	declared := map[dtype.DType]bool{}
	for _, name := range names {
		if err := r.declare(named[name], declared); err != nil {
			return nil, fmt.Errorf("record %s: %w", name, err)
		}
	}
	return r, nil
}

// typesOf returns the C++ types of a dtype's elements in memory and of variables. It
// declares a record that has no name yet.
func (r *recordTypes) typesOf(t dtype.DType) (stored, local string, err error) {
	if t.Kind() == dtype.KindRecord {
		if _, ok := r.names[t]; !ok {
			declared := map[dtype.DType]bool{}
			for known := range r.names {
				declared[known] = true
			}
			if err := r.declare(t, declared); err != nil {
				return "", "", err
			}
		}
		return r.stored(t), r.names[t], nil
	}
	stored, ok := plainType(t)
	if !ok {
		return "", "", fmt.Errorf("C++ has no type for %s: %w", describe(t), dtype.ErrDType)
	}
	if isHalf(t) {
		return stored, "float", nil
	}
	return stored, stored, nil
}

// stored returns the C++ type of a declared record in memory.
func (r *recordTypes) stored(t dtype.DType) string {
	if isCLayout(t) {
		return r.names[t]
	}
	return "quiver_packed_" + strings.TrimPrefix(r.names[t], "quiver_")
}

// declare writes the structs of a record, after those of its fields.
func (r *recordTypes) declare(t dtype.DType, declared map[dtype.DType]bool) error {
	if declared[t] {
		return nil
	}
	declared[t] = true
	fields, err := membersOf(t)
	if err != nil {
		return err
	}
	for _, f := range fields {
		if f.DType.Kind() == dtype.KindRecord {
			if err := r.declare(f.DType, declared); err != nil {
				return fmt.Errorf("field %q: %w", f.Name, err)
			}
		}
	}
	if r.names[t] == "" {
		r.names[t] = fmt.Sprintf("quiver_record%d", len(r.names))
	}
	name := r.names[t]
	fmt.Fprintf(&r.text, "struct %s {\n", name)
	for _, f := range fields {
		fmt.Fprintf(&r.text, "\t%s;\n", r.member(f))
	}
	size, align := memberLayout(t)
	fmt.Fprintf(&r.text, "};\nstatic_assert(sizeof(%s) == %d && alignof(%s) == %d, \"layout of %s\");\n", name, size, name, align, name)
	if !isCLayout(t) {
		r.declarePacked(t, fields)
	}
	return nil
}

// membersOf returns the fields of a record in the order of their offsets. The fields must
// have C++ types and names, and must not overlap.
func membersOf(t dtype.DType) ([]dtype.Field, error) {
	fields := t.Fields()
	slices.SortStableFunc(fields, func(a, b dtype.Field) int { return cmp.Compare(a.Offset, b.Offset) })
	for i, f := range fields {
		if err := checkName(f.Name); err != nil {
			return nil, fmt.Errorf("field %q: %w: %w", f.Name, err, dtype.ErrDType)
		}
		if i > 0 {
			before := fields[i-1]
			if end := before.Offset + before.Size(); f.Offset < end {
				return nil, fmt.Errorf("fields %q and %q overlap: got offset %d, want at least %d: %w", before.Name, f.Name, f.Offset, end, dtype.ErrDType)
			}
		}
	}
	return fields, nil
}

// member returns the declaration of a field.
func (r *recordTypes) member(f dtype.Field) string {
	var extents strings.Builder
	for _, n := range f.Shape {
		fmt.Fprintf(&extents, "[%d]", n)
	}
	switch f.DType.Kind() {
	case dtype.KindRecord:
		return fmt.Sprintf("%s %s%s", r.names[f.DType], f.Name, extents.String())
	case dtype.KindBytes:
		return fmt.Sprintf("unsigned char %s%s[%d]", f.Name, extents.String(), f.DType.Size())
	}
	name, _ := plainType(f.DType)
	return fmt.Sprintf("%s %s%s", name, f.Name, extents.String())
}

// declarePacked writes the struct of bytes of a record that is not in C's layout, and its
// conversions. Storing leaves the bytes between fields alone.
func (r *recordTypes) declarePacked(t dtype.DType, fields []dtype.Field) {
	s, name, stored := &r.text, r.names[t], r.stored(t)
	fmt.Fprintf(s, "struct %s {\n\tunsigned char bytes[%d];\n", stored, t.Size())
	fmt.Fprintf(s, "\t__device__ operator %s() const {\n\t\t%s quiver_v;\n", name, name)
	r.writeFields(fields, "quiver_v.%s", "bytes + %d", false)
	fmt.Fprintf(s, "\t\treturn quiver_v;\n\t}\n\t__device__ void operator=(const %s &quiver_v) {\n", name)
	r.writeFields(fields, "quiver_v.%s", "bytes + %d", true)
	s.WriteString("\t}\n};\n")
}

// writeFields copies fields between members and bytes.
func (r *recordTypes) writeFields(fields []dtype.Field, member, bytes string, store bool) {
	for _, f := range fields {
		to, from := fmt.Sprintf(member, f.Name), fmt.Sprintf(bytes, f.Offset)
		if f.DType.Kind() != dtype.KindRecord || isCLayout(f.DType) {
			to = "&" + to
			if store {
				to, from = from, to
			}
			fmt.Fprintf(&r.text, "\t\tmemcpy(%s, %s, %d);\n", to, from, f.Size())
			continue
		}
		local, stored := r.names[f.DType], r.stored(f.DType)
		one, other := fmt.Sprintf("((%s *)&%s)[quiver_k]", local, to), fmt.Sprintf("((const %s *)(%s))[quiver_k]", stored, from)
		if store {
			one, other = fmt.Sprintf("((%s *)(%s))[quiver_k]", stored, from), fmt.Sprintf("((const %s *)&%s)[quiver_k]", local, to)
		}
		fmt.Fprintf(&r.text, "\t\tfor (int quiver_k = 0; quiver_k < %d; quiver_k++) %s = %s;\n", layout.Product(f.Shape), one, other)
	}
}

// isCLayout reports whether elements of a dtype lie in memory as C lays out its struct.
func isCLayout(t dtype.DType) bool { return checkCLayout(t) == nil }

// checkCLayout returns an error that names the first field at an offset other than C's.
func checkCLayout(t dtype.DType) error {
	end, widest := int64(0), int64(1)
	for _, f := range t.Fields() {
		if err := checkCLayout(f.DType); err != nil {
			return fmt.Errorf("field %q: %w", f.Name, err)
		}
		align := f.DType.Alignment()
		if want := roundUp(end, align); f.Offset != want {
			return fmt.Errorf("field %q is not where C puts it: got offset %d, want %d: %w", f.Name, f.Offset, want, dtype.ErrDType)
		}
		end, widest = f.Offset+f.Size(), max(widest, align)
	}
	if want := roundUp(end, widest); t.Kind() == dtype.KindRecord && t.Size() != want {
		return fmt.Errorf("the record is not as long as in C: got %d bytes, want %d: %w", t.Size(), want, dtype.ErrDType)
	}
	return nil
}

// localLayout returns the size and alignment of a variable of a dtype in C++.
func localLayout(t dtype.DType) (size, align int64) {
	if isHalf(t) {
		return 4, 4
	}
	return memberLayout(t)
}

// memberLayout returns the size and alignment of a struct's member.
func memberLayout(t dtype.DType) (size, align int64) {
	if t.Kind() != dtype.KindRecord {
		return t.Size(), t.Alignment()
	}
	align = 1
	fields := t.Fields()
	slices.SortStableFunc(fields, func(a, b dtype.Field) int { return cmp.Compare(a.Offset, b.Offset) })
	for _, f := range fields {
		n, a := memberLayout(f.DType)
		size, align = roundUp(size, a)+n*layout.Product(f.Shape), max(align, a)
	}
	return roundUp(size, align), align
}

func roundUp(n, multiple int64) int64 { return (n + multiple - 1) / multiple * multiple }
