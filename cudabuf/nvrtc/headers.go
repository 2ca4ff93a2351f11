package nvrtc

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// inclusion is an #include of a text.
type inclusion struct {
	name   string
	quoted bool
}

// inclusions finds the #includes that a text has, whether or not the
// preprocessor would come to them.
func inclusions(text string) (list []inclusion) {
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
					list = append(list, inclusion{name, form.open == `"`})
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
		for _, wanted := range inclusions(text) {
			h, data, err := lookUp(wanted, includer, from)
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

// lookUp finds what an #include means: for a quoted name first the file beside
// the includer. Data is nil where there is none.
func lookUp(wanted inclusion, includer header, from []fs.FS) (header, []byte, error) {
	name := wanted.name
	if wanted.quoted && includer.from >= 0 {
		h := header{name, includer.from, path.Join(path.Dir(includer.path), name)}
		if data, err := read(from[h.from], h.path); data != nil || err != nil {
			return h, data, err
		}
	}
	for i, fsys := range from {
		h := header{name, i, path.Clean(name)}
		if data, err := read(fsys, h.path); data != nil || err != nil {
			return h, data, err
		}
	}
	return header{name: name}, nil, nil
}

// read returns nil where there is no such file.
func read(fsys fs.FS, name string) ([]byte, error) {
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
