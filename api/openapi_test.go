package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

func TestOpenAPIDescribesEveryOperation(t *testing.T) {
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Schemas map[string]json.RawMessage }
	}
	require.NoError(t, json.Unmarshal(OpenAPI(), &doc))
	require.Equal(t, "3.1.0", doc.OpenAPI)
	require.Len(t, doc.Paths, len(ops.All()))
	for _, op := range ops.All() {
		require.Contains(t, doc.Paths, "/v1/"+op.Name)
		require.Contains(t, doc.Paths["/v1/"+op.Name], "post")
	}
	for _, ref := range strings.Split(string(OpenAPI()), `"$ref":"#/components/schemas/`)[1:] {
		name, _, _ := strings.Cut(ref, `"`)
		require.Contains(t, doc.Components.Schemas, name, "a reference that leads nowhere")
	}
}
