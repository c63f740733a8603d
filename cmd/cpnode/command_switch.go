package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

func switchCommand() *cobra.Command {
	return family("switch", "Turn classic topics into diskless ones", groupClient,
		switchBeginCommand(), switchStatusCommand(), switchOverrideCommand(), switchWatchCommand())
}

func switchBeginCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "begin TOPIC",
		Short: "Begin the switch of a topic",
		Long: `Puts all partitions of a classic topic into the switch. Their leaders then seal their
logs, upload what is below the seal, and give it up on the local disks once it is in
remote storage; cpnode switch status shows how far they are.`,
		Example: "  cpnode switch begin orders",
		Args:    exactly(1),
	}
	f := addClientFlags(c)
	c.RunE = f.with(func(cmd *cobra.Command, client *api.Client, args []string) error {
		topic, err := describeTopic(cmd.Context(), client, args[0])
		if err != nil {
			return err
		}
		answer, err := client.BeginSwitch(cmd.Context(), &ops.BeginSwitchRequest{TopicID: topic.TopicID})
		if err != nil {
			return err
		}
		if answer.Error != ops.None {
			return fmt.Errorf("topic %s: %s: %s", topic.TopicName, answer.Error, answer.Message)
		}
		return f.print(cmd, answer, func(p *printer) {
			p.line(fmt.Sprintf("topic %s is in the switch; `%s switch status %s` shows how far", topic.TopicName, program, topic.TopicName))
		})
	})
	return c
}

func switchStatusCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "status [TOPIC]",
		Short:   "Show where the classic records of partitions are",
		Example: "  cpnode switch status\n  cpnode switch status orders -o json",
		Args:    atMostOne,
	}
	f := addClientFlags(c)
	c.RunE = f.with(func(cmd *cobra.Command, client *api.Client, args []string) error {
		topics, err := switchedTopics(cmd.Context(), client, args)
		if err != nil {
			return err
		}
		all := &ops.DescribePartitionsResponse{Responses: []ops.DescribedPartition{}}
		for i := range topics {
			partitions, err := registeredPartitions(cmd.Context(), client, &topics[i])
			if err != nil {
				return err
			}
			all.Responses = append(all.Responses, partitions...)
		}
		return f.print(cmd, all, func(p *printer) { printPartitions(p, all.Responses, noPartitions(args)) })
	})
	return c
}

// switchedTopics is the topic that is named, or all that began as classic ones.
func switchedTopics(ctx context.Context, client *api.Client, names []string) ([]ops.TopicInfo, error) {
	if len(names) > 0 {
		topic, err := describeTopic(ctx, client, names[0])
		if err != nil {
			return nil, err
		}
		return []ops.TopicInfo{topic.TopicInfo}, nil
	}
	all, err := listTopics(ctx, client)
	if err != nil {
		return nil, err
	}
	var classic []ops.TopicInfo
	for _, t := range all.Topics {
		if t.Origin == store.OriginClassic.String() && t.DeletedAt < 0 {
			classic = append(classic, t)
		}
	}
	return classic, nil
}

// maxPartitions is how many numbers of partitions are tried at most: their numbers may
// have gaps.
const maxPartitions = 10_000

// registeredPartitions is the registrations of a topic, by partition.
func registeredPartitions(ctx context.Context, client *api.Client, t *ops.TopicInfo) (found []ops.DescribedPartition, err error) {
	for first := int32(0); first < maxPartitions && int64(len(found)) < t.Partitions; first += pageRows {
		request := &ops.DescribePartitionsRequest{}
		for p := range int32(pageRows) {
			request.Requests = append(request.Requests, ops.LogRef{TopicID: t.TopicID, Partition: first + p})
		}
		page, err := client.DescribePartitions(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, p := range page.Responses {
			if p.Error == ops.None {
				found = append(found, p)
			}
		}
	}
	return found, nil
}

// noPartitions is what to say when no partition is registered.
func noPartitions(names []string) string {
	if len(names) > 0 {
		return fmt.Sprintf("topic %s has no registered partitions: there is nothing to switch", names[0])
	}
	return "no classic topics; brokers register them with register-partitions"
}

// printPartitions prints none when there are none.
func printPartitions(p *printer, partitions []ops.DescribedPartition, none string) {
	rows := make([][]string, len(partitions))
	for i := range partitions {
		d := &partitions[i]
		rows[i] = []string{fmt.Sprintf("%s-%d", d.TopicName, d.Partition), string(d.State), sealText(d.ClassicToDisklessStartOffset), brokerText(d.Leader),
			strconv.Itoa(int(d.LeaderEpoch)), brokersText(d.ISR), brokersText(d.Replicas), brokersText(d.AdvertisedReplicas)}
	}
	p.tableOr(none, []string{"PARTITION", "STATE", "SEAL", "LEADER", "EPOCH", "ISR", "REPLICAS", "ADVERTISED"}, rows)
}

// sealText is where diskless storage begins, - where that is not known.
func sealText(offset int64) string {
	if offset < 0 {
		return "-"
	}
	return strconv.FormatInt(offset, 10)
}

func brokerText(id int32) string {
	if id == store.NoLeader {
		return "none"
	}
	return strconv.Itoa(int(id))
}

func brokersText(ids []int32) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.Itoa(int(id))
	}
	return strings.Join(texts, ",")
}
