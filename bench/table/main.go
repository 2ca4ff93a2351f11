// Command table prints the recorded benchmark results: the newest of each machine
// and topic.
//
//	go run ./bench/table [folder]
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"text/tabwriter"
)

// result is one file of bench/results; CONTRIBUTING.md documents its fields.
type result struct {
	Machine struct {
		Name, CPU, GPU, Driver, Commit, Date string
	}
	Tests   *struct{ Passed, Failed, Skipped int } // nil if the run had no tests
	Records []entry

	topic string
}

// entry is one figure. A pointer is nil if the figure lacks the field.
type entry struct {
	Name, Unit string
	Value      float64
	Peer       string
	PeerValue  *float64 `json:"peer_value"`
	Ratio      *float64
	Limit      string
	Share      *float64
}

func main() {
	folder := "bench/results"
	if len(os.Args) > 1 {
		folder = os.Args[1]
	}
	if err := run(os.Stdout, folder); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, folder string) error {
	paths, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return fmt.Errorf("no results in %s", folder)
	}
	newest, err := readNewest(paths)
	if err != nil {
		return err
	}
	for _, r := range newest {
		if err := show(w, r); err != nil {
			return err
		}
	}
	return nil
}

// fileName matches DATE-MACHINE-TOPIC.json. Dates sort as text; the machine may
// contain dashes, the topic may not.
var fileName = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)-(.+)-([^-]+)\.json$`)

// readNewest reads the newest file of each machine and topic, sorted by topic.
func readNewest(paths []string) ([]result, error) {
	newest := map[[2]string]string{}
	for _, path := range paths {
		parts := fileName.FindStringSubmatch(filepath.Base(path))
		if parts == nil {
			return nil, fmt.Errorf("%s: expected a name like 2026-11-21-machine-topic.json", path)
		}
		key := [2]string{parts[3], parts[2]}
		newest[key] = max(newest[key], path)
	}
	var results []result
	for key, path := range newest {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		r := result{topic: key[0]}
		if err := json.Unmarshal(data, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		results = append(results, r)
	}
	slices.SortFunc(results, func(a, b result) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.Machine.Name, b.Machine.Name))
	})
	return results, nil
}

func show(w io.Writer, r result) error {
	m := r.Machine
	fmt.Fprintf(w, "%s, %s, commit %s\n%s", r.topic, m.Date, m.Commit, m.CPU)
	if m.GPU != "" {
		fmt.Fprintf(w, "; %s, driver %s", m.GPU, m.Driver)
	}
	if r.Tests != nil {
		fmt.Fprintf(w, "; %d passed, %d failed, %d skipped", r.Tests.Passed, r.Tests.Failed, r.Tests.Skipped)
	}
	fmt.Fprintln(w)
	if len(r.Records) == 0 {
		_, err := fmt.Fprintln(w)
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  record\tvalue\tunit\tpeer's\tratio\tshare\tpeer\tlimit")
	for _, e := range r.Records {
		fmt.Fprintf(t, "  %s\t%.3f\t%s\t%s\t%s\t%s\t%s\t%s\n",
			e.Name, e.Value, e.Unit, number(e.PeerValue), number(e.Ratio), number(e.Share), e.Peer, e.Limit)
	}
	fmt.Fprintln(t)
	return t.Flush()
}

func number(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *v)
}
