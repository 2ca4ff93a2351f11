package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/zarr/store"
)

// TestModel does random operations on an empty store and on a map, and fails at the first
// operation after which they differ. The seed determines the operations. Operations that
// the store does not support are left out.
func TestModel(t *testing.T, s store.Store, seed uint64, operations int, options Options) {
	t.Helper()
	m := &model{s: s, o: options, values: map[string]string{}, random: rand.New(rand.NewPCG(seed, 0))}
	for range operations {
		if err := m.step(); err != nil {
			t.Fatalf("seed %d: %v, after:\n%s", seed, err, strings.Join(m.log, "\n"))
		}
	}
}

// model is the state that a store has to have.
type model struct {
	s      store.Store
	o      Options
	values map[string]string
	random *rand.Rand
	log    []string
}

// path returns a path of one to three of a few names, so that operations meet.
func (m *model) path() string {
	names := []string{"a", "b", "ab", "a-b"}
	segments := make([]string, 1+m.random.IntN(3))
	for i := range segments {
		segments[i] = names[m.random.IntN(len(names))]
	}
	return strings.Join(segments, "/")
}

// free returns a path that may become a key: no value is above or below it, as directories
// of a file system need it.
func (m *model) free() string {
	for {
		path := m.path()
		if !slices.ContainsFunc(m.keys(), func(key string) bool { return isUnder(key, path) || isUnder(path, key) }) {
			return path
		}
	}
}

// isUnder reports whether a key is under a prefix, which is not empty.
func isUnder(key, prefix string) bool { return strings.HasPrefix(key, prefix+"/") }

