package nvrtc

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Source is a program in CUDA C++ and how to compile it.
//
// It may be PTX too, which is text that begins with a .version directive. PTX
// needs no compiler: the Image is the text itself, and the driver compiles it
// for whatever GPU it is loaded on. Options, Headers and Names must be empty
// then.
type Source struct {
	// Name is the file's name in messages and line information, "kernel.cu"
	// where it is empty.
	Name string
	Text string
	// Arch is the architecture to compile for: "sm_90" makes machine code
	// (a cubin) for GPUs of compute capability 9.0, "compute_90" makes PTX
	// for those and all newer ones. See Arch, the function.
	Arch string
	// Options are NVRTC's, such as "-DN=16", "-std=c++20" or
	// "--use_fast_math", without the architecture.
	Options []string
	// Headers holds the text of headers by the name that an #include gives
	// them, whoever includes them. No directory is searched for others but
	// those that Options name with -I. CollectHeaders gathers them from files.
	Headers map[string]string
	// Names are expressions such as "scale<float>" of kernels, or of
	// __device__ and __constant__ variables, whose mangled names
	// Image.Names tells. An expression of a template makes its instance.
	Names []string
}

var errSource = errors.New("nvrtc: bad source")

var archPattern = regexp.MustCompile(`^(sm|compute)_[1-9][0-9]{1,2}[a-z]?$`)

// validate finds what NVRTC would not, or would misunderstand.
func (s *Source) validate() error {
	if isPTX(s.Text) {
		if len(s.Options)+len(s.Headers)+len(s.Names) > 0 {
			return s.errorf("it is PTX, which takes no options, headers or name expressions")
		}
		return nil
	}
	if !archPattern.MatchString(s.Arch) {
		return s.errorf("architecture %q: want one such as sm_90 or compute_90", s.Arch)
	}
	for _, option := range s.Options {
		if name, _, _ := strings.Cut(option, "="); name == "-arch" || name == "--gpu-architecture" {
			return s.errorf("option %q: the architecture belongs in Arch", option)
		}
	}
	texts := append([]string{s.Name, s.Text}, slices.Concat(s.Options, s.Names)...)
	for name, text := range s.Headers {
		texts = append(texts, name, text)
	}
	for _, text := range texts {
		if at := strings.IndexByte(text, 0); at >= 0 {
			return s.errorf("a zero byte after %q: C would end the text there", text[max(0, at-20):at])
		}
	}
	return nil
}

func (s *Source) errorf(format string, args ...any) error {
	return fmt.Errorf("%w %s: %s", errSource, s.name(), fmt.Sprintf(format, args...))
}

func (s *Source) name() string {
	if s.Name == "" {
		return "kernel.cu"
	}
	return s.Name
}

// targetsPTX tells whether the image is to be PTX.
func (s *Source) targetsPTX() bool { return strings.HasPrefix(s.Arch, "compute_") }

// compilerOptions are all that NVRTC gets. By itself it would look for a quoted header
// in the directory of Name, which is the process's working directory.
func (s *Source) compilerOptions() []string {
	options := append(slices.Clone(s.Options), "--gpu-architecture="+s.Arch)
	if !s.usesFiles() {
		options = append(options, "--no-source-include")
	}
	return options
}

// fileOptions are how options begin that make NVRTC read files, or write some
// beside the image. Each has a form with one dash too.
var fileOptions = []string{
	"-I", "--include", "--pre-include", "--pch", "--create", "--use-pch", "--use_pch", "--use-bundled-headers",
	"--time", "--fdevice-time-trace", "--device-time-trace",
}

// usesFiles tells whether more than the Source counts for the result.
func (s *Source) usesFiles() bool {
	for _, option := range s.Options {
		for _, file := range fileOptions {
			if strings.HasPrefix(option, file) || strings.HasPrefix("-"+option, file) {
				return true
			}
		}
	}
	if includesAbsolute(s.Text) {
		return true
	}
	for _, text := range s.Headers {
		if includesAbsolute(text) {
			return true
		}
	}
	return false
}

