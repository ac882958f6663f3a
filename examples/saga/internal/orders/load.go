package orders

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Min is the smallest number of orders in a file: the fault plan promises that
// every fault happens within so many.
const Min = 40

// Limits on what a line may ask for. They keep every sum far from the end of an
// int64.
const (
	maxQuantity = 100_000
	maxCents    = 10_000_000
	maxOrders   = 10_000
	maxItems    = 100
	maxText     = 200 // bytes
)

//go:embed orders.json
var shipped []byte

// FileError says where an orders file is wrong. Line and column count from 1 and
// are 0 where only the field is known.
type FileError struct {
	Name         string
	Line, Column int
	// Field is the path to what is wrong: "orders[3].items[0].cents".
	Field string
	Why   string
}

func (e *FileError) Error() string {
	where := e.Name
	if e.Line > 0 {
		where += fmt.Sprintf(":%d:%d", e.Line, e.Column)
	}
	if e.Field != "" {
		where += ": " + e.Field
	}
	return where + ": " + e.Why
}

// Shipped returns the orders that come with the example.
func Shipped() (*File, error) { return Parse("orders.json", shipped) }

// Load reads the file at path, or the shipped orders when path is empty.
// What is wrong in the file comes as one *FileError, or several joined.
func Load(path string) (*File, error) {
	if path == "" {
		return Shipped()
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the orders: %w", err)
	}
	return Parse(path, data)
}

// Parse reads an orders file from data; name stands in its errors.
func Parse(name string, data []byte) (*File, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	// A misspelt field would otherwise be an order without a card.
	dec.DisallowUnknownFields()
	var f File
	if err := dec.Decode(&f); err != nil {
		return nil, locate(name, data, dec.InputOffset(), err)
	}
	end := dec.InputOffset()
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, at(name, data, end, "", "something follows the end of the JSON value")
	}
	if err := validate(name, &f); err != nil {
		return nil, err
	}
	for i := range f.Orders {
		for j := range f.Orders[i].Items {
			f.Orders[i].Items[j].Order = f.Orders[i].ID
		}
	}
	return &f, nil
}

// locate turns an error of the decoder into one with line and column.
func locate(name string, data []byte, offset int64, err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return at(name, data, syntax.Offset-1, "", syntax.Error())
	}
	if typ, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return at(name, data, typ.Offset-1, typ.Field, fmt.Sprintf("a JSON %s cannot be a %s", typ.Value, typ.Type))
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return at(name, data, int64(len(data)), "", "the file ends in the middle of the JSON value")
	}
	// An unknown field: the decoder says which, and stands near it.
	return at(name, data, offset, "", err.Error())
}

func at(name string, data []byte, offset int64, field, why string) error {
	before := data[:min(max(offset, 0), int64(len(data)))]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return &FileError{Name: name, Line: line, Column: column, Field: field, Why: why}
}
