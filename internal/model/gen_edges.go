package model

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// edges are numbers at which types end, sums overflow or a meaning changes.
var edges = []json.Number{
	"-9223372036854775809", "-9223372036854775808", "-2147483649", "-129", "-2", "-1", "0", "1", "127", "128", "32767", "32768",
	"2147483647", "2147483648", "4294967296", "9223372036854775806", "9223372036854775807", "9223372036854775808",
}

// place is where a value of a request stands.
type place struct {
	value any
	set   func(any)
}

// atEdge changes a request in one place: a number becomes one at an edge, or a list is emptied or has an element twice.
func (g *Gen) atEdge(request []byte) []byte {
	var body any
	decoder := json.NewDecoder(bytes.NewReader(request))
	decoder.UseNumber() // an int64 has more digits than a float
	if err := decoder.Decode(&body); err != nil {
		panic(err) // it was just made
	}
	all := places(body, nil)
	if len(all) == 0 {
		return request
	}
	switch at := pick(g, all...); value := at.value.(type) {
	case json.Number:
		at.set(pick(g, edges...))
	case []any:
		if len(value) == 0 || g.one(3) {
			at.set([]any{})
		} else {
			at.set(append(slices.Clone(value), pick(g, value...)))
		}
	}
	changed, err := json.Marshal(body)
	if err != nil {
		panic(err) // it was just decoded
	}
	return changed
}

// places finds the numbers and lists of a value and of all in it, always in the same order. The value itself, which set
// replaces, counts too; nothing replaces a body.
func places(value any, set func(any)) (found []place) {
	switch v := value.(type) {
	case json.Number:
		found = append(found, place{v, set})
	case []any:
		found = append(found, place{v, set})
		for i := range v {
			found = append(found, places(v[i], func(x any) { v[i] = x })...)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			found = append(found, places(v[name], func(x any) { v[name] = x })...)
		}
	}
	return found
}