func includesAbsolute(text string) bool {
	return slices.ContainsFunc(parseIncludes(text), func(i include) bool { return strings.HasPrefix(i.name, "/") })
}

// isPTX tells whether text is PTX: its first directive is .version, after white
// space and comments.
func isPTX(text string) bool {
	for {
		text = strings.TrimSpace(text)
		var found bool
		switch {
		case strings.HasPrefix(text, "//"):
			_, text, found = strings.Cut(text, "\n")
		case strings.HasPrefix(text, "/*"):
			_, text, found = strings.Cut(text[2:], "*/")
		default:
			return strings.HasPrefix(text, ".version")
		}
		if !found {
			return false
		}
	}
}

// include is an #include of a text.
type include struct {
	name   string
	quoted bool
}

// parseIncludes finds the #includes that a text has, whether or not the
// preprocessor would come to them.
func parseIncludes(text string) (list []include) {
	const blank = " \t"
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(strings.TrimLeft(line, blank), "#")
		if !ok {
			continue
		}
		if rest, ok = strings.CutPrefix(strings.TrimLeft(rest, blank), "include"); !ok {
			continue
		}
		rest = strings.TrimLeft(rest, blank)
		for _, form := range []struct{ open, end string }{{`"`, `"`}, {"<", ">"}} {
			if name, ok := strings.CutPrefix(rest, form.open); ok {
				if name, _, ok = strings.Cut(name, form.end); ok {
					list = append(list, include{name, form.open == `"`})
				}
			}
		}
	}
	return list
}

// header is a file that a text includes.
type header struct {
	name string // as the #include gives it
	from int    // the file system
	path string
}

// CollectHeaders gathers, for Source.Headers, the files that a text includes,
// and those that they include in turn. It looks in the file systems in order:
// os.DirFS of a toolkit's include directory for instance, or an embed.FS. Then
// all that is compiled is in the Source, and a Cache knows it.
//
// An #include that the preprocessor would skip counts too. One that no file
// system has is left out; NVRTC tells if it is needed. NVRTC knows a header by
// the name in the #include alone, so two files that are included by one name are
// an error.
func CollectHeaders(text string, from ...fs.FS) (map[string]string, error) {
	texts := map[string]string{}
	found := map[string]header{}
	pending := []header{{from: -1}} // the text itself
	for len(pending) > 0 {
		includer := pending[0]
		pending = pending[1:]
		if includer.from >= 0 {
			text = texts[includer.name]
		}
		for _, wanted := range parseIncludes(text) {
			h, data, err := resolveInclude(wanted, includer, from)
			if err != nil {
				return nil, err
			}
			before, known := found[h.name]
			switch {
			case data == nil || known && before == h:
			case known:
				return nil, fmt.Errorf("nvrtc: #include %q means %s here and %s there: NVRTC can tell them apart by that name only", h.name, before.path, h.path)
			default:
				found[h.name], texts[h.name] = h, string(data)
				pending = append(pending, h)
			}
		}
	}
	return texts, nil
}

// resolveInclude finds what an #include means: for a quoted name first the file beside
// the includer. Data is nil where there is none.
func resolveInclude(wanted include, includer header, from []fs.FS) (header, []byte, error) {
	name := wanted.name
	if wanted.quoted && includer.from >= 0 {
		h := header{name, includer.from, path.Join(path.Dir(includer.path), name)}
		if data, err := readHeader(from[h.from], h.path); data != nil || err != nil {
			return h, data, err
		}
	}
	for i, fsys := range from {
		h := header{name, i, path.Clean(name)}
		if data, err := readHeader(fsys, h.path); data != nil || err != nil {
			return h, data, err
		}
	}
	return header{name: name}, nil, nil
}

// readHeader returns nil where there is no such file.
func readHeader(fsys fs.FS, name string) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, nil
	}
	if info, err := fs.Stat(fsys, name); errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
		return nil, nil
	}
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("nvrtc: header: %w", err)
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}
