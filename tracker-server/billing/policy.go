// Package billing is what sessions cost: it sets credit aside before a lease is
// given away, and tells the ledger how each session ended. The books are in
// package ledger; receipts pay out of what was set aside here.
//
// Only the tracker's server imports it. It knows no connection and no route.
package billing

import "neuron/engine/protocol"

// Policy says whether sessions cost credit.
type Policy string

// The policies. Private routes never cost anything: they use the nodes of one
// person, or those that somebody listed.
const (
	// Off keeps no accounts of work; receipts are taken and paid to nobody.
	Off Policy = "off"
	// Optional lets a session run unpaid whose gateway has no owner, no key
	// and no credit.
	Optional Policy = "optional"
	// Required refuses such a session.
	Required Policy = "required"
)

// Check refuses other policies; code: invalid_request.
func (p Policy) Check() error {
	switch p {
	case Off, Optional, Required:
		return nil
	}
	return protocol.Errorf(protocol.CodeInvalidRequest, "credit is %s, %s or %s, not %.32q", Off, Optional, Required, string(p))
}
