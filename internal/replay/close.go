package replay

// Close unwinds all coroutines, the newest first: deferred calls of user code
// run, and every call of the SDK in them panics. It is idempotent, and must not
// be called while an input is folded. The error is to be logged; the run is
// closed all the same. It is an *Unclean for code that did not end as it should.
func (r *Run) Close() error {
	if !r.busy.CompareAndSwap(false, true) {
		return &BadHistory{Why: "the run is put away while an input is folded"}
	}
	defer r.end()
	r.put = true
	r.logs.pause()
	var u Unclean
	for r.alive.last != nil {
		co := r.alive.last.of
		co.inAlive.unlink()
		r.unwind(co, &u)
	}
	r.ready, r.ops, r.armed, r.decisions = queue{}, nil, nil, nil
	if u.Swallowed == nil && u.Left == nil {
		return nil
	}
	return &u
}

func (r *Run) unwind(co *Coroutine, u *Unclean) {
	if !co.ran {
		co.sw.end()
		return
	}
	co.dying = true
	r.current.Store(co)
	defer r.current.Store(nil)
	if !co.exited && !co.sw.resume() {
		return
	}
	// What is left of it ends by Goexit, which iter.Pull hands on to whoever
	// ends the coroutine: a goroutine made for that.
	if co.exiting {
		u.Swallowed = append(u.Swallowed, co.path)
	}
	if r.cfg.Spawn == nil {
		u.Left = append(u.Left, co.path)
		return
	}
	gone := make(chan struct{})
	r.cfg.Spawn(func() {
		defer close(gone)
		co.sw.end()
	})
	<-gone
}
