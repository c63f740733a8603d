package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
)

// operationPath is what the name of an operation follows.
const operationPath = "/v1/"

// route is what answers on one path.
type route struct {
	methods []string
	serve   http.HandlerFunc
}

func (s *Server) makeRoutes() map[string]route {
	get := []string{http.MethodGet, http.MethodHead}
	routes := map[string]route{
		"/livez":        {get, s.live},
		"/readyz":       {get, s.ready},
		"/version":      {get, s.version},
		"/openapi.json": {get, s.openAPI},
		backupPath:      {get[:1], s.backup},
		watchPath:       {get[:1], s.watch},
	}
	if s.config.Gatherer != nil {
		routes["/metrics"] = route{get, promhttp.HandlerFor(s.config.Gatherer, promhttp.HandlerOpts{}).ServeHTTP}
	}
	for name, op := range s.embedded.operations {
		routes[operationPath+name] = route{[]string{http.MethodPost}, func(w http.ResponseWriter, r *http.Request) { s.operation(w, r, op) }}
	}
	return routes
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.setCommon(w.Header())
	rt, ok := s.routes[r.URL.Path]
	switch {
	case !ok:
		s.refuse(w, r, unknownOperation(strings.TrimPrefix(r.URL.Path, operationPath)))
	case !slices.Contains(rt.methods, r.Method):
		w.Header().Set("Allow", strings.Join(rt.methods, ", "))
		s.refuse(w, r, ops.Errorf(ops.MethodNotAllowed, "%s takes %s", r.URL.Path, strings.Join(rt.methods, " or ")))
	default:
		rt.serve(w, r)
	}
}

// refuse answers what reaches no operation, in the format that Accept likes where
// it can be told.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, e *ops.Error) {
	s.embedded.metrics.requests.WithLabelValues(unknownName, string(e.Code)).Inc()
	out, _ := answerFormat(r.Header, wire.JSON)
	send(w, out, failed(out, nil, e))
}
