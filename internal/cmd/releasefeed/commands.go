package main

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"neuron/engine/update/feed"
	"neuron/internal/atomicfile"
	"neuron/internal/identity"
)

// keygen makes a release key and prints its public half.
func keygen(args []string, out, errs io.Writer) error {
	f := flags("keygen", errs)
	path := f.String("out", "", "file for the private key; it must not exist")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *path == "" || f.NArg() > 0 {
		return errors.New("-out is needed, and nothing else")
	}
	if _, err := os.Lstat(*path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there already: a lost key cannot be made again", *path)
	}
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	if err := identity.WriteKey(*path, key); err != nil {
		return err
	}
	fmt.Fprintf(out, "%x\n", pub)
	return nil
}

func flags(name string, errs io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("releasefeed "+name, flag.ContinueOnError)
	f.SetOutput(errs)
	return f
}

// several is a flag that may be given several times.
type several []string

func (s *several) String() string     { return strings.Join(*s, ",") }
func (s *several) Set(v string) error { *s = append(*s, v); return nil }

// sign makes the list of a folder of packages.
func sign(args []string, out, errs io.Writer) error {
	f := flags("sign", errs)
	var keys, notes several
	f.Var(&keys, "key", "file with a private key (several, while one key follows another)")
	f.Var(&notes, "notes", "LANGUAGE=FILE with what is new, as plain text (several)")
	dist := f.String("dist", "dist", "folder with the packages and SHA256SUMS")
	version := f.String("version", "", "version of the release")
	channel := f.String("channel", "stable", "which channel it is for")
	serial := f.Int64("serial", 0, "number of the list, larger than any before (default: seconds since 1970)")
	valid := f.Duration("valid", 90*24*time.Hour, "how long the list is valid; sign it again before")
	base := f.String("base", "", "https address of the folder with the packages (default: that of the list)")
	page := f.String("page", "", "https address for people")
	path := f.String("out", "", "file for the list (default: print it)")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *version == "" || len(keys) == 0 || f.NArg() > 0 {
		return errors.New("-version and -key are needed, and nothing else but flags")
	}
	now := time.Now().UTC().Truncate(time.Second)
	list := &feed.Feed{
		Form: feed.Form, Channel: *channel, Serial: *serial, Issued: now, Expires: now.Add(*valid), Version: strings.TrimPrefix(*version, "v"),
		Date: now.Format(time.DateOnly), Page: *page, Notes: map[string]string{},
	}
	if list.Serial == 0 {
		list.Serial = now.Unix()
	}
	for _, n := range notes {
		tag, file, ok := strings.Cut(n, "=")
		if !ok {
			return fmt.Errorf("-notes %q is not LANGUAGE=FILE", n)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		list.Notes[tag] = strings.TrimSpace(string(text))
	}
	sums, err := readSums(*dist)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		p, ok := feed.Classify(name)
		if !ok {
			fmt.Fprintf(errs, "left out: %s\n", name)
			continue
		}
		if p.Size, p.SHA256, err = measure(filepath.Join(*dist, name)); err != nil {
			return err
		}
		if p.SHA256 != sums[name] {
			return fmt.Errorf("%s is not the file of %s", name, sumsFile)
		}
		p.URL = name
		if *base != "" {
			p.URL = strings.TrimSuffix(*base, "/") + "/" + name
		}
		list.Packages = append(list.Packages, p)
	}
	if len(list.Packages) == 0 {
		return fmt.Errorf("no packages in %s", *dist)
	}
	private := make([]ed25519.PrivateKey, len(keys))
	for i, k := range keys {
		if private[i], err = identity.ReadKey(k); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
	}
	raw, err := feed.Sign(list, private...)
	if err != nil {
		return err
	}
	for _, p := range list.Packages {
		fmt.Fprintf(errs, "%s/%s %s: %s, %d bytes\n", p.OS, p.Arch, p.Kind, p.Name, p.Size)
	}
	if *path == "" {
		_, err = out.Write(raw)
		return err
	}
	// A list is for everybody to read.
	if err := atomicfile.Write(*path, raw); err != nil {
		return err
	}
	return os.Chmod(*path, 0o644)
}

// verify checks a list as programs do, and its packages where they lie here.
func verify(args []string, out, errs io.Writer) error {
	f := flags("verify", errs)
	var keys several
	f.Var(&keys, "key", "public key in hex (several: one of them has to be right)")
	dist := f.String("dist", "", "folder whose packages are compared (default: none)")
	channel := f.String("channel", "", "channel that is wanted (default: any)")
	at := f.String("at", "", "time at which it has to be valid, as 2006-01-02T15:04:05Z (default: now)")
	if err := f.Parse(args); err != nil {
		return err
	}
	if len(keys) == 0 || f.NArg() != 1 {
		return errors.New("-key and one file are needed")
	}
	now := time.Now()
	if *at != "" {
		var err error
		if now, err = time.Parse(time.RFC3339, *at); err != nil {
			return err
		}
	}
	public := make([]ed25519.PublicKey, len(keys))
	for i, k := range keys {
		var err error
		if public[i], err = feed.ParseKey(k); err != nil {
			return err
		}
	}
	raw, err := readList(f.Arg(0))
	if err != nil {
		return err
	}
	list, err := feed.Parse(raw, public)
	if err != nil {
		return err
	}
	if *channel == "" {
		*channel = list.Channel
	}
	if err := list.Accept(*channel, feed.Seen{}, "", now); err != nil {
		return err
	}
	for _, p := range list.Packages {
		if *dist != "" {
			size, sum, err := measure(filepath.Join(*dist, p.Name))
			if err != nil {
				return err
			}
			if size != p.Size || sum != p.SHA256 {
				return fmt.Errorf("%s is not the file of the list", p.Name)
			}
		}
		fmt.Fprintf(out, "%s/%s %s: %s, %d bytes\n", p.OS, p.Arch, p.Kind, p.Name, p.Size)
	}
	fmt.Fprintf(out, "version %s, channel %s, serial %d, valid until %s\n", list.Version, list.Channel, list.Serial, list.Expires.Format(time.RFC3339))
	return nil
}

// readList reads a list, or one byte too many.
func readList(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, feed.MaxBytes+1))
}

// sumHex is a SHA-256 in the form of SHA256SUMS.
func sumHex(b []byte) string { return hex.EncodeToString(b) }
