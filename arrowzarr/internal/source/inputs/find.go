package inputs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
)

// fileTree is where the files of an input are.
type fileTree interface {
	// list returns the names in a folder, or an error wrapping fs.ErrNotExist.
	list(ctx context.Context, folder string) (files, folders []string, err error)
	// open opens a file. The context limits the reads, too.
	open(ctx context.Context, file string) (*source.File, error)
	// name is a path as errors name it.
	name(path string) string
}

// localTree is the file system.
type localTree struct{}

func (localTree) name(path string) string { return path }

func (localTree) open(_ context.Context, file string) (*source.File, error) {
	return source.OpenLocal(file)
}

func (localTree) list(_ context.Context, folder string) (files, folders []string, err error) {
	if folder == "" {
		folder = "."
	}
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		isFolder := e.IsDir()
		if e.Type()&fs.ModeSymlink != 0 {
			info, err := os.Stat(filepath.Join(folder, e.Name()))
			if err != nil {
				return nil, nil, err
			}
			isFolder = info.IsDir()
		}
		if isFolder {
			folders = append(folders, e.Name())
		} else {
			files = append(files, e.Name())
		}
	}
	return files, folders, err
}

// foundFile is a file of an input.
type foundFile struct {
	tree fileTree
	path string
	keys []partitionKey // of its folders, below the folder that is the input
}

// isRemote reports whether each read takes a round trip.
func (f foundFile) isRemote() bool { return f.tree != localTree{} }

func (f foundFile) name() string { return f.tree.name(f.path) }

// partitionKey is a folder's name key=value, as Hive has them.
type partitionKey struct {
	key, value string
	null       bool
}

// hiveNull is the value of a partition whose key is null.
const hiveNull = "__HIVE_DEFAULT_PARTITION__"

func parsePartition(folder string) (k partitionKey, ok bool) {
	key, value, ok := strings.Cut(folder, "=")
	if !ok || key == "" {
		return k, false
	}
	unescape := func(text string) string {
		if plain, err := url.PathUnescape(text); err == nil {
			return plain
		}
		return text
	}
	if value == hiveNull {
		return partitionKey{key: unescape(key), null: true}, true
	}
	return partitionKey{key: unescape(key), value: unescape(value)}, true
}

// isHidden reports whether Spark and Hive skip a name. Markers such as _SUCCESS and
// unfinished files have such names.
func isHidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") && !strings.Contains(name, "=")
}

// finder collects the files of an input.
type finder struct {
	ctx   context.Context
	tree  fileTree
	found []foundFile
}

// maxFolderDepth bounds the nesting of folders, which symbolic links may make endless.
const maxFolderDepth = 32

