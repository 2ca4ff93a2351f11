package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/internal/apitest"
)

// goPackage is what a package declares, without its tests.
type goPackage struct {
	names   map[string]bool            // exported, at the top level
	members map[string]map[string]bool // methods and fields, by type
	embeds  map[string][]string        // embedded or aliased types, "Name" or "package.Name", by type
	params  map[string]bool            // of all exported functions and methods
}

// declarations returns the packages of the module by the last element of their paths.
// Packages that share it are one.
func declarations(t *testing.T) map[string]*goPackage {
	t.Helper()
	packages := map[string]*goPackage{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		if err != nil || entry.IsDir() {
			if entry.IsDir() && path != ".." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "docs") {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		of := filepath.Base(filepath.Dir(path))
		if packages[of] == nil {
			packages[of] = &goPackage{map[string]bool{}, map[string]map[string]bool{}, map[string][]string{}, map[string]bool{}}
		}
		for _, d := range file.Decls {
			packages[of].add(d)
		}
		return nil
	})
	require.NoError(t, err)
	return packages
}

func (p *goPackage) add(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		for _, f := range d.Type.Params.List {
			for _, n := range f.Names {
				p.params[n.Name] = p.params[n.Name] || d.Name.IsExported()
			}
		}
		if d.Recv == nil {
			p.names[d.Name.Name] = true
		} else if receiver := typeName(d.Recv.List[0].Type); receiver != "" {
			p.addMember(receiver, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					p.names[n.Name] = true
				}
			case *ast.TypeSpec:
				p.names[s.Name.Name] = true
				p.addType(s)
			}
		}
	}
}

func (p *goPackage) addType(s *ast.TypeSpec) {
	var fields *ast.FieldList
	switch u := s.Type.(type) {
	case *ast.StructType:
		fields = u.Fields
	case *ast.InterfaceType:
		fields = u.Methods
	default:
		p.embeds[s.Name.Name] = append(p.embeds[s.Name.Name], typeName(u))
		return
	}
	for _, f := range fields.List {
		for _, n := range f.Names {
			p.addMember(s.Name.Name, n.Name)
		}
		if len(f.Names) == 0 {
			embedded := typeName(f.Type)
			p.embeds[s.Name.Name] = append(p.embeds[s.Name.Name], embedded)
			p.addMember(s.Name.Name, embedded[strings.LastIndex(embedded, ".")+1:])
		}
	}
}

func (p *goPackage) addMember(of, name string) {
	if p.members[of] == nil {
		p.members[of] = map[string]bool{}
	}
	p.members[of][name] = true
}

// typeName returns the name of a type, without *, type parameters and arguments.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	case *ast.SelectorExpr:
		return typeName(e.X) + "." + e.Sel.Name
	}
	return ""
}

// hasMember reports whether a type of a package has a method or field, also of a type
// that it embeds or is an alias of.
func hasMember(packages map[string]*goPackage, of, name, member string) bool {
	p := packages[of]
	if p == nil {
		return false
	}
	if p.members[name][member] {
		return true
	}
	return slices.ContainsFunc(p.embeds[name], func(embedded string) bool {
		if other, inner, ok := strings.Cut(embedded, "."); ok {
			return hasMember(packages, other, inner, member)
		}
		return embedded != name && hasMember(packages, of, embedded, member)
	})
}

var (
	codeSpan  = regexp.MustCompile("`([^`\n]+)`")
	selectors = regexp.MustCompile(`(?:^|[^\w.])((?:[a-z]\w*\.)?[A-Z]\w*(?:\.[A-Z]\w*)*)`)
	// Names of arrow-go, of Go's library and of CUDA, which documents mention in the same form.
	foreign = regexp.MustCompile(`^(arrow|array|memory|ipc|pqarrow|compute|io|errors|context|http|blob)\.`)
)

// documents returns the text of each document of the repository by its path from this
// folder, such as "../docs/glossary.md".
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && path != ".." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules") {
			return fs.SkipDir
		}
		if err == nil && strings.HasSuffix(path, ".md") {
			var text []byte
			text, err = os.ReadFile(path)
			all[path] = string(text)
		}
		return err
	})
	require.NoError(t, err)
	require.Greater(t, len(all), 20)
	return all
}

