package fake

import (
	"strconv"
	"time"
)

// encoder puts an answer into a dialect's events. Each method may send several
// events or none.
type encoder interface {
	// start opens the answer, before the first token.
	start(e *events)
	// open begins a block.
	open(e *events, b *block)
	// token sends a token's text.
	token(e *events, b *block, text []byte)
	// close ends a block.
	close(e *events, b *block)
	// finish reports why the answer ended, and what it used.
	finish(e *events)
	// done is the last event, which tells that the stream is whole.
	done(e *events)
	// fail is an error in the middle of the stream.
	fail(e *events)
}

// stream sends an answer token by token. The handler's goroutine does it all;
// it ends as soon as the client leaves.
func (c *call) stream(ans *answer, enc encoder) {
	total := 0
	for i := range ans.blocks {
		total += ans.blocks[i].size
	}
	var e *events
	if c.cfg.EarlyHeaders {
		e = c.openStream()
		enc.start(e)
	}
	if !c.pause() || !c.interrupt(0, total) {
		return
	}
	if e == nil {
		e = c.openStream()
		enc.start(e)
	}
	for i := range ans.blocks {
		b := &ans.blocks[i]
		enc.open(e, b)
		if !c.sendBlock(e, enc, b, total) {
			return
		}
		enc.close(e, b)
	}
	if !c.interrupt(c.tokens, total) {
		return
	}
	enc.finish(e)
	e.last = true
	if c.cfg.Fault != faultNoDone {
		enc.done(e)
	}
	e.close()
}

// sendBlock sends the tokens of a block. It is false if the stream is over.
func (c *call) sendBlock(e *events, enc encoder, b *block, total int) bool {
	p := newProse(b.seed, c.cfg.BytesPerToken)
	var tok []byte
	for k := range b.size {
		if c.tokens > 0 {
			c.next = c.next.Add(c.cfg.TokenGap.Duration(c.luck))
			if !c.pause() || !c.interrupt(c.tokens, total) {
				return false
			}
		}
		if k < len(b.fragments) {
			tok = append(tok[:0], b.fragments[k]...)
		} else {
			tok = p.token(tok[:0])
		}
		tok = c.spoil(e, enc, b, tok, total)
		if c.cfg.Stamp && b.fragments == nil {
			tok = c.stamp(tok)
		}
		enc.token(e, b, tok)
		if e.over {
			return false
		}
		c.tokens++
		c.s.sent(1)
	}
	return !e.over
}

// stamp adds the token's number and the time, in place of the end of a token
// of exact size.
func (c *call) stamp(tok []byte) []byte {
	var room [48]byte
	s := append(room[:0], '~')
	s = append(strconv.AppendInt(s, int64(c.tokens), 10), '.')
	s = append(strconv.AppendInt(s, time.Now().UnixNano(), 10), '~')
	if c.cfg.BytesPerToken > 0 {
		tok = tok[:max(0, len(tok)-len(s))]
	}
	return append(tok, s...)
}

// interrupt stalls, resets or breaks the stream if the time for it is after
// sent tokens. It is false if the client left.
func (c *call) interrupt(sent, total int) bool {
	cfg := &c.cfg
	at := min(cfg.FaultAfter, total)
	stalls := cfg.StallAfter > 0 && sent == min(cfg.StallAfter, total) || cfg.Fault == faultStall && sent == at
	if stalls && !c.stalled {
		c.stalled = true
		if !c.stall() {
			return false
		}
	}
	switch {
	case sent != at:
	case cfg.Fault == faultReset:
		c.reset()
	case cfg.Fault == faultAbort:
		c.abort()
	}
	return true
}

// spoil prepares the fault inside the stream, if the next token meets it.
func (c *call) spoil(e *events, enc encoder, b *block, tok []byte, total int) []byte {
	fault := c.cfg.Fault
	if fault == faultSplit && b.fragments == nil {
		return append(tok, " é"...) // something to divide
	}
	if fault == "" || c.tokens != min(c.cfg.FaultAfter, total-1) {
		return tok
	}
	switch fault {
	case faultErrorEvent:
		enc.fail(e)
		e.finish(Broken)
	case faultMalformed, faultCutJSON, faultHalf:
		e.next = fault
	case faultCutUTF8:
		e.next = fault
		tok = append(tok, " é"...)
	case faultGiant:
		if b.fragments == nil { // JSON would not stay JSON
			big := newProse(b.seed, int(c.cfg.EventSize))
			tok = big.token(tok[:0])
		}
	}
	return tok
}
