package machine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	pb "github.com/engined/engined/proto/enginepb"
)

// fleet is a rig whose workers die of one part of one run, and are replaced by
// new ones. Everybody else answers sooner or later.
type fleet struct {
	*rig
	rnd    *rand.Rand
	killer string // "fold", "activity" or "undo"
	alive  []string
	made   int
	deaths int
}

var innocents = []string{"a", "b", "c", "d"}

// A run that kills its workers is held after two deaths that make it a suspect
// and three as the only one; nobody else is ever held, and all others end.
func TestAKillerIsHeldAndNobodyElse(t *testing.T) {
	for seed := range uint64(90) {
		f := &fleet{rig: newRig(t), rnd: rand.New(rand.NewPCG(seed, 11)), killer: []string{"fold", "activity", "undo"}[seed%3]}
		size := 1 + f.rnd.IntN(3)
		for _, id := range append(slices.Clone(innocents), "kill") {
			f.script("start " + id)
		}
		for range 600 {
			for len(f.alive) < size {
				f.made++
				w := fmt.Sprint("w", f.made)
				f.alive = append(f.alive, w)
				f.script(fmt.Sprint("worker ", w, " slots=", 1+f.rnd.IntN(4)))
			}
			f.round()
			if f.over() || t.Failed() {
				break
			}
		}
		f.verdict(seed)
		if t.Failed() {
			t.Fatalf("seed %d, killed by the %s:\n%s", seed, f.killer, f.told.String())
		}
	}
}

func (f *fleet) script(commands ...string) {
	for _, c := range commands {
		f.do(c)
		f.told.WriteString("> " + c + "\n" + f.story.String())
		f.story.Reset()
	}
}

func (f *fleet) round() {
	f.script("save")
	for _, w := range slices.Clone(f.alive) {
		if f.dying(w) && f.rnd.IntN(2) == 0 {
			f.deaths++
			f.alive = slices.DeleteFunc(f.alive, func(x string) bool { return x == w })
			f.script("gone " + w)
		}
	}
	for _, id := range append(slices.Clone(innocents), "kill") {
		f.answer(id)
	}
	f.script("save", fmt.Sprint("pass ", 1+f.rnd.IntN(4), "s"))
}

// dying says that the worker has what it dies of.
func (f *fleet) dying(w string) bool {
	r := f.run("kill")
	if f.killer == "fold" {
		return r.holder.worker == w && len(r.holder.unfolded) > 0
	}
	for k, x := range f.with {
		if x == w && f.deadly(k) {
			return true
		}
	}
	return false
}

func (f *fleet) deadly(k DeliveryKey) bool {
	undo := f.killer == "undo"
	return f.names[k.Run] == "kill" && k.Op == "#1" && (k.Role == pb.Role_ROLE_UNDO) == undo && f.killer != "fold"
}

// answer has the workers answer what they have of a run, or leave it for later.
func (f *fleet) answer(id string) {
	r := f.run(id)
	h := r.holder
	if len(h.unfolded) > 0 && slices.Contains(f.alive, h.worker) && f.rnd.IntN(3) == 0 && !(id == "kill" && f.killer == "fold") {
		f.fold(id, r)
	}
	for _, t := range sortedTasks(f.tasks) {
		k := KeyOf(t.Delivery)
		if w := f.with[k]; t.WorkflowId == id && slices.Contains(f.alive, w) && f.rnd.IntN(4) == 0 && !f.deadly(k) {
			role := ""
			if t.Undo != nil {
				role = " undo"
			}
			f.script(fmt.Sprintf("done %s %s ok%s worker=%s", id, t.Delivery.Op, role, w))
		}
	}
}

func sortedTasks(m map[string]*pb.Task) []*pb.Task {
	var all []*pb.Task
	for _, name := range sortedKeys(m) {
		all = append(all, m[name])
	}
	return all
}

// fold is what the code does: two steps, and then the end; where undos kill, it
// fails.
func (f *fleet) fold(id string, r *Run) {
	switch {
	case r.State.Processed == 0:
		f.script("decide " + id + ": activity #1 Charge undo=Refund; activity #2 Ship undo=Cancel")
	case slices.ContainsFunc(r.entries(), func(e *Entry) bool { return e.activity().GetPhase() != pb.Phase_PHASE_ARMED }):
		f.script("decide " + id + ": nothing")
	case f.killer == "undo":
		f.script("decide " + id + ": fail")
	default:
		f.script("decide " + id + ": complete")
	}
}

func (f *fleet) over() bool {
	return f.held("kill") && !slices.ContainsFunc(innocents, func(id string) bool { return f.run(id).Row.Open })
}

func (f *fleet) held(id string) bool {
	return f.run(id).State.Hold.GetKind() == pb.HoldKind_HOLD_KIND_QUARANTINED
}

func (f *fleet) verdict(seed uint64) {
	if !f.held("kill") || f.deaths != suspectAt+maxDeaths {
		f.t.Errorf("the killer is held: %v, after %d deaths", f.held("kill"), f.deaths)
	}
	for _, id := range innocents {
		if r := f.run(id); r.Row.Open || f.held(id) || r.State.Deaths > 0 {
			f.t.Errorf("%s, which kills nobody, is open: %v, held: %v, deaths %d", id, r.Row.Open, f.held(id), r.State.Deaths)
		}
	}
}
