package view

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/engined/engined/proto/enginepb"
)

// Clean writes what a terminal would act upon as an escape: control characters,
// invisible ones, and those that turn the direction of writing.
func Clean(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// cut shortens s to n characters.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// Payload is a payload for a table, in at most so many characters.
func Payload(p *pb.Payload, limit int) string {
	s := Clean(string(PayloadJSON(p)))
	if p != nil && p.Encoding != "json" && p.Encoding != "null" && len(p.Data) > 0 {
		s = Clean(strings.TrimSpace(p.Encoding+" "+p.Type)) + ", " + size(len(p.Data))
	}
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return cut(s, limit) + " (" + size(len(p.GetData())) + "; -o json has all)"
}

func size(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}

// span is a duration as people read it: three digits are enough.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	default:
		return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// ago and in place a moment beside now.
func ago(at, now int64) string { return span(time.Duration(now-at)) + " ago" }

func in(at, now int64) string {
	if at <= now {
		return "now"
	}
	return "in " + span(time.Duration(at-now))
}

// enum is the value's name without its type's prefix, in small letters:
// OUTCOME_FAILED_FINAL is "failed final" in tables, "failed_final" in JSON.
func enum(d protoreflect.EnumDescriptor, n protoreflect.EnumNumber) string {
	v := d.Values().ByNumber(n)
	if v == nil {
		return strconv.Itoa(int(n))
	}
	var prefix strings.Builder
	for i, r := range string(d.Name()) {
		if i > 0 && unicode.IsUpper(r) {
			prefix.WriteByte('_')
		}
		prefix.WriteRune(unicode.ToUpper(r))
	}
	prefix.WriteByte('_')
	return strings.ToLower(strings.TrimPrefix(string(v.Name()), prefix.String()))
}

// words is an enum's value for people.
func words(e protoreflect.Enum) string {
	return strings.ReplaceAll(enum(e.Descriptor(), e.Number()), "_", " ")
}

func sortedKeys(m protoreflect.Map) []string {
	all := map[string]bool{}
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		all[k.String()] = true
		return true
	})
	return slices.Sorted(maps.Keys(all))
}
