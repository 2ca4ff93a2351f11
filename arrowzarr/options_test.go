package arrowzarr_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

func TestInvalidOptionsAreRefused(t *testing.T) {
	path := inputFile(t, tabletest.Single("a", tabletest.Texts("x")).File(t))
	for want, options := range map[string]arrowzarr.Options{
		"columns: no column is named \"b\"\nexpected some of \"a\"": {Columns: []string{"a", "b"}},
		"jobs: -1":       {Jobs: -1},
		"chunk rows: -1": {ChunkRows: -1},
		"shard rows: -4": {ChunkRows: 2, ShardRows: -4},
		"shard rows: 4, expected a multiple of the chunk rows, which must": {ShardRows: 4},
		"shard rows: 5, expected a multiple":                               {ChunkRows: 2, ShardRows: 5},
		"max memory: 1000 bytes, expected at least":                        {MaxMemory: 1000},
		"max memory: -1 bytes":                                             {MaxMemory: -1},
		`codec "lzma": expected none`:                                      {Codec: arrowzarr.Codec{Name: "lzma"}},
		`codec "": expected none`:                                          {Codec: arrowzarr.Codec{Level: 3}},
		"expected a level from -131072 to 22, not 100":                     {Codec: arrowzarr.Codec{Name: "zstd", Level: 100}},
		"lower --chunk-rows, or raise --max-memory":                        {ChunkRows: 1 << 31},
		"lower --shard-rows, raise --chunk-rows":                           {ChunkRows: 1, ShardRows: 1 << 40},
	} {
		assert.Contains(t, refuse(t, arrowzarr.PartUsage, path, options), want)
	}
}
