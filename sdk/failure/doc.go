// Package failure carries Go errors through histories and over the wire, so that
// errors.Is and errors.As still match in the workflow and at the client.
//
// What crosses: each error of the tree with its type's name, its message, its
// causes in order, whether it is final, and the delay it asked for. Sentinels
// (Register) come back as themselves; error structs (RegisterType) come back
// with their fields. An error that nobody registered comes back as an *Error
// with its Go type's name; IsType matches it by that.
//
// Long texts are cut, never dropped, and a marker says how much is gone; see
// limits.go.
//
// The package owns that mapping. It must not know what fails: neither
// activities nor workflows.
package failure
