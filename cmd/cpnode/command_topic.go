package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

func topicCommand() *cobra.Command {
	return family("topic", "Create, look at and delete topics", groupClient,
		topicCreateCommand(), topicListCommand(), topicDescribeCommand(), topicDeleteCommand())
}

func topicCreateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a topic, or add partitions to it",
		Example: `  cpnode topic create orders --partitions 3
  cpnode topic create orders --partitions 6 --config retention.ms=86400000`,
		Args: exactly(1),
	}
	f := addClientFlags(c)
	partitions := c.Flags().Int32("partitions", 1, "how many partitions the topic is to have")
	id := c.Flags().String("id", "", "topic id to use; default: that of the topic, or a new one")
	settings := c.Flags().StringToString("config", nil, "config keys to set, key=value")
	c.RunE = f.with(func(cmd *cobra.Command, client *api.Client, args []string) error {
		if *partitions < 1 {
			return usagef("--partitions: must be > 0")
		}
		topic := ops.CreateTopic{TopicName: args[0], NumPartitions: *partitions, Config: *settings}
		var err error
		if topic.TopicID, err = topicID(cmd.Context(), client, args[0], *id); err != nil {
			return err
		}
		answer, err := client.CreateTopics(cmd.Context(), &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{topic}})
		if err != nil {
			return err
		}
		created := answer.Topics[0]
		if created.Error != ops.None {
			return fmt.Errorf("topic %s: %s: %s", args[0], created.Error, created.Message)
		}
		return f.print(cmd, answer, func(p *printer) {
			p.line(fmt.Sprintf("topic %s  %s  partitions created: %d", args[0], created.TopicID, created.PartitionsCreated))
		})
	})
	return c
}

// topicID is the id that was given, else that of the topic of this name, else a new
// one.
func topicID(ctx context.Context, client *api.Client, name, given string) (id store.TopicID, err error) {
	if given != "" {
		if id, err = store.ParseTopicID(given); err != nil {
			return id, usagef("--id: %w", err)
		}
		return id, nil
	}
	known, err := client.DescribeTopic(ctx, &ops.DescribeTopicRequest{TopicName: name})
	if err != nil {
		return id, err
	}
	if known.Error == ops.None {
		return known.TopicID, nil
	}
	if _, err := rand.Read(id[:]); err != nil {
		return id, err
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // a random UUID, version 4
	return id, nil
}

func topicListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "List all topics, deleted ones until they are purged",
		Example: "  cpnode topic list -o json",
		Args:    exactly(0),
	}
	f := addClientFlags(c)
	c.RunE = f.with(func(cmd *cobra.Command, client *api.Client, _ []string) error {
		all, err := listTopics(cmd.Context(), client)
		if err != nil {
			return err
		}
		return f.print(cmd, all, func(p *printer) {
			rows := make([][]string, len(all.Topics))
			for i, t := range all.Topics {
				rows[i] = []string{t.TopicName, t.TopicID.String(), strconv.FormatInt(t.Partitions, 10), t.Origin, at(t.DeletedAt)}
			}
			p.tableOr(fmt.Sprintf("no topics yet; `%s topic create NAME --partitions 3` makes one", program), []string{"NAME", "ID", "PARTITIONS", "ORIGIN", "DELETED"}, rows)
		})
	})
	return c
}

// listTopics is the whole list.
func listTopics(ctx context.Context, client *api.Client) (*ops.ListTopicsResponse, error) {
	all := &ops.ListTopicsResponse{}
	for {
		page, err := client.ListTopics(ctx, &ops.ListTopicsRequest{After: all.Next})
		if err != nil {
			return nil, err
		}
		all.Topics, all.Next = append(all.Topics, page.Topics...), page.Next
		if page.Next == "" {
			return all, nil
		}
	}
}

// pageRows is what a list is asked for at a time.
const pageRows = 1000

func topicDescribeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "describe NAME|ID",
		Short:   "Show a topic's partitions",
		Example: "  cpnode topic describe orders",
		Args:    exactly(1),
	}
	f := addClientFlags(c)
	c.RunE = f.with(func(cmd *cobra.Command, client *api.Client, args []string) error {
		topic, err := describeTopic(cmd.Context(), client, args[0])
		if err != nil {
			return err
		}
		return f.print(cmd, topic, func(p *printer) { printTopic(p, topic) })
	})
	return c
}

