package arrowzarr

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/quiver-gpu/quiver/zarr/store"
)

// OutputStatus describes an output that may be unfinished.
type OutputStatus struct {
	Output string `json:"output"`
	// State is complete, missing, partitions (Plan has planned it), converting (a process
	// writes it, or an object store cannot say), interrupted, or appending (rows are being
	// appended, or that was interrupted; readers see the table as it was before).
	State string `json:"state"`
	// Input is that of an unfinished output.
	Input string `json:"input,omitempty"`
	// Partitions is the number of planned partitions, and Missing are those that are not
	// done.
	Partitions int   `json:"partitions,omitempty"`
	Missing    []int `json:"missing,omitempty"`
	// RowsDone is the number of rows in the partitions that are done, or before the last
	// checkpoint. Rows is that of all partitions, or -1 if it is unknown.
	RowsDone int64 `json:"rows_done"`
	Rows     int64 `json:"rows"`
	// Folder has what is unfinished.
	Folder string `json:"folder,omitempty"`
}

// MissingRanges returns the missing partitions as text, such as "1, 4-6".
func (s *OutputStatus) MissingRanges() string { return numberRanges(s.Missing) }

// The states of an output.
const (
	StateComplete    = "complete"
	StateMissing     = "missing"
	StatePartitions  = "partitions"
	StateConverting  = "converting"
	StateInterrupted = "interrupted"
	StateAppending   = "appending"
)

// Status returns how far an output is.
func Status(ctx context.Context, output string) (*OutputStatus, error) {
	t, err := openTarget(ctx, output)
	if err != nil {
		return nil, err
	}
	s := &OutputStatus{Output: output, Rows: -1}
	err = t.status(ctx, s)
	if err = errors.Join(markPart(PartOutput, err), t.close()); err != nil {
		return nil, err
	}
	return s, nil
}

func (t *target) status(ctx context.Context, s *OutputStatus) error {
	p, err := readPlan(ctx, t.store)
	if errors.Is(err, store.ErrNotFound) && t.renames() && !t.zip {
		p, err = readPlan(ctx, store.NewLocal(t.path)) // of an append
	}
	if errors.Is(err, store.ErrNotFound) {
		s.State, err = t.finishedState(ctx)
		return err
	}
	if err != nil {
		return err
	}
	if p.Append {
		s.State, s.Input = StateAppending, p.Input
		return nil
	}
	s.Input, s.Partitions = p.Input, len(p.Partitions)
	s.Folder = t.location
	if t.renames() {
		s.Folder = t.staging
	}
	if len(p.Partitions) == 0 {
		s.State = StateConverting
		if t.renames() && !isLocked(t.staging) {
			s.State = StateInterrupted
		}
		last, err := readCheckpoint(ctx, t.store)
		if last != nil {
			s.RowsDone = last.State.Rows
		}
		return err
	}
	s.State = StatePartitions
	done, err := doneParts(ctx, t)
	if err != nil {
		return err
	}
	s.Missing = missingParts(done, len(p.Partitions))
	s.Rows = p.rows()
	s.RowsDone = s.Rows
	for _, number := range s.Missing {
		s.RowsDone -= p.Partitions[number].To - p.Partitions[number].From
	}
	return nil
}

// finishedState returns the state of an output without a plan.
func (t *target) finishedState(ctx context.Context) (string, error) {
	if !t.renames() {
		exists, err := store.Exists(ctx, t.store, "zarr.json")
		if err != nil || !exists {
			return StateMissing, err
		}
		return StateComplete, nil
	}
	if _, err := os.Stat(t.staging); err == nil {
		return StateInterrupted, nil
	}
	if _, err := os.Stat(t.path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return StateMissing, nil
		}
		return "", err
	}
	return StateComplete, nil
}

// isLocked reports whether one process writes all of what is in a staging directory.
func isLocked(staging string) bool {
	lock, err := lockDirectory(staging, false)
	if err == nil {
		_ = lock.release() // the file is only read
	}
	return errors.Is(err, errLocked)
}

// Abort deletes what is unfinished of an output: planned partitions, or what a conversion
// that was killed has left. It reports whether there was something. A complete output is
// kept, also if the unfinished one was to replace it, and a table to which rows were being
// appended is as it was.
//
// Local outputs are refused while a process works on them. In an object store that cannot
// be known: end the processes before.
func Abort(ctx context.Context, output string) (deleted bool, err error) {
	t, err := openTarget(ctx, output)
	if err != nil {
		return false, err
	}
	if t.renames() {
		if deleted, err = t.abortLocal(); err == nil && !deleted {
			deleted, err = t.abortAppend(ctx)
		}
	} else {
		deleted, err = t.abortObjects(ctx)
	}
	return deleted, errors.Join(markPart(PartOutput, err), t.close())
}

func (t *target) abortLocal() (bool, error) {
	lock, err := lockDirectory(t.staging, true)
	switch {
	case errors.Is(err, errLocked):
		return false, partErrorf(PartOutput, "%s is being written by another process, in %s", t.location, t.staging)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	deleted := err == nil
	if deleted {
		err = errors.Join(os.RemoveAll(t.staging), lock.release())
	} else {
		err = nil
	}
	old := t.oldPath()
	if _, statErr := os.Lstat(old); statErr == nil {
		deleted = true
		if _, statErr := os.Lstat(t.path); errors.Is(statErr, fs.ErrNotExist) {
			// The process died after it had moved the output that it was to replace.
			return true, errors.Join(err, os.Rename(old, t.path))
		}
		err = errors.Join(err, os.RemoveAll(old))
	}
	return deleted, err
}

// abortAppend makes a table in a folder as it was before an append that was killed.
func (t *target) abortAppend(ctx context.Context) (bool, error) {
	table := store.NewLocal(t.path)
	left, err := readPlan(ctx, table)
	if errors.Is(err, store.ErrNotFound) || err == nil && !left.Append || t.zip {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	lock, err := lockDirectory(t.path, true)
	if errors.Is(err, errLocked) {
		return false, partErrorf(PartOutput, "another process appends to %s", t.location)
	}
	if err != nil {
		return false, err
	}
	if err = restoreTable(ctx, table); err == nil {
		err = store.DeleteAll(ctx, table, workPrefix)
	}
	return err == nil, errors.Join(err, lock.release())
}

func (t *target) abortObjects(ctx context.Context) (bool, error) {
	working, err := t.store.List(ctx, workPrefix)
	if err != nil || len(working) == 0 {
		return false, err
	}
	if left, err := readPlan(ctx, t.store); err == nil && left.Append {
		if err := restoreTable(ctx, t.store); err != nil {
			return false, err
		}
	}
	complete, err := store.Exists(ctx, t.store, "zarr.json")
	if err != nil {
		return false, err
	}
	if complete {
		return true, store.DeleteAll(ctx, t.store, workPrefix)
	}
	return true, t.discard(ctx)
}
