package api

import (
	"encoding/json"
	"net/http"
	"path"
	"reflect"
	"runtime"
	"strings"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
)

// page is a path that answers GET, for the reference.
type page struct {
	path, summary, mediaType string
	notReady                 bool // may answer 503, with why not in its own media type
	refuses                  bool // is refused with error objects, as operations are
	parameters               []string
	item                     reflect.Type // of what it streams as events, in JSON
}

var pages = []page{
	{path: "/livez", summary: "Whether the process runs.", mediaType: "text/plain"},
	{path: "/readyz", summary: "Whether this node should be sent requests, and why not.", mediaType: "text/plain", notReady: true},
	{path: "/version", summary: "The release that runs.", mediaType: mediaTypes[wire.JSON]},
	{path: "/metrics", summary: "Metrics, in the formats of Prometheus.", mediaType: "text/plain"},
	{path: backupPath, summary: "The state of this node as one stream, for cpnode restore and cpnode check.", mediaType: backupMediaType, refuses: true},
	{path: watchPath, summary: "Server-sent events change, reset, rows and reset-end: what becomes of topics, brokers and partitions.", mediaType: watchMediaType,
		refuses: true, parameters: []string{paramFromIndex, headerLastEventID}, item: reflect.TypeFor[ops.WatchEvent]()},
	{path: "/openapi.json", summary: "This document.", mediaType: mediaTypes[wire.JSON]},
}

func (p *page) describe(components *wire.Components) object {
	body, description := object{}, "The page."
	if p.item != nil {
		body["schema"], description = components.Answer(p.item), "A stream of events; the schema is that of the data of each."
	}
	answer := object{"description": description, "content": object{p.mediaType: body}}
	responses := object{"200": answer}
	if p.notReady {
		responses["503"] = object{"description": "Not now; the body says why.", "content": object{p.mediaType: object{}}}
	}
	if p.refuses {
		addRefusals(responses)
	}
	described := object{"operationId": path.Base(p.path), "summary": p.summary, "tags": []string{"page"}, "responses": responses}
	if len(p.parameters) > 0 {
		described["parameters"] = parameterRefs(p.parameters)
	}
	return described
}

// health is the answer of /livez and /readyz.
type health struct {
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`
}

// live answers as long as the process does: a node that only waits for the others
// must not be restarted for it.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	sendHealth(w, r, health{OK: true})
}

// ready says whether this node should be sent requests, and why not.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	h := health{OK: true}
	if err := s.embedded.node.Ready(); err != nil {
		h = health{Reason: err.Error()}
	}
	sendHealth(w, r, h)
}

// sendHealth answers in JSON where that is asked for, else in text for people and
// probes.
func sendHealth(w http.ResponseWriter, r *http.Request, h health) {
	status := http.StatusOK
	if !h.OK {
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", retryAfter)
	}
	if strings.Contains(r.Header.Get("Accept"), mediaTypes[wire.JSON]) {
		sendJSON(w, status, h)
		return
	}
	text := "ok"
	if !h.OK {
		text = h.Reason
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
}

// version is the answer of /version.
type version struct {
	Version      string `json:"version"`
	Go           string `json:"go"`
	FeatureLevel int    `json:"feature_level"`
	Node         string `json:"node"`
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	sendJSON(w, http.StatusOK, version{s.config.Version, runtime.Version(), ops.FeatureLevel, s.embedded.id})
}

func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) {
	sendBytes(w, http.StatusOK, OpenAPI())
}

func sendJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of strings and numbers
	}
	sendBytes(w, status, append(body, '\n'))
}

func sendBytes(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", mediaTypes[wire.JSON])
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
