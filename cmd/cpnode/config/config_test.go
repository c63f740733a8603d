package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/cmd/cpnode/config"
)

// load is Load of a file's content, an environment and flags.
func load(t *testing.T, file string, environ []string, args ...string) (*config.Loaded, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "cpnode.yaml")
		require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
		args = append(args, "--config", path)
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.AddFlags(flags, config.Default())
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	return config.Load(config.Default(), flags, environ)
}

func TestSourcesCoverEachOther(t *testing.T) {
	file := "raft.trailing.logs: 1\nentry.max.bytes: 2000\nnode.id: file\n"
	l, err := load(t, file, []string{"CPNODE_ENTRY_MAX_BYTES=3000", "CPNODE_NODE_ID=env", "PATH=/bin"}, "--node-id", "flag")
	require.NoError(t, err)
	require.Equal(t, "flag", l.Node.NodeID)
	require.Equal(t, 3000, l.Node.Settings.Limits.EntryBytes)
	require.EqualValues(t, 1, l.Node.TrailingLogs)
	require.Equal(t, "--node-id", l.Origins["node.id"])
	require.Equal(t, "CPNODE_ENTRY_MAX_BYTES", l.Origins["entry.max.bytes"])
	require.True(t, strings.HasSuffix(l.Origins["raft.trailing.logs"], "cpnode.yaml:1"), l.Origins["raft.trailing.logs"])
	require.Equal(t, "default", l.Origins["request.max.bytes"])
}

// Every key takes its own default back from each source, and something else from
// none of them by accident: no two keys share a field.
func TestEveryKeyIsItsOwn(t *testing.T) {
	defaults := config.Default()
	samples := map[string]string{
		"int": "77", "bytes": "7777", "ms": "777", "string": "sample", "address": "127.0.0.1:77", "list": "x=127.0.0.1:78",
	}
	for _, k := range config.Keys {
		sample := samples[k.Type()]
		switch k.Name {
		case "log.level":
			sample = "warn"
		case "log.format":
			sample = "json"
		case "state.sync":
			sample = "always"
		case "raft.log.store":
			sample = "boltdb"
		case "object.store.type":
			sample = "memory"
		}
		if k.Type() == "bool" {
			sample = map[string]string{"true": "false", "false": "true"}[k.Value(&defaults)]
		}
		for source, l := range map[string]func() (*config.Loaded, error){
			"flag": func() (*config.Loaded, error) { return load(t, "", nil, "--"+k.Flag()+"="+sample) },
			"env":  func() (*config.Loaded, error) { return load(t, "", []string{k.Env() + "=" + sample}) },
			"file": func() (*config.Loaded, error) { return load(t, k.Name+": "+sample, nil) },
		} {
			got, err := l()
			require.NoError(t, err, "%s from %s", k.Name, source)
			for _, other := range config.Keys {
				want := other.Value(&defaults)
				if other.Name == k.Name {
					want = sample
				}
				require.Equal(t, want, other.Value(&got.Config), "%s from %s, seen at %s", k.Name, source, other.Name)
			}
		}
	}
}

