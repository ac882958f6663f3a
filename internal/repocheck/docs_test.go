package repocheck

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
)

var (
	inlineLink    = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?[^)]*\)`)
	referenceLink = regexp.MustCompile(`(?m)^\[[^\]]+\]:\s*(\S+)`)
	scheme        = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*:`)
	goLine        = regexp.MustCompile(`[\w./-]+\.go:\d+`)
)

// prose returns the document without its code blocks: those show output, which
// may hold anything.
func prose(text string) string {
	var b strings.Builder
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			line = "\n"
		}
		if fenced {
			line = "\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

func checkLinks(r *tree) []finding {
	var found []finding
	for _, d := range r.docs {
		text := prose(d.text)
		links := append(inlineLink.FindAllStringSubmatch(text, -1), referenceLink.FindAllStringSubmatch(text, -1)...)
		for _, l := range links {
			target, _, _ := strings.Cut(l[1], "#")
			if target == "" || scheme.MatchString(target) {
				continue
			}
			if _, err := fs.Stat(r.root, path.Join(path.Dir(d.path), target)); err != nil {
				found = append(found, finding{where: d.path, what: "it links to " + l[1] + ", which is not there"})
			}
		}
	}
	return found
}

func checkLineNumbers(r *tree) []finding {
	var found []finding
	for _, d := range r.docs {
		for _, ref := range goLine.FindAllString(prose(d.text), -1) {
			found = append(found, finding{where: d.path, what: "it refers to a line, " + ref})
		}
	}
	return found
}
