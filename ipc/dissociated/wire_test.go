package dissociated

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBodyTagLayout(t *testing.T) {
	for _, c := range []struct {
		tag      Tag
		sequence uint32
		kind     BodyKind
	}{
		{0, 0, Packed},
		{0x00000000_00000007, 7, Packed},
		{0x01000000_00000007, 7, Located},
		{0x01000000_ffffffff, math.MaxUint32, Located},
	} {
		assert.Equal(t, c.tag, BodyTag(c.sequence, c.kind))
		sequence, kind, err := ParseBodyTag(c.tag)
		require.NoError(t, err)
		assert.Equal(t, c.sequence, sequence)
		assert.Equal(t, c.kind, kind)
	}
	for name, tag := range map[string]Tag{
		"the kind at bit 55, as in the document's diagrams": 1 << 55,
		"a reserved bit":       1 << 32,
		"an unknown kind":      2 << 56,
		"another unknown kind": 0xff << 56,
		"all bits are set":     math.MaxUint64,
	} {
		_, _, err := ParseBodyTag(tag)
		assert.ErrorIs(t, err, ErrProtocol, name)
	}
	assert.Equal(t, "packed located body(9)", Packed.String()+" "+Located.String()+" "+BodyKind(9).String())
}

func TestMetadataMessageLayout(t *testing.T) {
	for _, c := range []struct {
		m   Metadata
		hex string
	}{
		{Metadata{0, []byte{0xaa, 0xbb}}, "01" + "00000000" + "aabb"},
		{Metadata{0x04030201, []byte{0}}, "01" + "01020304" + "00"},
		{Metadata{0x04030201, nil}, "00" + "01020304"},
	} {
		b := c.m.Append(nil)
		assert.Equal(t, c.hex, hex.EncodeToString(b))
		back, err := ParseMetadata(b)
		require.NoError(t, err)
		assert.Equal(t, c.m, back)
	}
	for name, text := range map[string]string{
		"nothing":                           "",
		"four bytes":                        "00000000",
		"an end of stream of six bytes":     "000000000000",
		"a header of no bytes":              "0100000000",
		"an unknown type":                   "020000000000",
		"an unknown type without a header":  "ff00000000",
		"an end of stream with a header":    "0000000000aabb",
		"the four bytes of a schema, alone": "01000000",
	} {
		b, err := hex.DecodeString(text)
		require.NoError(t, err)
		_, err = ParseMetadata(b)
		assert.ErrorIs(t, err, ErrProtocol, name)
	}
}

func TestLocationsLayout(t *testing.T) {
	word := func(n byte) string { return hex.EncodeToString([]byte{n, 0, 0, 0, 0, 0, 0, 0}) }
	for _, c := range []struct {
		l   Locations
		hex string
	}{
		{Locations{}, word(0) + word(0)},
		{Locations{{64, 3}, {0, 0}, {128, 5}}, word(8) + word(3) + word(64) + word(3) + word(0) + word(0) + word(128) + word(5)},
	} {
		b := c.l.Append(nil)
		assert.Equal(t, c.hex, hex.EncodeToString(b))
		back, err := ParseLocations(b)
		require.NoError(t, err)
		assert.Equal(t, c.l, back)
	}
	full := "ffffffffffffffff"
	for name, text := range map[string]string{
		"nothing":               "",
		"half a pair":           word(0),
		"a pair less":           word(3) + word(2) + word(64) + word(3),
		"a pair more":           word(0) + word(0) + word(64) + word(0),
		"half a pair more":      word(3) + word(1) + word(64) + word(3) + word(1),
		"a total that is less":  word(2) + word(1) + word(64) + word(3),
		"a sum beyond a uint64": word(0) + word(2) + word(64) + full + word(64) + word(1),
		"a count of all":        word(0) + full,
	} {
		b, err := hex.DecodeString(text)
		require.NoError(t, err)
		_, err = ParseLocations(b)
		assert.ErrorIs(t, err, ErrProtocol, name)
	}
}

func TestFreedAddressesLayout(t *testing.T) {
	b := AppendFreed(nil, 1, math.MaxUint64)
	assert.Equal(t, "0100000000000000ffffffffffffffff", hex.EncodeToString(b))
	back, err := ParseFreed(b)
	require.NoError(t, err)
	assert.Equal(t, []uint64{1, math.MaxUint64}, back)
	for _, n := range []int{0, 7, 9} {
		_, err := ParseFreed(make([]byte, n))
		assert.ErrorIs(t, err, ErrProtocol, "%d bytes", n)
	}
}

