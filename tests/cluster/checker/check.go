package main

import (
	"fmt"
	"io"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// A verdict says how a check has ended.
type verdict int

const (
	good verdict = iota
	undecided
	broken
)

const shown = 20 // how many operations before the inexplicable answer an account has

// check checks a history with one subject, and tells about it. timeLimit bounds each object's check.
func check(of subject, history []operation, timeLimit time.Duration, out io.Writer) verdict {
	objects := byObject(of, history)
	count, unknown := 0, 0
	var faulty, open []string
	for object, operations := range objects {
		count += len(operations)
		for _, op := range operations {
			if op.isUnknown() {
				unknown++
			}
		}
		switch decide(of, object, operations, timeLimit) {
		case broken:
			faulty = append(faulty, object)
		case undecided:
			open = append(open, object)
		}
	}
	size := func(names []string) func(a, b int) bool {
		return func(a, b int) bool { return len(objects[names[a]]) < len(objects[names[b]]) }
	}
	sort.Slice(faulty, size(faulty))
	told := fmt.Sprintf("%s: %d operations on %d objects, %d of unknown outcome", of.name, count, len(objects), unknown)
	if len(faulty) > 0 {
		fmt.Fprintf(out, "%s: NOT LINEARIZABLE: %d objects, the smallest is %s\n", told, len(faulty), faulty[0])
		account(of, faulty[0], objects[faulty[0]], timeLimit, out)
		return broken
	}
	if len(open) > 0 {
		fmt.Fprintf(out, "%s: undecided within %s: %v\n", told, timeLimit, open)
		return undecided
	}
	fmt.Fprintf(out, "%s: linearizable\n", told)
	return good
}

// byObject divides a history by the objects that its operations concern.
func byObject(of subject, history []operation) map[string][]operation {
	found := map[string][]operation{}
	for _, op := range history {
		for _, object := range of.objects(op) {
			found[object] = append(found[object], op)
		}
	}
	return found
}

// decide says whether an order of the operations explains all answers.
func decide(of subject, object string, operations []operation, timeLimit time.Duration) verdict {
	given := make([]porcupine.Operation, 0, len(operations))
	for _, op := range withoutUnread(operations) {
		input := event{object, op}
		given = append(given, porcupine.Operation{ClientId: op.Client, Input: input, Call: op.Begin, Return: op.end()})
	}
	switch porcupine.CheckOperationsTimeout(of.model, given, timeLimit) {
	case porcupine.Ok:
		return good
	case porcupine.Illegal:
		return broken
	default:
		return undecided
	}
}

// account tells which answer is the first that no order explains, and what came before it.
func account(of subject, object string, operations []operation, timeLimit time.Duration, out io.Writer) {
	ended := make([]operation, 0, len(operations))
	for _, op := range operations {
		if !op.isUnknown() {
			ended = append(ended, op)
		}
	}
	sort.Slice(ended, func(a, b int) bool { return *ended[a].End < *ended[b].End })
	// With more answers there are never more orders, so the first answer too many can be bisected.
	first := sort.Search(len(ended), func(n int) bool {
		return decide(of, object, until(of, operations, *ended[n].End), timeLimit) == broken
	})
	if first == len(ended) {
		fmt.Fprintln(out, "  it took too long to find the first answer that no order explains")
		return
	}
	culprit := ended[first]
	before := until(of, operations, *culprit.End)
	sort.Slice(before, func(a, b int) bool { return before[a].Begin < before[b].Begin })
	start := before[0].Begin
	fmt.Fprintf(out, "  No order of the %d operations until then explains the answer of line %d (ms since the first one):\n",
		len(before), culprit.Line)
	if len(before) > shown {
		fmt.Fprintf(out, "  (%d earlier ones are left out)\n", len(before)-shown)
		before = before[len(before)-shown:]
	}
	for _, op := range before {
		mark, end := " ", "unknown"
		if !op.isUnknown() {
			end = fmt.Sprintf("%.3f", float64(*op.End-start)/1e6)
		}
		if op.Line == culprit.Line {
			mark = ">"
		}
		fmt.Fprintf(out, "  %s %10.3f to %10s  client %2d  line %5d  %s\n",
			mark, float64(op.Begin-start)/1e6, end, op.Client, op.Line, of.describe(object, op))
	}
}

// until returns the history as it was known at a moment: later answers are unknown yet.
func until(of subject, operations []operation, moment int64) []operation {
	var found []operation
	for _, op := range operations {
		if op.Begin > moment {
			continue
		}
		if op.End != nil && *op.End > moment {
			op.End, op.Result = nil, nil
			if len(of.objects(op)) == 0 {
				continue // it tells nothing without its answer
			}
		}
		found = append(found, op)
	}
	return found
}
