package publish

import (
	"bytes"

	"github.com/anacrolix/torrent/bencode"
	"github.com/anacrolix/torrent/metainfo"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
)

// encodeTorrent makes the metainfo of files whose piece hashes are known. It
// holds nothing but what the options and the files say: no date, no program.
func encodeTorrent(m *manifest.Manifest, pieces []byte, o Options) (raw []byte, infoHash string, err error) {
	info := metainfo.Info{Name: m.TorrentName(), PieceLength: m.Torrent.PieceLength, Pieces: pieces}
	if m.Torrent.Private {
		yes := true
		info.Private = &yes
	}
	if len(m.Files) == 1 {
		info.Length = m.Files[0].Size
	} else {
		for _, f := range m.Files {
			info.Files = append(info.Files, metainfo.FileInfo{Length: f.Size, Path: []string{f.Name}})
		}
	}
	mi := metainfo.MetaInfo{UrlList: o.WebSeeds}
	if mi.InfoBytes, err = bencode.Marshal(info); err != nil {
		return nil, "", protocol.Errorf(protocol.CodeInternal, "encode torrent: %w", err)
	}
	for i, url := range o.Announce {
		if i == 0 {
			mi.Announce = url
		}
		mi.AnnounceList = append(mi.AnnounceList, []string{url})
	}
	if len(o.Announce) == 1 {
		mi.AnnounceList = nil // BEP 12 is for several
	}
	var b bytes.Buffer
	if err := mi.Write(&b); err != nil {
		return nil, "", protocol.Errorf(protocol.CodeInternal, "encode torrent: %w", err)
	}
	return b.Bytes(), mi.HashInfoBytes().HexString(), nil
}
