package cut

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"neuron/internal/atomicfile"
)

const (
	recordName    = "verified.json"
	recordVersion = 1
	maxRecordFile = 4 << 20
)

// record says that a file with this stamp had the content with this digest.
type record struct {
	stamp
	Digest string `json:"digest"`
}

type recordFile struct {
	Version int               `json:"version"`
	Files   map[string]record `json:"files"`
}

// digestOf names what a file should hold, so that a record does not outlive a
// change of the index.
func digestOf(list []Tensor) string {
	h := sha256.New()
	for _, t := range list {
		fmt.Fprintf(h, "%s %d %d %s\n", t.Name, t.Offset, t.Bytes, t.SHA256)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// readRecords never fails: without records everything is hashed again.
func readRecords(dir string) map[string]record {
	f, err := os.Open(filepath.Join(dir, recordName))
	if err != nil {
		return map[string]record{}
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxRecordFile+1))
	if err != nil {
		return map[string]record{}
	}
	return parseRecords(raw)
}

// parseRecords takes nothing from a file that is damaged or of another build.
func parseRecords(raw []byte) map[string]record {
	var r recordFile
	if len(raw) > maxRecordFile || json.Unmarshal(raw, &r) != nil || r.Version != recordVersion || r.Files == nil {
		return map[string]record{}
	}
	return r.Files
}

func writeRecords(dir string, rec map[string]record) error {
	raw, err := json.MarshalIndent(recordFile{Version: recordVersion, Files: rec}, "", " ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", recordName, err)
	}
	if err := atomicfile.Write(filepath.Join(dir, recordName), append(raw, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", recordName, err)
	}
	return nil
}
