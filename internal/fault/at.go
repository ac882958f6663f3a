//go:build !faults

package fault

// Enabled says whether this binary was built with the tag "faults".
const Enabled = false

// At passes a point.
func At(Point) {}