// addFolder adds the files in a folder and below it, in the order of their names.
func (f *finder) addFolder(folder string, keys []partitionKey, depth int) error {
	if err := f.ctx.Err(); err != nil {
		return context.Cause(f.ctx)
	}
	if depth > maxFolderDepth {
		return fmt.Errorf("%s: more than %d folders in each other", f.tree.name(folder), maxFolderDepth)
	}
	files, folders, err := f.tree.list(f.ctx, folder)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(files, func(name string) bool { return slices.Contains(NodeDocuments, name) }) {
		return fmt.Errorf("%s is a Zarr hierarchy: expected files of Arrow, Parquet, CSV or JSON lines, or a pattern that leaves it out", f.tree.name(folder))
	}
	isFolder := map[string]bool{}
	for _, name := range folders {
		isFolder[name] = true
	}
	names := append(files, folders...)
	slices.Sort(names)
	for _, name := range names {
		switch full := path.Join(folder, name); {
		case isHidden(name):
		case isFolder[name]:
			err = f.addFolder(full, withPartition(keys, name), depth+1)
		default:
			f.found = append(f.found, foundFile{f.tree, full, keys})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// withPartition returns keys and that of a folder, if it has one.
func withPartition(keys []partitionKey, folder string) []partitionKey {
	if k, ok := parsePartition(folder); ok {
		return append(slices.Clip(keys), k)
	}
	return keys
}

// hasMeta reports whether a path is a pattern.
func hasMeta(path string) bool { return strings.ContainsAny(path, `*?[`) }

// addMatches adds the files that match a pattern, and those in folders that do. The
// pattern is the segments of a path below folder; "**" is any number of folders.
func (f *finder) addMatches(folder string, pattern []string, keys []partitionKey, inPattern bool, depth int) error {
	if depth > maxFolderDepth {
		return fmt.Errorf("%s: more than %d folders in each other", f.tree.name(folder), maxFolderDepth)
	}
	for len(pattern) > 1 && !hasMeta(pattern[0]) {
		folder = path.Join(folder, pattern[0])
		if inPattern {
			keys = withPartition(keys, pattern[0])
		}
		pattern = pattern[1:]
	}
	files, folders, err := f.tree.list(f.ctx, folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	segment, rest := pattern[0], pattern[1:]
	if segment == "**" {
		if len(rest) == 0 {
			return f.addFolder(folder, keys, depth)
		}
		if err := f.addMatches(folder, rest, keys, true, depth+1); err != nil {
			return err
		}
	}
	isFolder := map[string]bool{}
	for _, name := range folders {
		isFolder[name] = true
	}
	names := append(files, folders...)
	slices.Sort(names)
	for _, name := range names {
		full := path.Join(folder, name)
		if segment == "**" {
			if isFolder[name] && !isHidden(name) {
				err = f.addMatches(full, pattern, withPartition(keys, name), true, depth+1)
			}
		} else if matched, bad := path.Match(segment, name); bad != nil {
			err = fmt.Errorf("%s: malformed pattern %q", f.tree.name(full), segment)
		} else if matched && (!isHidden(name) || name[0] == segment[0]) {
			switch {
			case !isFolder[name] && len(rest) == 0:
				f.found = append(f.found, foundFile{f.tree, full, keys})
			case isFolder[name] && len(rest) == 0:
				err = f.addFolder(full, withPartition(keys, name), depth+1)
			case isFolder[name]:
				err = f.addMatches(full, rest, withPartition(keys, name), true, depth+1)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// findFiles returns the files of inputs, which are files, folders and patterns.
func findFiles(ctx context.Context, inputs []string) (found []foundFile, err error) {
	for _, input := range inputs {
		var files []foundFile
		switch {
		case input == "":
			err = errors.New("the name of the input is empty")
		case input == "-":
			err = errors.New("standard input must be the only input")
		case isURL(input):
			files, err = findURL(ctx, input)
		default:
			files, err = findLocal(ctx, input)
		}
		if err != nil {
			return nil, errors.Join(err, closeTrees(found))
		}
		found = append(found, files...)
	}
	if len(found) == 0 {
		return nil, errors.New("no input")
	}
	return found, nil
}

func findLocal(ctx context.Context, input string) ([]foundFile, error) {
	f := &finder{ctx: ctx, tree: localTree{}}
	info, err := os.Stat(input)
	switch {
	case err == nil && !info.IsDir():
		return []foundFile{{f.tree, input, nil}}, nil
	case err == nil:
		if IsZarr(input) {
			return nil, fmt.Errorf("%s is a Zarr hierarchy: expected files of Arrow, Parquet, CSV or JSON lines", input)
		}
		err = f.addFolder(input, nil, 0)
		if err == nil && len(f.found) == 0 {
			err = fmt.Errorf("%s has no files: expected files of Arrow, Parquet, CSV or JSON lines", input)
		}
		return f.found, err
	case errors.Is(err, fs.ErrNotExist) && hasMeta(input):
		root := ""
		if path.IsAbs(input) {
			root = "/"
		}
		pattern := strings.FieldsFunc(input, func(r rune) bool { return r == '/' })
		err = f.addMatches(root, pattern, nil, false, 0)
		if err == nil && len(f.found) == 0 {
			err = fmt.Errorf("no file matches %s", input)
		}
		return f.found, err
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s does not exist", input)
	default:
		return nil, err
	}
}

// NodeDocuments are the names of the metadata of a Zarr node.
var NodeDocuments = []string{"zarr.json", ".zgroup", ".zarray"}

// IsZarr reports whether a path is a folder with the metadata of a Zarr node.
func IsZarr(path string) bool {
	for _, name := range NodeDocuments {
		if _, err := os.Stat(filepath.Join(path, name)); err == nil {
			return true
		}
	}
	return false
}