// describeTopic finds a topic by its name or its id.
func describeTopic(ctx context.Context, client *api.Client, nameOrID string) (*ops.DescribeTopicResponse, error) {
	topic, err := client.DescribeTopic(ctx, &ops.DescribeTopicRequest{TopicName: nameOrID})
	if id, parseErr := store.ParseTopicID(nameOrID); err == nil && topic.Error != ops.None && parseErr == nil {
		topic, err = client.DescribeTopic(ctx, &ops.DescribeTopicRequest{TopicID: id})
	}
	if err != nil {
		return nil, err
	}
	if topic.Error == ops.UnknownTopicOrPartition {
		return nil, fmt.Errorf("topic %s: %s; `%s topic list` shows those there are", nameOrID, topic.Error, program)
	}
	return topic, refused("topic "+nameOrID, topic.Error)
}

func printTopic(p *printer, t *ops.DescribeTopicResponse) {
	p.line(fmt.Sprintf("topic %s  %s  %s", t.TopicName, t.TopicID, t.Origin))
	if t.DeletedAt >= 0 {
		p.line("deleted at " + at(t.DeletedAt) + ", not purged yet")
	}
	for _, key := range slices.Sorted(maps.Keys(t.Config)) {
		p.line("  " + key + "=" + t.Config[key])
	}
	rows := make([][]string, len(t.Logs))
	for i, l := range t.Logs {
		rows[i] = []string{strconv.Itoa(int(l.Partition)), strconv.FormatInt(l.LogStartOffset, 10), strconv.FormatInt(l.HighWatermark, 10),
			strconv.FormatInt(l.DisklessStartOffset, 10), strconv.FormatInt(l.RemoteLogStartOffset, 10), size(l.ByteSize), strings.TrimPrefix(string(l.Error), string(ops.None))}
	}
	p.tableOr(noLogs(t), []string{"PARTITION", "LOG START", "HIGH WATERMARK", "DISKLESS START", "REMOTE START", "SIZE", ""}, rows)
}

// noLogs is what to say of a topic without diskless logs.
func noLogs(t *ops.DescribeTopicResponse) string {
	if t.Origin == store.OriginClassic.String() {
		return fmt.Sprintf("no diskless logs yet; `%s switch status %s` shows its classic partitions", program, t.TopicName)
	}
	return fmt.Sprintf("no partitions yet; `%s topic create %s --partitions 3` adds some", program, t.TopicName)
}

func topicDeleteCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "delete NAME|ID",
		Short: "Delete a topic",
		Long: `Deletes a topic at once, whatever its size: its logs vanish for every reader, its
name is free. What they held is removed later; see cpnode purge.`,
		Example: "  cpnode topic delete orders --yes",
		Args:    exactly(1),
	}
	f := addClientFlags(c)
	yes := c.Flags().BoolP("yes", "y", false, "do not ask")
	c.RunE = f.with(func(cmd *cobra.Command, client *api.Client, args []string) error {
		topic, err := describeTopic(cmd.Context(), client, args[0])
		if err != nil {
			return err
		}
		if err := confirmed(cmd, *yes, deleteQuestion(topic)); err != nil {
			return err
		}
		answer, err := client.DeleteTopics(cmd.Context(), &ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{topic.TopicID}})
		if err != nil {
			return err
		}
		return f.print(cmd, answer, func(p *printer) {
			p.line(fmt.Sprintf("topic %s deleted (%d logs); `%s purge run` removes what they held", topic.TopicName, answer.LogsDeleted, program))
		})
	})
	return c
}

func deleteQuestion(t *ops.DescribeTopicResponse) string {
	var bytes int64
	for _, l := range t.Logs {
		bytes += max(l.ByteSize, 0)
	}
	return fmt.Sprintf("Delete topic %s (%s): %d partitions, %s? This cannot be undone.", t.TopicName, t.TopicID, len(t.Logs), size(bytes))
}