func TestEndpointRoundTripsThroughURI(t *testing.T) {
	free := Tag(math.MaxUint64)
	handle := []byte{0xfb, 0xff, 0xfe, 0x3e}
	for _, e := range []Endpoint{{WantData: 0}, {WantData: 7, FreeData: &free}, {WantData: 7, FreeData: &free, RemoteHandle: handle}} {
		u := &url.URL{Scheme: "ucx", Host: "a:1", RawQuery: "other=1"}
		e.AddTo(u)
		parsed, err := url.Parse(u.String())
		require.NoError(t, err)
		assert.Equal(t, "1", parsed.Query().Get("other"))
		back, err := ParseEndpoint(parsed)
		require.NoError(t, err)
		assert.Equal(t, e.WantData, back.WantData)
		assert.Equal(t, e.FreeData, back.FreeData)
		assert.Equal(t, string(e.RemoteHandle), string(back.RemoteHandle))
	}
	for _, text := range []string{base64.StdEncoding.EncodeToString(handle), base64.RawStdEncoding.EncodeToString(handle),
		base64.URLEncoding.EncodeToString(handle), base64.RawURLEncoding.EncodeToString(handle)} {
		e, err := ParseEndpoint(&url.URL{RawQuery: "want_data=1&remote_handle=" + text})
		require.NoError(t, err, text)
		assert.Equal(t, handle, e.RemoteHandle, "%s, in which a plus may have become a space", text)
	}
	for name, query := range map[string]string{
		"no want_data":                   "free_data=1",
		"want_data without a number":     "want_data=",
		"a negative number":              "want_data=-1",
		"more than a uint64":             "want_data=18446744073709551616",
		"hexadecimal":                    "want_data=0x1",
		"two of them":                    "want_data=1&want_data=1",
		"free_data that is no number":    "want_data=1&free_data=x",
		"two tags that are one":          "want_data=1&free_data=1",
		"a handle that is no base64":     "want_data=1&remote_handle=%21%21%21%21",
		"a handle with too much padding": "want_data=1&remote_handle=%3D%3D%3D%3D",
		"a query that is none":           "want_data=1&a=%zz",
	} {
		_, err := ParseEndpoint(&url.URL{RawQuery: query})
		assert.ErrorIs(t, err, ErrProtocol, name)
	}
}

func FuzzMessages(f *testing.F) {
	f.Add(Metadata{3, []byte{1, 2}}.Append(nil), uint64(BodyTag(3, Located)), "want_data=1&free_data=2&remote_handle=AAAA")
	f.Add(Locations{{64, 3}}.Append(nil), uint64(math.MaxUint64), "want_data=1;free_data=2")
	f.Add(AppendFreed(nil, 1), uint64(0), "")
	f.Add([]byte(memfd{1, 2, namePrefix + "00112233445566778899aabbccddeeff"}.String()), uint64(0), "")
	f.Fuzz(func(t *testing.T, b []byte, tag uint64, query string) {
		if m, err := ParseMetadata(b); err == nil {
			assert.Equal(t, b, m.Append(nil))
		}
		if l, err := ParseLocations(b); err == nil {
			assert.Equal(t, b, l.Append(nil))
		}
		if freed, err := ParseFreed(b); err == nil {
			assert.Equal(t, b, AppendFreed(nil, freed...))
		}
		if m, err := parseMemfd(b); err == nil {
			again, err := parseMemfd([]byte(m.String()))
			require.NoError(t, err)
			assert.Equal(t, m, again)
		}
		if sequence, kind, err := ParseBodyTag(Tag(tag)); err == nil {
			assert.Equal(t, Tag(tag), BodyTag(sequence, kind))
		}
		if e, err := ParseEndpoint(&url.URL{RawQuery: query}); err == nil {
			var u url.URL
			e.AddTo(&u)
			again, err := ParseEndpoint(&u)
			require.NoError(t, err)
			assert.Equal(t, string(e.RemoteHandle), string(again.RemoteHandle))
			assert.Equal(t, e.WantData, again.WantData)
			assert.Equal(t, e.FreeData, again.FreeData)
		}
	})
}
