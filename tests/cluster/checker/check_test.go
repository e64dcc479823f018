package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// checked checks the lines of a history with one subject, and returns the verdict and what was told.
func checked(t *testing.T, of subject, lines ...string) (verdict, string) {
	t.Helper()
	history, err := readHistory(strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	found := check(of, history, time.Minute, &told)
	return found, told.String()
}

func expect(t *testing.T, wanted verdict, part string, of subject, lines ...string) {
	t.Helper()
	found, told := checked(t, of, lines...)
	if found != wanted || !strings.Contains(told, part) {
		t.Errorf("expected %d and %q, got %d:\n%s", wanted, part, found, told)
	}
}

// line makes a line of a history. end is null for an unknown outcome, whose result is null, too.
func line(client int, operation, argument, result string, begin int, end string) string {
	return fmt.Sprintf(`{"client":%d,"operation":%q,"argument":%s,"result":%s,"begin_ns":%d,"end_ns":%s}`,
		client, operation, argument, result, begin, end)
}

func put(value string, begin int, end string) string {
	result := `{"serials":{"0":1}}`
	if end == "null" {
		result = "null"
	}
	return line(1, "put", fmt.Sprintf(`{"key":"k","value":%q}`, value), result, begin, end)
}

func get(value string, begin int, end string) string {
	return line(2, "get", `{"key":"k"}`, fmt.Sprintf(`{"value":%s}`, value), begin, end)
}

func cas(from, to string, swapped bool, begin int, end string) string {
	return line(3, "cas", fmt.Sprintf(`{"key":"k","expect":%s,"value":%q}`, from, to),
		fmt.Sprintf(`{"swapped":%v}`, swapped), begin, end)
}

func add(value string, begin int, end string) string {
	result := `{"serials":{"0":1}}`
	if end == "null" {
		result = "null"
	}
	return line(1, "append", fmt.Sprintf(`{"topic":"t","value":%q}`, value), result, begin, end)
}

func read(values string, begin int, end string) string {
	return line(2, "read", `{"topic":"t"}`, fmt.Sprintf(`{"values":%s}`, values), begin, end)
}

func commit(client int, serial int, begin int, end string) string {
	return line(client, "transfer", `{"others":["a","b"]}`, fmt.Sprintf(`{"serials":{"0":%d}}`, serial), begin, end)
}

func TestGoodHistoriesPass(t *testing.T) {
	expect(t, good, "map keys: 6 operations on 1 objects, 1 of unknown outcome: linearizable", mapKeys,
		get("null", 0, "1"), put("1", 2, "5"), get(`"1"`, 3, "4"), cas(`"1"`, "2", true, 6, "7"),
		put("3", 8, "null"), get(`"2"`, 9, "10"))
	expect(t, good, "linearizable", serials, commit(1, 2, 0, "5"), commit(2, 1, 1, "6"), commit(1, 3, 7, "8"))
	expect(t, good, "linearizable", logs,
		add("1", 0, "5"), add("2", 1, "6"), read(`["2"]`, 3, "4"), read(`["2","1"]`, 7, "8"))
}

func TestAnUnknownOutcomeMayComeLateOrNever(t *testing.T) {
	expect(t, good, "1 of unknown outcome", mapKeys,
		put("1", 0, "null"), get("null", 1, "2"), get(`"1"`, 3, "4"))
	expect(t, good, "1 of unknown outcome", logs, add("1", 0, "null"), read("[]", 1, "2"), read(`["1"]`, 3, "4"))
	expect(t, broken, "line 3", logs, add("1", 0, "null"), read(`["1"]`, 1, "2"), read("[]", 3, "4"))
}

func TestManyAppendsThatNobodyReadNeedNoSearch(t *testing.T) {
	lines := []string{}
	for n := 0; n < 40; n++ {
		lines = append(lines, add(fmt.Sprintf("x%d", n), n, "null"))
	}
	lines = append(lines, add("1", 100, "null"), read(`["1"]`, 101, "102"))
	expect(t, good, "41 of unknown outcome: linearizable", logs, lines...)
	expect(t, broken, "NOT LINEARIZABLE", logs, append(lines, read("[]", 103, "104"))...)
}

func TestWhatSurelyFailedDoesNothing(t *testing.T) {
	failed := line(1, "put", `{"key":"k","value":"1"}`, `{"failed":"ConflictError"}`, 0, "1")
	expect(t, good, "1 operations", mapKeys, failed, get("null", 2, "3"))
	expect(t, broken, "line 2", mapKeys, failed, get(`"1"`, 2, "3"))
}

func TestAStaleReadIsFound(t *testing.T) {
	expect(t, broken, "client  2  line     3  get: 1", mapKeys,
		put("1", 0, "1"), put("2", 2, "3"), get(`"1"`, 4, "5"), get(`"2"`, 6, "7"))
	expect(t, broken, "line 3", logs, add("1", 0, "1"), add("2", 2, "3"), read(`["1"]`, 4, "5"))
}

func TestADoubleApplyIsFound(t *testing.T) {
	// The first put comes again, after the second one.
	expect(t, broken, "line 3", mapKeys, put("1", 0, "1"), put("2", 2, "3"), get(`"1"`, 4, "5"))
	expect(t, broken, "read: 2 values: 1 1", logs, add("1", 0, "1"), read(`["1","1"]`, 2, "3"))
	expect(t, broken, "line 2", serials, commit(1, 1, 0, "1"), commit(2, 1, 2, "3"))
	// Two may not both have swapped the same value.
	expect(t, broken, "cas", mapKeys, put("1", 0, "1"), cas(`"1"`, "2", true, 2, "5"), cas(`"1"`, "3", true, 2, "5"))
}

func TestALostWriteIsFound(t *testing.T) {
	expect(t, broken, "get: (nothing)", mapKeys, put("1", 0, "1"), get("null", 2, "3"))
	expect(t, broken, "read: 1 values: 2", logs, add("1", 0, "1"), add("2", 2, "3"), read(`["2"]`, 4, "5"))
}

func TestSerialsRiseInRealTime(t *testing.T) {
	expect(t, broken, "transfer: serial 1", serials, commit(1, 2, 0, "1"), commit(2, 1, 2, "3"))
}

func TestTheSmallestPartitionIsTold(t *testing.T) {
	other := strings.ReplaceAll(get(`"9"`, 0, "1"), `"key":"k"`, `"key":"small"`)
	expect(t, broken, "2 objects, the smallest is small", mapKeys,
		put("1", 0, "1"), put("2", 2, "3"), get(`"1"`, 4, "5"), other)
}

func TestALongHistoryIsChecked(t *testing.T) {
	var lines []string
	for n := 0; n < 5000; n++ {
		lines = append(lines, put(fmt.Sprint(n), 10*n, fmt.Sprint(10*n+12)), get(fmt.Sprintf("%q", fmt.Sprint(n)), 10*n+13, fmt.Sprint(10*n+14)))
	}
	if found, told := checked(t, mapKeys, lines[0], lines[1]); found != good {
		t.Error(told)
	}
	found, told := checked(t, mapKeys, append(lines, get(`"17"`, 100000, "100001"))...)
	if found != broken || !strings.Contains(told, "line 10001") {
		t.Error(told)
	}
}

func TestWhatIsNoHistory(t *testing.T) {
	for _, bad := range []string{"{", put("1", 5, "4"), line(1, "put", "{}", "null", 0, "1")} {
		if _, err := readHistory(strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
