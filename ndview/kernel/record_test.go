package kernel_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/cudabuf/nvrtc"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/quiver-gpu/quiver/ndview/kernel"
)

// particle is a record with a field of each kind that kernels treat differently.
type particle struct {
	ID       uint8
	Position point
	Speeds   [2][2]int16
	Mass     uint16 // float16
	Tag      [3]byte
	Charge   complex64
	Born     int64
}

type point struct {
	Flag bool
	X, Y float64
}

func particleFields(t *testing.T, lay func(...dtype.Field) (dtype.DType, error)) []dtype.Field {
	t.Helper()
	place, err := lay(dtype.Field{Name: "flag", DType: dtype.Bool}, dtype.Field{Name: "x", DType: dtype.Float64}, dtype.Field{Name: "y", DType: dtype.Float64})
	require.NoError(t, err)
	return []dtype.Field{{Name: "id", DType: dtype.Uint8}, {Name: "position", DType: place}, {Name: "speeds", DType: dtype.Int16, Shape: []int64{2, 2}},
		{Name: "mass", DType: dtype.Float16}, {Name: "tag", DType: dtype.Bytes(3)}, {Name: "charge", DType: dtype.Complex64},
		{Name: "born", DType: dtype.Datetime64(dtype.Second, 1)}}
}

// layouts returns the record of particles in C's layout, packed, and with gaps in another
// order of fields.
func layouts(t *testing.T) map[string]dtype.DType {
	t.Helper()
	aligned, err := dtype.Aligned(particleFields(t, dtype.Aligned)...)
	require.NoError(t, err)
	packed, err := dtype.Packed(particleFields(t, dtype.Packed)...)
	require.NoError(t, err)
	fields := particleFields(t, dtype.Packed)
	end := int64(1)
	for i := len(fields) - 1; i >= 0; i-- {
		fields[i].Offset = end
		end += fields[i].Size() + 3
	}
	gaps, err := dtype.Record(end, fields...)
	require.NoError(t, err)
	return map[string]dtype.DType{"aligned": aligned, "packed": packed, "gaps": gaps}
}

// encode returns the bytes of records, 0xee between fields.
func encode(t *testing.T, record dtype.DType, particles ...particle) []byte {
	t.Helper()
	var all []byte
	for _, p := range particles {
		b := make([]byte, record.Size())
		for i := range b {
			b[i] = 0xee
		}
		for name, value := range map[string][]byte{"id": ndtest.Raw(p.ID), "speeds": ndtest.Raw(p.Speeds), "mass": ndtest.Raw(p.Mass), "tag": p.Tag[:], "charge": ndtest.Raw(p.Charge), "born": ndtest.Raw(p.Born)} {
			f, ok := record.Field(name)
			require.True(t, ok)
			require.Equal(t, int(f.Size()), copy(b[f.Offset:], value))
		}
		place, _ := record.Field("position")
		for name, value := range map[string][]byte{"flag": ndtest.Raw(p.Position.Flag), "x": ndtest.Raw(p.Position.X), "y": ndtest.Raw(p.Position.Y)} {
			f, ok := place.DType.Field(name)
			require.True(t, ok)
			copy(b[place.Offset+f.Offset:], value)
		}
		all = append(all, b...)
	}
	return all
}

// moved is what the kernels below make of a particle.
func moved(p particle, by point) particle {
	p.ID++
	p.Position.X += by.X * float64(p.Speeds[1][0])
	p.Position.Y = -p.Position.Y
	p.Position.Flag = !p.Position.Flag
	p.Speeds[0][1] *= 2
	p.Mass = 0x4400 // 4, twice 2
	p.Tag[2] = p.Tag[0]
	p.Charge *= p.Charge
	p.Born -= 10
	return p
}

