package main

import (
	"fmt"
	"sort"
	"strings"

	"github.com/anishathalye/porcupine"
)

// A subject is what one kind of objects promises, and which operations of a history concern it.
type subject struct {
	name  string // such as "map keys"
	model porcupine.Model
	// objects returns the objects that an operation concerns, such as a key or some shards.
	objects func(op operation) []string
	// describe says in a line what an operation did with an object.
	describe func(object string, op operation) string
}

// An event is an operation for one object: the input of a model's step.
type event struct {
	object string
	op     operation
}

// subjects are all that this program checks.
var subjects = []subject{mapKeys, serials, logs}

// mapKeys: each key is a register with get, put and compare-and-set. What two keys have is not
// compared, since linearizability of each is linearizability of all.
var mapKeys = subject{
	name: "map keys",
	objects: func(op operation) []string {
		isRead := op.Operation == "get" && !op.isUnknown() // an unknown one tells nothing
		if isRead || op.Operation == "put" || op.Operation == "cas" {
			return []string{op.Argument.Key}
		}
		return nil
	},
	model: porcupine.Model{
		Init: func() interface{} { return text(nil) },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			op := input.(event).op
			switch op.Operation {
			case "get":
				return state == text(op.Result.Value), state
			case "put":
				return true, text(op.Argument.Value)
			default:
				isSwapped := state == text(op.Argument.Expect)
				if !op.isUnknown() && op.Result.Swapped != isSwapped {
					return false, state
				}
				if isSwapped {
					return true, text(op.Argument.Value)
				}
				return true, state
			}
		},
	},
	describe: func(_ string, op operation) string {
		switch op.Operation {
		case "get":
			return "get: " + text(op.Result.Value)
		case "put":
			return "put " + text(op.Argument.Value)
		default:
			asked := fmt.Sprintf("cas %s to %s", text(op.Argument.Expect), text(op.Argument.Value))
			if op.isUnknown() {
				return asked
			}
			return fmt.Sprintf("%s: %v", asked, op.Result.Swapped)
		}
	},
}

// serials: each acknowledged commit of a shard has a serial that no other has, and a commit that
// began after another one ended has a greater one.
var serials = subject{
	name: "serials of shards",
	objects: func(op operation) []string {
		if op.isUnknown() {
			return nil // nobody knows its serial
		}
		var shards []string
		for shard := range op.Result.Serials {
			shards = append(shards, shard)
		}
		sort.Strings(shards)
		return shards
	},
	model: porcupine.Model{
		Init: func() interface{} { return int64(0) },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			of := input.(event)
			serial := of.op.Result.Serials[of.object]
			return serial > state.(int64), serial
		},
	},
	describe: func(shard string, op operation) string {
		return fmt.Sprintf("%s: serial %d", op.Operation, op.Result.Serials[shard])
	},
}

// logs: a topic to which messages are only appended. A read returns all that was appended before
// it, in one order for all. So a later read has an earlier one as its beginning.
var logs = subject{
	name: "append-only topics",
	objects: func(op operation) []string {
		if op.Operation == "append" || (op.Operation == "read" && !op.isUnknown()) {
			return []string{op.Argument.Topic}
		}
		return nil
	},
	model: porcupine.Model{
		Init: func() interface{} { return "" },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			op := input.(event).op
			if op.Operation == "append" {
				return true, state.(string) + *op.Argument.Value + "\n"
			}
			return state == joined(op.Result.Values), state
		},
	},
	describe: func(_ string, op operation) string {
		if op.Operation == "append" {
			return "append " + *op.Argument.Value
		}
		values := op.Result.Values
		if len(values) > 8 {
			return fmt.Sprintf("read: %d values, the last are %s", len(values), strings.Join(values[len(values)-8:], " "))
		}
		return fmt.Sprintf("read: %d values: %s", len(values), strings.Join(values, " "))
	},
}

// withoutUnread leaves out appends of unknown outcome whose values no read has returned. Reads return all
// values of a topic. So such an append can only come behind all of them, where it explains nothing.
func withoutUnread(operations []operation) []operation {
	seen := map[string]bool{}
	for _, op := range operations {
		if op.Operation == "read" && !op.isUnknown() {
			for _, value := range op.Result.Values {
				seen[value] = true
			}
		}
	}
	var left []operation
	for _, op := range operations {
		if op.Operation != "append" || !op.isUnknown() || seen[*op.Argument.Value] {
			left = append(left, op)
		}
	}
	return left
}

// text returns a value that may be nothing as a text; values never are "(nothing)".
func text(value *string) string {
	if value == nil {
		return "(nothing)"
	}
	return *value
}

func joined(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return strings.Join(values, "\n") + "\n"
}
