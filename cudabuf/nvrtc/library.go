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
)

// function is one of libnvrtc's, an index into library.entry.
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

// library is an open libnvrtc. Calls for different programs may run at the same
// time; what belongs to one program stays in one goroutine.
type library struct {
	entries      [functionCount]uintptr
	major, minor int
	cachedBuild  func() (string, error)
}

// oldestVersion is the first release with all that is used here, the option
// --no-source-include the last of it.
const oldestVersion = 1104

// openLibrary opens one library. What keeps it from being opened at all is missing;
// err is what is wrong with one that was.
func openLibrary(path string) (c compiler, missing, err error) {
	handle, missing := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if missing != nil {
		return nil, missing, nil
	}
	l := &library{}
	for f, name := range functions {
		if l.entries[f], err = purego.Dlsym(handle, name); err != nil {
			return nil, nil, fmt.Errorf("nvrtc: %s lacks %s: it is no NVRTC, or one older than 11.4", path, name)
		}
	}
	var major, minor int32
	if err := l.call(nvrtcVersion, uintptr(unsafe.Pointer(&major)), uintptr(unsafe.Pointer(&minor))); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if major*100+minor < oldestVersion {
		return nil, nil, fmt.Errorf("nvrtc: %s is version %d.%d; 11.4 or newer is needed", path, major, minor)
	}
	l.major, l.minor = int(major), int(minor)
	l.cachedBuild = sync.OnceValues(l.readBuild)
	return l, nil, nil
}

// call runs one function. The directive keeps what pointers in args point to
// alive and in place until the call returns; they must be converted in the call
// itself.
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

// readBuild compiles nothing: the head of the PTX names the build of the
// compiler, which is more than nvrtcVersion tells.
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

// cString ends a text as C does.
func cString(s string) *byte { return &append([]byte(s), 0)[0] }

// cStrings makes an array of texts, of one element at least so that it has an
// address.
func cStrings(list []string) []*byte {
	pointers := make([]*byte, len(list), len(list)+1)
	for i, s := range list {
		pointers[i] = cString(s)
	}
	return pointers[:cap(pointers)]
}

// goString reads memory of the library's.
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

// trimNul is a text that C ended.
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

// call names the program in what the library's call answers. The directive is
// that of library.call.
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

// destroy cannot fail but for a handle that is none.
func (p *program) destroy() { _ = p.call(nvrtcDestroyProgram, uintptr(unsafe.Pointer(&p.handle))) }

// image is the PTX without the zero byte that ends it, or the cubin.
func (p *program) image() (image []byte, err error) {
	if p.source.targetsPTX() {
		image, err = p.readOutput(nvrtcGetPTXSize, nvrtcGetPTX)
		image = trimNul(image)
	} else {
		image, err = p.readOutput(nvrtcGetCUBINSize, nvrtcGetCUBIN)
	}
	if err == nil && len(image) == 0 {
		return nil, p.source.errorf("NVRTC made neither PTX nor a cubin of it: options such as -dlto ask for something else")
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

// readOutput gets what the program has of one kind, by a function that tells its
// size, with a zero byte's room, and one that copies it.
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
