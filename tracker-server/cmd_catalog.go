package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/tracker-server/datadir"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite"
)

// withStore opens the database of a data folder that a tracker may be using.
func withStore(ctx context.Context, data string, f func(store.Store) error) (err error) {
	dir, err := datadir.Share(data, false)
	if err != nil {
		return err
	}
	defer dir.Close()
	if _, err := os.Stat(dir.File(databaseFile)); errors.Is(err, fs.ErrNotExist) {
		return protocol.Errorf(protocol.CodeDataFolder, "%s is not the data folder of a tracker", dir.Path())
	}
	st, err := sqlite.Open(ctx, dir.File(databaseFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return f(st)
}

// unpublishCommand removes a model from the catalog. Nodes that hold it go on
// serving it; nobody new gets it from this tracker.
func unpublishCommand(flags *flag.FlagSet) runner {
	data := dataFlag(flags)
	return func(ctx context.Context, args []string, stdout, _ io.Writer) error {
		if len(args) != 1 {
			return &usageError{"name one model, by its id or its name"}
		}
		return withStore(ctx, *data, func(st store.Store) error {
			all, err := st.Catalog(ctx)
			if err != nil {
				return err
			}
			m, err := find(all, args[0])
			if err != nil {
				return err
			}
			if err := st.Unpublish(ctx, m.Model); err != nil {
				return err
			}
			fmt.Fprintf(stdout, "%s: unpublished (model %s)\n", m.Name, m.Model)
			return nil
		})
	}
}

// minPrefix is how much of an id has to be given.
const minPrefix = 6

// find resolves a name, an id, or the beginning of an id.
func find(all []store.CatalogModel, text string) (store.CatalogModel, error) {
	var found []store.CatalogModel
	for _, m := range all {
		if string(m.Model) == text || m.Name == text {
			return m, nil
		}
		if len(text) >= minPrefix && strings.HasPrefix(string(m.Model), text) {
			found = append(found, m)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return store.CatalogModel{}, protocol.Errorf(protocol.CodeModelUnknown, "the catalog has no model %.80q; neuron-tracker catalog lists them", text)
	default:
		return store.CatalogModel{}, &usageError{fmt.Sprintf("%d models begin with %s", len(found), text)}
	}
}

// row is one line of the list, and its JSON form.
type row struct {
	Model        protocol.ModelID `json:"model"`
	Name         string           `json:"name"`
	Architecture string           `json:"architecture"`
	Layers       int              `json:"layers"`
	Bytes        int64            `json:"bytes"`
	Private      bool             `json:"private"`
	WebSeeds     []string         `json:"webseeds"`
	InfoHash     string           `json:"info_hash"`
	Publisher    []byte           `json:"publisher"`
	Published    time.Time        `json:"published"`
	Error        string           `json:"error,omitempty"`
}

// catalogCommand lists what is published.
func catalogCommand(flags *flag.FlagSet) runner {
	data := dataFlag(flags)
	asJSON := flags.Bool("json", false, "as JSON")
	return func(ctx context.Context, _ []string, stdout, _ io.Writer) error {
		return withStore(ctx, *data, func(st store.Store) error {
			all, err := st.Catalog(ctx)
			if err != nil {
				return err
			}
			rows := []row{}
			for _, m := range all {
				if m, err = st.CatalogModel(ctx, m.Model); err != nil {
					return err
				}
				rows = append(rows, rowOf(&m))
			}
			if *asJSON {
				e := json.NewEncoder(stdout)
				e.SetIndent("", "  ")
				return e.Encode(rows)
			}
			return table(stdout, rows)
		})
	}
}

func rowOf(m *store.CatalogModel) row {
	r := row{Model: m.Model, Name: m.Name, Private: m.Private, WebSeeds: m.WebSeeds, InfoHash: m.InfoHash, Published: m.Published}
	s, err := manifest.ParseSigned(m.Manifest)
	if err != nil {
		r.Error = err.Error()
		return r
	}
	r.Architecture, r.Layers, r.Bytes, r.Publisher = s.Manifest.Architecture, s.Manifest.Layers, s.Manifest.Size(), s.Publisher
	return r
}

func table(w io.Writer, rows []row) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "no model is published; neuron-tracker publish FILE publishes one")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tMODEL\tARCHITECTURE\tLAYERS\tSIZE\tPRIVATE\tWEB SEEDS\tPUBLISHED")
	for _, r := range rows {
		private := "no"
		if r.Private {
			private = "yes"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%d\t%s\n", r.Name, r.Model.Short(), r.Architecture, r.Layers, size(r.Bytes), private, len(r.WebSeeds), r.Published.Format(time.DateTime))
		if r.Error != "" {
			fmt.Fprintf(t, "  cannot be used: %s\n", r.Error)
		}
	}
	return t.Flush()
}
