//go:build linux

package nvrtc

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/quiver-gpu/quiver/internal/cudalib"
)

// function is a function of libnvrtc, and its index in library.entries.
type function int

const (
	nvrtcVersion function = iota
	nvrtcGetNumSupportedArchs
	nvrtcGetSupportedArchs
	nvrtcCreateProgram
	nvrtcDestroyProgram
	nvrtcAddNameExpression
	nvrtcCompileProgram
	nvrtcGetProgramLogSize
	nvrtcGetProgramLog
	nvrtcGetPTXSize
	nvrtcGetPTX
	nvrtcGetCUBINSize
	nvrtcGetCUBIN
	nvrtcGetLoweredName
	functionCount
)

var functions = [functionCount]string{
	"nvrtcVersion", "nvrtcGetNumSupportedArchs", "nvrtcGetSupportedArchs", "nvrtcCreateProgram",
	"nvrtcDestroyProgram", "nvrtcAddNameExpression", "nvrtcCompileProgram", "nvrtcGetProgramLogSize",
	"nvrtcGetProgramLog", "nvrtcGetPTXSize", "nvrtcGetPTX", "nvrtcGetCUBINSize", "nvrtcGetCUBIN",
	"nvrtcGetLoweredName",
}

// library is an open libnvrtc. Calls for different programs may run
// concurrently. One program must be used by one goroutine at a time.
type library struct {
	entries      [functionCount]uintptr
	major, minor int
	cachedBuild  func() (string, error)
}

// oldestVersion is the first release with all functions and options used here;
// --no-source-include is the newest of them.
const oldestVersion = 1104

// openLibrary opens one library, see [cudalib.Symbols].
func openLibrary(path string) (c compiler, missing, err error) {
	l := &library{}
	if missing, err = cudalib.Symbols(path, functions[:], l.entries[:], "not NVRTC, or older than 11.4"); missing != nil || err != nil {
		if err != nil {
			err = fmt.Errorf("nvrtc: %w", err)
		}
		return nil, missing, err
	}
	var major, minor int32
	if err := l.call(nvrtcVersion, uintptr(unsafe.Pointer(&major)), uintptr(unsafe.Pointer(&minor))); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if major*100+minor < oldestVersion {
		return nil, nil, fmt.Errorf("nvrtc: %s: got version %d.%d, want at least 11.4", path, major, minor)
	}
	l.major, l.minor = int(major), int(minor)
	l.cachedBuild = sync.OnceValues(l.readBuild)
	return l, nil, nil
}

// call calls one function. The directive keeps the memory that pointers in args
// refer to alive and in place until the call returns. The pointers must be
// converted to uintptr in the call expression itself.
//
//go:uintptrescapes
func (l *library) call(f function, args ...uintptr) error {
	// An nvrtcResult is 32 bits; the upper half of the register is undefined.
	r, _, _ := purego.SyscallN(l.entries[f], args...)
	if code := Result(int32(r)); code != Success {
		return &Error{Call: functions[f], Code: code}
	}
	return nil
}

func (l *library) version() (major, minor int) { return l.major, l.minor }

func (l *library) architectures() ([]int, error) {
	var n int32
	if err := l.call(nvrtcGetNumSupportedArchs, uintptr(unsafe.Pointer(&n))); err != nil || n <= 0 {
		return nil, err
	}
	list := make([]int32, n)
	if err := l.call(nvrtcGetSupportedArchs, uintptr(unsafe.Pointer(&list[0]))); err != nil {
		return nil, err
	}
	archs := make([]int, n)
	for i, arch := range list {
		archs[i] = int(arch)
	}
	return archs, nil
}

func (l *library) buildID() (string, error) { return l.cachedBuild() }

// readBuild compiles an empty source. The head of its PTX names the exact build
// of the compiler, unlike nvrtcVersion.
func (l *library) readBuild() (string, error) {
	archs, err := l.architectures()
	if err != nil || len(archs) == 0 {
		return "", err
	}
	empty, err := l.compile(Source{Arch: fmt.Sprintf("compute_%d", archs[0])})
	if err != nil {
		return "", err
	}
	return string(empty.Bytes), nil
}

// cString returns s with a terminating zero byte.
func cString(s string) *byte { return &append([]byte(s), 0)[0] }

// cStrings returns an array of C strings. It has capacity for at least one
// element, so that it has an address.
func cStrings(list []string) []*byte {
	pointers := make([]*byte, len(list), len(list)+1)
	for i, s := range list {
		pointers[i] = cString(s)
	}
	return pointers[:cap(pointers)]
}