func TestRecordsAreStructsInKernels(t *testing.T) {
	step, err := dtype.Packed(dtype.Field{Name: "flag", DType: dtype.Bool}, dtype.Field{Name: "x", DType: dtype.Float64}, dtype.Field{Name: "y", DType: dtype.Float64})
	require.NoError(t, err)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for name, record := range layouts(t) {
			t.Run(name, func(t *testing.T) {
				k, err := kernel.NewElementwise(dev, kernel.ElementwiseSource{
					Records: map[string]dtype.DType{"particle": record},
					Preamble: `static __device__ particle move(particle p, double x) {
	p.id++; p.position.x += x * p.speeds[1][0]; p.position.y = -p.position.y; p.position.flag = !p.position.flag;
	p.speeds[0][1] *= 2; p.mass = p.mass * 2; p.tag[2] = p.tag[0]; p.charge = p.charge * p.charge; p.born -= 10;
	return p;
}`,
					Code: "p = move(p, by.x)",
					Host: func(p []particle, by point) {
						for i := range p {
							p[i] = moved(p[i], by)
						}
					},
				}, kernel.Arg{Name: "p", DType: record, Read: true, Write: true}, scalar("by", step))
				require.NoError(t, err)
				before := make([]particle, 600)
				after := make([]particle, len(before))
				by := point{X: 0.5}
				for i := range before {
					before[i] = particle{ID: uint8(i), Position: point{i%2 == 0, float64(i), 2}, Speeds: [2][2]int16{{1, int16(-i)}, {int16(i), 4}}, Mass: 0x4000,
						Tag: [3]byte{byte(i), 2, 3}, Charge: complex(2, float32(i)), Born: int64(i) << 33}
					after[i] = before[i]
					if i%2 != 0 {
						after[i] = moved(before[i], by)
					}
				}
				a := ndtest.At(t, ndtest.Upload(t, dev, encode(t, record, before...)), record, 0, 300, 2)
				require.NoError(t, k.Run(ndtest.View(t)(a.Slice(1, 1, 2)), by))
				got := ndtest.Elements(t, a)
				if name != "aligned" { // in C's layout a store may write the bytes between fields
					ndtest.RequireBytes(t, encode(t, record, after...), got)
					return
				}
				require.Equal(t, decode(t, record, encode(t, record, after...)), decode(t, record, got))
			})
		}
	})
}

// decode returns records as text, which has no bytes between fields.
func decode(t *testing.T, record dtype.DType, data []byte) (texts []string) {
	t.Helper()
	for ; len(data) > 0; data = data[record.Size():] {
		texts = append(texts, record.Format(data[:record.Size()]))
	}
	return texts
}

// A reduction whose values are records: the greatest element and its position.
func TestReductionsToRecords(t *testing.T) {
	type best struct {
		Value float32
		At    int64
	}
	for name, lay := range map[string]func(...dtype.Field) (dtype.DType, error){"aligned": dtype.Aligned, "packed": dtype.Packed} {
		record, err := lay(dtype.Field{Name: "value", DType: dtype.Float32}, dtype.Field{Name: "at", DType: dtype.Int64})
		require.NoError(t, err)
		onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
			k, err := kernel.NewReduction(dev, kernel.ReductionSource{Out: record, Records: map[string]dtype.DType{"best": record},
				Preamble: "static __device__ best of(float value, long long at) { best b; b.value = value; b.at = at; return b; }",
				Neutral:  "of(-1, -1)", Reduce: "a.value > b.value || a.value == b.value && a.at < b.at ? a : b", Map: "of(x, i)",
				Host: kernel.NewHostReduction(best{-1, -1}, func(a, b best) best {
					if a.Value > b.Value || a.Value == b.Value && a.At < b.At {
						return a
					}
					return b
				}, func(out []best, x []float32, i []int64) {
					for j := range out {
						out[j] = best{x[j], i[j]}
					}
				})}, reads("x", ndview.Float32), reads("i", ndview.Int64))
			require.NoError(t, err)
			const n = 9000
			values, numbers := make([]float32, n), make([]int64, n)
			for i := range values {
				values[i], numbers[i] = float32(i*7919%n), int64(i)
			}
			x, i := ndtest.FromHost(t, dev, ndview.Float32, values, n), ndtest.FromHost(t, dev, ndview.Int64, numbers, n)
			got, err := k.Of(nil, false, x, i)
			ndtest.Own(t, got, err)
			where := int64(-1)
			for j, v := range values {
				if v == n-1 {
					where = int64(j)
				}
			}
			want := append(ndtest.Raw[float32](n-1), make([]byte, record.Size()-12)...)
			assert.Equal(t, record.Format(append(want, ndtest.Raw(where)...)), record.Format(ndtest.Elements(t, got)), name)
		})
	}
}