// Each `package.Name`, `Type.Member` and `package.Type.Member` of the documents exists, if
// the package or the type is ours.
func TestGoNamesInDocumentsExist(t *testing.T) {
	packages := declarations(t)
	checked := 0
	for path, text := range documents(t) {
		if path == "../README.md" || path == "../CONTRIBUTING.md" {
			text = regexp.MustCompile("(?s)```.*?```").ReplaceAllString(text, "")
		}
		for _, span := range codeSpan.FindAllStringSubmatch(withoutUpstream(text), -1) {
			if named.MatchString(span[0]) {
				continue // TestTestsThatDocumentsNameExist
			}
			for _, found := range selectors.FindAllStringSubmatch(span[1], -1) {
				parts := strings.Split(found[1], ".")
				if len(parts) == 1 || foreign.MatchString(found[1]) {
					continue
				}
				if ok, ours := goNameExists(packages, parts); ours {
					checked++
					assert.True(t, ok, "%s: `%s` does not exist", path, found[1])
				}
			}
		}
	}
	assert.Greater(t, checked, 150)
}

// withoutUpstream removes the cells of tables that hold names of other libraries.
func withoutUpstream(text string) string {
	lines := strings.Split(text, "\n")
	upstream := 0
	for i, line := range lines {
		cells := strings.SplitAfter(line, " | ")
		switch {
		case !strings.HasPrefix(line, "|"):
			upstream = 0
		case strings.HasPrefix(line, "| row | "):
			upstream = 2
		case strings.Contains(line, " | parameters | "):
			upstream = 1
		case len(cells) > upstream:
			lines[i] = strings.Join(cells[upstream:], "")
		}
	}
	return strings.Join(lines, "\n")
}

// Each `Name` in the column "ours" of the tables, and of the parameters, exists in one of
// the packages that the table is about.
func TestGoNamesInTablesExist(t *testing.T) {
	packages := declarations(t)
	name := regexp.MustCompile("`([A-Z]\\w*)(?:\\([^`]*\\))?`(?:[^:]|$)") // before a colon are parameters of upstream
	about := []string{"cudabuf", "nvrtc", "ndview", "dtype", "kernel", "blas", "zarr", "codec", "store", "ndarray", "arrowbuf", "arrowipc", "cdevice", "collective"}
	for document := range tables {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		checked := 0
		for _, line := range strings.Split(withoutUpstream(string(text)), "\n") {
			cell, _, found := strings.Cut(line, " | ")
			if !found {
				continue
			}
			for _, m := range name.FindAllStringSubmatch(cell, -1) {
				checked++
				assert.True(t, slices.ContainsFunc(about, func(of string) bool {
					p := packages[of]
					for t := range p.members {
						if p.members[t][m[1]] {
							return true
						}
					}
					return p.names[m[1]]
				}), "%s: `%s` does not exist, in: %s", document, m[1], line)
			}
		}
		assert.Greater(t, checked, 20, document)
	}
}

// publicPackages returns the folders of the packages that programs import, such as
// "../zarr/codec". Packages without an exported function or method are not among them.
func publicPackages(t *testing.T) []string {
	t.Helper()
	var folders []string
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if name := entry.Name(); path != ".." && (strings.HasPrefix(name, ".") || slices.Contains([]string{
			"testdata", "internal", "cmd", "docs", "bench", "examples", "interop", "beam",
		}, name)) {
			return fs.SkipDir
		}
		functions, err := apitest.Functions(path)
		if len(functions) > 0 {
			folders = append(folders, filepath.ToSlash(path))
		}
		return err
	})
	require.NoError(t, err)
	require.Greater(t, len(folders), 25)
	return folders
}

// Each public package with functions has a test that passes nil to all of them, in its
// folder or in one above, where the test names the folder. Transforms of Beam panic by
// convention, and have a test of that.
func TestNilTestsCoverEveryPublicPackage(t *testing.T) {
	covered := func(path string) bool {
		below := "."
		for folder := path; folder != ".."; folder = filepath.Dir(folder) {
			text := sources(t, strings.TrimPrefix(filepath.ToSlash(folder), "../"))
			if strings.Contains(text, "internal/apitest\"") && strings.Contains(text, `"`+below+`"`) {
				return true
			}
			below = strings.TrimSuffix(filepath.ToSlash(filepath.Join(filepath.Base(folder), below)), "/.")
		}
		return false
	}
	for _, path := range publicPackages(t) {
		assert.True(t, covered(path), "package %s has no test with nil arguments", path)
	}
}

