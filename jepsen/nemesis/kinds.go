package nemesis

import (
	"context"
	"fmt"
	"strings"

	"github.com/cpnode/cpnode/jepsen/cluster"
)

// Kind is one kind of fault.
type Kind struct {
	Name string
	do   func(n *Nemesis, ctx context.Context, f *Fault, leader *cluster.Node) error
}

// Names of kinds that need more than processes and signals.
const (
	KindCut     = "cut"     // cluster.Interpose, and so a build with the tag faults
	KindClock   = "clock"   // the same build
	KindMix     = "mix"     // the same as KindCut
	KindDisk    = "disk"    // a SmallDisk
	KindUpgrade = "upgrade" // the next release's binary
)

// kinds are all, in the order of the documentation.
var kinds = []Kind{
	{"kill", (*Nemesis).kill},
	{"pause", (*Nemesis).pause},
	{KindCut, (*Nemesis).cut},
	{KindMix, (*Nemesis).mix},
	{"restart", (*Nemesis).restartAll},
	{KindUpgrade, (*Nemesis).upgrade},
	{"members", (*Nemesis).changeMembers},
	{"transfer", (*Nemesis).transfer},
	{KindClock, (*Nemesis).skewClock},
	{KindDisk, (*Nemesis).fillDisk},
	{"corrupt", (*Nemesis).corrupt},
}

// Select is the kinds of a list with commas; "all" is all.
func Select(list string) (chosen []Kind, err error) {
	if list == "all" {
		return kinds, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		k, ok := kind(name)
		if !ok {
			return nil, fmt.Errorf("no kind of fault is called %q; there are %s", name, strings.Join(Names(kinds), ", "))
		}
		chosen = append(chosen, k)
	}
	return chosen, nil
}

func kind(name string) (Kind, bool) {
	for _, k := range kinds {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

// Names are those of kinds, in their order.
func Names(of []Kind) (names []string) {
	for _, k := range of {
		names = append(names, k.Name)
	}
	return names
}
