package failure

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// What an encoded failure may hold at most. Sizes are in bytes. The worst case
// is far below the limit of a payload, so a failure is never too large to
// be recorded.
const (
	// MaxMessage bounds the message of the error itself.
	MaxMessage = 16 << 10
	// MaxCauseMessage bounds the message of each cause.
	MaxCauseMessage = 2 << 10
	// MaxDetails bounds the encoded fields of an error struct; larger ones
	// are left out.
	MaxDetails = 16 << 10
	// MaxStack bounds a stack.
	MaxStack = 16 << 10
	// MaxType bounds the name of a type.
	MaxType = 255
	// MaxErrors bounds the errors of one tree, MaxDepth their nesting.
	MaxErrors = 32
	MaxDepth  = 16
)

// Cut shortens s to at most limit bytes, whole characters and a marker that says
// how much is missing included. What is not UTF-8 is replaced: the wire refuses
// it. A limit too small for the marker cuts without one.
func Cut(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	mark := fmt.Sprintf("… [%d bytes cut]", len(s)-limit)
	// The marker itself takes room, which it counts, too.
	mark = fmt.Sprintf("… [%d bytes cut]", len(s)-limit+len(mark))
	if len(mark) > limit {
		mark = ""
	}
	end := limit - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
