package zarr_test

import (
	"context"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

func Example() {
	ctx, s := context.Background(), store.NewMemory()
	delays, err := zarr.Create(ctx, s, "delays", &zarr.ArrayMetadata{
		Shape:      []int64{5},
		DataType:   element.Of(ndview.Int32),
		ChunkShape: []int64{2},
		Codecs:     zarr.DefaultCodecs(element.Of(ndview.Int32), codec.Zstd{Level: 1}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	minutes, _ := ndview.FromHost(arrowbuf.CPU(), ndview.Int32, []int32{2, 4, 0, 0, -6}, 5)
	defer minutes.Release()
	if err := delays.Write(ctx, minutes, 2); err != nil {
		fmt.Println(err)
		return
	}
	keys, _ := s.List(ctx, "delays")
	fmt.Println(keys) // the chunk of zeros equals the fill value and is not stored

	again, _ := zarr.Open(ctx, s, "delays")
	rows, _ := again.ReadRows(ctx, zarr.Prototype{}, 1, 5, 2)
	defer rows.Release()
	values, _ := ndview.ToHost[int32](rows.(*ndview.NDBuffer))
	fmt.Println(values)
	// Output:
	// [delays/c/0 delays/c/2 delays/zarr.json]
	// [4 0 0 -6]
}

// Parts of an array are written and read by selections, which a view keeps.
func ExampleArray_View() {
	ctx, s := context.Background(), store.NewMemory()
	grades, err := zarr.Create(ctx, s, "class/grades", &zarr.ArrayMetadata{Shape: []int64{1000, 4}, DataType: element.Of(ndview.Float32)})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = grades.Set(ctx, zarr.Select(zarr.Span(10, 20), zarr.At(0)), 1.5, 0)       // column 0 of ten rows
	_ = grades.Set(ctx, zarr.Points([]int64{10, -1}, []int64{1, 3}), 4, 0)        // two elements
	rows, _ := grades.View(zarr.Select(zarr.List(999, 10, 0)))                    // not read yet
	part, _ := rows.View(zarr.Select(zarr.All, zarr.SpanStep(1, ndview.Open, 2))) // columns 1 and 3 of these
	values, _ := part.Read(ctx, zarr.Prototype{}, 0)
	defer values.Release()
	numbers, _ := ndview.ToHost[float32](values.(*ndview.NDBuffer))
	fmt.Println(part.Shape(), numbers)
	// Output:
	// [3 2] [0 4 4 0 0 0]
}

// One field of records is read and written alone; the others stay.
func ExampleView_Field() {
	ctx, s := context.Background(), store.NewMemory()
	point, _ := element.Struct(element.Field{Name: "x", Type: element.Of(ndview.Float32)}, element.Field{Name: "y", Type: element.Of(ndview.Int16)})
	points, err := zarr.Create(ctx, s, "points", &zarr.ArrayMetadata{Shape: []int64{4}, DataType: point})
	if err != nil {
		fmt.Println(err)
		return
	}
	last, _ := points.View(zarr.Select(zarr.Span(2, ndview.Open)))
	y, _ := last.Field("y")
	_ = y.Write(ctx, 7, 0)
	all, _ := points.View(zarr.Select())
	y, _ = all.Field("y")
	values, _ := y.Read(ctx, zarr.Prototype{}, 0)
	defer values.Release()
	numbers, _ := ndview.ToHost[int16](values.(*ndview.NDBuffer))
	fmt.Println(numbers)
	// Output:
	// [0 0 7 7]
}

// Metadata of Zarr v2 is replaced, and the chunks stay.
func ExampleMigrateToV3() {
	ctx, s := context.Background(), store.NewMemory()
	_, err := zarr.Create(ctx, s, "old", &zarr.ArrayMetadata{Format: 2, Shape: []int64{4}, DataType: element.Of(ndview.Int32)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(zarr.MigrateToV3(ctx, s, "old"), zarr.RemoveMetadata(ctx, s, "old", 2))
	keys, _ := s.List(ctx, "old")
	fmt.Println(keys)
	// Output:
	// <nil> <nil>
	// [old/zarr.json]
}
