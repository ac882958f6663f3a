package dial

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// DefaultPort is where an engine listens when nothing else is said.
const DefaultPort = "7450"

// AddressError says what is wrong with one part of an address.
type AddressError struct {
	// Part is the part between two commas.
	Part string
	// Why says what is wrong with it.
	Why string
}

func (e *AddressError) Error() string {
	return fmt.Sprintf("the address %q %s; it should be like engine.example:%s, several are separated by commas", e.Part, e.Why, DefaultPort)
}

// parse splits an address into its parts, each "host:port".
func parse(address string) ([]string, error) {
	var list []string
	for part := range strings.SplitSeq(address, ",") {
		a, why := parseOne(strings.TrimSpace(part))
		if why != "" {
			return nil, &AddressError{Part: part, Why: why}
		}
		list = append(list, a)
	}
	return list, nil
}

// parseOne returns "host:port", or what is wrong with the part.
func parseOne(part string) (address, why string) {
	if part == "" {
		return "", "is empty"
	}
	if strings.Contains(part, "://") {
		return "", "has a scheme, where none belongs"
	}
	host, port := part, DefaultPort
	if bare, ok := strings.CutPrefix(part, "["); ok && strings.HasSuffix(part, "]") {
		host = strings.TrimSuffix(bare, "]")
	} else if _, err := netip.ParseAddr(part); err != nil && strings.Contains(part, ":") {
		if host, port, err = net.SplitHostPort(part); err != nil {
			return "", "is not a host and a port" // an IPv6 address without its brackets, say
		}
	}
	if host == "" {
		return "", "has no host"
	}
	if _, err := netip.ParseAddr(host); err != nil && strings.IndexFunc(host, notOfAName) >= 0 {
		return "", "has a host that is neither a name nor an IP address"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", "has a port that is no number from 1 to 65535"
	}
	return net.JoinHostPort(host, port), ""
}

// notOfAName says that no host name has this letter. The resolver of the system
// judges the rest.
func notOfAName(r rune) bool {
	return r <= ' ' || r == 0x7f || strings.ContainsRune(`/\:@?#[]"'%<>{}|^`+"`", r)
}
