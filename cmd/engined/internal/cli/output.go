package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/cmd/engined/internal/cli/view"
)

// raw writes one object: as a document, or, for jsonl, as a line.
func (g *globals) raw(w io.Writer, doc json.RawMessage) error {
	if g.output == "jsonl" {
		_, err := fmt.Fprintf(w, "%s\n", doc)
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}

// object writes an object with these fields.
func (g *globals) object(w io.Writer, fields map[string]any) error {
	doc, err := marshal(fields)
	if err != nil {
		return err
	}
	return g.raw(w, doc)
}

// list writes a list: as one document, an object with the list under its name, or
// as a line each.
func list[M proto.Message](g *globals, w io.Writer, name string, all []M, next string) error {
	if g.output == "jsonl" {
		for _, m := range all {
			if err := g.raw(w, view.JSON(m)); err != nil {
				return err
			}
		}
		return nil
	}
	items := []json.RawMessage{}
	for _, m := range all {
		items = append(items, view.JSON(m))
	}
	doc := map[string]any{name: items}
	if next != "" {
		doc["next"] = next
	}
	return g.object(w, doc)
}

// marshal is json.Marshal without the escapes that HTML would need.
func marshal(v any) (json.RawMessage, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return json.RawMessage(strings.TrimSuffix(b.String(), "\n")), err
}
