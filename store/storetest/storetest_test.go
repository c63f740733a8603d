package storetest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/store"
	"github.com/cpnode/cpnode/store/storetest"
)

func TestOpenAndCheck(t *testing.T) {
	s := storetest.Open(t)
	require.NoError(t, s.Update(func(tx *store.WriteTx) error {
		require.NoError(t, tx.SetApplied(5, 2))
		return tx.PutFence("wal/a", 10)
	}))
	require.NoError(t, s.Close())
	r := storetest.Check(t, s.Path())
	require.EqualValues(t, 5, r.AppliedIndex)
	require.EqualValues(t, 1, r.Totals.Fences)
}
