package config

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Option string // or a key that is none; empty if it is about a whole source
	From   Origin
	// Why says what is wrong and what is allowed.
	Why string
}

func (p Problem) String() string {
	if p.Option == "" {
		return fmt.Sprintf("%s: %s", p.From, p.Why)
	}
	return fmt.Sprintf("%s (%s): %s", p.Option, p.From, p.Why)
}

// Error is everything that is wrong with a configuration: a line, or one for
// each problem.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	if len(e.Problems) == 1 {
		return "configuration: " + e.Problems[0].String()
	}
	lines := []string{fmt.Sprintf("configuration: %d problems", len(e.Problems))}
	for _, p := range e.Problems {
		lines = append(lines, "  "+p.String())
	}
	return strings.Join(lines, "\n")
}

// nearest returns the name that the word is most likely a slip of, or "".
func nearest(word string, names []string) string {
	best, least := "", 1+max(2, len(word)/4)
	for _, name := range names {
		if d := distance(word, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance is how many letters must be put in, taken out or exchanged to turn
// one word into the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
