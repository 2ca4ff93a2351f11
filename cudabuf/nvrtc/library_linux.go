package nvrtc

import (
	"bytes"
	"fmt"
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
	entry        [functionCount]uintptr
	major, minor int
	build        func() (string, error)
}

// oldest is the first release with all that is used here, the option
// --no-source-include the last of it.
const oldest = 1104

// open opens one library. What keeps it from being opened at all is missing;
// err is what is wrong with one that was.
func open(path string) (c compiler, missing, err error) {
	handle, missing := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if missing != nil {
		return nil, missing, nil
	}
	l := &library{}
	for f, name := range functions {
		if l.entry[f], err = purego.Dlsym(handle, name); err != nil {
			return nil, nil, fmt.Errorf("nvrtc: %s lacks %s: it is no NVRTC, or one older than 11.4", path, name)
		}
	}
	var major, minor int32
	if err := l.call(nvrtcVersion, uintptr(unsafe.Pointer(&major)), uintptr(unsafe.Pointer(&minor))); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if major*100+minor < oldest {
		return nil, nil, fmt.Errorf("nvrtc: %s is version %d.%d; 11.4 or newer is needed", path, major, minor)
	}
	l.major, l.minor = int(major), int(minor)
	l.build = sync.OnceValues(l.readBuild)
	return l, nil, nil
}

// call runs one function. The directive keeps what pointers in args point to
// alive and in place until the call returns; they must be converted in the call
// itself.
//
//go:uintptrescapes
func (l *library) call(f function, args ...uintptr) error {
	// An nvrtcResult is 32 bits; the upper half of the register is undefined.
	r, _, _ := purego.SyscallN(l.entry[f], args...)
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

func (l *library) identity() (string, error) { return l.build() }

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

// untilZero is a text that C ended.
func untilZero(b []byte) []byte {
	b, _, _ = bytes.Cut(b, []byte{0})
	return b
}