func TestInvalidRecordsNameTheField(t *testing.T) {
	record := func(size int64, fields ...dtype.Field) dtype.DType {
		r, err := dtype.Record(size, fields...)
		require.NoError(t, err)
		return r
	}
	overlap := record(4, dtype.Field{Name: "low", DType: dtype.Int16}, dtype.Field{Name: "all", DType: dtype.Int32})
	good := record(4, dtype.Field{Name: "v", DType: dtype.Int32})
	for message, r := range map[string]dtype.DType{
		`field "my field": got name "my field", want a C identifier`:       record(1, dtype.Field{Name: "my field", DType: dtype.Int8}),
		`field "class": got name "class", which is a keyword of C++`:       record(1, dtype.Field{Name: "class", DType: dtype.Int8}),
		`fields "low" and "all" overlap: got offset 0, want at least 2`:    overlap,
		`field "inner": fields "low" and "all" overlap`:                    record(9, dtype.Field{Name: "inner", DType: overlap, Offset: 1}),
		`argument p: field "x": got a Go field V at its place`:             record(4, dtype.Field{Name: "x", DType: dtype.Int32}),
		`argument p: field "v": got Go type int32, want float32 for float`: record(4, dtype.Field{Name: "v", DType: dtype.Float32}),
		`argument p: field "v": got Go type int32, want an array of 1`:     record(4, dtype.Field{Name: "v", DType: dtype.Int32, Shape: []int64{1}}),
		`struct { V int32 } with 1 fields, want 2`:                         record(5, dtype.Field{Name: "v", DType: dtype.Int32}, dtype.Field{Name: "w", DType: dtype.Int8, Offset: 4}),
		`field "v": got Go type int32, want a struct for a record`:         record(4, dtype.Field{Name: "v", DType: good}),
	} {
		_, err := kernel.NewElementwise(arrowbuf.CPU(), kernel.ElementwiseSource{Code: "p = p", Host: func([]struct{ V int32 }) {}}, writes("p", r))
		assert.ErrorContains(t, err, message)
		assert.ErrorIs(t, err, dtype.ErrDType)
	}
	for message, records := range map[string]map[string]dtype.DType{
		"record r: got int8, want a record":           {"r": dtype.Int8},
		"record r: got the zero DType, want a record": {"r": {}},
		`record: got name "struct", which is a keywo`: {"struct": good},
		"records r and s have the same dtype":         {"r": good, "s": good},
		`record r: fields "low" and "all" overlap`:    {"r": overlap},
	} {
		_, err := kernel.NewElementwise(arrowbuf.CPU(), kernel.ElementwiseSource{Code: "p = 1", Records: records, Host: func([]int8) {}}, writes("p", dtype.Int8))
		assert.ErrorContains(t, err, message)
	}
	k, err := kernel.NewElementwise(arrowbuf.CPU(), kernel.ElementwiseSource{Code: "res = s.v", Host: func(res []int32, s struct{ V int32 }) { res[0] = s.V }},
		writes("res", dtype.Int32), scalar("s", good))
	require.NoError(t, err)
	res := ndtest.FromHost(t, arrowbuf.CPU(), dtype.Int32, []int32{0})
	for message, value := range map[string]any{"argument s: got Go type int, want a struct": 1, "argument s: got nil, want a struct": nil, `argument s: field "v": got a Go field X`: struct{ X int32 }{}} {
		assert.ErrorContains(t, k.Run(res, value), message)
	}
	require.NoError(t, k.Run(res, struct{ V int32 }{7}))
	assert.Equal(t, []int32{7}, ndtest.HostOf[int32](t, res))
}

