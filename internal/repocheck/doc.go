// Package repocheck holds the rules of the house as tests: who may import whom,
// how long a function may be, where a goroutine may begin, and whatever else a
// reader should be able to rely on without asking.
//
// It has no code to import. Its tests open and parse every file of the module
// themselves: a test that asked the go command instead would be answered from
// the test cache after a violation had come in. Each rule is tried on a planted
// violation, since a rule that cannot fail says nothing.
//
// A rule that must be broken somewhere is broken in exceptions_test.go, with
// the reason. That list may only shrink: an exception that is not needed any
// more, or not at that size, fails too.
package repocheck
