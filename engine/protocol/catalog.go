package protocol

import "time"

// Catalog is the answer of GET /v1/catalog.
type Catalog struct {
	Models []CatalogModel `json:"models"`
}

// CatalogModel is a published model and how far the network serves it.
type CatalogModel struct {
	Model        ModelID `json:"model"`
	Name         string  `json:"name"`
	Architecture string  `json:"architecture"`
	Layers       int     `json:"layers"`
	Context      int     `json:"context"` // tokens it was trained for
	Bytes        int64   `json:"bytes"`   // of all files
	Files        int     `json:"files"`
	License      string  `json:"license,omitempty"`
	// WholeOnly says why the model may not be cut, or is "".
	WholeOnly string `json:"whole_only,omitempty"`
	// Private models are for nodes of this tracker only: manifest, torrent and
	// announce want the announce token. InfoHash and WebSeeds are left out then.
	Private   bool      `json:"private"`
	InfoHash  string    `json:"info_hash,omitempty"` // 40 hex digits
	WebSeeds  []string  `json:"webseeds,omitempty"`
	Publisher []byte    `json:"publisher"` // Ed25519 public key that signed the manifest
	Published time.Time `json:"published"`
	// The SHA-256 of what .../manifest and .../torrent serve, 64 hex digits.
	ManifestSHA256 string `json:"manifest_sha256"`
	TorrentSHA256  string `json:"torrent_sha256"`
	// Replicas counts, per layer, the ready nodes that hold it; Missing says in
	// words which layers nobody holds ("4-6, 9-10"), or is "".
	Replicas []int  `json:"replicas"`
	Missing  string `json:"missing,omitempty"`
	Routable bool   `json:"routable"` // a route exists now
	Fetching int    `json:"fetching"` // nodes that get a part of it ready
	// Seeders have all bytes, leechers a part: BitTorrent peers that the
	// tracker knows, its nodes among them.
	Seeders  int `json:"seeders"`
	Leechers int `json:"leechers"`
}
