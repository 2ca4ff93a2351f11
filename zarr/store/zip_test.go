package store_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func openZip(t testing.TB, path string, mode store.ZipMode) *store.Zip {
	t.Helper()
	z, err := store.OpenZip(path, mode)
	require.NoError(t, err)
	return z
}

// zipEntries returns the values of a ZIP file as archive/zip reads them.
func zipEntries(t *testing.T, path string) map[string]string {
	t.Helper()
	r, err := zip.OpenReader(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	entries := map[string]string{}
	for _, file := range r.File {
		content, err := file.Open()
		require.NoError(t, err)
		value, err := io.ReadAll(content)
		require.NoError(t, err)
		entries[file.Name] = string(value)
	}
	return entries
}

func TestZipFileAppearsWhenClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.zip")
	z := openZip(t, path, store.ZipCreate)
	set(t, z, "zarr.json", "{}")
	set(t, z, "c/0", "chunk")
	assert.NoFileExists(t, path)
	require.NoError(t, z.Close())
	assert.Equal(t, map[string]string{"zarr.json": "{}", "c/0": "chunk"}, zipEntries(t, path))
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, files, 1)
	assert.NoError(t, z.Close())
	_, err = z.Get(ctx(), "c/0", store.Range{})
	assert.ErrorContains(t, err, "closed")
	assert.ErrorContains(t, z.Set(ctx(), "c/0", nil), "closed")

	s, err := store.Open(ctx(), path)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close(s)) }()
	assert.Equal(t, []string{"c/0", "zarr.json"}, list(t, s))
	assert.Equal(t, "hun", get(t, s, "c/0", store.Between(1, 4)))
	assert.ErrorIs(t, s.Set(ctx(), "x", nil), store.ErrReadOnly)
	assert.ErrorIs(t, s.Delete(ctx(), "c/0"), store.ErrReadOnly)
}

func TestZipModes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.zip")
	_, err := store.OpenZip(path, store.ZipRead)
	assert.ErrorIs(t, err, store.ErrNotFound)
	for _, mode := range []store.ZipMode{store.ZipAppend, store.ZipWrite} { // neither needs a file
		z := openZip(t, path, mode)
		set(t, z, "k", "1")
		require.NoError(t, z.Close())
	}
	_, err = store.OpenZip(path, store.ZipCreate)
	assert.ErrorIs(t, err, store.ErrExists)
	_, err = store.OpenZip(path, 9)
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	z := openZip(t, path, store.ZipWrite)
	assert.Empty(t, list(t, z))
	require.NoError(t, z.Close())
	assert.Empty(t, zipEntries(t, path))
}

func TestZipAppendKeepsReplacesAndDeletes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.zip")
	var file bytes.Buffer
	w := zip.NewWriter(&file)
	for name, value := range map[string]string{"kept": "kept", "replaced": "old", "deleted": "x", "deep/compressed": strings.Repeat("compressed", 50)} {
		entry, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
		require.NoError(t, err)
		write(t, entry, value)
	}
	_, err := w.Create("a directory/")
	require.NoError(t, err)
	_, err = w.Create("../outside")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(path, file.Bytes(), 0o666))

	z := openZip(t, path, store.ZipAppend)
	assert.Equal(t, []string{"deep/compressed", "deleted", "kept", "replaced"}, list(t, z), "neither directories nor names that are no keys")
	assert.Equal(t, "sedcomp", get(t, z, "deep/compressed", store.Between(7, 14)))
	set(t, z, "replaced", "new")
	set(t, z, "added", "new")
	require.NoError(t, z.Delete(ctx(), "deleted"))
	assert.ErrorIs(t, z.Delete(ctx(), "added"), errors.ErrUnsupported)
	assert.Equal(t, "new", get(t, z, "replaced", store.Range{}))
	assert.Equal(t, "old", zipEntries(t, path)["replaced"], "the file is replaced by Close")
	require.NoError(t, z.Close())
	assert.Equal(t, map[string]string{"kept": "kept", "replaced": "new", "added": "new", "deep/compressed": strings.Repeat("compressed", 50)}, zipEntries(t, path))
}

func TestZipReportsDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.zip")
	z := openZip(t, path, store.ZipCreate)
	set(t, z, "c/0", "0123456789")
	require.NoError(t, z.Close())
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	i := bytes.Index(raw, []byte("0123456789"))
	damaged := bytes.Clone(raw)
	damaged[i] = 'x'
	require.NoError(t, os.WriteFile(path, damaged, 0o666))
	z = openZip(t, path, store.ZipRead)
	_, err = z.Get(ctx(), "c/0", store.Range{})
	assert.ErrorIs(t, err, zip.ErrChecksum)
	assert.ErrorContains(t, err, "c/0")
	require.NoError(t, z.Close())
	require.NoError(t, os.WriteFile(path, raw[:len(raw)-3], 0o666))
	_, err = store.OpenZip(path, store.ZipRead)
	assert.ErrorIs(t, err, zip.ErrFormat)
	assert.ErrorContains(t, err, path)
}

// testdata/make.py writes the file.
func TestZipReadsTheCompressionMethodsOfPython(t *testing.T) {
	raw, err := os.ReadFile("testdata/methods.zip")
	require.NoError(t, err)
	z := openZip(t, "testdata/methods.zip", store.ZipRead)
	methods := []string{"bzip2", "deflated", "lzma", "stored"}
	for _, method := range methods {
		var want strings.Builder
		for i := range 200 {
			fmt.Fprintf(&want, "%s %d\n", strings.ToUpper(method), i)
		}
		assert.Equal(t, want.String(), get(t, z, "c/"+method, store.Range{}))
		assert.Equal(t, want.String()[9:99], get(t, z, "c/"+method, store.Between(9, 99)))
	}
	require.NoError(t, z.Close())
	// Every changed byte is an error of an entry or of the file, or is of no importance.
	path := filepath.Join(t.TempDir(), "a.zip")
	step := 1
	if testing.Short() {
		step = 5
	}
	for at := 0; at < len(raw); at += step {
		damaged := bytes.Clone(raw)
		damaged[at] ^= 0x55
		require.NoError(t, os.WriteFile(path, damaged, 0o666))
		z, err := store.OpenZip(path, store.ZipRead)
		if err != nil {
			continue
		}
		for _, method := range methods {
			value, err := z.Get(ctx(), "c/"+method, store.Range{})
			assert.True(t, err != nil || bytes.HasSuffix(value, []byte(" 199\n")), "byte %d", at)
		}
		require.NoError(t, z.Close())
	}
	other := bytes.ReplaceAll(raw, []byte{zipLZMA, 0}, []byte{93, 0}) // Zstandard
	require.NotEqual(t, raw, other)
	require.NoError(t, os.WriteFile(path, other, 0o666))
	z = openZip(t, path, store.ZipRead)
	_, err = z.Get(ctx(), "c/lzma", store.Range{})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "method 93")
	require.NoError(t, z.Close())
}

const zipLZMA = 14

func TestZipRefusesEntriesWhoseBytesAreNotTheValue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.zip")
	value := []byte("0123456789")
	write := func(change func(h *zip.FileHeader)) {
		out, err := os.Create(path)
		require.NoError(t, err)
		w := zip.NewWriter(out)
		h := &zip.FileHeader{Name: "a", CRC32: crc32.ChecksumIEEE(value), CompressedSize64: 10, UncompressedSize64: 10}
		change(h)
		entry, err := w.CreateRaw(h)
		require.NoError(t, err)
		_, err = entry.Write(value)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.NoError(t, out.Close())
	}
	for _, c := range []struct {
		change func(h *zip.FileHeader)
		err    error
		text   string
	}{
		{func(h *zip.FileHeader) { h.Flags = 1 }, errors.ErrUnsupported, "encrypted"},
		{func(h *zip.FileHeader) { h.UncompressedSize64 = 60 }, zip.ErrFormat, "10 bytes, want 60"},
		{func(h *zip.FileHeader) { h.CompressedSize64 = 11 }, zip.ErrFormat, "11 bytes, want 10"},
	} {
		write(c.change)
		z := openZip(t, path, store.ZipRead)
		for _, r := range []store.Range{{}, store.Between(2, 5)} {
			_, err := z.Get(ctx(), "a", r)
			require.ErrorIs(t, err, c.err)
			require.ErrorContains(t, err, c.text)
		}
		require.NoError(t, z.Close())
	}
	write(func(*zip.FileHeader) {})
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	at := bytes.Index(raw, []byte("PK\x01\x02")) + 42 // the offset of the entry
	binary.LittleEndian.PutUint32(raw[at:], 1<<30)
	require.NoError(t, os.WriteFile(path, raw, 0o666))
	z := openZip(t, path, store.ZipRead)
	for _, r := range []store.Range{{}, store.Between(2, 5)} {
		_, err = z.Get(ctx(), "a", r)
		require.ErrorIs(t, err, zip.ErrFormat)
		require.ErrorContains(t, err, "ends before the entry")
	}
	require.NoError(t, z.Close())
}

