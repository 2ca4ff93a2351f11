package soft

import (
	"sync"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// streamState is what a machine has beside memory. Driver.mu guards the maps of
// contexts and what belongs to them; it is not taken with order held.
type streamState struct {
	hosting   hostThreads
	contexts  map[driver.Context]*context
	threads   map[int][]*context // by thread id; the last is current
	streams   map[driver.Stream]*stream
	events    map[driver.Event]*event
	modules   map[driver.Module]*module
	functions map[driver.Function]*function

	// order is held while work is issued, so that what one call issues to
	// several streams is issued at once. It guards captures and graphs too.
	// space.mu may be taken with it held, not the other way round.
	order    sync.Mutex
	captures []*capture // that have not ended
	graphs   map[driver.Graph]*graph
	execs    map[driver.GraphExec]*graphExec
}

func newStreamState() streamState {
	return streamState{
		contexts:  map[driver.Context]*context{},
		threads:   map[int][]*context{},
		streams:   map[driver.Stream]*stream{},
		events:    map[driver.Event]*event{},
		modules:   map[driver.Module]*module{},
		functions: map[driver.Function]*function{},
		graphs:    map[driver.Graph]*graph{},
		execs:     map[driver.GraphExec]*graphExec{},
	}
}
