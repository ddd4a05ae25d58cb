package network

import (
	"context"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"

	"neuron/engine/host/source"
)

// Kinds of IANA's list that Windows names.
const (
	ifTypeEthernet = 6
	ifTypeWireless = 71

	includeGateways = 0x80 // GAA_FLAG_INCLUDE_GATEWAYS
	maxTable        = 1 << 20
)

// Kind looks at the adapters that are up and have a gateway; a tunnel (VPN) is
// passed over.
func Kind() source.Source[string] {
	return source.Func[string]{From: "Windows", Ask: func(context.Context) (string, error) {
		size := uint32(15 << 10)
		for {
			table := make([]byte, size)
			first := (*windows.IpAdapterAddresses)(unsafe.Pointer(&table[0]))
			err := windows.GetAdaptersAddresses(windows.AF_UNSPEC, includeGateways, 0, first, &size)
			if err == windows.ERROR_BUFFER_OVERFLOW && size <= maxTable {
				continue
			}
			if err == windows.ERROR_NO_DATA {
				return None, nil
			}
			if err != nil {
				return Unknown, fmt.Errorf("network adapters: %w", err)
			}
			return kindOf(first), nil
		}
	}}
}

func kindOf(a *windows.IpAdapterAddresses) string {
	kind := None
	for ; a != nil; a = a.Next {
		if a.OperStatus != windows.IfOperStatusUp || a.FirstGatewayAddress == nil {
			continue
		}
		switch a.IfType {
		case ifTypeEthernet:
			return Wired
		case ifTypeWireless:
			kind = Wireless
		default:
			if kind == None {
				kind = Unknown
			}
		}
	}
	return kind
}