// goString copies a C string in memory of the library.
func goString(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// trimNul returns the bytes before the first zero byte.
func trimNul(b []byte) []byte {
	b, _, _ = bytes.Cut(b, []byte{0})
	return b
}

// program is an nvrtcProgram.
type program struct {
	*library
	source *Source
	handle uintptr
}

func (l *library) compile(s Source) (*Image, error) {
	p, err := l.newProgram(&s)
	if err != nil {
		return nil, err
	}
	defer p.destroy()
	for _, name := range s.Names {
		if err := p.call(nvrtcAddNameExpression, p.handle, uintptr(unsafe.Pointer(cString(name)))); err != nil {
			return nil, fmt.Errorf("name expression %q: %w", name, err)
		}
	}
	options := s.compilerOptions()
	array := cStrings(options)
	failure := p.call(nvrtcCompileProgram, p.handle, uintptr(len(options)), uintptr(unsafe.Pointer(&array[0])))
	log, err := p.readOutput(nvrtcGetProgramLogSize, nvrtcGetProgramLog)
	image := &Image{Log: string(trimNul(log))}
	var refused *Error
	if errors.As(failure, &refused) {
		refused.Log = image.Log
		return nil, refused
	}
	if err == nil {
		image.Names, err = p.loweredNames()
	}
	if err == nil {
		image.Bytes, err = p.image()
	}
	if err != nil {
		return nil, err
	}
	return image, nil
}

func (l *library) newProgram(s *Source) (*program, error) {
	p := &program{library: l, source: s}
	names := slices.Sorted(maps.Keys(s.Headers))
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = s.Headers[name]
	}
	nameArray, textArray := cStrings(names), cStrings(texts)
	err := p.call(nvrtcCreateProgram, uintptr(unsafe.Pointer(&p.handle)),
		uintptr(unsafe.Pointer(cString(s.Text))), uintptr(unsafe.Pointer(cString(s.name()))),
		uintptr(len(names)), uintptr(unsafe.Pointer(&textArray[0])), uintptr(unsafe.Pointer(&nameArray[0])))
	return p, err
}

// call adds the program to errors of library.call. Its directive serves the
// same purpose.
//
//go:uintptrescapes
func (p *program) call(f function, args ...uintptr) error {
	err := p.library.call(f, args...)
	var failed *Error
	if errors.As(err, &failed) {
		failed.Source, failed.Arch = p.source.name(), p.source.Arch
	}
	return err
}

// destroy ignores the error, which only an invalid handle causes.
func (p *program) destroy() { _ = p.call(nvrtcDestroyProgram, uintptr(unsafe.Pointer(&p.handle))) }

// image returns the cubin, or the PTX without its terminating zero byte.
func (p *program) image() (image []byte, err error) {
	if p.source.targetsPTX() {
		image, err = p.readOutput(nvrtcGetPTXSize, nvrtcGetPTX)
		image = trimNul(image)
	} else {
		image, err = p.readOutput(nvrtcGetCUBINSize, nvrtcGetCUBIN)
	}
	if err == nil && len(image) == 0 {
		return nil, p.source.errorf("NVRTC produced neither PTX nor a cubin; options such as -dlto select another output")
	}
	return image, err
}

// loweredNames maps name expressions to the names in the image.
func (p *program) loweredNames() (map[string]string, error) {
	expressions := p.source.Names
	if len(expressions) == 0 {
		return nil, nil
	}
	names := make(map[string]string, len(expressions))
	for _, expression := range expressions {
		var name *byte
		err := p.call(nvrtcGetLoweredName, p.handle, uintptr(unsafe.Pointer(cString(expression))), uintptr(unsafe.Pointer(&name)))
		if err != nil {
			return nil, fmt.Errorf("name expression %q: %w", expression, err)
		}
		names[expression] = goString(name)
	}
	return names, nil
}

// readOutput returns one output of the program. size is the function that
// returns its size with a zero byte, and content the function that copies it.
func (p *program) readOutput(size, content function) ([]byte, error) {
	var n uint64
	if err := p.call(size, p.handle, uintptr(unsafe.Pointer(&n))); err != nil || n == 0 {
		return nil, err
	}
	data := make([]byte, n)
	if err := p.call(content, p.handle, uintptr(unsafe.Pointer(&data[0]))); err != nil {
		return nil, err
	}
	return data, nil
}