// The packages of one object store each, and storetest, have their example in the package above.
func TestEveryPublicPackageHasAnExample(t *testing.T) {
	above := []string{"../zarr/store/blobstore/azure", "../zarr/store/blobstore/gcs", "../zarr/store/blobstore/s3", "../zarr/store/storetest"}
	for _, path := range publicPackages(t) {
		if !slices.Contains(above, path) {
			assert.Contains(t, sources(t, strings.TrimPrefix(path, "../")), "\nfunc Example", "package %s has no example", path)
		}
	}
}

// Each path from the root of the module, and each link, leads to a file or folder.
func TestPathsInDocumentsExist(t *testing.T) {
	roots, err := os.ReadDir("..")
	require.NoError(t, err)
	isRoot := func(path string) bool {
		top, _, found := strings.Cut(path, "/")
		return found && slices.ContainsFunc(roots, func(e fs.DirEntry) bool { return e.IsDir() && e.Name() == top })
	}
	link := regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)
	path := regexp.MustCompile(`^[\w.*/-]+$`)
	checked := 0
	for document, text := range documents(t) {
		exists := func(name string) {
			checked++
			found, err := filepath.Glob(name)
			assert.True(t, err == nil && len(found) > 0, "%s: %s does not exist", document, name)
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(m[1], "://") {
				exists(filepath.Join(filepath.Dir(document), m[1]))
			}
		}
		for _, span := range codeSpan.FindAllStringSubmatch(text, -1) {
			for _, word := range strings.Fields(span[1]) {
				name := strings.TrimSuffix(strings.TrimSuffix(word, ","), "/...")
				if isRoot(name) && path.MatchString(name) && !named.MatchString("`"+name+"`") && !strings.Contains(name, "DATE") {
					if base, _, ok := strings.Cut(filepath.Base(name), "."); ok && base != "" && !strings.Contains(name, "*") && regexp.MustCompile(`\.[A-Z]`).MatchString(name) {
						name = filepath.Join(filepath.Dir(name), base) // a package and a name
					}
					exists(filepath.Join("..", name))
				}
			}
		}
	}
	assert.Greater(t, checked, 60)
}

// Each `make target` and each variable QUIVER_NAME of the documents exists.
func TestTargetsAndVariablesInDocumentsExist(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	require.NoError(t, err)
	var sources strings.Builder
	err = filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		if err == nil && entry.IsDir() && path != ".." && (strings.HasPrefix(name, ".") || name == "node_modules") {
			return fs.SkipDir
		}
		if err == nil && (strings.HasSuffix(name, ".go") || strings.HasSuffix(name, ".py")) {
			var text []byte
			text, err = os.ReadFile(path)
			sources.Write(text)
		}
		return err
	})
	require.NoError(t, err)
	target := regexp.MustCompile("(?m)(?:`|^)make ([a-z][a-z0-9 -]*)")
	variable := regexp.MustCompile(`\bQUIVER_[A-Z0-9_]*[A-Z0-9]\b`)
	targets, variables := 0, 0
	for document, text := range documents(t) {
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			for _, name := range strings.Fields(m[1]) {
				targets++
				assert.True(t, strings.Contains(string(makefile), "\n"+name+":"), "%s: no target %s", document, name)
			}
		}
		for _, name := range variable.FindAllString(text, -1) {
			variables++
			assert.True(t, strings.Contains(sources.String(), name), "%s: %s does not exist", document, name)
		}
	}
	assert.Greater(t, targets, 30)
	assert.Greater(t, variables, 10)
}