// sourcesOfRecords returns a kernel's source per layout, and a program's own kernel.
func sourcesOfRecords(t *testing.T) (sources []string) {
	for name, record := range layouts(t) {
		k, err := kernel.ElementwiseOf(kernel.ElementwiseSource{Code: "res_t twice = a; twice.mass = a.mass * 2; res = twice; b = s.position.x"},
			writes("res", record), reads("a", record), writes("b", dtype.Float64), scalar("s", record))
		require.NoError(t, err)
		size := record.Size()
		sources = append(sources, k.SourceOf([]int64{24}, []int64{size, size, 8}, [][]int64{{size}, {-size}, {8}}, true))
		text, err := kernel.DeclareRecord("particle", record)
		if name != "aligned" {
			assert.ErrorIs(t, err, dtype.ErrDType)
			assert.ErrorContains(t, err, "kernel.DeclareRecord: field \"")
			continue
		}
		require.NoError(t, err)
		sources = append(sources, text+doubleMass)
	}
	return sources
}

const doubleMass = `
extern "C" __global__ void double_mass(particle *p, long long n) {
	for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long long)blockDim.x) p[i].mass = p[i].mass * 2;
}`

func TestSourcesOfRecordsCompile(t *testing.T) {
	needNVRTC(t)
	for _, source := range sourcesOfRecords(t) {
		assert.NoError(t, kernel.CompileSource(source), source)
	}
	_, err := kernel.DeclareRecord("x", dtype.Int8)
	assert.ErrorContains(t, err, "kernel.DeclareRecord: got int8, want a record")
	_, err = kernel.DeclareRecord("2", dtype.DType{})
	assert.ErrorIs(t, err, dtype.ErrDType)
}

// A program that compiles its own kernel gets the struct from DeclareRecord.
func TestDeclaredRecordsAreElementsOfProgramsKernels(t *testing.T) {
	record := layouts(t)["aligned"]
	text, err := kernel.DeclareRecord("particle", record)
	require.NoError(t, err)
	mass, _ := record.Field("mass")
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		image := []byte("host kernels")
		if !dev.RunsHostKernels() {
			needNVRTC(t)
			compiled, err := nvrtc.Compile(nvrtc.Source{Name: "double_mass.cu", Text: text + doubleMass, Arch: dev.Arch()})
			require.NoError(t, err)
			image = compiled.Bytes
		}
		m, err := dev.LoadModule(image, map[string]cudabuf.HostKernel{"double_mass": func(l *cudabuf.HostLaunch) {
			for i := range l.Int64(1) {
				copy(l.Memory(l.Pointer(0)+uintptr(i*record.Size()+mass.Offset), 2), ndtest.Raw[uint16](0x4400))
			}
		}})
		require.NoError(t, err)
		defer func() { assert.NoError(t, m.Close()) }()
		k, err := m.Kernel("double_mass")
		require.NoError(t, err)
		before := []particle{{ID: 1, Mass: 0x4000}, {ID: 2, Mass: 0x4000, Born: 3}}
		a := ndtest.At(t, ndtest.Upload(t, dev, encode(t, record, before...)), record, 0, 2)
		require.NoError(t, k.Launch(cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 32}, 0, a.Buffer(), int64(2)))
		before[0].Mass, before[1].Mass = 0x4400, 0x4400
		ndtest.RequireBytes(t, encode(t, record, before...), ndtest.Elements(t, a))
	})
}
