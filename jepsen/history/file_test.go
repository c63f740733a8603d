package history

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	r, err := Create(path)
	require.NoError(t, err)
	var clients sync.WaitGroup
	for client := range 8 {
		clients.Go(func() {
			for range 100 {
				begin := r.Now()
				r.Add(&Record{Client: client, Op: "list-topics", Invoke: begin, Return: r.Now(), Outcome: OK, Request: []byte(`{"limit":7}`), Response: []byte(`{"next":"n"}`)})
			}
		})
	}
	clients.Wait()
	r.Add(&Record{Op: "list-topics", Outcome: Refused, Error: ops.NoLeader, Request: []byte(`{"misspelt":7}`)})
	require.Equal(t, 800, r.Count())
	soFar, err := r.SoFar()
	require.NoError(t, err)
	require.Len(t, soFar, 801)
	require.NoError(t, r.Close())

	records, err := Read(path)
	require.NoError(t, err)
	require.Len(t, records, 801)
	last := map[int]int64{}
	for _, record := range records[:800] {
		var request ops.ListTopicsRequest
		var answer ops.ListTopicsResponse
		require.NoError(t, record.Decode(&request, &answer))
		require.Equal(t, int64(7), request.Limit)
		require.Equal(t, "n", answer.Next)
		require.LessOrEqual(t, last[record.Client], record.Invoke)
		require.LessOrEqual(t, record.Invoke, record.Return)
		last[record.Client] = record.Return
	}
	require.ErrorContains(t, records[800].Decode(&ops.ListTopicsRequest{}, nil), "misspelt")
}

func TestHistoryThatIsCutShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	require.NoError(t, os.WriteFile(path, []byte(`{"op":"list-topics"}`+"\n"+`{"op":`), 0o600))
	_, err := Read(path)
	require.ErrorContains(t, err, "line 2")
	_, err = Create(path)
	require.ErrorIs(t, err, os.ErrExist)
}

// An operation that could not be written shows at the end.
func TestLostRecord(t *testing.T) {
	r, err := Create(filepath.Join(t.TempDir(), "history"))
	require.NoError(t, err)
	r.Add(&Record{Request: []byte("{")})
	require.Error(t, r.Close())
}
