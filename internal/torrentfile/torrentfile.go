// Package torrentfile reads .torrent files of strangers and compares them with
// a signed manifest, before the BitTorrent library sees them.
//
// It is much stricter than BEP 3 clients are: version 1 only, canonical
// bencoding, plain file names, one meaning for every byte. What it accepts, the
// library reads the same way. Tracker and engine may import it; it does no I/O
// and of our packages knows engine/manifest only.
package torrentfile

import (
	"crypto/sha1" // BEP 3 builds on it; what the manifest says in SHA-256 decides
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
)

// Limits of a .torrent file.
const (
	MaxBytes = 32 << 20

	maxFiles   = manifest.MaxFiles
	maxPath    = 16 // folders and file name
	maxURL     = 2048
	maxURLs    = 128
	maxDepth   = 16
	hashLength = sha1.Size
)

// Info is what a .torrent file says. Strings and slices are the caller's.
type Info struct {
	InfoHash    string // SHA-1 of the info dictionary, 40 hex digits
	Name        string // of the one file, or of the folder
	Single      bool   // one file, without a folder
	Files       []File // in order; a single file has the torrent's name
	PieceLength int64
	Hashes      []byte // SHA-1 of the pieces one after the other; a view of the input
	Private     bool
	// Announce and WebSeeds are not covered by the info hash: whoever handed
	// the file over could change them.
	Announce []string // BEP 3 and 12, tiers one after the other, without repeats
	WebSeeds []string // BEP 19
}

// File is one file of a torrent.
type File struct {
	Path   []string
	Length int64
}

// Pieces is the number of pieces.
func (i *Info) Pieces() int { return len(i.Hashes) / hashLength }

// Length is the bytes of all files.
func (i *Info) Length() int64 {
	n := int64(0)
	for _, f := range i.Files {
		n += f.Length
	}
	return n
}

func bad(format string, args ...any) error {
	return protocol.Errorf(protocol.CodeModelInvalid, "torrent: "+format, args...)
}

// Parse reads a .torrent file (model_invalid where it cannot). b must not
// change while Hashes is in use.
func Parse(b []byte) (*Info, error) {
	if len(b) > MaxBytes {
		return nil, bad("%d bytes, at most %d are allowed", len(b), MaxBytes)
	}
	c := &cursor{b: b}
	info, hasInfo := &Info{}, false
	c.dict(func(key string) {
		switch key {
		case "info":
			hasInfo = true
			from := c.at
			c.info(info)
			if c.err == nil {
				sum := sha1.Sum(b[from:c.at])
				info.InfoHash = hex.EncodeToString(sum[:])
			}
		case "announce":
			info.Announce = c.url(info.Announce, "http", "https", "udp", "ws", "wss")
		case "announce-list":
			c.list(func() {
				c.list(func() { info.Announce = c.url(info.Announce, "http", "https", "udp", "ws", "wss") })
			})
		case "url-list":
			if c.peek() == 'l' {
				c.list(func() { info.WebSeeds = c.url(info.WebSeeds, "http", "https") })
			} else {
				info.WebSeeds = c.url(info.WebSeeds, "http", "https")
			}
		case "comment", "created by", "encoding": // the library wants text
			c.text(MaxBytes)
		case "piece layers":
			c.fail("has piece layers: BitTorrent version 2 is not supported")
		default:
			c.skip()
		}
	})
	switch {
	case c.err != nil:
		return nil, c.err
	case c.at != len(b):
		return nil, bad("%d bytes behind its end", len(b)-c.at)
	case !hasInfo:
		return nil, bad("has no info dictionary")
	}
	return info, info.check()
}

// url appends a URL of one of the schemes; repeats and empty ones are left out.
func (c *cursor) url(list []string, schemes ...string) []string {
	s := string(c.text(maxURL))
	if c.err != nil || s == "" || slices.Contains(list, s) {
		return list
	}
	u, err := url.Parse(s)
	if err != nil || !slices.Contains(schemes, u.Scheme) || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		c.fail("%.100q is not a usable URL", s)
		return list
	}
	if len(list) == maxURLs {
		c.fail("has more than %d URLs", maxURLs)
		return list
	}
	return append(list, s)
}

