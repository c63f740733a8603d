package wire

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestSchema(t *testing.T) {
	c := NewComponents()
	require.Equal(t, &Schema{Ref: "#/components/schemas/commitFile"}, c.Request(reflect.TypeFor[commitFile]()))
	require.Equal(t, &Schema{Ref: "#/components/schemas/everything"}, c.Request(reflect.TypeFor[everything]()))
	require.Equal(t, &Schema{Ref: "#/components/schemas/everything"}, c.Request(reflect.TypeFor[everything]()))
	require.Equal(t, &Schema{Ref: "#/components/schemas/everythingAnswer"}, c.Answer(reflect.TypeFor[everything]()))
	got, err := json.MarshalIndent(c.Schemas, "", "  ")
	require.NoError(t, err)
	const golden = "testdata/schema.json"
	if *update {
		require.NoError(t, os.WriteFile(golden, append(got, '\n'), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(got))
}

func TestSchemaRefusesTwoTypesOfOneName(t *testing.T) {
	c := NewComponents()
	c.Answer(reflect.TypeFor[window]())
	require.Equal(t, &Schema{Ref: "#/components/schemas/windowRequest"}, c.Request(reflect.TypeFor[window]()))
	type window struct{}
	require.Panics(t, func() { c.Request(reflect.TypeFor[window]()) })
}
