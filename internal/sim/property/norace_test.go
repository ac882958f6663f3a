//go:build !race

package property

const sequences = 20000
