package view

import (
	"encoding/base64"
	"encoding/json"
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

// Arg writes s as one word of a command line that a shell reads: as it is where
// that is safe, else quoted.
func Arg(s string) string {
	plain := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("_./:@%+=,-", r)
	}
	switch {
	case s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0:
		return s
	case Clean(s) != s:
		return "$'" + strings.ReplaceAll(Clean(strings.ReplaceAll(s, `\`, `\\`)), "'", `\'`) + "'"
	default:
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
}

// cut shortens s to n characters.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// smallBytes is how large a payload of another encoding than JSON may be for its
// bytes to be shown in tables.
const smallBytes = 48

// Payload is a payload for a table, in at most so many characters.
func Payload(p *pb.Payload, limit int) string {
	doc := PayloadJSON(p)
	if p == nil || doc[0] != '{' || p.Encoding == "json" && json.Valid(p.Data) {
		// What is cut away needs not be cleaned.
		s := Clean(string(doc[:min(len(doc), utf8.UTFMax*limit)]))
		if len(doc) <= utf8.UTFMax*limit && utf8.RuneCountInString(s) <= limit {
			return s
		}
		return cut(s, limit) + " (" + size(len(p.GetData())) + "; -o json has all)"
	}
	s := "<" + cut(Clean(strings.TrimSpace(p.Encoding+" "+p.Type)), limit) + ", " + size(len(p.Data))
	if len(p.Data) > smallBytes {
		return s + "; -o json has them>"
	}
	return s + ", in base64 " + base64.StdEncoding.EncodeToString(p.Data) + ">"
}

func size(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	default:
		return count(int64(n), "byte")
	}
}

// count is a number of things.
func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return thousands(n) + " " + what + "s"
}

// thousands is a number with its thousands apart.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
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
	default:
		return coarse(d)
	}
}

// coarse is a duration in whole seconds, minutes or hours, without those parts
// that are 0.
func coarse(d time.Duration) string {
	switch {
	case d < time.Hour:
		d = d.Round(time.Second)
	case d < 48*time.Hour:
		d = d.Round(time.Minute)
	default:
		d = d.Round(time.Hour)
		days := fmt.Sprintf("%dd", d/(24*time.Hour))
		if h := d % (24 * time.Hour) / time.Hour; h > 0 {
			days += fmt.Sprintf("%dh", h)
		}
		return days
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// offset is a time since the start of a run, by the millisecond; within the first
// one by the microsecond.
func offset(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "+" + span(d)
	case d < time.Minute:
		return fmt.Sprintf("+%.3fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("+%dm%06.3fs", d/time.Minute, (d % time.Minute).Seconds())
	case d < 48*time.Hour:
		return fmt.Sprintf("+%dh%02dm%02ds", d/time.Hour, d%time.Hour/time.Minute, d%time.Minute/time.Second)
	default:
		return fmt.Sprintf("+%dd%02dh%02dm", d/(24*time.Hour), d%(24*time.Hour)/time.Hour, d%time.Hour/time.Minute)
	}
}

// Ago tells how long before now a moment was.
func Ago(at, now int64) string {
	if d := time.Duration(now - at); d >= time.Second {
		return coarse(d) + " ago"
	}
	return "just now"
}

// In tells how long after now a moment is.
func In(at, now int64) string {
	if d := time.Duration(at - now); d >= time.Second {
		return "in " + coarse(d)
	}
	return "now"
}

func moment(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01-02 15:04:05.000 UTC") }

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
