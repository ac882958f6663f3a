// Command crowd measures what guests cost an engine that is shared: its memory,
// and what an ordinary client next to them notices.
//
//	go run ./bench/crowd [-engined PATH] [-for 5s]
//
// The guests: nobody; ten results of 2 MiB at once; a thousand idle workers; a
// worker that answers pings and reads nothing, with a thousand runs on its queue;
// a client that asks for 100,000 histories. Beside each of them a probe runs
// workflows of one activity, one after the other. The engine is the shipped
// binary in a process of its own; its memory is what the kernel says (VmRSS), the
// largest of what was seen.
package main
