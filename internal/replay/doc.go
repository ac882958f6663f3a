// Package replay is the folding machine.
package replay
