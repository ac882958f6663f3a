package history

import (
	"crypto/sha256"
	"encoding/base32"
	"strconv"
	"strings"

	pb "github.com/engined/engined/proto/enginepb"
)

// Key derives the idempotency key of one side of a step: the same for every
// attempt and every run of the chain, different for the undo and for a re-run
// after a reset (generation). It is SHA-256 cut to 130 bits, so that two keys
// collide with a probability that nobody meets, in the letters of base 32, so
// that every service takes it as a header.
func Key(chain, op string, generation int32, role pb.Role) string {
	var b strings.Builder
	for _, part := range []string{chain, op, strconv.Itoa(int(generation)), role.String()} {
		b.WriteString(strconv.Itoa(len(part)))
		b.WriteByte(':')
		b.WriteString(part)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return strings.ToLower(base32.HexEncoding.EncodeToString(sum[:]))[:26]
}
