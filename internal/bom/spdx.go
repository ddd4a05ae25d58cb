package bom

import (
	"crypto/sha1" //nolint:gosec // SPDX 2.3 wants this sum of every file, beside a better one
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// File is a file of the delivery.
type File struct {
	Name   string
	SHA1   string
	SHA256 string
}

func sumFile(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	one, two := sha1.New(), sha256.New() //nolint:gosec // see the import
	if _, err := io.Copy(io.MultiWriter(one, two), f); err != nil {
		return File{}, fmt.Errorf("read %s: %w", path, err)
	}
	return File{Name: filepath.Base(path), SHA1: hex.EncodeToString(one.Sum(nil)), SHA256: hex.EncodeToString(two.Sum(nil))}, nil
}

// The parts of SPDX 2.3 that are written (https://spdx.github.io/spdx-spec/v2.3/).
type (
	spdxDocument struct {
		Version       string             `json:"spdxVersion"`
		DataLicense   string             `json:"dataLicense"`
		ID            string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		Creation      spdxCreation       `json:"creationInfo"`
		Packages      []spdxPackage      `json:"packages"`
		Files         []spdxFile         `json:"files"`
		Relationships []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID            string    `json:"SPDXID"`
		Name          string    `json:"name"`
		Version       string    `json:"versionInfo"`
		Location      string    `json:"downloadLocation"`
		FilesAnalyzed bool      `json:"filesAnalyzed"`
		Concluded     string    `json:"licenseConcluded"`
		Declared      string    `json:"licenseDeclared"`
		Copyright     string    `json:"copyrightText"`
		Comment       string    `json:"comment,omitempty"`
		Refs          []spdxRef `json:"externalRefs,omitempty"`
	}
	spdxRef struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxFile struct {
		ID        string    `json:"SPDXID"`
		Name      string    `json:"fileName"`
		Sums      []spdxSum `json:"checksums"`
		Concluded string    `json:"licenseConcluded"`
		Copyright string    `json:"copyrightText"`
	}
	spdxSum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxRelationship struct {
		Of   string `json:"spdxElementId"`
		Kind string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// WriteSPDX writes the delivery as SPDX 2.3 JSON. created is written in it; the
// same input gives the same bytes.
func (d *Delivery) WriteSPDX(w io.Writer, created time.Time) error {
	const none, main = "NOASSERTION", "SPDXRef-Delivery"
	doc := spdxDocument{
		Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: d.Name + " " + d.Version,
		// A name only; .invalid is nobody's.
		Namespace: "https://neuron.invalid/spdx/" + d.Name + "-" + d.Version,
		Creation:  spdxCreation{created.UTC().Format(time.RFC3339), []string{"Organization: The Neuron project", "Tool: neuron-bom"}},
		Packages: []spdxPackage{{
			ID: main, Name: d.Name, Version: d.Version, Location: none, Concluded: "Apache-2.0", Declared: "Apache-2.0", Copyright: none,
		}},
		Relationships: []spdxRelationship{{"SPDXRef-DOCUMENT", "DESCRIBES", main}},
	}
	add := func(name, version, purl, comment string, ls []Licence) {
		id := fmt.Sprintf("SPDXRef-Package-%d-%s", len(doc.Packages), strings.Trim(notInID.ReplaceAllString(name, "-"), "-"))
		expr := strings.Join(kinds(ls), " AND ")
		if expr == "" || strings.Contains(expr, Other) {
			expr = none
		}
		doc.Packages = append(doc.Packages, spdxPackage{
			ID: id, Name: name, Version: version, Location: none, Concluded: none, Declared: expr, Copyright: none, Comment: comment,
			Refs: []spdxRef{{"PACKAGE-MANAGER", "purl", purl}},
		})
		doc.Relationships = append(doc.Relationships, spdxRelationship{main, "CONTAINS", id})
	}
	for _, p := range d.Parts {
		add(p.Name, p.Version, p.URL, p.Note, p.Licences)
	}
	for _, m := range d.Modules {
		add(m.Path, m.Version, "pkg:golang/"+m.Path+"@"+m.Version, "linked into "+strings.Join(m.Programs, ", ")+"; go.sum "+m.Sum, m.Licences)
	}
	for i, f := range d.Files {
		id := fmt.Sprintf("SPDXRef-File-%d", i)
		doc.Files = append(doc.Files, spdxFile{ID: id, Name: "./" + f.Name, Sums: []spdxSum{{"SHA1", f.SHA1}, {"SHA256", f.SHA256}}, Concluded: none, Copyright: none})
		doc.Relationships = append(doc.Relationships, spdxRelationship{main, "CONTAINS", id})
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(doc)
}
