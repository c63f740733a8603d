package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/cmd/cpnode/config"
	"github.com/cpnode/cpnode/ops"
)

const (
	// defaultEndpoint is where `cpnode dev` serves.
	defaultEndpoint = "http://127.0.0.1:7480"
	// patience is how long a verb tries when no node answers: somebody waits.
	patience = 5 * time.Second
)

// clientFlags are what every verb that talks to a cluster takes.
type clientFlags struct {
	endpoints []string
	output    *outputFormat
	attempt   time.Duration // for which an answer may take; 0: as long as any operation's
}

func addClientFlags(c *cobra.Command) *clientFlags {
	f := &clientFlags{output: addOutputFlag(c)}
	endpoints := []string{defaultEndpoint}
	if list := os.Getenv(config.EndpointsEnv); list != "" {
		endpoints = strings.Split(list, ",")
	}
	c.Flags().StringSliceVar(&f.endpoints, "endpoints", endpoints, "URLs of nodes, any of the cluster; or in "+config.EndpointsEnv)
	return f
}

// connect makes the client, which connects with its first call.
func (f *clientFlags) connect() (*api.Client, error) { return f.connectFor(patience) }

// connectFor makes a client that tries for so long when no node answers.
func (f *clientFlags) connectFor(retry time.Duration) (*api.Client, error) {
	c := api.DefaultClientConfig(f.endpoints...)
	c.RetryFor = retry
	if f.attempt > 0 {
		c.AttemptTimeout = f.attempt
	}
	client, err := api.NewClient(c)
	if err != nil {
		return nil, usagef("--endpoints or %s: %s", config.EndpointsEnv, strings.TrimPrefix(err.Error(), "Endpoints: "))
	}
	return client, nil
}

// with makes a verb of run, which gets a client that is closed behind it.
func (f *clientFlags) with(run func(cmd *cobra.Command, client *api.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		client, err := f.connect()
		if err != nil {
			return err
		}
		defer client.Close()
		return run(cmd, client, args)
	}
}

// print writes an answer as the API does, or what text prints.
func (f *clientFlags) print(cmd *cobra.Command, answer any, text func(*printer)) error {
	if *f.output == outputText {
		return f.output.print(cmd.OutOrStdout(), answer, text)
	}
	body, err := wire.Append(wire.JSON, nil, answer)
	if err != nil {
		return err
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, body, "", "  "); err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), indented.String())
	return err
}

// refused is the error of an item, nil for NONE.
func refused(what string, code ops.Code) error {
	if code == ops.None {
		return nil
	}
	return fmt.Errorf("%s: %s", what, code)
}

// confirmed asks the person at the terminal, unless --yes has said it.
func confirmed(cmd *cobra.Command, yes bool, question string) error {
	if yes {
		return nil
	}
	if f, ok := cmd.InOrStdin().(*os.File); ok && !isatty.IsTerminal(f.Fd()) {
		return usagef("%s Nobody can be asked here: give --yes", question)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	answer, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && err != io.EOF {
		return err
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return fmt.Errorf("nothing was done")
	}
	return nil
}

// at shows a time of the wire, Unix milliseconds; - for none.
func at(ms int64) string {
	if ms < 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05Z")
}

// size shows bytes for people.
func size(bytes int64) string {
	const unit = 1024
	if bytes < unit {
		return fmt.Sprintf("%d B", bytes)
	}
	value, prefix := float64(bytes)/unit, 0
	for value >= unit {
		value, prefix = value/unit, prefix+1
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTPE"[prefix])
}
