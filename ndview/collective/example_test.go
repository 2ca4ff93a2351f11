package collective_test

import (
	"fmt"
	"log"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/collective"
)

// Two ranks sum their gradients. On GPUs the same code runs through NCCL.
func Example() {
	devices := []arrowbuf.Device{arrowbuf.CPU(), arrowbuf.CPU()} // or cuda:0 and cuda:1
	comms, err := collective.NewAll(devices, collective.Options{})
	if err != nil {
		log.Fatal(err)
	}
	var ranks sync.WaitGroup
	for _, c := range comms {
		ranks.Go(func() {
			defer c.Close()
			gradient, _ := ndview.FromHost(c.Device(), ndview.Float32, []float32{1, 2, float32(c.Rank())}, 3)
			defer gradient.Release()
			if err := c.AllReduceInto(gradient, gradient, collective.Sum); err != nil {
				log.Fatal(err)
			}
			if err := c.Wait(); err != nil { // has another rank died?
				log.Fatal(err)
			}
			if c.Rank() == 0 {
				fmt.Println(gradient)
			}
		})
	}
	ranks.Wait()
	// Output: [2 4 1]
}

// Processes meet at the address that torchrun and other launchers put into the environment.
func ExampleConnect() {
	place, err := collective.FromEnv() // or Rendezvous{"file:/tmp/meet", rank, size}
	if err != nil {
		return // not started by a launcher
	}
	c, err := collective.Connect(arrowbuf.CPU(), place, collective.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println("rank", c.Rank(), "of", c.Size())
}

// Two ranks exchange arrays: both calls run together.
func ExampleGroup() {
	comms, err := collective.NewAll([]arrowbuf.Device{arrowbuf.CPU(), arrowbuf.CPU()}, collective.Options{})
	if err != nil {
		log.Fatal(err)
	}
	var group collective.Group // one goroutine drives both ranks
	for rank, c := range comms {
		defer c.Close()
		mine, _ := ndview.FromHost(c.Device(), ndview.Int64, []int64{int64(rank)}, 1)
		defer mine.Release()
		theirs, _ := ndview.Zeros(c.Device(), ndview.Int64, 1)
		defer theirs.Release()
		_ = group.Comm(c).Send(mine, 1-rank)
		_ = group.Comm(c).Recv(theirs, 1-rank)
		defer func() { fmt.Println("rank", rank, "received", theirs) }()
	}
	if err := group.Run(); err != nil { // returns the errors of the calls, too
		log.Fatal(err)
	}
	// Output:
	// rank 1 received [0]
	// rank 0 received [1]
}
