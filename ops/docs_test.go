package ops_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

var example = regexp.MustCompile("(?s)```http\nPOST /v1/([a-z-]+)\n(.+?)\n\n200\n(.+?)\n```")

// The examples of docs/operations.md are one story: what it shows is what happens.
func TestDocumentedExamples(t *testing.T) {
	text, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	n := newNode(t, ops.DefaultSettings())
	shown := map[string]bool{}
	for i, m := range example.FindAllStringSubmatch(string(text), -1) {
		op, request, want := m[1], m[2], m[3]
		answer, code := n.do(op, 1_700_000_000_000+1000*int64(i), []byte(request))
		require.Empty(t, string(code), "%s %s", op, request)
		require.Equal(t, canonical(t, []byte(want)), canonical(t, answer), "%s %s", op, request)
		shown[op] = true
	}
	for _, op := range ops.All() {
		require.True(t, shown[op.Name], "%s has no example", op.Name)
		require.Contains(t, string(text), "\n## "+op.Name+"\n")
	}
}