func TestBadSourcesNameTheKey(t *testing.T) {
	for _, c := range []struct {
		name    string
		file    string
		environ []string
		args    []string
		want    string
	}{
		{name: "unknown key in file", file: "raft.traling.logs: 1", want: "line 1: raft.traling.logs: unknown key (did you mean raft.trailing.logs?)"},
		{name: "key twice", file: "node.id: a\nnode.id: b", want: "line 2: node.id: was given on line 1 before"},
		{name: "not a mapping", file: "- a", want: "key: value"},
		{name: "nested", file: "node:\n  id: a", want: "node: unknown key"},
		{name: "list", file: "peers: [a, b]", want: "peers: must have one plain value"},
		{name: "null", file: "node.id:", want: "node.id: must have one plain value"},
		{name: "bad value in file", file: "entry.max.bytes: 1k", want: `cpnode.yaml:1: entry.max.bytes: "1k" is not a whole number from 1024 to 66060288`},
		{name: "not yaml", file: "a: b: c", want: "yaml"},
		{name: "unknown variable", environ: []string{"CPNODE_ENTRY_MAX_BYTE=1"}, want: "did you mean CPNODE_ENTRY_MAX_BYTES?"},
		{name: "bad variable", environ: []string{"CPNODE_LOG_LEVEL=loud"}, want: `CPNODE_LOG_LEVEL: log.level: "loud" is not debug, info, warn or error`},
		{name: "out of range", args: []string{"--raft.max.append.entries=1025"}, want: "from 1 to 1024"},
		{name: "bad address", args: []string{"--http-addr=7480"}, want: `"7480" is not host:port`},
		{name: "bad peers", args: []string{"--peers=a"}, want: `"a" is not id=host:port`},
		{name: "bad word", args: []string{"--log-format=xml"}, want: "text or json"},
		{name: "bad bool", args: []string{"--insecure=yes"}, want: "true or false"},
		{name: "no file", args: []string{"--config=/nonexistent/x"}, want: "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, c.file, c.environ, c.args...)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// A service named cpnode makes Kubernetes set such variables in every container.
func TestForeignVariablesAreLeftAlone(t *testing.T) {
	_, err := load(t, "", []string{"CPNODE_PORT=tcp://10.0.0.1:7480", "CPNODE_PORT_7480_TCP_ADDR=10.0.0.1", "CPNODE_SERVICE_HOST=10.0.0.1", "CPNODE_ENDPOINTS=http://a"})
	require.NoError(t, err)
}

func TestValidateNamesTheKey(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "node.id: must be given"},
		{[]string{"--node-id=a/b"}, "node.id: "},
		{[]string{"--node-id=a", "--raft.heartbeat.timeout.ms=501"}, "raft.election.timeout.ms: must be at least raft.heartbeat.timeout.ms, 501"},
		{[]string{"--node-id=a", "--raft.leader.lease.timeout.ms=501"}, "raft.leader.lease.timeout.ms: must be at most raft.heartbeat.timeout.ms, 500"},
		{[]string{"--node-id=a", "--peers=b=127.0.0.1:1"}, "peers: this node (a) is missing"},
		{[]string{"--node-id=a", "--peers=a=127.0.0.1:1,a=127.0.0.1:2"}, "peers: a=127.0.0.1:2 is there twice"},
		{[]string{"--node-id=a", "--peers=a=127.0.0.1:1", "--raft-advertise=127.0.0.1:2"}, "peers: a=127.0.0.1:1 is this node, and raft.advertise says 127.0.0.1:2"},
		{[]string{"--node-id=a", "--raft-addr=0.0.0.0:7490"}, "raft.addr: 0.0.0.0:7490 is not a loopback address"},
		{[]string{"--node-id=a", "--raft-addr=0.0.0.0:7490", "--insecure"}, "raft.advertise: must be given: raft.addr 0.0.0.0:7490"},
		{[]string{"--node-id=a", "--raft.tls.cert.file=c"}, "raft.tls: certificate, key and authority go together"},
		{[]string{"--node-id=a", "--raft.tls.cert.file=c", "--raft.tls.key.file=k", "--raft.tls.ca.file=a", "--raft.secret.file=s"}, "raft.secret.file: is not used with raft.tls.*"},
		{[]string{"--node-id=a", "--http-addr=:7480"}, "http.addr: :7480 is not a loopback address"},
		{[]string{"--node-id=a", "--http-addr=example.org:7480"}, "http.addr: example.org:7480 is not a loopback address"},
		{[]string{"--node-id=a", "--proposals.max.bytes=2000"}, "proposals.max.bytes: "},
		{[]string{"--node-id=a", "--object.store.type=directory"}, "object.store.directory: must be given"},
		{[]string{"--node-id=a", "--object.store.type=s3"}, "object.store.endpoint: must be given"},
		{[]string{"--node-id=a", "--object.store.type=s3", "--object.store.endpoint=http://x"}, "object.store.bucket: must be given"},
		{[]string{"--node-id=a", "--object.store.type=s3", "--object.store.endpoint=x:9000", "--object.store.bucket=b"}, `object.store.endpoint: "x:9000" must be a URL`},
		{[]string{"--node-id=a", "--object.store.type=s3", "--object.store.endpoint=http://x", "--object.store.bucket=b", "--object.store.access.key=k"}, "object.store.access.key, object.store.secret.key.file: give both or neither"},
		{[]string{"--node-id=a", "--object.store.type=memory", "--forgotten.key.retention.ms=359999"}, "forgotten.key.retention.ms: must be at least 360000"},
	} {
		l, err := load(t, "", nil, c.args...)
		require.NoError(t, err)
		require.ErrorContains(t, l.Validate(), c.want)
	}
	for _, args := range [][]string{
		{"--node-id=a"},
		{"--node-id=a", "--object.store.type=memory", "--forgotten.key.retention.ms=360000"},
		{"--node-id=a", "--forgotten.key.retention.ms=0"},
		{"--node-id=a", "--object.store.type=s3", "--object.store.endpoint=http://x", "--object.store.bucket=b", "--object.store.access.key=k", "--object.store.secret.key.file=f"},
		{"--node-id=a", "--http-addr=localhost:1", "--raft-addr=[::1]:1"},
		{"--node-id=a", "--http-addr=:7480", "--raft-addr=0.0.0.0:7490", "--raft-advertise=a.example:7490", "--insecure"},
		{"--node-id=a", "--raft-addr=0.0.0.0:7490", "--raft-advertise=a.example:7490", "--raft.secret.file=s"},
	} {
		l, err := load(t, "", nil, args...)
		require.NoError(t, err)
		require.NoError(t, l.Validate(), "%v", args)
	}
}

func TestObjectStoreIsOpenedWhenItIsThere(t *testing.T) {
	c := config.Default()
	store, err := c.LazyObjectStore()
	require.NoError(t, err)
	require.Nil(t, store)
	c.ObjectStore.Type, c.ObjectStore.Directory = "directory", filepath.Join(t.TempDir(), "objects")
	store, err = c.LazyObjectStore()
	require.NoError(t, err)
	require.ErrorIs(t, store.Ready(t.Context()), os.ErrNotExist)
	require.NoError(t, os.Mkdir(c.ObjectStore.Directory, 0o700))
	require.NoError(t, store.Ready(t.Context()))
	require.NoError(t, store.Close())
	c.ObjectSecretFile = filepath.Join(t.TempDir(), "none")
	_, err = c.LazyObjectStore()
	require.ErrorContains(t, err, "object.store.secret.key.file: ")
}

func TestReferencePageIsUpToDate(t *testing.T) {
	page, err := os.ReadFile("../../../docs/configuration.md")
	require.NoError(t, err)
	require.Equal(t, string(page), config.Reference(), "run make docs")
}
