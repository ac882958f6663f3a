package config

import (
	"context"
	"fmt"
	"net"
	"net/netip"
)

// loopback refuses addresses that others than this machine can reach, unless
// insecure is set.
func (l *loading) loopback(ctx context.Context, lookup func(context.Context, string) ([]netip.Addr, error)) {
	if l.c.Insecure {
		return
	}
	for _, name := range []string{"grpc-address", "http-address"} {
		v := l.c.values[name]
		if v.text == "" {
			continue
		}
		// What is in force has this form.
		host, _, _ := net.SplitHostPort(v.text)
		if why := beyond(ctx, host, lookup); why != "" {
			l.wrong(name, v.from, why)
		}
	}
}

// beyond says why a host is not this machine's loopback, or "".
func beyond(ctx context.Context, host string, lookup func(context.Context, string) ([]netip.Addr, error)) string {
	if host == "" {
		return refusal("an address without a host, which is every address of this machine,")
	}
	ip, err := netip.ParseAddr(host)
	if err == nil {
		if ip.Unmap().IsLoopback() {
			return ""
		}
		return refusal(host)
	}
	ips, err := lookup(ctx, host)
	if err != nil {
		return fmt.Sprintf("the host %s cannot be looked up: %v", host, err)
	}
	for _, ip := range ips {
		if !ip.Unmap().IsLoopback() {
			return refusal(fmt.Sprintf("%s (%s)", host, ip))
		}
	}
	return ""
}

func refusal(what string) string {
	return what + " is beyond this machine's loopback, and there is no TLS yet and nobody is asked who they are: " +
		"use localhost, 127.0.0.1 or [::1] with the port, or allow it with --insecure where everybody may do everything"
}
