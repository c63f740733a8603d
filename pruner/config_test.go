package pruner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConfigValidate(t *testing.T) {
	c := DefaultConfig()
	require.NoError(t, c.Validate())
	c.ExpireMaxRows = 0
	require.EqualError(t, c.Validate(), "ExpireMaxRows: 0 must be at least 1")
	c = DefaultConfig()
	c.ReportInterval = 0
	require.EqualError(t, c.Validate(), "ReportInterval: 0s must be at least 1ms")
}
