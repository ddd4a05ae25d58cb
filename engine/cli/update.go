package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"neuron/engine/cli/updates"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

// updateCommand tells of newer versions, and does what the user wants with them.
func updateCommand() *cobra.Command {
	status := func(ctx context.Context, c *localapi.Client) (*localapi.Update, error) { return c.Update(ctx) }
	root := local("update", "Say whether a newer version of Neuron is there", status, updates.Show)
	root.Long = "Say what is known of newer versions of Neuron. Nothing is fetched or installed by\nitself: see update download and update install. Whether the list of releases is read once\na day is the setting updates.check."
	root.AddCommand(
		local("status", "Say what is known, without asking anybody", status, updates.Show),
		local("check", "Read the publisher's list of releases now",
			func(ctx context.Context, c *localapi.Client) (*localapi.Update, error) { return c.CheckUpdate(ctx) }, updates.Show),
		updateDownloadCommand(), updateInstallCommand(), updateDismissCommand())
	return root
}

func updateDownloadCommand() *cobra.Command {
	return onEngine("download", "Fetch the newer version and check it; it is not installed", cobra.NoArgs, func(c *cobra.Command, client *localapi.Client, _ []string) error {
		u, err := client.DownloadUpdate(c.Context())
		if err != nil {
			return err
		}
		if u, err = updates.Wait(c.Context(), client, u); err != nil {
			return err
		}
		if u.State != localapi.UpdateReady {
			if u.Error != nil {
				return u.Error
			}
			return protocol.Errorf(protocol.CodeConflict, "the release has changed meanwhile; see: neuron-engine update")
		}
		return updates.Show(c.OutOrStdout(), u)
	})
}

func updateInstallCommand() *cobra.Command {
	return onEngine("install", "Install the version that was fetched", cobra.NoArgs, func(c *cobra.Command, client *localapi.Client, _ []string) error {
		in, err := client.InstallUpdate(c.Context())
		if err != nil {
			return err
		}
		if in.Silent {
			fmt.Fprintf(c.OutOrStdout(), "the installer of Neuron %s runs; it ends Neuron and starts it again\n", in.Version)
			return nil
		}
		fmt.Fprintf(c.OutOrStdout(), "the system's installer has been opened for %s\n", in.File)
		if in.Command != "" {
			fmt.Fprintf(c.OutOrStdout(), "in a terminal: %s\n", in.Command)
		}
		return nil
	})
}

func updateDismissCommand() *cobra.Command {
	return onEngine("dismiss", "Do not tell of the newest version any more", cobra.NoArgs, func(c *cobra.Command, client *localapi.Client, _ []string) error {
		u, err := client.Update(c.Context())
		if err != nil {
			return err
		}
		if u.Release == nil {
			return protocol.Errorf(protocol.CodeNotFound, "no newer version is known")
		}
		if _, err := client.DismissUpdate(c.Context(), u.Release.Version); err != nil {
			return err
		}
		fmt.Fprintf(c.OutOrStdout(), "Neuron %s is not told of any more\n", u.Release.Version)
		return nil
	})
}
