package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// compareAnswers is nil when two answers are the same JSON: keys in any order,
// lists in theirs, numbers exact, and messages for people aside. Otherwise its error
// shows the first difference and both answers.
func compareAnswers(op string, recorded, replayed []byte) error {
	want, err := exactJSON(recorded)
	if err != nil {
		return fmt.Errorf("the recorded answer does not decode: %w", err)
	}
	got, err := exactJSON(replayed)
	if err != nil {
		return err
	}
	where, a, b := firstDifference("", want, got)
	if where == "" {
		return nil
	}
	return fmt.Errorf("%s answers otherwise at %s\n  recorded  %s\n  replayed  %s\nof\n  recorded  %s\n  replayed  %s",
		op, where, brief(a), brief(b), recorded, replayed)
}

func exactJSON(text []byte) (value any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return value, d.Decode(&value)
}

// absent stands for a field or element that one side does not have.
type absent struct{}

// firstDifference is the path of the first difference, with what either side has
// there; empty when there is none.
func firstDifference(path string, want, got any) (where string, a, b any) {
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			return firstInObject(path, w, g)
		}
	case []any:
		if g, ok := got.([]any); ok {
			return firstInList(path, w, g)
		}
	default:
		if want == got {
			return "", nil, nil
		}
	}
	return path, want, got
}

func firstInObject(path string, want, got map[string]any) (string, any, any) {
	all := maps.Clone(want)
	maps.Copy(all, got)
	delete(all, "message")
	for _, key := range slices.Sorted(maps.Keys(all)) {
		at := key
		if path != "" {
			at = path + "." + key
		}
		if where, a, b := firstDifference(at, field(want, key), field(got, key)); where != "" {
			return where, a, b
		}
	}
	return "", nil, nil
}

func field(object map[string]any, key string) any {
	if v, ok := object[key]; ok {
		return v
	}
	return absent{}
}

func firstInList(path string, want, got []any) (string, any, any) {
	for i := range max(len(want), len(got)) {
		if where, a, b := firstDifference(fmt.Sprintf("%s[%d]", path, i), element(want, i), element(got, i)); where != "" {
			return where, a, b
		}
	}
	return "", nil, nil
}

func element(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return absent{}
}

// brief shows a value on one line.
func brief(v any) string {
	if v == (absent{}) {
		return "nothing"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
