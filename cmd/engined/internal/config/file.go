package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v4"
)

// file reads the values that the file gives; named says by what it is named.
func (l *loading) file(path string, named Origin) {
	data, err := os.ReadFile(path)
	if err != nil {
		l.wrong(fileFlag, named, "the file cannot be read: "+err.Error())
		return
	}
	from := Origin{Source: "file " + path}
	at := func(line int) Origin { return Origin{from.Source, line} }
	root, err := document(data)
	switch {
	case err != nil:
		l.syntax(from, err)
		return
	case root == nil:
		return
	case root.Kind != yaml.MappingNode:
		l.wrong("", at(root.Line), "the file must hold lines of the form option: value")
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, val := root.Content[i], root.Content[i+1]
		if first, ok := seen[key.Value]; ok {
			l.wrong(key.Value, at(key.Line), fmt.Sprintf("it stands in line %d already", first))
			continue
		}
		seen[key.Value] = key.Line
		l.entry(key, val, at)
	}
}

// document returns the root of the one document that a file has: nil if it is
// empty or has comments alone.
func document(data []byte) (*yaml.Node, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	var doc, more yaml.Node
	if err := loader.Load(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	root := doc.Content[0]
	if err := loader.Load(&more); err == nil {
		return nil, &yaml.LoadError{Mark: yaml.Mark{Line: more.Line}, Message: "a second document begins, the file must have one"}
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return nil, nil
	}
	return root, nil
}

func (l *loading) entry(key, val *yaml.Node, at func(int) Origin) {
	var names []string
	for _, o := range options {
		names = append(names, o.Name)
		if key.Kind != yaml.ScalarNode || o.Name != key.Value {
			continue
		}
		if val.Kind != yaml.ScalarNode || val.ShortTag() != o.tag {
			l.wrong(o.Name, at(val.Line), fmt.Sprintf("%s is not %s", written(val, o.tag), o.Allowed))
			return
		}
		l.give(o, value{val.Value, at(val.Line)})
		return
	}
	why := "there is no such option"
	if near := nearest(strings.ReplaceAll(key.Value, "_", "-"), names); near != "" {
		why += "; is " + near + " meant?"
	}
	l.wrong(key.Value, at(key.Line), why)
}

// written tells what stands where a value of another type is wanted.
func written(n *yaml.Node, want string) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a group of keys"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	case n.ShortTag() == "!!null":
		return "no value"
	case want != "!!str" && n.ShortTag() == "!!str":
		return fmt.Sprintf("the text %q", n.Value)
	case want == "!!str" && n.ShortTag() == "!!int":
		return "the number " + n.Value
	}
	return n.Value
}

func (l *loading) syntax(from Origin, err error) {
	var e *yaml.LoadError
	if !errors.As(err, &e) {
		l.wrong("", from, "it cannot be read as YAML: "+err.Error())
		return
	}
	from.Line = max(e.Mark.Line, e.ContextMark.Line)
	l.wrong("", from, "it cannot be read as YAML: "+e.Message)
}
