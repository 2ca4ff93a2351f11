package inputs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/inputs"
)

// A folder of files is one input, and its key=value folders are a column.
func ExampleOpen() {
	root, err := os.MkdirTemp("", "inputs-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(root)
	for year, text := range map[string]string{"2024": "n\n1\n2\n", "2025": "n\n3\n"} {
		folder := filepath.Join(root, "year="+year)
		if err := errors.Join(os.Mkdir(folder, 0o777), os.WriteFile(filepath.Join(folder, "part.csv"), []byte(text), 0o666)); err != nil {
			panic(err)
		}
	}

	src, err := inputs.Open(context.Background(), []string{root}, source.Options{
		Allocator: memory.DefaultAllocator, MaxBuffer: 1 << 20, BatchRows: 1000, Jobs: 1,
		Text: source.TextOptions{InferRows: 1000, InferHead: true},
	})
	if err != nil {
		panic(err)
	}
	defer src.Close()
	if err := src.Open(context.Background(), []int{0, 1}, source.WholeInput); err != nil {
		panic(err)
	}
	for {
		b, err := src.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			panic(err)
		}
		for i, f := range b.Record.Schema().Fields() {
			fmt.Println(f.Name, f.Type, b.Record.Column(i))
		}
		b.Record.Release()
	}
	// Output:
	// n int64 [1 2]
	// year int64 [2024 2024]
	// n int64 [3]
	// year int64 [2025]
}
