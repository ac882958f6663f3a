// Package view turns what an engine tells into what people and programs read:
// tables, a history's lines, a timeline, and JSON.
//
// It owns the words, the layout and the JSON form, which docs/cli.md documents.
// It is pure: no connection, no clock; the present time comes as an argument. It
// must not know where its input comes from. What users have written, in ids,
// messages and payloads, is shown and never obeyed by a terminal.
package view
