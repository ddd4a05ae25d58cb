package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/publish"
	"neuron/tracker-server/datadir"
	"neuron/tracker-server/keys"
	"neuron/tracker-server/server"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite"
)

const databaseFile = "tracker.db"

// texts is a flag that may be given several times.
type texts []string

func (t *texts) String() string     { return strings.Join(*t, " ") }
func (t *texts) Set(s string) error { *t = append(*t, s); return nil }

// publishCommand describes, signs and stores a model. It works beside a
// running tracker.
func publishCommand(flags *flag.FlagSet) runner {
	var o publish.Options
	var webseeds, announce texts
	data := dataFlag(flags)
	flags.StringVar(&o.Name, "name", "", "what clients call the model (default: the file's name)")
	flags.StringVar(&o.License, "license", "", "licence, where the model does not say it rightly")
	flags.BoolVar(&o.Private, "private", false, "for nodes of this tracker only")
	flags.Var(&webseeds, "webseed", "`URL` of the file on a web server, or of the folder that holds the model's folder; may be repeated")
	flags.Var(&announce, "announce", "`URL` for BitTorrent clients in the torrent (default: this tracker's); may be repeated")
	keyFile := flags.String("key", "", "PEM `file` with the publisher's Ed25519 key (default: the tracker's key)")
	return func(ctx context.Context, paths []string, stdout, stderr io.Writer) (err error) {
		if len(paths) == 0 {
			return &usageError{"name the model's file or files"}
		}
		for _, u := range append(append([]string{}, webseeds...), announce...) {
			if err := checkURL(u); err != nil {
				return err
			}
		}
		dir, err := datadir.Share(*data, true)
		if err != nil {
			return err
		}
		defer dir.Close()
		key, err := publisherKey(dir, *keyFile)
		if err != nil {
			return err
		}
		o.WebSeeds, o.Announce = webseeds, announce
		if len(announce) == 0 {
			if o.Announce, err = ownAnnounce(dir); err != nil {
				return err
			}
		}
		// A database that cannot be used shows before hours of hashing.
		st, err := sqlite.Open(ctx, dir.File(databaseFile))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, st.Close()) }()
		bar := newProgress(stderr)
		o.Progress = bar.update
		r, err := publish.Build(ctx, paths, o)
		bar.end()
		if err != nil {
			return err
		}
		return putModel(ctx, st, r, key, o.WebSeeds, stdout)
	}
}

// putModel signs and stores one model and tells what has changed.
func putModel(ctx context.Context, st store.Store, r *publish.Result, key ed25519.PrivateKey, webseeds []string, stdout io.Writer) error {
	m := r.Manifest
	s, err := manifest.Sign(m, key)
	if err != nil {
		return err
	}
	what := "updated"
	if _, err := st.CatalogModel(ctx, m.Model); errors.Is(err, &protocol.Error{Code: protocol.CodeModelUnknown}) {
		what = "published"
	} else if err != nil {
		return err
	}
	changed, err := st.Publish(ctx, store.CatalogModel{
		Model: m.Model, Name: m.Name, InfoHash: r.InfoHash, Private: m.Torrent.Private, WebSeeds: webseeds,
		Published: time.Now(), Manifest: s.Raw, Torrent: r.Torrent,
	})
	if err != nil {
		return err
	}
	if !changed {
		what = "already published, nothing has changed"
	}
	fmt.Fprintf(stdout, "%s: %s\nmodel      %s\ninfo hash  %s\nsize       %s in %d file(s), %d pieces of %s\nlayers     %d, %s\n",
		m.Name, what, m.Model, r.InfoHash, size(m.Size()), len(m.Files), m.Torrent.Pieces, size(m.Torrent.PieceLength), m.Layers, m.Architecture)
	if m.WholeOnly != "" {
		fmt.Fprintln(stdout, "whole only ", m.WholeOnly)
	}
	return nil
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || len(text) > store.MaxText {
		return &usageError{fmt.Sprintf("%.200q is not an http or https URL", text)}
	}
	return nil
}

func publisherKey(dir *datadir.Dir, file string) (ed25519.PrivateKey, error) {
	if file == "" {
		return keys.LoadOrCreate(dir)
	}
	key, err := keys.Load(file)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the publisher's key cannot be used: %w", err)
	}
	return key, nil
}

// ownAnnounce is the announce URL of the folder's tracker, as it was when the
// tracker ran last; none when it does not know how others reach it. Engines
// announce to the tracker that they are connected to, whatever stands there.
func ownAnnounce(dir *datadir.Dir) ([]string, error) {
	raw, err := os.ReadFile(dir.File(server.URLFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, datadir.Coded(err, "read "+dir.File(server.URLFile))
	}
	base := strings.TrimSpace(string(raw))
	if err != nil {
		base = "http://127.0.0.1:7700/"
	}
	if base == "" {
		return nil, nil
	}
	return []string{strings.TrimSuffix(base, "/") + "/announce"}, nil
}
