package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/engine/wallet"
)

func ownerExport() *cobra.Command {
	var dir, pass string
	c := &cobra.Command{
		Use:   "export FILE",
		Short: "Write a copy of the owner key that a passphrase opens",
		Long: "Writes a copy of the owner key, encrypted with a passphrase, to a new file. Keep it on\n" +
			"another disk: a lost key is lost credit, and without the passphrase nobody can open it.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			w := wallet.At(dir)
			id, err := w.Owner()
			if err != nil {
				return err
			}
			p, err := passphrases{file: pass, in: c.InOrStdin(), ask: c.ErrOrStderr()}.read("Passphrase for the copy: ", true)
			if err != nil {
				return err
			}
			sealed, err := w.Export(p)
			if err != nil {
				return err
			}
			if err := writeNew(args[0], sealed); err != nil {
				return err
			}
			// What is on the disk has to open, or it is no copy.
			back, err := os.ReadFile(args[0])
			if err != nil {
				return protocol.Errorf(protocol.CodeDataFolder, "read the copy again: %w", err)
			}
			if _, err := wallet.Unseal(back, p); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "The key of owner %s is in %s.\n", id.Short(), args[0])
			return nil
		},
	}
	dataFlag(c, &dir, "folder of the owner key")
	c.Flags().StringVar(&pass, "passphrase-file", "", passphraseHelp)
	return c
}

// writeNew writes a file that must not exist, to the disk.
func writeNew(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return protocol.Errorf(protocol.CodeConflict, "%s exists already; choose another name", path)
	}
	if err == nil {
		_, err = f.Write(b)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		return protocol.Errorf(protocol.CodeDataFolder, "write %s: %w", path, err)
	}
	return nil
}

func ownerRecover() *cobra.Command {
	var dir, pass string
	var replace bool
	c := &cobra.Command{
		Use:   "recover FILE",
		Short: "Use the owner key of an exported file on this computer",
		Long: "Puts the owner key of an exported file into the data folder; this computer's node is\n" +
			"that owner's from then on. Another key that is there is replaced with --replace only,\n" +
			"and kept beside it.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			sealed, err := readSealed(args[0])
			if err != nil {
				return err
			}
			id, err := wallet.SealedOwner(sealed)
			if err != nil {
				return err
			}
			p, err := passphrases{file: pass, in: c.InOrStdin(), ask: c.ErrOrStderr()}.read("Passphrase of owner "+id.Short()+": ", false)
			if err != nil {
				return err
			}
			got, err := wallet.At(dir).Recover(sealed, p, replace)
			if err != nil {
				if errors.Is(err, &protocol.Error{Code: protocol.CodeConflict}) {
					return protocol.Errorf(protocol.CodeConflict, "%s. With --replace that key is kept beside the new one", protocol.AsError(err).Message)
				}
				return err
			}
			out := c.OutOrStdout()
			if !got.Changed {
				fmt.Fprintf(out, "This computer has the key of owner %s already.\n", got.Owner.Short())
				return nil
			}
			fmt.Fprintf(out, "This computer has the key of owner %s now.\n", got.Owner.Short())
			if got.Saved != "" {
				fmt.Fprintf(out, "The key that was here is kept in %s.\n", got.Saved)
			}
			return settleAfter(c.Context(), dir)
		},
	}
	dataFlag(c, &dir, "folder of the owner key")
	c.Flags().StringVar(&pass, "passphrase-file", "", passphraseHelp)
	c.Flags().BoolVar(&replace, "replace", false, "replace another owner key, which is kept beside the new one")
	return c
}

func readSealed(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "read the exported key: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, wallet.MaxSealed+1))
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "read the exported key: %w", err)
	}
	return b, nil
}

// settleAfter has an engine that runs look at its new key at once. One that does
// not run does so at its next start.
func settleAfter(ctx context.Context, dir string) error {
	client, err := localapi.Dial(dir)
	if errors.Is(err, &protocol.Error{Code: protocol.CodeUnavailable}) {
		return nil
	}
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.Owner(ctx)
	return err
}
