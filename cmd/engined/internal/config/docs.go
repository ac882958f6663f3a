package config

import (
	"fmt"
	"io"
	"strings"
)

// Docs writes the documentation of every option, as Markdown.
func Docs(w io.Writer) error {
	var b strings.Builder
	b.WriteString(`## Options

Every option has one name. As a key of the file it is written as below, as a flag
with ` + "`--`" + ` before it, in the environment as ` + "`" + envPrefix + "`" + ` and the name in capitals with
underscores. A flag wins over the environment, the environment over the file, the
file over the default. All that is given is checked, also what another source
overrides; an unknown key in the file is an error, an unknown variable is not.

` + "`engined serve --config FILE`, or `" + fileVariable + "`" + ` in its environment, names the file.
` + "`engined config show`" + ` takes the same flags and prints what is in force, and where
each value comes from, as a file. This one says what holds without any:

` + "```yaml\n")
	for _, o := range options {
		def := o.Default
		if def == "" {
			def = `""`
		}
		fmt.Fprintf(&b, "%s: %s\n", o.Name, def)
	}
	b.WriteString("```\n")
	for _, o := range options {
		fmt.Fprintf(&b, "\n### %s\n\n`--%s`, `%s`: %s; default `%s`.\n\n%s\n", o.Name, o.Name, Variable(o.Name), o.Allowed, o.Default, o.Doc)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
