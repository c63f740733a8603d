package ops

import (
	"reflect"
	"strings"
	"unicode"

	"github.com/cpnode/cpnode/store"
)

// Describe is what a command logs, for people and tools: its fields by their names
// on the wire, or those that the wire does not have by their names here. Numbers
// keep their types; encoding/json sorts the names.
func Describe(cmd Command) map[string]any {
	return describeStruct(reflect.ValueOf(cmd).Elem())
}

var topicIDType = reflect.TypeFor[store.TopicID]()

func describeStruct(v reflect.Value) map[string]any {
	fields := make(map[string]any, v.NumField())
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Type.Kind() == reflect.Pointer { // worked out of what is logged
			continue
		}
		fields[fieldName(f)] = describe(v.Field(i))
	}
	return fields
}

// describe reads fields that are not exported too, which Interface would refuse.
func describe(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool()
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Uint64:
		return v.Uint()
	case reflect.String:
		return v.String()
	case reflect.Struct:
		return describeStruct(v)
	case reflect.Array:
		return describeTopicID(v)
	case reflect.Map:
		entries := make(map[string]any, v.Len())
		for key, value := range v.Seq2() {
			entries[key.String()] = describe(value)
		}
		return entries
	case reflect.Slice:
		items := make([]any, v.Len())
		for i := range items {
			items[i] = describe(v.Index(i))
		}
		return items
	}
	panic("a command has a field of type " + v.Type().String()) // a test describes one of each command
}

// describeTopicID is the text of the one kind of array that commands have.
func describeTopicID(v reflect.Value) string {
	if v.Type() != topicIDType {
		panic("a command has an array of type " + v.Type().String())
	}
	var id store.TopicID
	for i := range id {
		id[i] = byte(v.Index(i).Uint())
	}
	return id.String()
}

// fieldName is the name on the wire, or the Go name as the wire would write it.
func fieldName(f reflect.StructField) string {
	if name := f.Tag.Get("json"); name != "" {
		return name
	}
	var name strings.Builder
	before := '_'
	for _, r := range f.Name {
		if unicode.IsUpper(r) && unicode.IsLower(before) {
			name.WriteByte('_')
		}
		name.WriteRune(unicode.ToLower(r))
		before = r
	}
	return name.String()
}