func (m *model) keys() []string {
	keys := make([]string, 0, len(m.values))
	for key := range m.values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func (m *model) under(prefix string) []string {
	return slices.DeleteFunc(m.keys(), func(key string) bool { return prefix != "" && !isUnder(key, prefix) })
}

func (m *model) value() string {
	return fmt.Sprint(strings.Repeat("v", m.random.IntN(20)), len(m.log))[m.random.IntN(2):]
}

// span returns a range that may be outside of the value.
func (m *model) span() store.Range {
	n := int64(m.random.IntN(24))
	switch m.random.IntN(4) {
	case 0:
		return store.Range{}
	case 1:
		return store.From(n)
	case 2:
		return store.Last(n)
	default:
		return store.Between(n, n+int64(m.random.IntN(10)))
	}
}

// want returns an error if what an operation returned differs from what it should.
func want(got any, err error, wanted any, reason error) error {
	text, wantedText := fmt.Sprintf("%q", got), fmt.Sprintf("%q", wanted) // nil and empty are equal
	switch {
	case reason != nil && err == nil:
		return fmt.Errorf("got no error, want %w", reason)
	case reason != nil && !errors.Is(err, reason):
		return fmt.Errorf("got error %w, want %w", err, reason)
	case reason == nil && err != nil:
		return err
	case reason == nil && text != wantedText:
		return fmt.Errorf("got %s, want %s", text, wantedText)
	}
	return nil
}

// part returns a range of a value, and store.ErrNotFound if there is no value.
func (m *model) part(key string, r store.Range) (string, error) {
	value, ok := m.values[key]
	if !ok {
		return "", store.ErrNotFound
	}
	start, end, err := r.Resolve(int64(len(value)))
	return value[start:end], err
}

func (m *model) step() error {
	operation := operations[m.random.IntN(len(operations))]
	err := operation.do(m, func(arguments ...any) {
		m.log = append(m.log, operation.name+" "+fmt.Sprintf("%q", fmt.Sprint(arguments...)))
	})
	if err != nil {
		return fmt.Errorf("%s: %w", operation.name, err)
	}
	keys, err := m.s.List(ctx(), "")
	if err := want(keys, err, m.keys(), nil); err != nil {
		return fmt.Errorf("keys after %s: %w", operation.name, err)
	}
	return nil
}

var operations = []struct {
	name string
	do   func(m *model, log func(...any)) error
}{
	{"Set", (*model).set}, {"Set", (*model).set}, {"Set", (*model).set}, // so that there are values
	{"SetIfNotExists", func(m *model, log func(...any)) error {
		key, value := m.free(), m.value()
		log(key, " ", value)
		err := store.SetIfNotExists(ctx(), m.s, key, []byte(value))
		if errors.Is(err, errors.ErrUnsupported) {
			return nil
		}
		if _, ok := m.values[key]; ok {
			return want("", err, "", store.ErrExists)
		}
		m.values[key] = value
		return err
	}},
	{"Create", func(m *model, log func(...any)) error {
		key, value, abort := m.free(), m.value(), m.random.IntN(3) == 0 && !m.o.TearsWrites
		log(key, " ", value, " ", abort)
		w, err := store.Create(ctx(), m.s, key)
		if err != nil {
			return err
		}
		half := len(value) / 2
		_, err = w.Write([]byte(value[:half]))
		_, err2 := w.Write([]byte(value[half:]))
		if abort {
			return errors.Join(err, err2, w.Abort())
		}
		m.values[key] = value
		return errors.Join(err, err2, w.Commit())
	}},
	{"Delete", func(m *model, log func(...any)) error {
		key := m.path()
		log(key)
		if m.o.NoDelete {
			return nil
		}
		delete(m.values, key)
		return m.s.Delete(ctx(), key)
	}},
	{"DeleteAll", func(m *model, log func(...any)) error {
		prefix := m.path()
		log(prefix)
		if m.o.NoDelete {
			return nil
		}
		for _, key := range append(m.under(prefix), prefix) {
			delete(m.values, key)
		}
		return store.DeleteAll(ctx(), m.s, prefix)
	}},
	{"Move", func(m *model, log func(...any)) error {
		from, to := m.path(), m.free()
		log(from, " ", to)
		_, taken := m.values[to]
		moved := m.under(from)
		err := store.Move(ctx(), m.s, from, to)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return nil
		case from == to || isUnder(from, to) || isUnder(to, from):
			return want("", err, "", store.ErrInvalidKey)
		case len(moved) == 0 && taken:
			if err == nil {
				return errors.New("got no error")
			}
			return nil // either is right
		case len(moved) == 0:
			return want("", err, "", store.ErrNotFound)
		case taken:
			return want("", err, "", store.ErrExists)
		}
		for _, key := range moved {
			m.values[to+strings.TrimPrefix(key, from)] = m.values[key]
			delete(m.values, key)
		}
		return err
	}},
	{"Get", func(m *model, log func(...any)) error {
		key, r := m.path(), m.span()
		log(key, " ", r)
		value, err := m.part(key, r)
		got, failed := m.s.Get(ctx(), key, r)
		return want(string(got), failed, value, err)
	}},
	{"GetRanges", func(m *model, log func(...any)) error {
		key, ranges := m.path(), []store.Range{m.span(), m.span(), m.span()}
		log(key, " ", ranges)
		var values []string
		var err error
		for _, r := range ranges {
			var value string
			value, err = m.part(key, r)
			values = append(values, value)
		}
		parts, failed := store.GetRanges(ctx(), m.s, key, ranges)
		var got []string
		for _, part := range parts {
			got = append(got, string(part))
		}
		return want(got, failed, values, err)
	}},
	{"Size", func(m *model, log func(...any)) error {
		key := m.path()
		log(key)
		value, err := m.part(key, store.Range{})
		n, failed := store.Size(ctx(), m.s, key)
		return want(fmt.Sprint(n), failed, fmt.Sprint(len(value)), err)
	}},
	{"List", func(m *model, log func(...any)) error {
		prefix := m.path()
		log(prefix)
		keys, err := m.s.List(ctx(), prefix)
		return want(keys, err, m.under(prefix), nil)
	}},
	{"ListDir", func(m *model, log func(...any)) error {
		prefix := m.path()
		log(prefix)
		var wanted [2][]string
		for _, key := range m.under(prefix) {
			first, _, deeper := strings.Cut(strings.TrimPrefix(key, prefix+"/"), "/")
			i := 0
			if deeper {
				i = 1
			}
			if !slices.Contains(wanted[i], first) {
				wanted[i] = append(wanted[i], first)
			}
		}
		slices.Sort(wanted[0])
		slices.Sort(wanted[1])
		keys, prefixes, err := store.ListDir(ctx(), m.s, prefix)
		return want([2][]string{keys, prefixes}, err, wanted, nil)
	}},
	{"TotalSize", func(m *model, log func(...any)) error {
		prefix := m.path()
		log(prefix)
		total := 0
		for _, key := range m.under(prefix) {
			total += len(m.values[key])
		}
		n, err := store.TotalSize(ctx(), m.s, prefix)
		return want(fmt.Sprint(n), err, fmt.Sprint(total), nil)
	}},
}

func (m *model) set(log func(...any)) error {
	key, value := m.free(), m.value()
	log(key, " ", value)
	m.values[key] = value
	return m.s.Set(ctx(), key, []byte(value))
}
