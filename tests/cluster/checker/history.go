package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// never is the end of an operation whose outcome is unknown: it may take effect at any later time.
const never = math.MaxInt64

// An argument says what an operation was asked to do. Which fields it has depends on the operation.
type argument struct {
	Key    string   `json:"key"`    // of get, put and cas
	Topic  string   `json:"topic"`  // of append and read
	Value  *string  `json:"value"`  // of put, cas and append: what is written
	Expect *string  `json:"expect"` // of cas: what must be there; null: nothing
	Others []string `json:"others"` // of transfers and the like, which no model here uses
}

// A result is what an operation returned.
type result struct {
	Failed  string           `json:"failed"`  // the error that says that nothing was done
	Value   *string          `json:"value"`   // of get: what is stored; null: nothing
	Swapped bool             `json:"swapped"` // of cas
	Values  []string         `json:"values"`  // of read: all values of the topic, in their order
	Serials map[string]int64 `json:"serials"` // shard to the serial of the commit
}

// An operation is one line of a history.
type operation struct {
	Client    int      `json:"client"`
	Operation string   `json:"operation"`
	Argument  argument `json:"argument"`
	Result    *result  `json:"result"`
	Begin     int64    `json:"begin_ns"`
	End       *int64   `json:"end_ns"`
	Line      int      `json:"-"`
}

// isUnknown says whether the operation may have taken effect, or may still.
func (op operation) isUnknown() bool { return op.End == nil }

// end is when the operation had surely ended.
func (op operation) end() int64 {
	if op.End == nil {
		return never
	}
	return *op.End
}

// readHistory reads a history. It leaves out the operations that surely did nothing.
func readHistory(from io.Reader) ([]operation, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 64<<20)
	var found []operation
	for number := 1; lines.Scan(); number++ {
		op := operation{Line: number}
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if op.End != nil && (op.Result == nil || *op.End < op.Begin) {
			return nil, fmt.Errorf("line %d: an operation that ended has a result, and an end after its begin", number)
		}
		if op.Result == nil || op.Result.Failed == "" {
			found = append(found, op)
		}
	}
	return found, lines.Err()
}