// FuzzZip reads arbitrary files: no panic, and no allocation beyond what they hold.
func FuzzZip(f *testing.F) {
	path := filepath.Join(f.TempDir(), "seed.zip")
	z := openZip(f, path, store.ZipCreate)
	require.NoError(f, z.Set(ctx(), "c/0", []byte("0123456789")))
	require.NoError(f, z.Close())
	raw, err := os.ReadFile(path)
	require.NoError(f, err)
	f.Add(raw)
	raw, err = os.ReadFile("testdata/methods.zip")
	require.NoError(f, err)
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "a.zip")
		require.NoError(t, os.WriteFile(path, raw, 0o666))
		z, err := store.OpenZip(path, store.ZipRead)
		if err != nil {
			return
		}
		keys, err := z.List(ctx(), "")
		require.NoError(t, err)
		for _, key := range keys {
			for _, r := range []store.Range{{}, store.Between(1, 4), store.Last(3)} {
				_, _ = z.Get(ctx(), key, r)
			}
		}
		require.NoError(t, z.Close())
	})
}

func TestZipNamesAreMarkedAsUTF8(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.zip")
	z := openZip(t, path, store.ZipCreate)
	set(t, z, "é/zarr.json", "{}")
	require.NoError(t, z.Close())
	r, err := zip.OpenReader(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	assert.Equal(t, "é/zarr.json", r.File[0].Name)
	assert.False(t, r.File[0].NonUTF8)
	assert.NotZero(t, r.File[0].Flags&(1<<11), "Python needs the bit")
}

func TestZipNamesOfOtherPrograms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.zip")
	unicodePath := func(name, of string) []byte { // an extra field before it, and the field
		field := binary.LittleEndian.AppendUint32([]byte{1}, crc32.ChecksumIEEE([]byte(of)))
		field = append(field, name...)
		return append(binary.LittleEndian.AppendUint16([]byte{0x55, 0x58, 1, 0, 9, 0x75, 0x70}, uint16(len(field))), field...)
	}
	all := make([]byte, 128)
	for i := range all {
		all[i] = byte(0x80 + i)
	}
	cases := []struct {
		name  string
		flags uint16
		extra []byte
		want  string
	}{
		{"\x82/zarr.json", 0, nil, "é/zarr.json"}, {string(all), 0, nil, ""}, {"a\xff", 0, nil, "a\u00a0"},
		{"\x81/\x9f\xe1", 0, unicodePath("ü/日本", "\x81/\x9f\xe1"), "ü/日本"}, {"\x84", 0, unicodePath("x", "\x85"), "ä"}, {"\x94", 0, []byte{0x75, 0x70, 9, 0, 1}, "ö"},
		{"日本/0", 0, nil, "日本/0"}, {"日本/1", 1 << 11, nil, "日本/1"},
	}
	out, err := os.Create(path)
	require.NoError(t, err)
	w := zip.NewWriter(out)
	for _, c := range cases {
		n := uint64(len(c.want))
		entry, err := w.CreateRaw(&zip.FileHeader{Name: c.name, Flags: c.flags, Extra: c.extra, CRC32: crc32.ChecksumIEEE([]byte(c.want)), CompressedSize64: n, UncompressedSize64: n})
		require.NoError(t, err)
		write(t, entry, c.want)
	}
	require.NoError(t, w.Close())
	require.NoError(t, out.Close())

	z := openZip(t, path, store.ZipAppend)
	keys := list(t, z)
	assert.Len(t, keys, len(cases))
	for _, c := range cases {
		if c.want != "" {
			assert.Equal(t, c.want, get(t, z, c.want, store.Range{}))
		}
	}
	for _, key := range keys {
		if r := []rune(key); len(r) == 128 {
			assert.Equal(t, "Çüé", string(r[:3]))
			assert.Equal(t, "²■\u00a0", string(r[125:]))
		}
	}
	set(t, z, "é/zarr.json", "new")
	require.ErrorIs(t, z.Set(ctx(), "\x82", nil), store.ErrInvalidKey)
	require.NoError(t, z.Close())
	z = openZip(t, path, store.ZipRead)
	assert.Equal(t, keys, list(t, z))
	assert.Equal(t, "new", get(t, z, "é/zarr.json", store.Range{}))
	assert.Equal(t, "ö", get(t, z, "ö", store.Range{}), "copied with its name")
	require.NoError(t, z.Close())
}
