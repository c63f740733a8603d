package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pb33f/jsonschema/v6"
	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api/wire"
)

const documentURL = "cpnode://openapi.json"

// answerValidator holds answers against the document's schemas for them.
func answerValidator(t *testing.T) func(operation string, r reply) {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(OpenAPI()))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource(documentURL, document))
	compiled := map[string]*jsonschema.Schema{}
	return func(operation string, r reply) {
		t.Helper()
		at := operationPath + operation + "/post/responses/200"
		if r.status != http.StatusOK {
			at = "/components/responses/" + responseName(r.status)
		}
		schema, ok := compiled[at]
		if !ok {
			schema, err = compiler.Compile(documentURL + "#" + pointer(at) + "/content/application~1json/schema")
			require.NoError(t, err)
			compiled[at] = schema
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.body))
		require.NoError(t, err)
		require.NoError(t, schema.Validate(value), "%s: %s", operation, r.body)
	}
}

// pointer is the JSON pointer to what is described at a path of the document.
func pointer(at string) string {
	if path, rest, isOperation := strings.Cut(at, "/post"); isOperation {
		return "/paths/" + strings.ReplaceAll(path, "/", "~1") + "/post" + rest
	}
	return at
}

func TestDocumentIsOpenAPI31(t *testing.T) {
	document, err := libopenapi.NewDocument(OpenAPI())
	require.NoError(t, err)
	require.Equal(t, "3.1.0", document.GetVersion())
	_, err = document.BuildV3Model()
	require.NoError(t, err, "references resolve")
	v, errs := validator.NewValidator(document)
	require.Empty(t, errs)
	valid, problems := v.ValidateDocument()
	for _, p := range problems {
		t.Errorf("%s: %s %v", p.Message, p.Reason, p.SchemaValidationErrors)
	}
	require.True(t, valid)
}

// described is the part of the document that the tests look at.
type described struct {
	Paths map[string]map[string]struct {
		Parameters  []map[string]string
		RequestBody struct {
			Content map[string]struct{ Example json.RawMessage }
		}
		Responses map[string]json.RawMessage
	}
}

func TestDocumentDescribesTheRoutes(t *testing.T) {
	var d described
	require.NoError(t, json.Unmarshal(OpenAPI(), &d))
	s := NewServer(single(t, nil).embedded, ServerConfig{Gatherer: prometheus.NewRegistry()})
	for path, route := range s.routes {
		for _, method := range route.methods {
			if method != http.MethodHead {
				require.Contains(t, d.Paths[path], strings.ToLower(method), path)
			}
		}
	}
	require.Len(t, d.Paths, len(s.routes))
}

func TestDocumentDescribesTheErrors(t *testing.T) {
	var d described
	require.NoError(t, json.Unmarshal(OpenAPI(), &d))
	for path, methods := range d.Paths {
		refusable, isOperation := methods["post"]
		if path == backupPath || path == watchPath {
			refusable = methods["get"]
		} else if !isOperation {
			continue
		}
		for code := range errorTable {
			require.JSONEq(t, `{"$ref": "#/components/responses/`+responseName(Status(code))+`"}`, string(refusable.Responses[strconv.Itoa(Status(code))]), "%s %s", path, code)
		}
	}
}

func TestEveryOperationHasAnExample(t *testing.T) {
	var d described
	require.NoError(t, json.Unmarshal(OpenAPI(), &d))
	for _, v := range allVerbs() {
		post := d.Paths[operationPath+v.name]["post"]
		example := post.RequestBody.Content["application/json"].Example
		require.NoError(t, wire.Decode(wire.JSON, example, v.newRequest(), wire.Limits{}), "%s: %s", v.name, example)
		require.Equal(t, !v.write, slices.ContainsFunc(post.Parameters, func(p map[string]string) bool {
			return p["$ref"] == "#/components/parameters/"+paramConsistency
		}), v.name)
	}
}
