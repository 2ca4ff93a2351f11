package nvrtc

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"unsafe"
)

// program is an nvrtcProgram.
type program struct {
	*library
	source *Source
	handle uintptr
}

func (l *library) compile(s Source) (*Image, error) {
	p, err := l.create(&s)
	if err != nil {
		return nil, err
	}
	defer p.destroy()
	for _, name := range s.Names {
		if err := p.call(nvrtcAddNameExpression, p.handle, uintptr(unsafe.Pointer(cString(name)))); err != nil {
			return nil, fmt.Errorf("name expression %q: %w", name, err)
		}
	}
	options := s.options()
	array := cStrings(options)
	failure := p.call(nvrtcCompileProgram, p.handle, uintptr(len(options)), uintptr(unsafe.Pointer(&array[0])))
	log, err := p.read(nvrtcGetProgramLogSize, nvrtcGetProgramLog)
	image := &Image{Log: string(untilZero(log))}
	var refused *Error
	if errors.As(failure, &refused) {
		refused.Log = image.Log
		return nil, refused
	}
	if err == nil {
		image.Names, err = p.lowered()
	}
	if err == nil {
		image.Bytes, err = p.image()
	}
	if err != nil {
		return nil, err
	}
	return image, nil
}

func (l *library) create(s *Source) (*program, error) {
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
	if p.source.ptx() {
		image, err = p.read(nvrtcGetPTXSize, nvrtcGetPTX)
		image = untilZero(image)
	} else {
		image, err = p.read(nvrtcGetCUBINSize, nvrtcGetCUBIN)
	}
	if err == nil && len(image) == 0 {
		return nil, p.source.bad("NVRTC made neither PTX nor a cubin of it: options such as -dlto ask for something else")
	}
	return image, err
}

// lowered maps name expressions to the names in the image.
func (p *program) lowered() (map[string]string, error) {
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

// read gets what the program has of one kind, by a function that tells its
// size, with a zero byte's room, and one that copies it.
func (p *program) read(size, content function) ([]byte, error) {
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
