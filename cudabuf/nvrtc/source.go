package nvrtc

import (
	"errors"
	"fmt"
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

// check finds what NVRTC would not, or would misunderstand.
func (s *Source) check() error {
	if isPTX(s.Text) {
		if len(s.Options)+len(s.Headers)+len(s.Names) > 0 {
			return s.bad("it is PTX, which takes no options, headers or name expressions")
		}
		return nil
	}
	if !archPattern.MatchString(s.Arch) {
		return s.bad("architecture %q: want one such as sm_90 or compute_90", s.Arch)
	}
	for _, option := range s.Options {
		if name, _, _ := strings.Cut(option, "="); name == "-arch" || name == "--gpu-architecture" {
			return s.bad("option %q: the architecture belongs in Arch", option)
		}
	}
	texts := append([]string{s.Name, s.Text}, slices.Concat(s.Options, s.Names)...)
	for name, text := range s.Headers {
		texts = append(texts, name, text)
	}
	for _, text := range texts {
		if at := strings.IndexByte(text, 0); at >= 0 {
			return s.bad("a zero byte after %q: C would end the text there", text[max(0, at-20):at])
		}
	}
	return nil
}

func (s *Source) bad(format string, args ...any) error {
	return fmt.Errorf("%w %s: %s", errSource, s.name(), fmt.Sprintf(format, args...))
}

func (s *Source) name() string {
	if s.Name == "" {
		return "kernel.cu"
	}
	return s.Name
}

// ptx tells whether the image is to be PTX.
func (s *Source) ptx() bool { return strings.HasPrefix(s.Arch, "compute_") }

// options are all that NVRTC gets. By itself it would look for a quoted header
// in the directory of Name, which is the process's working directory.
func (s *Source) options() []string {
	options := append(slices.Clone(s.Options), "--gpu-architecture="+s.Arch)
	if !s.touchesFiles() {
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

// touchesFiles tells whether more than the Source counts for the result.
func (s *Source) touchesFiles() bool {
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
	return slices.ContainsFunc(inclusions(text), func(i inclusion) bool { return strings.HasPrefix(i.name, "/") })
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
