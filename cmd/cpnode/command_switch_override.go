package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// overrideFlags say what an override is to do.
type overrideFlags struct {
	seal, logStart, logEnd     int64
	abort, arm, clearProducers bool
	dryRun, yes                bool
}

func (o *overrideFlags) add(f *pflag.FlagSet) {
	f.Int64Var(&o.seal, "seal", -1, "seal the partition at this offset")
	f.BoolVar(&o.abort, "abort", false, "take the partition out of the switch")
	f.BoolVar(&o.arm, "arm", false, "put the partition into the switch, or have its leader seal it again")
	f.Int64Var(&o.logStart, "log-start-offset", -1, "log start of the leader's local log, which bounds --seal")
	f.Int64Var(&o.logEnd, "log-end-offset", -1, "end of the leader's local log, which bounds --seal")
	f.BoolVar(&o.clearProducers, "clear-producer-states", false, "forget the producers that an earlier seal came with")
	f.BoolVar(&o.dryRun, "dry-run", false, "only say what would happen")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
}

// offset is the seal to set, or what stands for an abort or a new beginning.
func (o *overrideFlags) offset(sealed bool) (int64, error) {
	switch {
	case sealed && !o.abort && !o.arm && o.seal < 0:
		return 0, usagef("--seal: must be >= 0")
	case sealed && !o.abort && !o.arm && (o.logStart < 0 || o.logEnd < 0):
		return 0, usagef("--seal: needs --log-start-offset and --log-end-offset, of the leader's local log")
	case sealed && !o.abort && !o.arm:
		return o.seal, nil
	case o.abort && !o.arm && !sealed:
		return store.NoSwitch, nil
	case o.arm && !o.abort && !sealed:
		return store.SwitchPending, nil
	}
	return 0, usagef("give one of --seal, --abort and --arm")
}

func switchOverrideCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "override TOPIC PARTITION",
		Short: "Set by hand where a partition stands in its switch",
		Long: `For a partition whose leader cannot finish the switch. It asks no leader: whoever gives
a seal answers for it. It is tried first without changing anything, and what becomes
unreadable is shown before it is asked for.

A seal belongs where a batch begins: brokers cut whole batches, and one whose log then ends
below the seal does not serve the partition until the seal is moved down to that end. What
remote storage holds of the partition above the seal must be deleted from it.`,
		Example: `  cpnode switch override orders 3 --seal 1200 --log-start-offset 0 --log-end-offset 1300 --dry-run
  cpnode switch override orders 3 --abort`,
		Args: exactly(2),
	}
	f := addClientFlags(c)
	var o overrideFlags
	o.add(c.Flags())
	c.RunE = f.with(func(cmd *cobra.Command, client *api.Client, args []string) error {
		partition, err := strconv.ParseInt(args[1], 10, 32)
		if err != nil || partition < 0 {
			return usagef("PARTITION: %q is not a number of a partition", args[1])
		}
		r := &ops.OverrideSwitchRequest{Partition: int32(partition), LogStartOffset: o.logStart, LogEndOffset: o.logEnd, ClearProducerStates: o.clearProducers}
		if r.SealOffset, err = o.offset(cmd.Flags().Changed("seal")); err != nil {
			return err
		}
		topic, err := describeTopic(cmd.Context(), client, args[0])
		if err != nil {
			return err
		}
		r.TopicID = topic.TopicID
		return o.run(cmd, f, client, fmt.Sprintf("%s-%d", topic.TopicName, partition), r)
	})
	return c
}

// run tries the override, asks, and carries it out.
func (o *overrideFlags) run(cmd *cobra.Command, f *clientFlags, client *api.Client, what string, r *ops.OverrideSwitchRequest) error {
	r.DryRun = true
	answer, err := override(cmd, client, what, r)
	if err != nil {
		return err
	}
	effect := overrideEffect(what, r.SealOffset, answer)
	if o.dryRun {
		return f.print(cmd, answer, func(p *printer) { p.line("would: " + effect) })
	}
	if err := confirmed(cmd, o.yes, effect+". Go on?"); err != nil {
		return err
	}
	r.DryRun = false
	if answer, err = override(cmd, client, what, r); err != nil {
		return err
	}
	return f.print(cmd, answer, func(p *printer) { p.line("done: " + effect) })
}

func override(cmd *cobra.Command, client *api.Client, what string, r *ops.OverrideSwitchRequest) (*ops.OverrideSwitchResponse, error) {
	answer, err := client.OverrideSwitch(cmd.Context(), r)
	if err == nil && answer.Error != ops.None {
		err = fmt.Errorf("%s: %s: %s", what, answer.Error, answer.Message)
	}
	return answer, err
}

func overrideEffect(what string, seal int64, answer *ops.OverrideSwitchResponse) string {
	switch {
	case seal == store.NoSwitch:
		return what + " leaves the switch"
	case seal == store.SwitchPending:
		return what + " waits for a seal"
	case len(answer.Unreadable) == 0:
		return fmt.Sprintf("%s is sealed at %d; no record becomes unreadable", what, seal)
	}
	lost := answer.Unreadable[0]
	return fmt.Sprintf("%s is sealed at %d; the classic records %d to %d become unreadable", what, seal, lost.From, lost.To-1)
}
