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

// Source is a program in CUDA C++, and how to compile it.
//
// Text may also be PTX, which begins with a .version directive. PTX needs no
// compiler: the Image is the text, and the driver compiles it for the GPU that
// loads it. Options, Headers and Names must then be empty.
type Source struct {
	// Name is the file name in messages and line information. "" means
	// "kernel.cu".
	Name string
	Text string
	// Arch is the target architecture. "sm_90" produces machine code (a cubin)
	// for GPUs of compute capability 9.0. "compute_90" produces PTX for these
	// and newer GPUs. See the function Arch.
	Arch string
	// Options are options of NVRTC, such as "-DN=16", "-std=c++20" or
	// "--use_fast_math", except the architecture.
	Options []string
	// Headers maps the name in an #include to the text of the header. Names
	// apply in every file. Only directories that Options name with -I are
	// searched for other headers. CollectHeaders reads headers from files.
	Headers map[string]string
	// Names are expressions such as "scale<float>" for kernels, or for
	// __device__ and __constant__ variables. Image.Names holds their mangled
	// names. An expression of a template instantiates it.
	Names []string
}

var errSource = errors.New("nvrtc: invalid source")

var archPattern = regexp.MustCompile(`^(sm|compute)_[1-9][0-9]{1,2}[a-z]?$`)

// validate returns an error for sources that NVRTC would misinterpret.
func (s *Source) validate() error {
	if isPTX(s.Text) {
		if len(s.Options)+len(s.Headers)+len(s.Names) > 0 {
			return s.errorf("PTX takes no options, headers or name expressions")
		}
		return nil
	}
	if !archPattern.MatchString(s.Arch) {
		return s.errorf("architecture: got %q, want one such as sm_90 or compute_90", s.Arch)
	}
	for _, option := range s.Options {
		if name, _, _ := strings.Cut(option, "="); name == "-arch" || name == "--gpu-architecture" {
			return s.errorf("option %q: set the architecture in Arch", option)
		}
	}
	texts := append([]string{s.Name, s.Text}, slices.Concat(s.Options, s.Names)...)
	for name, text := range s.Headers {
		texts = append(texts, name, text)
	}
	for _, text := range texts {
		if at := strings.IndexByte(text, 0); at >= 0 {
			return s.errorf("zero byte after %q, which ends a C string", text[max(0, at-20):at])
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

// targetsPTX reports whether the compiler generates PTX.
func (s *Source) targetsPTX() bool { return strings.HasPrefix(s.Arch, "compute_") }

// compilerOptions returns all options for NVRTC. --no-source-include prevents
// NVRTC from searching the working directory for quoted headers.
func (s *Source) compilerOptions() []string {
	options := append(slices.Clone(s.Options), "--gpu-architecture="+s.Arch)
	if !s.usesFiles() {
		options = append(options, "--no-source-include")
	}
	return options
}

// fileOptions are prefixes of options that make NVRTC read files, or write
// additional ones. Each also has a form with one dash.
var fileOptions = []string{
	"-I", "--include", "--pre-include", "--pch", "--create", "--use-pch", "--use_pch", "--use-bundled-headers",
	"--time", "--fdevice-time-trace", "--device-time-trace",
}

// usesFiles reports whether the result depends on files outside the Source.
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

// isPTX reports whether the first directive of text is .version, after white
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

// include is an #include directive.
type include struct {
	name   string
	quoted bool
}

// parseIncludes returns the #include directives of a text, including those in
// conditional blocks.
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

// header is an included file.
type header struct {
	name string // the name in the #include
	from int    // index of the file system
	path string
}

// CollectHeaders returns, for Source.Headers, the files that a text includes
// directly or indirectly. It searches the file systems in order, for example
// os.DirFS of a toolkit's include directory, or an embed.FS. A Source with all
// its headers can be cached.
//
// It does not evaluate conditional directives. Files that no file system
// contains are left out, and NVRTC reports them if it needs them. NVRTC
// identifies a header by the name in the #include. CollectHeaders returns an
// error if one name refers to two files.
func CollectHeaders(text string, from ...fs.FS) (map[string]string, error) {
	if i := slices.Index(from, nil); i >= 0 {
		return nil, fmt.Errorf("nvrtc.CollectHeaders: nil file system %d", i)
	}
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
				return nil, fmt.Errorf("nvrtc.CollectHeaders: #include %q refers to both %s and %s, and NVRTC identifies headers by name", h.name, before.path, h.path)
			default:
				found[h.name], texts[h.name] = h, string(data)
				pending = append(pending, h)
			}
		}
	}
	return texts, nil
}

// resolveInclude finds the file of an #include. A quoted name is searched
// beside the includer first. Data is nil if no file system contains it.
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

// readHeader returns nil if the file does not exist.
func readHeader(fsys fs.FS, name string) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, nil
	}
	if info, err := fs.Stat(fsys, name); errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
		return nil, nil
	}
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("nvrtc.CollectHeaders: %w", err)
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}
