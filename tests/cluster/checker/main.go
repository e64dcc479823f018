// Checks the history of a cluster by porcupine: is there an order of all operations, each between its begin and
// its end, that explains every answer?
//
// A history has a JSON object a line: client, operation, argument, result, begin_ns, and end_ns, which is null if
// nobody knows whether the operation took effect. The exit code is 0 if each part of the history is linearizable,
// 1 if one is not, 2 if the history cannot be read, and 3 if the time limit came before a verdict.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	limit := flag.Duration("time-limit", 2*time.Minute, "how long the check of one object may take")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: checker [-time-limit 2m] HISTORY.jsonl")
		os.Exit(2)
	}
	os.Exit(run(flag.Arg(0), *limit))
}

func run(path string, limit time.Duration) int {
	file, err := os.Open(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "checker:", err)
		return 2
	}
	defer file.Close()
	history, err := readHistory(file)
	if err != nil {
		fmt.Fprintf(os.Stderr, "checker: %s: %v\n", path, err)
		return 2
	}
	worst := good
	for _, of := range subjects {
		if found := check(of, history, limit, os.Stdout); found > worst {
			worst = found
		}
	}
	return map[verdict]int{good: 0, undecided: 3, broken: 1}[worst]
}
