package cudatest_test

import (
	"testing"

	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/internal/apitest"
)

func TestNilAndZeroArgumentsNeverPanic(t *testing.T) {
	apitest.Zeros{Functions: map[string]any{
		"CatchHostAccess": cudatest.CatchHostAccess, "FailAt": cudatest.FailAt, "FailFrom": cudatest.FailFrom, "FailNth": cudatest.FailNth,
		"Faults": cudatest.Faults, "New": cudatest.New, "OnGPU": cudatest.OnGPU, "Open": cudatest.Open,
		// These take the test that they fail.
		"ForEachArrowDevice": nil, "ForEachDevice": nil, "ForEachDriver": nil, "NewDevice": nil, "Start": nil,
	}}.Run(t, ".")
}
