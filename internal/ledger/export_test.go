package ledger

// SetSegmentSize makes segments end early, so that tests see many. It is called
// before the first Append.
func SetSegmentSize(r *Room, n int64) { r.spool.large = n }
