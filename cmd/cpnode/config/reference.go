package config

import (
	"fmt"
	"strings"
)

// Reference is docs/configuration.md.
func Reference() string {
	defaults := Default()
	var b strings.Builder
	b.WriteString(referenceHead)
	for _, part := range []struct {
		title string
		keys  []Key
	}{{"Node", nodeKeys}, {"Workers", workerKeys}, {"Object store", objectStoreKeys}, {"State and log entries", stateKeys}, {"Limits", limitKeys}, {"Fitness to lead", fitnessKeys}, {"Raft", raftKeys}} {
		fmt.Fprintf(&b, "\n## %s\n\n| key | type | default | allowed | meaning |\n| --- | --- | --- | --- | --- |\n", part.title)
		for _, k := range part.keys {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.Name, k.Type(), code(k.Value(&defaults)), k.Allowed(), k.Meaning)
		}
	}
	return b.String()
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

const referenceHead = `# Configuration

Written by ` + "`make docs`" + ` from the registry of keys in ` + "`cmd/cpnode/config`" + `; a test keeps it true.

Every key can be given in four ways; the first that is there counts:

1. a flag: ` + "`--raft.trailing.logs 10000`" + `; the keys of the first table with dashes: ` + "`--node-id a`" + `;
2. the environment: ` + "`CPNODE_RAFT_TRAILING_LOGS=10000`" + `;
3. a line of a YAML file, ` + "`raft.trailing.logs: 10000`" + `, named by ` + "`--config`" + ` or ` + "`CPNODE_CONFIG`" + `;
4. its default.

Unknown keys and bad values are refused. ` + "`cpnode config print`" + ` shows every value and where it came from,
` + "`cpnode config validate`" + ` only checks. Changing a key takes a restart. What changes the result of an operation is copied into its
log entry, so nodes may differ while they are restarted one after the other. ` + "`ms`" + ` are milliseconds.
`
