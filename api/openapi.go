package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
)

// OpenAPI is the OpenAPI 3.1 document of every operation and page, in JSON. It is
// built from the registry, the types that requests and answers are made of, and
// recorded examples. The bytes are shared: they must not be changed.
func OpenAPI() []byte { return openAPIDocument() }

var openAPIDocument = sync.OnceValue(func() []byte {
	components, examples := wire.NewComponents(), readExamples()
	paths := object{}
	for _, v := range allVerbs() {
		paths[operationPath+v.name] = object{"post": describeVerb(v, components, examples[v.name])}
	}
	for _, p := range pages {
		paths[p.path] = object{"get": p.describe(components)}
	}
	document := object{
		"openapi": "3.1.0",
		"info": object{"title": "cpnode", "version": strconv.Itoa(ops.FeatureLevel), "license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "Control plane of a diskless Kafka. Bodies are JSON or msgpack with the same keys; integers are exact, of up to 64 bits. " +
				"The version is the highest feature level of this release."},
		"paths": paths,
		"components": object{"schemas": components.Schemas, "parameters": queryParameters(), "headers": answerHeaders(),
			"responses": errorResponses(components)},
	}
	out, err := json.Marshal(document)
	if err != nil {
		panic(fmt.Sprintf("openapi: %v", err)) // plain maps, and schemas made from types
	}
	return out
})

// object is one of the document; encoding/json writes its members by name.
type object = map[string]any

func ref(kind, name string) object { return object{"$ref": "#/components/" + kind + "/" + name} }

func describeVerb(v *verb, components *wire.Components, recorded example) object {
	request := components.Request(reflect.TypeOf(v.newRequest()).Elem())
	response := components.Answer(reflect.TypeOf(v.newResponse()).Elem())
	kind, headers, options := "read", []string{headerAppliedIndex, headerStaleness}, []string{paramConsistency, paramMaxStaleness, paramMinIndex}
	if v.write {
		kind, headers, options = "write", []string{headerIndex}, nil
	}
	if v.admin {
		kind, options = "cluster", options[:min(1, len(options))]
	}
	responses := object{"200": object{"description": "Carried out, whatever single items answer.",
		"headers": headerRefs(headers...), "content": content(response, recorded.Response)}}
	addRefusals(responses)
	described := object{"operationId": v.name, "summary": v.summary, "tags": []string{kind},
		"requestBody": object{"required": true, "content": content(request, recorded.Request)}, "responses": responses}
	if len(options) > 0 {
		described["parameters"] = parameterRefs(options)
	}
	return described
}

func parameterRefs(names []string) []object {
	refs := make([]object, len(names))
	for i, name := range names {
		refs[i] = ref("parameters", name)
	}
	return refs
}

// content is a body in both formats. The example is of the JSON.
func content(schema *wire.Schema, example json.RawMessage) object {
	return object{
		mediaTypes[wire.JSON]:    object{"schema": schema, "example": example},
		mediaTypes[wire.Msgpack]: object{"schema": schema},
	}
}

func queryParameters() object {
	return object{
		paramFromIndex: object{"name": paramFromIndex, "in": "query",
			"description": "Changes with an index above this one are wanted; where they are not kept the answer begins with a reset and the present rows.",
			"schema":      object{"type": "integer", "minimum": 0, "default": 0}},
		headerLastEventID: object{"name": headerLastEventID, "in": "header",
			"description": "The last id that was seen, from a client that comes back; wins over " + paramFromIndex + ".",
			"schema":      object{"type": "integer", "minimum": 0}},
		paramConsistency: object{"name": paramConsistency, "in": "query",
			"description": "stale reads the state of the node that is asked, without asking the others.",
			"schema":      object{"type": "string", "enum": []string{linearizable, stale}, "default": linearizable}},
		paramMaxStaleness: object{"name": paramMaxStaleness, "in": "query",
			"description": "Makes a stale read wait, for 5 s at most, until the state is no older than this many milliseconds.",
			"schema":      object{"type": "integer", "format": "int64", "minimum": 1, "maximum": int64(maxStalenessMs)}},
		paramMinIndex: object{"name": paramMinIndex, "in": "query",
			"description": "Makes a stale read wait, for 5 s at most, until the state holds the entry at this index, such as a write's " + headerIndex + ".",
			"schema":      object{"type": "integer", "minimum": 0}},
	}
}

// headerMeanings are the headers of answers; the integer ones are all but the two
// that name nodes.
var headerMeanings = map[string]string{
	headerLeader:       "Id of the node that the answering one takes for the leader.",
	headerNode:         "Id of the node that answered.",
	headerFeatureLevel: "Feature level of the cluster.",
	headerIndex:        "Index of the write's last log entry; absent when nothing was proposed.",
	headerAppliedIndex: "Index of the state that was read.",
	headerStaleness:    "How old that state was at most, in milliseconds; -1 when the node has not heard from a leader.",
}

func answerHeaders() object {
	headers := object{}
	for name, meaning := range headerMeanings {
		kind := "integer"
		if name == headerLeader || name == headerNode {
			kind = "string"
		}
		headers[name] = object{"description": meaning, "schema": object{"type": kind}}
	}
	return headers
}

// headerRefs are those of every answer, and more.
func headerRefs(more ...string) object {
	headers := object{}
	for _, name := range append(more, headerLeader, headerNode, headerFeatureLevel) {
		headers[name] = ref("headers", name)
	}
	return headers
}

func errorStatuses() []int {
	var statuses []int
	for _, kind := range errorTable {
		statuses = append(statuses, kind.status)
	}
	slices.Sort(statuses)
	return slices.Compact(statuses)
}

// addRefusals adds the answers with error objects.
func addRefusals(responses object) {
	for _, status := range errorStatuses() {
		responses[strconv.Itoa(status)] = ref("responses", responseName(status))
	}
}

func responseName(status int) string { return "Error" + strconv.Itoa(status) }

// errorResponses describes the answers of each status other than 200.
func errorResponses(components *wire.Components) object {
	schema := components.Answer(reflect.TypeFor[errorObject]())
	responses := object{}
	for _, status := range errorStatuses() {
		var meanings []string
		for code, kind := range errorTable {
			if kind.status == status {
				meanings = append(meanings, fmt.Sprintf("`%s`: %s", code, kind.meaning))
			}
		}
		slices.Sort(meanings)
		response := object{"description": strings.Join(meanings, " "), "headers": headerRefs(),
			"content": object{mediaTypes[wire.JSON]: object{"schema": schema}, mediaTypes[wire.Msgpack]: object{"schema": schema}}}
		responses[responseName(status)] = response
	}
	return responses
}