// Each direct dependency has a row in ARCHITECTURE.md that says why it is one.
func TestDependenciesHaveAReason(t *testing.T) {
	module, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	text, err := os.ReadFile("../ARCHITECTURE.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## Dependencies\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	direct := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(string(module), -1)
	require.Greater(t, len(direct), 20)
	for _, m := range direct {
		name := regexp.MustCompile(`/v\d+$`).ReplaceAllString(strings.TrimPrefix(m[1], "github.com/"), "")
		parts := strings.Split(name, "/")
		explained := strings.Contains(section, name)
		for _, part := range parts { // a module of a repository whose row names another one
			explained = explained || (strings.Contains(part, "-sdk-") || strings.Contains(part, "smithy")) && strings.Contains(section, part)
		}
		assert.True(t, explained, "%s has no row", m[1])
	}
}

// A driver call that libcuda may lack has a row that says what fails without it.
func TestOptionalDriverCallsAreListed(t *testing.T) {
	source, err := os.ReadFile("../cudabuf/internal/libcuda/open.go")
	require.NoError(t, err)
	text, err := os.ReadFile("drivers.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "\n## Optional driver calls\n")
	require.True(t, found)
	listed := regexp.MustCompile(`cu[A-Z]\w*\*?`).FindAllString(table, -1)
	used := map[string]bool{}
	calls := regexp.MustCompile(`\{call: "(\w+)"[^\n]*optional: true`).FindAllStringSubmatch(string(source), -1)
	require.Greater(t, len(calls), 50)
	for _, call := range calls {
		i := slices.IndexFunc(listed, func(name string) bool {
			prefix, isPattern := strings.CutSuffix(name, "*")
			return name == call[1] || isPattern && strings.HasPrefix(call[1], prefix)
		})
		if assert.GreaterOrEqual(t, i, 0, "%s has no row", call[1]) {
			used[listed[i]] = true
		}
	}
	for _, name := range listed {
		assert.True(t, used[name], "%s is no optional call", name)
	}
}

// Each parameter of ours that the tables name beside one of upstream exists.
func TestGoParametersInTablesExist(t *testing.T) {
	packages := declarations(t)
	name := regexp.MustCompile("`([a-z]\\w*)`")
	for document := range tables {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		_, table, _ := strings.Cut(string(text), namesHeading)
		checked := 0
		for _, line := range strings.Split(withoutUpstream(table), "\n") {
			cell, _, _ := strings.Cut(line, " | ")
			for _, entry := range strings.Split(cell, "; ") {
				_, ours, found := strings.Cut(entry, ": ")
				if !found || strings.HasPrefix(ours, "as for ") || strings.HasPrefix(ours, "none, ") {
					continue
				}
				for _, m := range name.FindAllStringSubmatch(ours, -1) {
					checked++
					exists := false
					for _, p := range packages {
						exists = exists || p.params[m[1]]
					}
					assert.True(t, exists, "%s: no function has a parameter `%s`: %s", document, m[1], entry)
				}
			}
		}
		assert.Greater(t, checked, 15, document)
	}
}

// goNameExists reports whether a selector exists, and whether it begins with a package or
// a type of ours.
func goNameExists(packages map[string]*goPackage, parts []string) (ok, ours bool) {
	if p := packages[parts[0]]; p != nil {
		_, isType := p.members[parts[1]]
		switch {
		case !p.names[parts[1]] || len(parts) < 3:
			return p.names[parts[1]], true
		case isType || p.embeds[parts[1]] != nil:
			return hasMember(packages, parts[0], parts[1], parts[2]), true
		}
		for name := range p.members { // a variable of some type
			ok = ok || hasMember(packages, parts[0], name, parts[2])
		}
		return ok, true
	}
	for of, p := range packages {
		if p.members[parts[0]] != nil || p.embeds[parts[0]] != nil {
			ours = true
			ok = ok || hasMember(packages, of, parts[0], parts[1])
		}
	}
	return ok, ours
}

// The whole programs of examples stay short: lines that are neither blank nor comments.
func TestExamplesAreShort(t *testing.T) {
	for path, most := range map[string]int{"parquet/main.go": 75, "share/main.go": 60, "faults/faults_test.go": 50} {
		text, err := os.ReadFile(filepath.Join("..", "examples", filepath.FromSlash(path)))
		require.NoError(t, err)
		n := 0
		for _, line := range strings.Split(string(text), "\n") {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				n++
			}
		}
		assert.Greater(t, n, 20, path)
		assert.LessOrEqual(t, n, most, path)
	}
}