// info reads the info dictionary. Keys that give a file a second name, a second
// kind or a second place are refused: libraries differ in which one they heed.
func (c *cursor) info(i *Info) {
	length, hasLength, hasFiles := int64(0), false, false
	c.dict(func(key string) {
		switch key {
		case "name":
			i.Name = string(c.text(maxURL))
		case "name.utf-8":
			if s := string(c.text(maxURL)); c.err == nil && s != i.Name {
				c.fail("has two names, %.80q and %.80q", i.Name, s)
			}
		case "length":
			length, hasLength = c.number(), true
		case "files":
			hasFiles = true
			c.list(func() {
				if len(i.Files) == maxFiles {
					c.fail("has more than %d files", maxFiles)
					return
				}
				i.Files = append(i.Files, c.file())
			})
		case "piece length":
			i.PieceLength = c.number()
		case "pieces":
			i.Hashes = c.text(MaxBytes)
		case "private":
			n := c.number()
			if n != 0 && n != 1 {
				c.fail("private is %d", n)
			}
			i.Private = n == 1
		case "source":
			c.text(MaxBytes)
		case "meta version", "file tree":
			c.fail("has %q: BitTorrent version 2 is not supported", key)
		case "attr", "symlink path":
			c.fail("has %q: links and padding are not supported", key)
		default:
			c.skip()
		}
	})
	switch {
	case c.err != nil:
	case hasFiles == hasLength:
		c.fail("has one file and several, or none")
	case hasLength:
		i.Single = true
		i.Files = []File{{Path: []string{i.Name}, Length: length}}
	}
}

func (c *cursor) file() (f File) {
	path := func() (out []string) {
		c.list(func() {
			if len(out) == maxPath {
				c.fail("a path has more than %d parts", maxPath)
				return
			}
			out = append(out, string(c.text(maxURL)))
		})
		return out
	}
	c.dict(func(key string) {
		switch key {
		case "length":
			f.Length = c.number()
		case "path":
			f.Path = path()
		case "path.utf-8":
			if p := path(); c.err == nil && !slices.Equal(p, f.Path) {
				c.fail("a file has two paths, %.80q and %.80q", f.Path, p)
			}
		case "attr", "symlink path":
			c.fail("has %q: links and padding are not supported", key)
		default:
			c.skip()
		}
	})
	return f
}

// check holds the rules about the whole.
func (i *Info) check() error {
	if !manifest.SafeName(i.Name) {
		return bad("name %.80q is not a plain file name", i.Name)
	}
	if p := i.PieceLength; p < manifest.MinPieceLength || p > manifest.MaxPieceLength || p&(p-1) != 0 {
		return bad("pieces of %d bytes", p)
	}
	if len(i.Files) == 0 {
		return bad("has no files")
	}
	total := int64(0)
	paths := make(map[string]bool, len(i.Files)) // false: a folder
	for _, f := range i.Files {
		if len(f.Path) == 0 {
			return bad("a file has no path")
		}
		folded := ""
		for k, part := range f.Path {
			if !manifest.SafeName(part) {
				return bad("path %.80q is not made of plain file names", f.Path)
			}
			if k > 0 {
				folded += "/"
			}
			folded += strings.ToLower(part)
			last := k == len(f.Path)-1
			if file, seen := paths[folded]; seen && (file || last) {
				return bad("two files want the place %.80q", folded)
			}
			paths[folded] = last
		}
		if f.Length <= 0 || f.Length > manifest.MaxTotal-total {
			return bad("file %.80q has %d bytes after %d of others", folded, f.Length, total)
		}
		total += f.Length
	}
	n := (total + i.PieceLength - 1) / i.PieceLength
	if n > manifest.MaxPieces || int64(len(i.Hashes)) != n*hashLength {
		return bad("%d bytes of hashes for %d pieces", len(i.Hashes), n)
	}
	return nil
}

// CheckTorrent says in what a .torrent file differs from a manifest, which must
// have passed Check; nil when the two belong together. The manifest is signed,
// the torrent is not: engine and tracker call it before they use one.
func CheckTorrent(metainfo []byte, m *manifest.Manifest) error {
	i, err := Parse(metainfo)
	if err != nil {
		return err
	}
	return i.Check(m)
}

// Check is CheckTorrent for a torrent that was parsed.
func (i *Info) Check(m *manifest.Manifest) error {
	name, t := m.TorrentName(), &m.Torrent
	switch {
	case i.InfoHash != t.InfoHash:
		return bad("its info hash is %s, the manifest of %s says %s", i.InfoHash, m.Name, t.InfoHash)
	case i.Name != name || i.Single != (len(m.Files) == 1) || len(i.Files) != len(m.Files):
		return bad("it is %q with %d files, the manifest says %q with %d", i.Name, len(i.Files), name, len(m.Files))
	case i.PieceLength != t.PieceLength || i.Pieces() != t.Pieces:
		return bad("it has %d pieces of %d bytes, the manifest says %d of %d", i.Pieces(), i.PieceLength, t.Pieces, t.PieceLength)
	case i.Private != t.Private:
		return bad("private is %t, the manifest says %t", i.Private, t.Private)
	}
	for k, f := range m.Files {
		if g := i.Files[k]; !slices.Equal(g.Path, []string{f.Name}) || g.Length != f.Size {
			return bad("file %d is %q with %d bytes, the manifest says %q with %d", k, strings.Join(g.Path, "/"), g.Length, f.Name, f.Size)
		}
	}
	return nil
}

// String is for logs.
func (i *Info) String() string {
	return fmt.Sprintf("%s (%s, %d files, %d bytes)", i.Name, i.InfoHash, len(i.Files), i.Length())
}
